"""The paper's learners for numbers: W = U + V on a loss of how far a prediction is off."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array, hstack

from romco.kernels.core.events import Events
from romco.learners.base import (
    Arrays,
    Learner,
    State,
    Upgrade,
    check_weights,
    choice,
    replay_in_turn,
    with_labels,
)
from romco.learners.romco import Romco
from romco.learners.states import forget
from romco.losses import LOSSES
from romco.rounds import Features, Round

Numbers = NDArray[np.float64]
MEASURED = {"squared": "least-squares", "epsilon-insensitive": "epsilon-insensitive"}
COUNT, MEAN, SPREAD, SIZE = range(4)  # places in the clock
FARTHEST = 3.0  # spreads of the answers that an error counts as at most, and sizes of a row


def of_inner(upgrade: Upgrade) -> Upgrade:
    """What makes ROMCO's state newer, for a state whose arrays have a constant beside."""

    def upgraded(state: State) -> State:
        inner = upgrade({**state, "n_features": state["n_features"] + 1})
        return {**inner, "n_features": state["n_features"]}

    return upgraded


class DecomposedNumbers(Learner):
    r"""ROMCO's U + V for numbers: the same steps and penalties on another loss.

    Answers are measured from their running mean in units of their running spread, rows in units
    of their usual length and with a constant, so that neither place nor unit matters. Of the
    answer z and the prediction p, ``loss="squared"`` is :math:`(p - z)^2 / 2`, and
    ``"epsilon-insensitive"`` :math:`\max(0, |p - z| - 0.1)`. An answer more than three spreads off
    counts as three. The first event only places the answers. A step costs what ROMCO's does with
    a loss that is not compiled.

    >>> import romco
    >>> learner = romco.learner("romco-nucl-number", n_features=1, n_tasks=2)
    >>> x = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> rounds = romco.Rounds(np.arange(200) % 2, x, 50.0 + 3.0 * x[:, 0], np.arange(201))
    >>> _ = learner.replay(rounds)
    >>> found = learner.predict(romco.Round(np.zeros(1, int), np.ones((1, 1)), np.empty(0)))
    >>> bool(51.0 < found[0] < 54.0)
    True
    """

    answers = 0
    linear: ClassVar = False
    space: ClassVar = Romco.space
    version: ClassVar = Romco.version  # its arrays are ROMCO's and one more
    upgrades: ClassVar[Mapping[int, Upgrade]] = {
        **{old: of_inner(upgrade) for old, upgrade in Romco.upgrades.items()},
        1: lambda state: state,  # what was called 1 held arrays of ROMCO's version 2
    }

    def __init__(
        self,
        n_features: int,
        n_tasks: int,
        *,
        shared: str = "nuclear",
        loss: str = "squared",
        eta1: float = 0.1,
        eta2: float = 0.1,
        lambda1: float = 0.01,
        lambda2: float = 0.01,
    ) -> None:
        super().__init__(n_features, n_tasks)
        name = MEASURED[choice("loss", loss, *MEASURED)]
        self._inner = Romco(
            n_features + 1,
            n_tasks,
            shared=shared,
            loss=LOSSES[name],
            eta1=eta1,
            eta2=eta2,
            lambda1=lambda1,
            lambda2=lambda2,
        )
        self._inner.answers = 0
        self._clock = np.zeros(4)

    def predict(self, round: Round) -> Numbers:
        """Predicted numbers (n,)."""
        Events(round, self.n_features, self.n_tasks, False)  # checks it
        margins = self._inner.predict(round._replace(x=self._scaled(round.x)))
        return np.asarray(self._clock[MEAN] + self._unit() * margins)

    def update(self, round: Round) -> None:
        """Learn from the round's answers, those that are known."""
        check_weights(self, round)
        known = with_labels(self, round)
        if known is None:
            return
        Events(known, self.n_features, self.n_tasks, True, 0)
        before = self.predict(known)
        placed = self._clock[COUNT] > 0.0
        self._count(known)
        if not placed or self._unit() == 0.0:
            return
        unit = self._unit()
        off = np.clip((np.asarray(known.y) - before) / unit, -FARTHEST, FARTHEST)
        answers = (before - self._clock[MEAN]) / unit + off
        self._inner.update(known._replace(x=self._scaled(known.x), y=answers))

    def replay(self, rounds: Iterable[Round]) -> Numbers:
        """Predictions of a whole stream: predict, then update, round by round."""
        return replay_in_turn(self, rounds)

    def weights(self) -> Numbers:
        """W (d, m): how much a prediction changes with a feature, in the answers' unit."""
        return self._inner.weights()[1:] * self._factor()

    def shared_factors(self) -> tuple[Numbers, Numbers]:
        """L (d, r) and R (m, r) with U = L R'."""
        left, right = self._inner.shared_factors()
        return left[1:] * self._factor(), right

    def personal_sparse(self) -> csc_array:
        """V (d, m), only what is stored."""
        return csc_array(self._inner.personal_sparse()[1:] * self._factor())

    def singular_values(self) -> Numbers:
        """Of U, with the constant, largest first."""
        return self._inner.singular_values() * self._factor()

    def personal_norms(self) -> Numbers:
        """Length (m,) of each task's column of V, with the constant."""
        return self._inner.personal_norms() * self._factor()

    def arrays(self) -> Arrays:
        """ROMCO's, and what places the answers and measures the rows."""
        return {**self._inner.arrays(), "numbers": self._clock}

    def load(self, arrays: Arrays) -> None:
        """Take over another learner's arrays."""
        clock = np.asarray(arrays.get("numbers"))
        if clock.shape != (4,) or clock.dtype != np.float64 or not np.isfinite(clock).all():
            raise ValueError("state array 'numbers' must be four finite numbers")
        self._inner.load({name: one for name, one in arrays.items() if name != "numbers"})
        self._clock[:] = clock

    def forget_task(self, task: int) -> None:
        """Make the task as if it had never been."""
        forget(self._inner, task)

    def _count(self, round: Round) -> None:
        """Running mean and spread of the answers (Welford), and the rows' mean square length."""
        x = round.x
        squares = np.asarray((x.multiply(x) if isinstance(x, csr_array) else x * x).sum(axis=1))
        for y, square in zip(np.asarray(round.y).tolist(), squares.tolist(), strict=True):
            self._clock[COUNT] += 1.0
            step = y - self._clock[MEAN]
            self._clock[MEAN] += step / self._clock[COUNT]
            self._clock[SPREAD] += step * (y - self._clock[MEAN])
            self._clock[SIZE] += (square - self._clock[SIZE]) / self._clock[COUNT]

    def _unit(self) -> float:
        return float(np.sqrt(self._clock[SPREAD] / max(self._clock[COUNT], 1.0)))

    def _length(self) -> float:
        return float(np.sqrt(self._clock[SIZE])) or 1.0

    def _factor(self) -> float:
        return self._unit() / self._length()

    def _scaled(self, x: Features) -> Any:
        """Rows after a constant, none longer than three usual ones."""
        if isinstance(x, csr_array):
            lengths = np.sqrt(np.asarray(x.multiply(x).sum(axis=1))) / self._length()
            cut = 1.0 / self._length() / np.maximum(1.0, lengths / FARTHEST)
            return csr_array(hstack([np.ones((x.shape[0], 1)), x.multiply(cut[:, None])]))
        x = np.asarray(x, dtype=np.float64)
        lengths = np.sqrt(np.square(x).sum(axis=1, keepdims=True)) / self._length()
        cut = 1.0 / self._length() / np.maximum(1.0, lengths / FARTHEST)
        return np.hstack([np.ones((len(x), 1)), x * cut])
