"""The default learner as users call it: by `Model` and by both estimators, one event per call."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array

import romco
from benchmarks.gram import features
from benchmarks.systems import Margins, System, Unavailable
from benchmarks.workloads import Workload
from romco import Rounds

LEARNER = "romco-auto"
Named = tuple[dict[str, float], bool, str]


class ModelCalls(System):
    """`Model.learn_one`: features and tasks by name; gives the margin from before learning."""

    name = f"{LEARNER}, Model, call per event"

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit

    def start(self, workload: Workload) -> None:
        self.model = romco.Model(LEARNER, classes=(False, True))

    def prepare(self, rounds: Rounds) -> list[Named]:
        return named(rounds)

    def run(self, prepared: list[Named]) -> Margins:
        learn = self.model.learn_one
        return np.array([learn(x, y, task) for x, y, task in prepared])


class ModelPredictions(System):
    """`Model.predict_one` of events that the model has learned before, which is not timed."""

    name = f"{LEARNER}, Model.predict_one"

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit

    def start(self, workload: Workload) -> None:
        """Go on with the model of the events before: repeats start again, and learn nothing."""
        if not hasattr(self, "model"):
            self.model = romco.Model(LEARNER, classes=(False, True))

    def prepare(self, rounds: Rounds) -> list[Named]:
        prepared = named(rounds)
        for x, y, task in prepared:
            self.model.learn_one(x, y, task)
        return prepared

    def run(self, prepared: list[Named]) -> Margins:
        predict = self.model.predict_one
        answers = [predict(x, task) for x, _, task in prepared]
        return np.where(np.array(answers, dtype=bool), 1.0, -1.0)


class RiverCalls(System):
    """The River estimator: `predict_one`, then `learn_one`, features and tasks by name."""

    name = f"{LEARNER}, River estimator, call per event"

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit

    def start(self, workload: Workload) -> None:
        try:
            from romco.adapters.river import ROMCOClassifier
        except ImportError as error:
            raise Unavailable(f"River is not installed: {error}") from None
        self.model = ROMCOClassifier(LEARNER)

    def prepare(self, rounds: Rounds) -> list[Named]:
        return named(rounds)

    def run(self, prepared: list[Named]) -> Margins:
        predict, learn = self.model.predict_one, self.model.learn_one
        answers = []
        for x, y, task in prepared:
            answers.append(predict(x, task=task))
            learn(x, y, task=task)
        return np.where(np.array(answers, dtype=bool), 1.0, -1.0)


class SklearnCalls(System):
    """The scikit-learn estimator: `decision_function`, then `partial_fit`, a matrix of one row."""

    name = f"{LEARNER}, scikit-learn estimator, call per event"

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit

    def start(self, workload: Workload) -> None:
        self.model = romco.ROMCOClassifier(LEARNER)
        row = csr_array((1, workload.n_features))  # so that it answers from the first event
        self.model.partial_fit(row, [False], task=["nobody"], classes=[False, True])

    def prepare(self, rounds: Rounds) -> list[tuple[Any, list[bool], list[str]]]:
        whole = rounds.events
        return [
            (whole.x[e : e + 1], [bool(whole.y[e] > 0)], [f"t{whole.task[e]}"])
            for e in range(len(whole.y))
        ]

    def run(self, prepared: list[tuple[Any, list[bool], list[str]]]) -> Margins:
        score, learn = self.model.decision_function, self.model.partial_fit
        margins = []
        for x, y, task in prepared:
            margins.append(score(x, task=task))
            learn(x, y, task=task)
        return np.concatenate(margins)


def doors(limit: int | None = None) -> list[System]:
    """Return the ways in that users take."""
    return [ModelCalls(limit), ModelPredictions(limit), RiverCalls(limit), SklearnCalls(limit)]


def named(rounds: Rounds) -> list[Named]:
    """Events with words for features and tasks, as they come from outside."""
    whole = rounds.events
    prepared = []
    for e in range(len(whole.y)):
        at, x = features(whole, e)
        places = range(len(x)) if isinstance(at, slice) else at.tolist()
        row = {f"f{j}": value for j, value in zip(places, x.tolist(), strict=True)}
        prepared.append((row, bool(whole.y[e] > 0), f"t{whole.task[e]}"))
    return prepared
