"""How good answers were: beside what a constant answer would have had, and of late."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

BLOCK, BLOCKS = 100, 10  # "of late" are the last nine to ten blocks of events
GROUPS = 10  # of probability, for the calibration
BINS, REACH = 600, 15.0  # of the logit, for the area under the curve
LEAST = 1e-15  # no probability counts as more certain than this


@final
class Score:
    """Right and wrong answers so far, and how good their probabilities were.

    The baseline answers the label that was the more frequent so far, with its frequency
    so far as the probability: what a model without any features would do.

    >>> score = Score()
    >>> margins, chances = np.array([0.5, -0.5, -1.0]), np.array([0.6, 0.4, 0.2])
    >>> score.add(np.array([1.0, 1.0, -1.0]), margins, chances)
    >>> round(score.error, 3), round(score.baseline, 3), round(score.f1, 3), score.auc
    (0.333, 0.333, 0.667, 1.0)
    """

    def __init__(self, counts: list[int] | None = None, curve: bool = True) -> None:
        self.counts = np.array(counts or [0, 0, 0, 0]).reshape(2, 2)  # truth, answer
        self.blocks: list[Numbers] = [np.zeros(len(COLUMNS))]
        self.sums = np.zeros(len(COLUMNS))
        self.groups = np.zeros((GROUPS, 3)) if curve else None
        self.bins = np.zeros((2, BINS), dtype=np.int64) if curve else None

    def add(self, y: Numbers, margins: Numbers, chances: Numbers) -> None:
        """Count events in order: truth -1 or +1, margin, probability of the positive label."""
        up = y > 0
        table = _columns(self.counts.sum(axis=1), up, margins, chances)
        np.add.at(self.counts, (up.astype(int), (margins >= 0).astype(int)), 1)
        self.sums = _in_order(self.sums, table)
        self._add_blocks(table)
        if self.groups is not None and self.bins is not None:
            group = np.minimum((chances * GROUPS).astype(int), GROUPS - 1)
            np.add.at(self.groups, group, np.stack([np.ones(len(y)), chances, up], axis=1))
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
        if self.groups is None:
            return None
        _, chances, positive = self.groups.T
        return float(np.abs(chances - positive).sum() / max(self.events, 1))

    @property
    def positives(self) -> float:
        """Share of events whose true label is the positive one."""
        return float(self.counts[1].sum() / max(self.events, 1))

    def recent(self) -> dict[str, float]:
        """Error, that of the baseline, and log loss over the last 900 to 1,000 events."""
        n, *sums = np.sum(self.blocks, axis=0)
        means = [float(total / max(n, 1.0)) for total in sums]
        return {"events": int(n), **dict(zip(NAMES, means, strict=True))}

    def summary(self) -> dict[str, Any]:
        """All of it by name, as every output has it."""
        names = ("events", "error", "baseline", "log_loss", "baseline_log_loss", "f1", "auc")
        found = {name: getattr(self, name) for name in (*names, "calibration", "positives")}
        return {name: value for name, value in found.items() if value is not None}

    def to_json(self) -> dict[str, Any]:
        """Everything needed to go on counting."""
        assert self.groups is not None
        assert self.bins is not None
        used = np.flatnonzero(self.bins.any(axis=0))
        return {
            "counts": self.counts.ravel().tolist(),
            "sums": self.sums.tolist(),
            "blocks": [block.tolist() for block in self.blocks],
            "groups": self.groups.tolist(),
            "bins": [used.tolist(), *self.bins[:, used].tolist()],
        }

    @classmethod
    def from_json(cls, found: dict[str, Any] | list[int] | None) -> Score:
        """What :meth:`to_json` wrote; a bare list holds counts alone."""
        if not isinstance(found, dict):
            return cls(found)
        score = cls(found["counts"])
        assert score.bins is not None
        score.sums = np.array(found["sums"], dtype=float)
        score.blocks = [np.array(block, dtype=float) for block in found["blocks"]]
        score.groups = np.array(found["groups"], dtype=float).reshape(GROUPS, 3)
        used, below, above = found["bins"]
        score.bins[:, used] = [below, above]
        return score

    def _mean(self, name: str) -> float:
        return float(self.sums[COLUMNS.index(name)] / max(self.sums[0], 1.0))

    def _add_blocks(self, table: Numbers) -> None:
        while len(table):
            if self.blocks[-1][0] == BLOCK:
                self.blocks = [*self.blocks[1 - BLOCKS :], np.zeros(len(COLUMNS))]
            room = BLOCK - int(self.blocks[-1][0])
            self.blocks[-1] = _in_order(self.blocks[-1], table[:room])
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


def _in_order(sums: Numbers, table: Numbers) -> Numbers:
    """Rows added one after the other: the bits do not depend on how events were cut into calls."""
    return np.add.accumulate(np.concatenate([sums[None], table]), axis=0)[-1]


def _loss(up: NDArray[np.bool_], chances: Numbers) -> Numbers:
    right = np.where(up, chances, 1.0 - chances)
    return -np.log(np.maximum(right, LEAST))


def _bin(chances: Numbers) -> NDArray[np.intp]:
    """Bin of each probability: equal steps of its logit, so that rare positives are told apart."""
    sure = np.clip(chances, LEAST, 1.0 - LEAST)
    logit = np.clip(np.log(sure / (1.0 - sure)), -REACH, REACH)
    return np.minimum(((logit + REACH) * (BINS / (2 * REACH))).astype(np.intp), BINS - 1)
