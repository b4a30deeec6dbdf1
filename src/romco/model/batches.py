"""From outside events to a batch of rows: everything is checked before anything is learned."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romco.model.features import Features
from romco.model.growing import GrowingLearner
from romco.model.names import Effect, Id, identities
from romco.model.pieces import Batch
from romco.model.rows import Dense, Rows, count, widths
from romco.model.targets import Target


def read_batch(
    features: Features,
    target: Target,
    inside: GrowingLearner,
    x: Any,
    y: Iterable[Any],
    task: Iterable[Any],
    together: bool,
    weight: Dense | None,
) -> Batch:
    """Rows, checked; changes nothing."""
    answers, labels = target.read(y)
    ids = identities("task", many(task))
    new: dict[Id, int] = {}
    rows = features.read(x, new)
    weighed = {} if weight is None else {"weight": weight}
    check_lengths(rows, task=ids, y=answers, **weighed)
    inside.check_classes(len(labels))
    effects, needed = None, np.zeros(len(ids), dtype=np.int64)
    if new or labels is not target.known:
        new = dict(zip(identities("feature", new), new.values(), strict=True))
        needed = widths(rows) if new else needed
        since = {
            label: 0 if label in target.known else int(np.argmax(answers == number))
            for label, number in labels.items()
        }
        effects = partial(_naming, features, target, new, labels, since, needed)
    return Batch(rows, ids, answers, weight, needed, len(labels), together, effects)


def _naming(
    features: Features,
    target: Target,
    new: dict[Id, int],
    labels: dict[Id, float],
    since: dict[Id, int],
    needed: NDArray[np.int64],
    end: int,
) -> list[Effect]:
    """What takes over the names of features and of labels in the rows up to ``end``."""
    effects = features.adding(new, int(needed[end - 1])) if new else []
    met = {label: number for label, number in labels.items() if since[label] < end}
    return [*effects, (target.__dict__.update, target.adopted(met))]


def many(tasks: Iterable[Any]) -> Iterable[Any]:
    """The tasks; a text is refused, which is one task and no list of them."""
    if isinstance(tasks, str | bytes):
        raise ValueError(f"expected a task for each row, got the text {tasks!r}: put it in a list")
    return tasks


def check_lengths(rows: Rows, **others: Any) -> None:
    """Raise ValueError where something has not one entry per row."""
    n = count(rows)
    for name, values in others.items():
        if len(values) != n:
            raise ValueError(f"x has {n} rows but {name} has {len(values)} entries")
