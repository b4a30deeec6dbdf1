"""Baselines that use past answers only; a learner has to beat them.

Each takes the answers y (n,) in the order of the stream, and tasks (n,) where they matter, and
returns one prediction per event, made before its answer is known.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
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


def mean(y: Numbers) -> Numbers:
    """Mean of the numbers so far; 0 at first."""
    y = np.asarray(y, dtype=np.float64)
    return np.concatenate([[0.0], np.cumsum(y)[:-1] / np.arange(1, len(y))])


def class_rates(y: NDArray[Any], n_classes: int) -> Numbers:
    """Frequency (n, K) of each class so far, one event of each added.

    >>> class_rates(np.array([0, 1]), 2).round(2)
    array([[0.5 , 0.5 ],
           [0.67, 0.33]])
    """
    one_hot = np.eye(n_classes)[np.asarray(y, dtype=np.intp)]
    before = np.cumsum(one_hot, axis=0) - one_hot
    return np.asarray((before + 1.0) / (np.arange(len(one_hot)) + n_classes)[:, None])


def task_class_rates(y: NDArray[Any], task: Iterable[Any], n_classes: int) -> Numbers:
    """Frequency (n, K) of each class in the task's past, with the rate of all tasks as prior.

    Priors worth 0.1 to 32 events are averaged, each by how likely it made the past.

    >>> y, task = np.array([0, 0, 1, 0, 0, 1]), [0, 0, 1, 0, 0, 1]
    >>> task_class_rates(y, task, 2)[-1].round(2)
    array([0.32, 0.68])
    """
    y = np.asarray(y, dtype=np.intp)
    rates = class_rates(y, n_classes)
    before, seen = _past_sums(np.eye(n_classes)[y], _numbered(task))
    strength = np.array(PRIOR_EVENTS)[:, None, None]
    each = (before + strength * rates) / (seen[:, None] + strength)  # (priors, n, K)
    log_true = np.log(each[:, np.arange(len(y)), y])
    evidence = np.cumsum(log_true, axis=1) - log_true
    weight = np.exp(evidence - evidence.max(axis=0, initial=-np.inf))
    return np.asarray(np.einsum("pn,pnk->nk", weight / weight.sum(axis=0), each))


def shrunk_task_mean(y: Numbers, task: Iterable[Any]) -> Numbers:
    """Mean of the task's past numbers, with the mean of all tasks as prior.

    The prior is worth 0.1 to 32 events: the one with the smallest squared error so far.

    >>> shrunk_task_mean(np.array([2.0, 4.0, 9.0]), ["ann", "bob", "ann"]).round(2)
    array([0.  , 2.  , 2.09])
    """
    y = np.asarray(y, dtype=np.float64)
    before, seen = _past_sums(y[:, None], _numbered(task))
    strength = np.array(PRIOR_EVENTS)[:, None]
    each = (before[:, 0] + strength * mean(y)) / (seen + strength)
    squares = np.square(each - y)
    best = np.argmin(np.cumsum(squares, axis=1) - squares, axis=0)
    return np.asarray(each[best, np.arange(len(y))])


def _numbered(task: Iterable[Any]) -> NDArray[np.intp]:
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(t, len(numbers)) for t in task], dtype=np.intp)


def _past_sums(values: Numbers, task: NDArray[np.intp]) -> tuple[Numbers, NDArray[np.intp]]:
    """Sums (n, K) and counts (n,) over the earlier events of each event's task."""
    order = np.argsort(task, kind="stable")
    grouped = values[order]
    total = np.cumsum(grouped, axis=0) - grouped
    first = np.flatnonzero(np.diff(task[order], prepend=-1))  # where each task begins
    sizes = np.diff(np.append(first, len(task)))
    sums = np.empty_like(total)
    counts = np.empty(len(task), dtype=np.intp)
    sums[order] = total - np.repeat(total[first], sizes, axis=0)
    counts[order] = np.arange(len(task)) - np.repeat(first, sizes)
    return sums, counts
