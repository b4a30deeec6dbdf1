"""Parameters: checks of single values, the grammar of ``--set``, and parts given by name.

A part is a frozen dataclass that is registered under a name: a loss in ``romco.losses.LOSSES``, a
penalty in ``romco.penalties.PENALTIES``, a step in ``romco.steps.STEPS``. A learner takes the part
or its name, and stores it as data.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from math import isfinite
from numbers import Real
from typing import Any

import numpy as np

Data = str | dict[str, Any]  # a name, or a name with numbers


def whole(name: str, value: Any, least: int = 1) -> int:
    """Return the value as an int if it is a whole number of at least ``least``."""
    if not _is_number(value) or int(value) != value or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}; got {value!r}")
    return int(value)


def positive(name: str, value: Any) -> float:
    """Return the value if it is a finite number above 0."""
    if not (_is_number(value) and value > 0):
        raise ValueError(f"{name} must be a positive number; got {value!r}")
    return float(value)


def not_negative(name: str, value: Any) -> float:
    """Return the value if it is a finite number, 0 or above."""
    if not (_is_number(value) and value >= 0):
        raise ValueError(f"{name} must be 0 or a positive number; got {value!r}")
    return float(value)


def choice(name: str, value: Any, *known: str) -> str:
    """Return the value if it is one of the known words."""
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}; got {value!r}")
    return value


def truth(name: str, value: Any) -> bool:
    """Return the value if it is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False; got {value!r}")
    return bool(value)


def setting(text: str, form: str = "parameter=value") -> tuple[str, Any]:
    """Split a text such as ``eta=0.5`` into name and value, as ``--set`` does.

    A value is a number, a truth value (true, false), nothing (none, null), a list of these in
    brackets, or else a word; capitals do not matter, and a word in double quotes is a word
    whatever it says.

    >>> setting("always_prox=False"), setting("eta = 1e-3"), setting("norm=L2")
    (('always_prox', False), ('eta', 0.001), ('norm', 'L2'))
    """
    name, equals, value = text.partition("=")
    if not (equals and name.strip()):
        raise ValueError(f"--set {text}: expected {form}")
    return name.strip(), _value(value.strip())


def part(what: str, listed: Mapping[str, Any], value: Any) -> Any:
    """Return the part that a name, a name with numbers, or the part itself stands for.

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
    """Return the part as data, from which :func:`part` makes it again.

    >>> from romco.penalties import PENALTIES, Nuclear
    >>> data("shared", PENALTIES, Nuclear(0.5))
    {'name': 'nuclear', 'strength': 0.5}
    """
    for name, known in listed.items():
        if type(value) is _type(known) and is_dataclass(value) and not isinstance(value, type):
            numbers = asdict(value)
            if numbers:
                return {"name": name, **numbers}
            return name
    raise ValueError(
        f"{what} must be one of {', '.join(map(repr, listed))}, or a frozen dataclass that is "
        f"listed beside them under a name, so that a saved learner can be made again; got {value!r}"
    )


def _type(listed: Any) -> type:
    if isinstance(listed, type):
        return listed
    return type(listed)


def _value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None, "null": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return float(text)  # what JSON does not take: .5, +1
    except ValueError:
        return text


def _is_number(value: Any) -> bool:
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and isfinite(value)
    except OverflowError:  # a whole number beyond all that a computer calculates with
        return False
