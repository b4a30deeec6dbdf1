"""How good answers were: beside what a constant answer would have had, and of late."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol, final

import numpy as np
from numpy.typing import NDArray

from romco.evaluation.sums import LEAST, Reliability, in_order, put_away, surprise
from romco.model.target import Predictions, logistic
from romco.rounds import Round

Numbers = NDArray[np.float64]

BLOCK, BLOCKS = 100, 10  # "of late" are the last nine to ten blocks of events
GROUPS = 10  # of probability, for the calibration
BINS, REACH = 600, 15.0  # of the logit, for the area under the curve


class Sides(Protocol):
    """Who knows on which side of margin 0 a label is."""

    @property
    def engine(self) -> Any:
        """The engine of a model, or whatever has its methods."""


@final
class TwoClassScore:
    """Right and wrong answers so far, and how good their probabilities were.

    The baseline answers the label that was the more frequent so far, with its frequency
    so far as the probability: what a model without any features would do.

    Parameters
    ----------
    counts:
        Of another to go on from: truth by answer, four numbers; None begins anew.
    curve:
        Whether to keep what AUC and calibration need; without, neither is told.

    >>> score = TwoClassScore()
    >>> margins, chances = np.array([0.5, -0.5, -1.0]), np.array([0.6, 0.4, 0.2])
    >>> score.add_answers(np.array([1.0, 1.0, -1.0]), margins, chances)
    >>> round(score.error, 3), round(score.baseline, 3), round(score.f1, 3), score.auc
    (0.333, 0.333, 0.667, 1.0)

    """

    def __init__(self, counts: list[int] | None = None, curve: bool = True) -> None:
        self.counts = np.array(counts or [0, 0, 0, 0]).reshape(2, 2)  # truth, answer
        self.blocks: list[Numbers] = [np.zeros(len(COLUMNS))]
        self.sums = np.zeros(len(COLUMNS))
        self.reliability = Reliability(GROUPS) if curve else None
        self.bins = np.zeros((2, BINS), dtype=np.int64) if curve else None

    def add(self, round: Round, scores: Numbers) -> None:
        """Count a round whose probabilities are the logistic function of the margins.

        Parameters
        ----------
        round:
            Events with their answers y (n,): -1 or +1.
        scores:
            What was predicted of them before: margins (n,).

        """
        self.add_answers(round.y, scores, logistic(scores))

    def count(self, model: Sides, labels: Sequence[Any], answers: Predictions) -> None:
        """Count events in order, before which ``answers`` were given.

        Parameters
        ----------
        model:
            Who knows on which side of margin 0 a label is, as a model of two classes does.
        labels:
            The true answers (n,), as the model calls them.
        answers:
            What the model's ``predict_and_learn`` gave for them.

        """
        self.add_answers(sides(model, labels), *answers)

    def add_answers(self, y: Numbers, margins: Numbers, chances: Numbers) -> None:
        """Count events in order: truth -1 or +1, margin, probability of the positive label.

        Parameters
        ----------
        y:
            Truth (n,), -1 or +1.
        margins:
            Predicted before (n,).
        chances:
            Probabilities (n,) of the positive label.

        """
        up = y > 0
        table = _columns(self.counts.sum(axis=1), up, margins, chances)
        np.add.at(self.counts, (up.astype(int), (margins >= 0).astype(int)), 1)
        self.sums = in_order(self.sums, table)
        self._add_blocks(table)
        if self.reliability is not None and self.bins is not None:
            self.reliability.add(chances, up)
            np.add.at(self.bins, (up.astype(int), _bin(chances)), 1)

    @property
    def events(self) -> int:
        """How many were counted."""
        return int(self.counts.sum())

    @property
    def error(self) -> float:
        """Share of wrong answers."""
        return float((self.counts[0, 1] + self.counts[1, 0]) / max(self.events, 1))

    @property
    def baseline(self) -> float:
        """Share of wrong answers of the baseline."""
        return self._mean("baseline")

    @property
    def log_loss(self) -> float:
        """Mean of -log of the probability that the true label had."""
        return self._mean("loss")

    @property
    def baseline_log_loss(self) -> float:
        """The same of the baseline."""
        return self._mean("baseline_loss")

    @property
    def f1(self) -> float:
        """F1 of the positive label."""
        hit = 2 * self.counts[1, 1]
        return float(hit / max(hit + self.counts[0, 1] + self.counts[1, 0], 1))

    @property
    def auc(self) -> float | None:
        """Chance that a positive event has a higher probability than a negative one.

        None where one of the labels has not occurred.
        """
        if self.bins is None or not self.bins.sum(axis=1).all():
            return None
        below, above = self.bins.astype(float)
        lower = np.cumsum(below) - 0.5 * below
        return float((above * lower).sum() / (above.sum() * below.sum()))

    @property
    def calibration(self) -> float | None:
        """By how much probabilities are off: mean over ten groups of them, by size."""
        return None if self.reliability is None else self.reliability.gap()

    @property
    def positives(self) -> float:
        """Share of events whose true label is the positive one."""
        return float(self.counts[1].sum() / max(self.events, 1))

    def recent(self) -> dict[str, float]:
        """Error, that of the baseline, and log loss over the last 900 to 1,000 events.

        Returns
        -------
        :
            By name, with how many events they are of.

        """
        n, *sums = np.sum(self.blocks, axis=0)
        means = [float(total / max(n, 1.0)) for total in sums]
        return {"events": int(n), **dict(zip(NAMES, means, strict=True))}

    def value(self) -> dict[str, Any]:
        """All of it by name.

        Returns
        -------
        :
            By name; JSON can hold it.

        """
        return self.summary()

    def summary(self) -> dict[str, Any]:
        """All of it by name, as every output has it.

        Returns
        -------
        :
            By name; JSON can hold it.

        """
        names = ("events", "error", "baseline", "log_loss", "baseline_log_loss", "f1", "auc")
        found = {name: getattr(self, name) for name in (*names, "calibration", "positives")}
        return {name: value for name, value in found.items() if value is not None}

    def line(self) -> str:
        """For people: error and the rest beside the baseline's, and of late.

        Returns
        -------
        :
            One line.

        """
        recent = self.recent()
        late = f"; last {recent['events']:,}: {recent['error']:.2%}"
        parts = [
            f"error {self.error:.2%} (baseline {self.baseline:.2%}"
            f"{late if recent['events'] < self.events else ''})",
            f"log loss {self.log_loss:.3f} ({self.baseline_log_loss:.3f})",
            *([] if self.auc is None else [f"AUC {self.auc:.3f}"]),
            f"F1 {self.f1:.3f}",
        ]
        return ", ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """Everything needed to go on counting.

        Returns
        -------
        :
            What :meth:`from_json` reads; JSON can hold it.

        """
        assert self.reliability is not None
        assert self.bins is not None
        used = np.flatnonzero(self.bins.any(axis=0))
        return {
            "counts": self.counts.ravel().tolist(),
            "sums": self.sums.tolist(),
            "blocks": [block.tolist() for block in self.blocks],
            "groups": self.reliability.sums.tolist(),
            "bins": [used.tolist(), *self.bins[:, used].tolist()],
        }

    @classmethod
    def from_json(cls, found: dict[str, Any] | list[int] | None) -> TwoClassScore:
        """What :meth:`to_json` wrote; a bare list holds counts alone.

        Parameters
        ----------
        found:
            What :meth:`to_json` gave.

        Returns
        -------
        :
            A score that goes on counting.

        Raises
        ------
        ValueError
            Where no score tells such numbers.

        """
        told: dict[str, Any] = found if isinstance(found, dict) else {"counts": found or [0] * 4}
        score = cls(put_away(told["counts"], (4,)).astype(int).tolist())
        if told is not found:
            return score
        assert score.reliability is not None
        assert score.bins is not None
        score.sums = put_away(told["sums"], (len(COLUMNS),))
        score.blocks = [put_away(block, (len(COLUMNS),)) for block in told["blocks"]]
        if not score.blocks or any(block[0] > BLOCK or block[0] % 1 for block in score.blocks):
            raise ValueError(f"blocks of late hold up to {BLOCK} events each: {told['blocks']!r}")
        score.reliability.sums = put_away(told["groups"], (GROUPS, 3))
        used, *counts = told["bins"]
        place = put_away(used, (len(used),), BINS - 1).astype(np.intp)
        score.bins[:, place] = put_away(counts, (2, len(used)))
        return score

    def _mean(self, name: str) -> float:
        return float(self.sums[COLUMNS.index(name)] / max(self.sums[0], 1.0))

    def _add_blocks(self, table: Numbers) -> None:
        while len(table):
            if self.blocks[-1][0] == BLOCK:
                self.blocks = [*self.blocks[1 - BLOCKS :], np.zeros(len(COLUMNS))]
            room = BLOCK - int(self.blocks[-1][0])
            self.blocks[-1] = in_order(self.blocks[-1], table[:room])
            table = table[room:]


COLUMNS = ("events", "error", "baseline", "loss", "baseline_loss")
NAMES = ("error", "baseline", "log_loss", "baseline_log_loss")


def _columns(
    before: NDArray[np.int64], up: NDArray[np.bool_], margins: Numbers, chances: Numbers
) -> Numbers:
    """One row per event (n, 5), in the order of COLUMNS; ``before`` counts what came before."""
    place = np.arange(len(up))
    positive = before[1] + np.cumsum(up) - up  # of the events before each
    total = before.sum() + place
    rate = (positive + 1.0) / (total + 2.0)
    usual = 2 * positive >= total
    columns = (
        np.ones(len(up)),
        (margins >= 0) != up,
        usual != up,
        _loss(up, chances),
        _loss(up, rate),
    )
    return np.stack(columns, axis=1).astype(float)


def _loss(up: NDArray[np.bool_], chances: Numbers) -> Numbers:
    return surprise(np.where(up, chances, 1.0 - chances))


def _bin(chances: Numbers) -> NDArray[np.intp]:
    """Bin of each probability: equal steps of its logit, so that rare positives are told apart."""
    sure = np.clip(chances, LEAST, 1.0 - LEAST)
    logit = np.clip(np.log(sure / (1.0 - sure)), -REACH, REACH)
    return np.minimum(((logit + REACH) * (BINS / (2 * REACH))).astype(np.intp), BINS - 1)


def sides(model: Sides, labels: Sequence[Any]) -> Numbers:
    """-1 or +1 of each label (n,); NaN where the model does not know it."""
    known: dict[Any, float] = {}
    for label in set(labels):
        with suppress(ValueError):
            known[label] = model.engine.side(label)
    return np.array(list(map(known.get, labels)), dtype=np.float64)  # None becomes NaN
