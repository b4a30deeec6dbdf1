"""Learners of other packages, in the same prequential loop: River's logistic regression, and VW."""

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from romco.learners import Learner
from romco.learners.capabilities import LearnsDelayed
from romco.rounds import Round, Rounds

Margins = NDArray[np.float64]


class Peer(Protocol):
    """Predicts an event, and learns it, at once or later."""

    def margin(self, event: int) -> float:
        """Log-odds of +1, or any number whose sign is the answer."""

    def learn(self, event: int) -> None:
        """Learn the answer."""


class Own:
    """A learner of this package."""

    def __init__(self, learner: Learner, rounds: Rounds) -> None:
        self.learner, self.rounds = learner, rounds
        self.said: dict[int, Margins] = {}

    def margin(self, event: int) -> float:
        """Margin of the event."""
        if isinstance(self.learner, LearnsDelayed):
            self.said[event] = self.learner.prediction_context(self._round(event))
        return float(self.learner.predict(self._round(event))[0])

    def learn(self, event: int) -> None:
        """Learn the event, late as it may be."""
        if isinstance(self.learner, LearnsDelayed) and event in self.said:
            self.learner.update_delayed(self._round(event), self.said.pop(event))
        else:
            self.learner.update(self._round(event))

    def _round(self, event: int) -> Round:
        at = slice(event, event + 1)
        return Round(self.rounds.task[at], self.rounds.x[at], self.rounds.y[at])


class River:
    """``river.linear_model.LogisticRegression`` with steps of SGD; the task as one-hot features."""

    def __init__(self, rounds: Rounds, step: float, tasks: bool) -> None:
        from river import linear_model, optim

        self.rows = list(dicts(rounds, tasks))
        self.y = rounds.y > 0
        self.model: Any = linear_model.LogisticRegression(optimizer=optim.SGD(step))

    def margin(self, event: int) -> float:
        """Log-odds."""
        yes = self.model.predict_proba_one(self.rows[event]).get(True, 0.5)
        return float(np.log(max(yes, 1e-12) / max(1.0 - yes, 1e-12)))

    def learn(self, event: int) -> None:
        """One step."""
        self.model.learn_one(self.rows[event], bool(self.y[event]))


class VW:
    """Vowpal Wabbit through its Python package; ``pairs`` crosses features with tasks (-q)."""

    def __init__(self, rounds: Rounds, loss: str, step: float, pairs: bool) -> None:
        from vowpalwabbit import Workspace

        quadratic = "-q ft" if pairs else ""
        self.workspace: Any = Workspace(
            f"--quiet --loss_function {loss} -l {step} {quadratic} -b 22"
        )
        self.lines = list(lines(rounds))
        self.y = np.where(rounds.y > 0, 1, -1)

    def margin(self, event: int) -> float:
        """Its raw prediction."""
        return float(self.workspace.predict(self.lines[event]))

    def learn(self, event: int) -> None:
        """One step."""
        self.workspace.learn(f"{self.y[event]} {self.lines[event]}")


def prequential_margins(peer: Peer, n: int, delay: int = 0) -> Margins:
    """Margins (n,) of n events, each learned when ``delay`` more have been predicted."""
    margins = np.empty(n)
    for event in range(n):
        margins[event] = peer.margin(event)
        if event >= delay:
            peer.learn(event - delay)
    return margins


def dicts(rounds: Rounds, tasks: bool) -> Iterator[dict[str, float]]:
    """Rows as River takes them."""
    x = csr_array(rounds.x)
    for event, task in enumerate(rounds.task):
        at = slice(x.indptr[event], x.indptr[event + 1])
        row = {f"f{j}": float(v) for j, v in zip(x.indices[at], x.data[at], strict=True)}
        if tasks:
            row[f"task{task}"] = 1.0
        yield row


def lines(rounds: Rounds) -> Iterator[str]:
    """Rows as VW reads them, without answers: features in one namespace, the task in another."""
    x = csr_array(rounds.x)
    for event, task in enumerate(rounds.task):
        at = slice(x.indptr[event], x.indptr[event + 1])
        row = " ".join(f"{j}:{v:.6g}" for j, v in zip(x.indices[at], x.data[at], strict=True))
        yield f"|f {row} |t {task}"
