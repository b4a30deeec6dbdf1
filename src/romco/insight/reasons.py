"""Why one event is answered as it is: what each feature adds to its margin, and all adds up."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from romco.learners import Learner
from romco.learners.capabilities import Contributes, Decomposed
from romco.model import Model
from romco.model.rows import Rows, as_round, matrix
from romco.rounds import Round

Numbers = NDArray[np.float64]


class Reason(NamedTuple):
    """What one feature adds to a margin."""

    feature: Any
    shared: float  # through what tasks have in common
    personal: float  # through what is the task's own

    @property
    def total(self) -> float:
        """Both together; above 0 it speaks for the positive label."""
        return self.shared + self.personal


class Reasons(NamedTuple):
    """A margin, and what it is made of: ``intercept`` and the features' totals add up to it."""

    margin: float
    intercept: float
    features: tuple[Reason, ...]  # the one that adds most first

    def __str__(self) -> str:
        lines = [f"margin {self.margin:+.3f}, of which without features {self.intercept:+.3f}"]
        lines += [
            f"{each.total:+9.3f}  {each.feature!s} (shared {each.shared:+.3f}, "
            f"personal {each.personal:+.3f})"
            for each in self.features
        ]
        return "\n".join(lines)


def reasons(model: Model, x: Any, task: Any) -> Reasons:
    """What the features of one event add to its margin.

    Parameters
    ----------
    model:
        A model of two classes.
    x:
        The event's features, as for ``model.predict_one``.
    task:
        A task that the model knows.

    Returns
    -------
    :
        The margin that ``model.margin_one(x, task)`` gives, and its parts, which add up to it
        to rounding.

    Raises
    ------
    ValueError
        Where the model is not of two classes, does not know the task, or has a learner whose
        margins are not sums over features.

    >>> import romco
    >>> model = romco.Model()
    >>> for _ in range(9):
    ...     _ = model.learn_one({"free": 1, "money": 1}, "spam", task="ann")
    ...     _ = model.learn_one({"lunch": 1, "money": 1}, "ham", task="ann")
    >>> found = reasons(model, {"free": 1, "money": 1}, task="ann")
    >>> found.features[0].feature
    'free'
    >>> total = found.intercept + sum(each.total for each in found.features)
    >>> abs(total - found.margin) < 1e-9
    True

    """
    if model.target != "two classes":
        raise ValueError(f"reasons are told of two classes; this model predicts {model.target}")
    number = model.numbers([task])
    if number[0] < 0:
        raise ValueError(f"no task {task!r} is known: reasons are told of tasks that were learned")
    margin = model.margin_one(x, task)
    with model.at_rest() as learner:
        rows = model.features.read([x])
        shared, personal = _parts(learner, rows, as_round(learner, rows, number))
    names = np.flatnonzero((shared != 0.0) | (personal != 0.0))
    found = [
        Reason(
            model.features.name(j), float(model.turn * shared[j]), float(model.turn * personal[j])
        )
        for j in names.tolist()
    ]
    found.sort(key=lambda each: -abs(each.total))
    rest = margin - float(sum(each.total for each in found))
    return Reasons(margin, rest, tuple(found))


def _parts(learner: Learner, rows: Rows, round: Round) -> tuple[Numbers, Numbers]:
    """What each feature (d,) adds through what is shared, and through the task's own."""
    if isinstance(learner, Contributes):
        found = learner.contributions(round)
        return found.shared.toarray()[0], found.personal.toarray()[0]
    if not learner.linear:
        raise ValueError(f"margins of {learner.name} are not sums over features")
    x = csr_array(matrix(rows, learner.n_features)).toarray()[0]
    task = int(round.task[0])
    if isinstance(learner, Decomposed):
        left, right = learner.shared_factors()
        own = learner.personal_sparse()[:, [task]].toarray()[:, 0]
        return (left @ right[task]) * x, own * x
    return np.zeros(len(x)), learner.weights()[:, task] * x
