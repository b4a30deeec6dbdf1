"""Label policies by name; other packages add theirs by the entry point group ``romco.policies``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
from romco.plugins import Registry

BUILT_IN: tuple[type[Policy], ...] = (
    *(Budget, Random, FixedMargin, SelectiveSampling, VariableUncertainty, Peers, Committee),
)
POLICIES: Registry[type[Policy]] = Registry(
    "romco.policies", {kind.name: kind for kind in BUILT_IN}
)


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
