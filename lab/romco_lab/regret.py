"""Regret: how much worse a stream went than the best fixed model would have done."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from romco import batch
from romco.losses import Hinge
from romco.penalties import Nuclear, TaskGroups
from romco.rounds import Features, Round, Rounds

Numbers = NDArray[np.float64]


class Penalised(Protocol):
    """A ROMCO learner with the nuclear norm, whose objective the regret is about."""

    parameters: dict[str, float]
    n_tasks: int

    def predict(self, round: Round) -> Numbers:
        """Margins."""

    def update(self, round: Round) -> None:
        """Learn."""

    def singular_values(self) -> Numbers:
        """Return those of U."""

    def personal_norms(self) -> Numbers:
        """Return those of V's columns."""


def paid(learner: Penalised, rounds: Rounds) -> Numbers:
    """Return the price (T,) of each round: its hinge losses plus the learner's penalties.

    This is the objective of the paper's regret,
    F_t(Z_t) + lambda1 |U_t|_* + lambda2 |V_t|_{2,1}; the learner learns on the way.
    """
    lambda1 = learner.parameters["lambda1"]
    lambda2 = learner.parameters["lambda2"]
    costs = np.empty(len(rounds))
    for t, round in enumerate(rounds):
        penalty = lambda1 * learner.singular_values().sum()
        penalty += lambda2 * learner.personal_norms().sum()
        costs[t] = Hinge().value(learner.predict(round), round.y).sum() + penalty
        learner.update(round)
    return costs


def best_fixed(rounds: Rounds, n_tasks: int, lambda1: float, lambda2: float) -> float:
    """Return the price of the best fixed U and V (:func:`romco.batch.robust`) over all rounds."""
    task, x, y, *_ = rounds.events
    X = [_rows_of(x, task == i) for i in range(n_tasks)]
    Y = [y[task == i] for i in range(n_tasks)]
    T = len(rounds)
    L, S = batch.robust(X, Y, T * lambda1, T * lambda2, loss="hinge")
    losses = sum(float(Hinge().value(X[i] @ (L + S)[:, i], Y[i]).sum()) for i in range(n_tasks))
    return losses + T * (Nuclear(lambda1).value(L) + TaskGroups(lambda2).value(S))


def regret(learner: Penalised, rounds: Rounds) -> float:
    """Regret of a fresh ROMCO-NuCl learner over the rounds.

    >>> import romco
    >>> stream = romco.streams.simulated(n_tasks=3, n_features=4, n_events=20, outliers=1)
    >>> learner = romco.learner("romco-nucl", 4, 3, always_prox=True, step="inverse-sqrt")
    >>> regret(learner, romco.streams.synchronous(stream, seed=0)) > 0
    True
    """
    cost = paid(learner, rounds).sum()
    parameters = learner.parameters
    best = best_fixed(rounds, learner.n_tasks, parameters["lambda1"], parameters["lambda2"])
    return float(cost - best)


def _rows_of(x: Features, chosen: NDArray[np.bool_]) -> Features:
    return x[np.flatnonzero(chosen)]
