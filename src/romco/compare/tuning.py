"""The same number of trials for every method, each from the method's own space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from scipy.stats import qmc

from romco.learners import LEARNERS

Setting = dict[str, Any]
PAPER_GRID = tuple(10.0**k for k in range(-6, 1))  # for all four of ROMCO's parameters


def equal_trials(learner: str, n: int) -> list[Setting]:
    """The default and ``n - 1`` settings spread evenly over the learner's space.

    A parameter whose space lists three or more positive numbers is drawn between the
    smallest and the largest of them, evenly in the logarithm if they span a factor of
    ten; any other parameter takes one of the values listed. A space of nothing gives the
    default alone.

    >>> [sorted(trial) for trial in equal_trials("ogd-unique", 3)]
    [[], ['eta', 'step'], ['eta', 'step']]
    """
    space = LEARNERS[learner].space
    if not space or n < 2:
        return [{}]
    draws = qmc.Halton(len(space), scramble=False).random(n)[1:]  # the first draw is all 0
    settings = [
        {name: _drawn(space[name], share) for name, share in zip(space, draw, strict=True)}
        for draw in draws
    ]
    return [{}, *_distinct(settings)]


def grid_trials(learner: str) -> list[Setting]:
    """Every point of the paper's grid for ROMCO, of the listed values for any other.

    >>> len(grid_trials("romco-nucl"))
    2402
    """
    space: Mapping[str, Sequence[Any]] = LEARNERS[learner].space
    if learner in ("romco-nucl", "romco-logd"):
        space = dict.fromkeys(("eta1", "eta2", "lambda1", "lambda2"), PAPER_GRID)
    points = [dict(zip(space, values, strict=True)) for values in product(*space.values())]
    return [{}, *_distinct(points)]


def _drawn(values: Sequence[Any], share: float) -> Any:
    """The value at ``share`` of the way through a space."""
    numbers = all(isinstance(v, float) and v > 0 for v in values) and len(values) > 2
    if not numbers:
        return values[min(int(share * len(values)), len(values) - 1)]
    low, high = min(values), max(values)
    drawn = low * (high / low) ** share if high >= 10 * low else low + share * (high - low)
    return float(f"{drawn:.4g}")


def _distinct(settings: Sequence[Setting]) -> list[Setting]:
    kept: list[Setting] = []
    for setting in settings:
        if setting and setting not in kept:
            kept.append(setting)
    return kept
