"""The parts a method is made of, as data: a name, or a name with numbers.

A part is a frozen dataclass that is listed under a name: a loss in ``romco.losses.LOSSES``, a
penalty in ``romco.penalties.PENALTIES``, a step in ``romco.steps.STEPS``, a coupling in
``romco.couplings.COUPLINGS``. A learner takes the part or its name, and keeps its data, from which
a saved state makes it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

Data = str | dict[str, Any]


def part(what: str, listed: Mapping[str, Any], value: Any) -> Any:
    """The part that is meant by a name, by a name with numbers, or by itself.

    >>> from romco.penalties import PENALTIES
    >>> part("shared", PENALTIES, {"name": "nuclear", "strength": 0.5})
    Nuclear(strength=0.5)
    """
    name, numbers = value, {}
    if isinstance(value, Mapping):
        name, numbers = value.get("name"), {k: v for k, v in value.items() if k != "name"}
    if not isinstance(name, str):
        data(what, listed, value)
        return value
    if name not in listed:
        known = ", ".join(map(repr, listed))
        raise ValueError(f"{what} must be one of {known}; got {name!r}")
    try:
        return _type(listed[name])(**numbers)
    except TypeError as error:
        raise ValueError(f"{what}: {name!r} cannot be made of {numbers}: {error}") from None


def data(what: str, listed: Mapping[str, Any], value: Any) -> Data:
    """The part as data, to keep and to make it again.

    >>> from romco.penalties import PENALTIES, Nuclear
    >>> data("shared", PENALTIES, Nuclear(0.5))
    {'name': 'nuclear', 'strength': 0.5}
    """
    for name, known in listed.items():
        if type(value) is _type(known) and is_dataclass(value) and not isinstance(value, type):
            numbers = asdict(value)
            return {"name": name, **numbers} if numbers else name
    raise ValueError(
        f"{what} must be one of {', '.join(map(repr, listed))}, or a frozen dataclass that is "
        f"listed beside them under a name, so that a saved learner can be made again; got {value!r}"
    )


def _type(listed: Any) -> type:
    """Return the type of a registered part."""
    return listed if isinstance(listed, type) else type(listed)
