"""What anyone could predict: the prequential baselines that a learner has to beat.

Each takes the answers y (n,) in the order of the stream, and tasks (n,) where they matter, and
gives what it predicted for each event before it was known.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


def majority(y: Iterable[Any], counts: Counter[Any] | None = None) -> list[Any]:
    """The most frequent answer so far (of equal ones the first that came); None at first.

    Answers of before may be given by ``counts``, which is counted up.

    Parameters
    ----------
    y:
        Answers in the order of the stream.
    counts:
        How often each answer came before; counted up.

    Returns
    -------
    :
        One per answer, told before it.

    >>> majority(["a", "b", "b", "a"])
    [None, 'a', 'a', 'b']

    """
    counts = Counter() if counts is None else counts
    found = []
    for answer in y:
        found.append(max(counts, key=counts.__getitem__) if counts else None)
        counts[answer] += 1
    return found


def last(y: Iterable[Any], task: Iterable[Any] | None = None) -> list[Any]:
    """The answer before, of the same task where tasks are given; None at first.

    Parameters
    ----------
    y:
        Answers in the order of the stream.
    task:
        The task of each; None where all are one.

    Returns
    -------
    :
        One per answer, told before it.

    >>> last([1, 2, 3], ["ann", "bob", "ann"])
    [None, None, 1]

    """
    answers = list(y)
    tasks = [None] * len(answers) if task is None else list(task)
    before: dict[Any, Any] = {}
    found = []
    for one, answer in zip(tasks, answers, strict=True):
        found.append(before.get(one))
        before[one] = answer
    return found


def mean(y: Numbers) -> Numbers:
    """Mean of the numbers so far; 0 at first.

    Parameters
    ----------
    y:
        Numbers (n,) in the order of the stream.

    Returns
    -------
    :
        Means (n,), each told before its number.

    >>> mean(np.array([2.0, 4.0, 9.0]))
    array([0., 2., 3.])

    """
    y = np.asarray(y, dtype=np.float64)
    return np.concatenate([[0.0], np.cumsum(y)[:-1] / np.arange(1, len(y))])


def task_mean(y: Numbers, task: Iterable[Any]) -> Numbers:
    """Mean of the task's numbers so far; before its first, the mean of all.

    Parameters
    ----------
    y:
        Numbers (n,) in the order of the stream.
    task:
        The task of each.

    Returns
    -------
    :
        Means (n,), each told before its number.

    >>> task_mean(np.array([2.0, 4.0, 9.0]), ["ann", "bob", "ann"])
    array([0., 2., 2.])

    """
    sums: defaultdict[Any, list[float]] = defaultdict(lambda: [0.0, 0.0])
    found = mean(y)
    for i, (one, answer) in enumerate(zip(task, y, strict=True)):
        known = sums[one]
        if known[1]:
            found[i] = known[0] / known[1]
        known[0] += answer
        known[1] += 1.0
    return found
