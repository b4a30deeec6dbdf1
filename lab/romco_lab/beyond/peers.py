"""Learners of other packages, in the same prequential loop: River's logistic regression, and VW."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from romco.rounds import Rounds

Margins = NDArray[np.float64]


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


def prequential_margins(peer: River | VW, n: int) -> Margins:
    """Margins (n,) of n events, each learned after it was predicted."""
    margins = np.empty(n)
    for event in range(n):
        margins[event] = peer.margin(event)
        peer.learn(event)
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
