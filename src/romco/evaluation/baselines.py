"""Baselines that use past answers only; a learner has to beat them.

Each takes the answers y (n,) in the order of the stream, and tasks (n,) where they matter, and
returns one prediction per event, made from the first ``known`` (n,) answers: those of all earlier
events, unless it is given.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romco.typing import Floats

Known = NDArray[np.intp] | None
PRIOR_EVENTS = (0.1, 0.5, 2.0, 8.0, 32.0)  # strengths of the prior of a task, in events


def majority(y: Iterable[Any], counts: Counter[Any] | None = None) -> list[Any]:
    """Most frequent answer so far (of equal ones the first that came); None at first.

    Earlier answers may be given by ``counts``, which is updated.

    >>> majority(["a", "b", "b", "a"])
    [None, 'a', 'a', 'b']
    """
    if counts is None:
        counts = Counter()
    predicted = []
    for answer in y:
        predicted.append(max(counts, key=counts.__getitem__, default=None))
        counts[answer] += 1
    return predicted


def mean(y: Floats, known: Known = None) -> Floats:
    """Mean of the numbers so far; 0 at first."""
    y = np.asarray(y, dtype=np.float64)
    n = len(y)
    means = np.concatenate([[0.0], np.cumsum(y) / np.arange(1, n + 1)])
    return np.asarray(means[_known(known, n)])


def class_rates(y: NDArray[Any], n_classes: int, known: Known = None) -> Floats:
    """Frequency (n, K) of each class so far, one event of each added.

    >>> class_rates(np.array([0, 1]), 2).round(2)
    array([[0.5 , 0.5 ],
           [0.67, 0.33]])
    """
    one_hot = np.eye(n_classes)[np.asarray(y, dtype=np.intp)]
    past = _known(known, len(one_hot))
    before = _prefix_sums(one_hot)[past]
    return np.asarray((before + 1.0) / (past + n_classes)[:, None])


def task_class_rates(
    y: NDArray[Any], task: Iterable[Any], n_classes: int, known: Known = None
) -> Floats:
    """Frequency (n, K) of each class in the task's past, with the rate of all tasks as prior.

    Priors worth 0.1 to 32 events are averaged, each by how likely it made the past.

    >>> y, task = np.array([0, 0, 1, 0, 0, 1]), [0, 0, 1, 0, 0, 1]
    >>> task_class_rates(y, task, 2)[-1].round(2)
    array([0.32, 0.68])
    """
    y = np.asarray(y, dtype=np.intp)
    past = _known(known, len(y))
    rates = class_rates(y, n_classes, past)
    before, seen = _past_sums(np.eye(n_classes)[y], _numbered(task), past)
    strength = np.array(PRIOR_EVENTS)[:, None, None]
    each = (before + strength * rates) / (seen[:, None] + strength)  # (priors, n, K)
    log_true = np.log(each[:, np.arange(len(y)), y])
    evidence = _prefix_sums(log_true.T)[past].T
    weight = np.exp(evidence - evidence.max(axis=0, initial=-np.inf))
    return np.asarray(np.einsum("pn,pnk->nk", weight / weight.sum(axis=0), each))


def shrunk_task_mean(y: Floats, task: Iterable[Any], known: Known = None) -> Floats:
    """Mean of the task's past numbers, with the mean of all tasks as prior.

    The prior is worth 0.1 to 32 events: the one with the smallest squared error so far.

    >>> shrunk_task_mean(np.array([2.0, 4.0, 9.0]), ["ann", "bob", "ann"]).round(2)
    array([0.  , 2.  , 2.09])
    """
    y = np.asarray(y, dtype=np.float64)
    past = _known(known, len(y))
    before, seen = _past_sums(y[:, None], _numbered(task), past)
    strength = np.array(PRIOR_EVENTS)[:, None]
    each = (before[:, 0] + strength * mean(y, past)) / (seen + strength)
    squares = np.square(each - y)
    best = np.argmin(_prefix_sums(squares.T)[past].T, axis=0)
    return np.asarray(each[best, np.arange(len(y))])


def _numbered(task: Iterable[Any]) -> NDArray[np.intp]:
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(t, len(numbers)) for t in task], dtype=np.intp)


def _known(known: Known, n: int) -> NDArray[np.intp]:
    return np.arange(n) if known is None else known


def _prefix_sums(values: Floats) -> Floats:
    """Sums (n + 1, K) of the first 0, 1, ... n rows (n, K)."""
    return np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(values, axis=0)])


def _past_sums(
    values: Floats, task: NDArray[np.intp], known: NDArray[np.intp]
) -> tuple[Floats, NDArray[np.intp]]:
    """Sums (n, K) and counts (n,) over those events of each event's task that are known."""
    sums = np.empty_like(values)
    counts = np.empty(len(task), dtype=np.intp)
    order = np.argsort(task, kind="stable")
    for members in np.split(order, np.flatnonzero(np.diff(task[order])) + 1):
        counts[members] = np.searchsorted(members, known[members])
        sums[members] = _prefix_sums(values[members])[counts[members]]
    return sums, counts
