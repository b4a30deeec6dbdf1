"""Why one event is answered as it is: what each feature adds to its margin, and all adds up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from romco.explanations.additions import Additions, Asked, additions
from romco.explanations.rivals import (
    factors_of,
    odds_against_rest,
    scores_of,
    shares_of_classes,
    shares_of_pairs,
)
from romco.kernels.io.encoded import Encoded
from romco.learners import Learner, grown
from romco.learners.capabilities import Newcomer, Started, StartsTasks
from romco.learners.classes import Classes
from romco.learners.softmax import AutoSoftmax
from romco.model import Hashed, Model
from romco.model.engine import as_round
from romco.model.features import Rows
from romco.presentation.names import inert


class Reason(NamedTuple):
    """What one feature adds to a margin."""

    feature: Any
    shared: float  # through what tasks have in common
    personal: float  # through what is the task's own

    @property
    def total(self) -> float:
        """Both together; above 0 it speaks for the label."""
        return self.shared + self.personal


class Reasons(NamedTuple):
    """A margin, and what it is made of: ``intercept`` and the features' totals add up to it."""

    margin: float
    intercept: float
    features: tuple[Reason, ...]  # the one that adds most first
    label: Any = None  # for what the margin speaks if it is above 0; None where it is a number
    task_known: bool = True  # False: told from what tasks have in common

    def summary(self, top: int | None = None) -> dict[str, Any]:
        """Everything as JSON-able values; of the features the first ``top``, and all the rest."""
        shown, left = self.features[:top], self.features[len(self.features[:top]) :]
        told: dict[str, Any] = {
            "label": self.label,
            "margin": self.margin,
            "intercept": self.intercept,
            "task_known": self.task_known,
            "features": [
                {
                    "feature": each.feature if _plain(each.feature) else str(each.feature),
                    "adds": each.total,
                    "shared": each.shared,
                    "personal": each.personal,
                }
                for each in shown
            ],
        }
        if left:
            told["others"] = {"features": len(left), "adds": sum(each.total for each in left)}
        return told

    def lines(self, top: int | None = None) -> list[str]:
        """For people: of the features the first ``top``, and all the rest in one line."""
        what = "predicted" if self.label is None else f"margin for {inert(str(self.label))}"
        lines = [f"{what} {self.margin:+.3f}, of which without features {self.intercept:+.3f}"]
        if not self.task_known:
            lines.append("the task is unknown: told from what tasks have in common")
        shown, left = self.features[:top], self.features[len(self.features[:top]) :]
        lines += [
            f"{each.total:+9.3f}  {inert(str(each.feature))} (shared {each.shared:+.3f}, "
            f"personal {each.personal:+.3f})"
            for each in shown
        ]
        if left:
            total = sum(each.total for each in left)
            lines.append(f"{total:+9.3f}  {len(left):,} other features")
        return lines

    def __str__(self) -> str:
        return "\n".join(self.lines())


def reasons(model: Model, x: Any, task: Any, label: Any = None) -> Reasons:
    """What the features of one event add to its margin.

    Parameters
    ----------
    model:
        A model of two classes, of many, or of numbers.
    x:
        The event's features, as for ``model.predict_one``.
    task:
        Its task; of one that the model does not know, what all tasks have in common is told.
    label:
        For what the margin speaks: of two classes the positive label unless the other is given,
        of many the predicted one unless another is given.

    Returns
    -------
    :
        The margin, and its parts, which add up to it to rounding. Of two classes it is the margin
        of ``model.margins``, turned if ``label`` is the negative one; of numbers what
        is predicted; of many classes the log-odds of the label against all others.

    Raises
    ------
    ValueError
        Where the label is unknown, or the learner's margins are not sums over features.

    >>> import romco
    >>> model = romco.Model()
    >>> for _ in range(9):
    ...     _ = model.learn_one({"free": 1, "money": 1}, "spam", task="ann")
    ...     _ = model.learn_one({"lunch": 1, "money": 1}, "ham", task="ann")
    >>> found = reasons(model, {"free": 1, "money": 1}, task="ann")
    >>> found.label, found.features[0].feature
    ('spam', 'free')
    >>> total = found.intercept + sum(each.total for each in found.features)
    >>> abs(total - found.margin) < 1e-9
    True

    """
    rows = model.features.read(x if isinstance(x, Encoded) else [x])
    with model.engine.at_rest() as learner:
        number = int(model.engine.numbers([task])[0])
        known = number >= 0
        if not known:
            learner, number = _with_room(model, learner)
        start = None if known else _started(model, learner)
        if isinstance(learner, Classes):
            label, parts = _of_many(model, learner, rows, Asked(number, known), start, label)
        else:
            common = _common(learner, start)
            label, sign = _side(model, label)
            parts = _times(sign, additions(learner, rows, Asked(number, known, common)))
    return _told(model, x, parts, label, known)


def _told(model: Model, x: Any, parts: Additions, label: Any, known: bool) -> Reasons:
    """By name, and the rest of the margin."""
    names = _names(model, x)
    shared, personal = (part.toarray()[0] for part in (parts.shared, parts.personal))
    found = [
        Reason(names.get(j) or model.features.name(j), float(shared[j]), float(personal[j]))
        for j in np.flatnonzero((shared != 0.0) | (personal != 0.0)).tolist()
    ]
    found.sort(key=lambda each: -abs(each.total))
    rest = parts.margin - float(sum(each.total for each in found))
    return Reasons(parts.margin, rest, tuple(found), label, known)


def _side(model: Model, label: Any) -> tuple[Any, float]:
    """For what the margin of a learner of two classes, or of numbers, speaks, and its sign."""
    if model.engine.target.kind == "number":
        if label is not None:
            raise ValueError("numbers have no labels: leave label out")
        return None, 1.0
    if label is None or model.engine.side(label) > 0.0:
        return model.engine.positive, model.engine.turn
    return label, -model.engine.turn


def _of_many(
    model: Model, learner: Classes, rows: Rows, asked: Asked, start: Started | None, label: Any
) -> tuple[Any, Additions]:
    """The label's log-odds against the rest, from what the inner learners say of pairs."""
    at_once = learner.at_once()
    if at_once is not None:
        return _of_very_many(model, at_once, rows, asked.number, label)
    said = [
        additions(member, rows, asked._replace(common=_common(member, start)))
        for member in learner.members()
    ]
    factors = factors_of(learner)
    odds = factors * [each.margin for each in said]
    scores = scores_of(learner, odds)
    at = int(model.engine.number_of(label)) if label is not None else _likeliest(scores)
    shares = shares_of_pairs(learner, odds, at) * factors
    weighed = [_times(float(c), each) for c, each in zip(shares, said, strict=True)]
    shared, personal = (sum(parts[1:], parts[0]) for parts in list(zip(*weighed, strict=True))[1:])
    return model.classes[at], Additions(odds_against_rest(scores, at), shared, personal)


def _of_very_many(
    model: Model, learner: AutoSoftmax, rows: Rows, task: int, label: Any
) -> tuple[Any, Additions]:
    """The same where all classes are learned at once."""
    round = as_round(learner, rows, np.array([task]))
    features, shared, personal, rest = learner.additions(round)
    scores = shared.sum(axis=0) + personal.sum(axis=0) + rest
    scores = scores - scores.max()
    at = int(model.engine.number_of(label)) if label is not None else _likeliest(scores)
    shares = shares_of_classes(scores, at)
    where = (np.zeros(len(features), dtype=np.int64), features)
    parts = [
        csr_array((part @ shares, where), shape=(1, learner.n_features))
        for part in (shared, personal)
    ]
    return model.classes[at], Additions(odds_against_rest(scores, at), *parts)


def _likeliest(scores: Any) -> int:
    """Of equal ones the last, as the model has it."""
    return len(scores) - 1 - int(np.argmax(scores[::-1]))


def _times(factor: float, parts: Additions) -> Additions:
    return Additions(*(factor * part for part in parts))


def _with_room(model: Model, learner: Learner) -> tuple[Learner, int]:
    """The number of a task that is still free, in a larger copy where there is none."""
    free = np.setdiff1d(np.arange(learner.n_tasks), model.engine.numbers(model.tasks))
    if len(free):
        return learner, int(free[0])
    return grown(learner, learner.n_features, learner.n_tasks + 1), learner.n_tasks


def _started(model: Model, learner: Learner) -> Started | None:
    """Which tasks have learned, where new ones begin with what these have in common."""
    which = np.zeros(learner.n_tasks, dtype=np.bool_)
    tasks = model.tasks
    which[model.engine.numbers(tasks)] = [model.engine.events_of(task) > 0 for task in tasks]
    number = int(np.count_nonzero(which))
    return Started(which, number) if number and model.engine.new_task == "mean" else None


def _common(learner: Learner, start: Started | None) -> Newcomer | None:
    return learner.common(start) if start is not None and isinstance(learner, StartsTasks) else None


def _names(model: Model, x: Any) -> dict[int, str]:
    """Names of hashed columns, as far as the event tells them."""
    if not isinstance(model.features, Hashed):
        return {}
    if isinstance(x, Encoded):
        listed = [x.lexicon.names[n] for n in x.names.tolist()]
        cells: list[Mapping[Any, Any]] = [{name: 1.0} for name in listed]
    else:
        listed = [
            f"{name}={value}" if isinstance(value, str) else name for name, value in x.items()
        ]
        cells = [{name: value} for name, value in x.items()]
    found: dict[int, str] = {}
    for name, cell in zip(listed, cells, strict=True):
        for column in model.features.read([cell]).columns.tolist():  # type: ignore[union-attr]
            found[column] = f"{found[column]} or {name}" if column in found else str(name)
    return found


def _plain(name: Any) -> bool:
    return isinstance(name, str | int | float | bool)
