"""One small class per way to run a learner of this library; other systems are in ``peers``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

import numpy as np
from numpy.typing import NDArray

import romco
from benchmarks.gram import PlainRomco
from benchmarks.workloads import Workload
from romco import Round, Rounds
from romco.learners.capabilities import Decomposed

Margins = NDArray[np.float64]


class Unavailable(Exception):  # noqa: N818 - a reason, not a failure
    """Why a system cannot run here."""


class System(ABC):
    """Something that predicts each event of a stream and then learns it (abstract).

    ``prepare`` and ``start`` are not timed, ``run`` is. ``limit`` bounds the events
    per run where a system is too slow for the whole stream; costs are per event.
    """

    name: str
    note: str = ""
    limit: int | None = None

    @abstractmethod
    def start(self, workload: Workload) -> None:
        """A new model."""

    @abstractmethod
    def prepare(self, rounds: Rounds) -> object:
        """The events in the form this system wants them."""

    @abstractmethod
    def run(self, prepared: object) -> Margins:
        """Predict and learn; margins (n,), or none where the system keeps them to itself."""

    def finish(self) -> None:  # noqa: B027 - most have nothing to put away
        """Put away what the model holds outside this process's memory."""

    def rank(self) -> int | None:
        """Rank of the shared part where there is one."""
        return None


class Stream(System):
    """A learner by name, whole stream in one call."""

    def __init__(self, learner: str, name: str | None = None, **parameters: float) -> None:
        self.learner, self.parameters = learner, parameters
        self.name = name or learner

    def start(self, workload: Workload) -> None:
        self.model = _learner(self.learner, workload, self.parameters)

    def prepare(self, rounds: Rounds) -> Rounds:
        return rounds

    def run(self, prepared: Rounds) -> Margins:
        return self.model.replay(prepared)

    def rank(self) -> int | None:
        return _rank(self.model)


class Calls(System):
    """A learner by name, two Python calls per round: predict, then update."""

    def __init__(self, learner: str, name: str | None = None, **parameters: float) -> None:
        self.learner, self.parameters = learner, parameters
        self.name = name or f"{learner}, call per event"

    def start(self, workload: Workload) -> None:
        self.model = _learner(self.learner, workload, self.parameters)

    def prepare(self, rounds: Rounds) -> list[Round]:
        return list(rounds)

    def run(self, prepared: list[Round]) -> Margins:
        predict, update = self.model.predict, self.model.update
        margins = []
        for round in prepared:
            margins.append(predict(round))
            update(round)
        return np.concatenate(margins)

    def rank(self) -> int | None:
        return _rank(self.model)


class Plain(System):
    """ROMCO-NuCl in plain NumPy."""

    def __init__(self, prox: Literal["gram", "svd"], limit: int | None = None) -> None:
        self.prox, self.limit = prox, limit
        self.name = {"gram": "NumPy ROMCO, Gram", "svd": "NumPy ROMCO, full SVD"}[prox]

    def start(self, workload: Workload) -> None:
        d, m = workload.n_features, workload.n_tasks
        self.model = PlainRomco(d, m, workload.parameters, self.prox)

    def prepare(self, rounds: Rounds) -> list[Round]:
        return list(rounds)

    def run(self, prepared: list[Round]) -> Margins:
        return np.concatenate([self.model.learn(round) for round in prepared])


def _learner(name: str, workload: Workload, parameters: dict[str, float]) -> romco.Learner:
    if name not in romco.LEARNERS:
        raise Unavailable("no such learner in this version")
    if name in ("romco-nucl", "romco-logd"):  # romco-auto has nothing to set
        parameters = {**workload.parameters, **parameters}
    return romco.learner(name, workload.n_features, workload.n_tasks, **parameters)


def _rank(model: romco.Learner) -> int | None:
    return len(model.singular_values()) if isinstance(model, Decomposed) else None
