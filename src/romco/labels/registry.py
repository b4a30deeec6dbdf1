"""Label policies by name; other packages add theirs by an entry point."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from typing import Any, final

from romco.labels.budget import Budget
from romco.labels.policies import (
    Committee,
    FixedMargin,
    Peers,
    Random,
    SelectiveSampling,
    VariableUncertainty,
)
from romco.labels.policy import Policy
from romco.parameters import not_negative, whole

GROUP = "romco.policies"
BUILT_IN: tuple[type[Policy], ...] = (
    *(Budget, Random, FixedMargin, SelectiveSampling, VariableUncertainty, Peers, Committee),
)


@final
class Policies(Mapping[str, type[Policy]]):
    """Policy classes by name; those of other packages come from the group ``romco.policies``.

    They are loaded when a name is not built in, or when all are listed.
    """

    def __init__(self) -> None:
        self._known = {kind.name: kind for kind in BUILT_IN}
        self._complete = False

    def __getitem__(self, name: str) -> type[Policy]:
        if name not in self._known:
            self._load()
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        self._load()
        return iter(tuple(self._known))

    def __len__(self) -> int:
        self._load()
        return len(self._known)

    def _load(self) -> None:
        if self._complete:
            return
        self._complete = True  # first, so that a package may list policies while it is imported
        for entry in entry_points(group=GROUP):
            try:
                self._known.setdefault(entry.name, entry.load())
            except Exception as error:  # noqa: BLE001: a broken package must not break the others
                warnings.warn(
                    f"label policy {entry.name!r} ({entry.value}) is left out: {error}",
                    stacklevel=2,
                )


POLICIES = Policies()


def policy(name: str, share: float, **settings: Any) -> Policy:
    """Make a policy by its name in ``romco.labels.POLICIES``.

    >>> policy("random", 0.05, seed=1).share
    0.05

    """
    if name not in POLICIES:
        raise ValueError(f"unknown policy {name!r}; known are {', '.join(POLICIES)}")
    return POLICIES[name](share, **settings)


def restore(state: Mapping[str, Any]) -> Policy:
    """Make the policy whose :meth:`Policy.state` was saved; it continues with the same bits.

    >>> restore(policy("budget", 0.05, seed=1).state()).share
    0.05

    """
    try:
        made = policy(state["policy"], **state["settings"])
        made.events = whole("events", state["events"], least=0)
        made.spent = whole("spent", state["spent"], least=0)
        made._mean_width = not_negative("width", state["width"])
        made.remember(state["memory"])
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"this is not the state of a policy: {error!r}") from None
    return made
