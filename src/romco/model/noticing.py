"""What rows without labels tell: which features and tasks there are, and how large values are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from romco.model.batches import check_lengths, many
from romco.model.features import Features
from romco.model.growing import GrowingLearner
from romco.model.names import Id, identity
from romco.model.rows import as_round, count, widths
from romco.model.tasks import Tasks


def noticing(
    features: Features, tasks: Tasks, inside: GrowingLearner, x: Any, task: Iterable[Any]
) -> Callable[[], None]:
    """Reads and checks rows, changing nothing; gives what takes over what they tell.

    Tasks that are new get a number, unless they must be started by a label.
    """
    ids = [identity("task", one) for one in many(task)]
    new: dict[Id, int] = {}
    rows = features.read(x, new)
    check_lengths(rows, task=ids)
    new = {identity("feature", name): column for name, column in new.items()}
    fresh = {} if inside.starts else tasks.offered(ids)
    width = int(widths(rows)[-1]) if new else 0
    body = inside.body.grown(width, max(fresh.values(), default=-1) + 1)
    if count(rows):
        nobody = np.zeros(count(rows), dtype=np.int64)  # the same is noticed whatever the task
        round = as_round(body.learner, rows, nobody)._replace(y=np.full(count(rows), np.nan))
    else:
        round = None

    def take_over() -> None:
        nonlocal round
        for effect, given in [*features.adding(new, width), *tasks.adding(fresh)]:
            effect(given)
        inside.body = body
        if round is not None:
            noticed, round = round, None  # once, though it may be done again
            body.learner.update(noticed)

    return take_over
