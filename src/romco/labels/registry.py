"""All policies by name, and how to make one or go on with one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from romco.labels.budgets import Budget
from romco.labels.committees import Committee
from romco.labels.margins import FixedMargin
from romco.labels.peers import Peers
from romco.labels.policies import Policy
from romco.labels.randoms import Random
from romco.labels.selective import SelectiveSampling
from romco.labels.thresholds import VariableUncertainty
from romco.parameters import not_negative, whole

POLICIES: dict[str, type[Policy]] = {
    kind.name: kind
    for kind in (
        Budget,
        Random,
        FixedMargin,
        SelectiveSampling,
        VariableUncertainty,
        Peers,
        Committee,
    )
}


def policy(name: str, share: float, **settings: Any) -> Policy:
    """Make a policy by name.

    Parameters
    ----------
    name:
        One of ``romco.labels.POLICIES``.
    share:
        Part of the events whose labels may be asked for, above 0 and at most 1.
    settings:
        Further settings of the policy, by name.

    Returns
    -------
    :
        The policy.

    Raises
    ------
    ValueError
        Where the name is unknown, or a setting is out of its range.

    >>> policy("random", 0.05, seed=1).share
    0.05

    """
    if name not in POLICIES:
        raise ValueError(f"unknown policy {name!r}; known are {', '.join(POLICIES)}")
    return POLICIES[name](share, **settings)


def restore(state: Mapping[str, Any]) -> Policy:
    """The policy that gave a state, going on bit for bit.

    Parameters
    ----------
    state:
        What :meth:`Policy.state` gave.

    Returns
    -------
    :
        The policy.

    Raises
    ------
    ValueError
        Where the state is none of a policy.

    >>> restore(policy("budget", 0.05, seed=1).state()).share
    0.05

    """
    try:
        made = policy(state["policy"], **state["settings"])
        made.events = whole("events", state["events"], least=0)
        made.spent = whole("spent", state["spent"], least=0)
        made._width = not_negative("width", state["width"])
        made.remember(state["memory"])
    except (KeyError, TypeError, AttributeError) as wrong:
        raise ValueError(f"this is not the state of a policy: {wrong!r}") from None
    return made
