"""Tasks that nobody has seen: their first events, with and without being told of tasks."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from romco.learners import learner, restore
from romco.rounds import Rounds
from romco.streams import Stream

FOLDS, FIRST = 5, 10


class Outcome(NamedTuple):
    """Of all first events of held-out tasks: error in %, AUC in %."""

    error: float
    auc: float


def first_events(stream: Stream, told: bool, most: int, seed: int) -> Outcome:
    """Tasks are held out in folds; each begins, by itself, where the others have been learned.

    ``told`` is whether the learner is told of tasks; ``most`` events of the others are learned.
    """
    margins, answers = zip(*_folds(stream, told, most, seed), strict=True)
    y = np.concatenate(answers)
    scores = np.concatenate(margins)
    wrong = np.mean((scores >= 0) != (y > 0))
    return Outcome(100 * float(wrong), 100 * float(roc_auc_score(y > 0, scores)))


def _folds(
    stream: Stream, told: bool, most: int, seed: int
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    rng = np.random.default_rng(seed)
    order = rng.permutation(stream.n_events)
    fold = rng.permutation(stream.n_tasks) % FOLDS
    task = stream.task if told else np.zeros(stream.n_events, dtype=np.int64)
    for k in range(FOLDS):
        known = order[fold[stream.task[order]] != k][:most]
        model = learner("romco-auto", stream.n_features, stream.n_tasks if told else 1)
        model.replay(_rounds(stream, task, known))
        state = model.state()
        for new in np.flatnonzero(fold == k):
            first = order[stream.task[order] == new][:FIRST]
            if len(first):
                yield restore(state).replay(_rounds(stream, task, first)), stream.y[first]


def _rounds(stream: Stream, task: NDArray[np.int64], events: NDArray[np.int64]) -> Rounds:
    return Rounds(task[events], stream.x[events], stream.y[events], np.arange(len(events) + 1))
