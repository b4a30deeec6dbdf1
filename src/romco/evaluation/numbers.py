"""Scores of predicted numbers, and of the intervals around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, final

import numpy as np
from numpy.typing import NDArray

from romco.evaluation.sums import put_away
from romco.model.target import Predictions
from romco.rounds import Round

Numbers = NDArray[np.float64]
FAR = 1e150  # beyond, squares are no numbers


class Reads(Protocol):
    """Who knows which number an answer is."""

    @property
    def engine(self) -> Any:
        """The engine of a model, or whatever has its methods."""


@final
class NumberErrors:
    """Mean absolute and root mean squared error, and the share of variance explained.

    The baseline predicts the mean of the numbers so far.

    Parameters
    ----------
    sums:
        Those of another to go on from, as :meth:`to_json` gives them.

    >>> errors = NumberErrors()
    >>> round = Round(np.array([0, 0]), np.eye(2), np.array([1.0, 3.0]))
    >>> errors.add(round, scores=np.array([1.0, 2.0]))
    >>> errors.value()
    {'mae': 0.5, 'rmse': 0.7071067811865476, 'r2': 0.5}

    """

    kind = "number"

    def __init__(self, sums: Sequence[float] = (0.0,) * 6) -> None:
        # events, absolute and squared errors, squared errors of the mean so far; that mean, spread
        self.sums = list(sums)

    def add(self, round: Round, scores: Numbers) -> None:
        """Add a round.

        Parameters
        ----------
        round:
            Events with their answers y (n,): numbers.
        scores:
            What was predicted of them before: numbers (n,).

        """
        n, absolute, squares, usual, mean, spread = self.sums
        for y, predicted in zip(round.y.tolist(), scores.tolist(), strict=True):
            absolute, squares = absolute + abs(y - predicted), squares + (y - predicted) ** 2
            usual, n, step = usual + (y - mean) ** 2, n + 1.0, y - mean
            mean += step / n
            spread += step * (y - mean)  # by Welford
        self.sums = [n, absolute, squares, usual, mean, spread]

    def count(self, model: Reads, labels: Sequence[Any], answers: Predictions) -> None:
        """Count events in order, before which ``answers`` were given.

        Parameters
        ----------
        model:
            Who reads an answer as a number, as a model of numbers does.
        labels:
            The true answers (n,), as the model calls them.
        answers:
            What the model's ``predict_and_learn`` gave for them.

        """
        y = np.array([model.engine.number_of(label) for label in labels], dtype=np.float64)
        nobody = np.zeros(len(y), dtype=np.int64)
        self.add(Round(nobody, np.empty((len(y), 0)), y), answers.margins)

    @property
    def events(self) -> int:
        """How many were counted."""
        return int(self.sums[0])

    def value(self) -> dict[str, float]:
        """All three so far; R2 is NaN while the answers are all alike.

        Returns
        -------
        :
            "mae", "rmse" and "r2".

        """
        n, absolute, squares, _, _, spread = self.sums
        r2 = 1.0 - squares / spread if spread > 0.0 else float("nan")
        n = max(n, 1.0)
        return {"mae": absolute / n, "rmse": (squares / n) ** 0.5, "r2": r2}

    def summary(self) -> dict[str, Any]:
        """All of it by name, as every output has it.

        Returns
        -------
        :
            By name; JSON can hold it.

        """
        found, usual = self.value(), self.sums[3] / max(self.sums[0], 1.0)
        return {
            "events": self.events,
            "rmse": found["rmse"],
            "mae": found["mae"],
            "r2": None if np.isnan(found["r2"]) else found["r2"],
            "baseline_rmse": usual**0.5,
        }

    def line(self) -> str:
        """For people.

        Returns
        -------
        :
            One line.

        """
        s = self.summary()
        r2 = "" if s["r2"] is None else f", R2 {s['r2']:.3f}"
        return f"RMSE {s['rmse']:.4g} (baseline {s['baseline_rmse']:.4g}), MAE {s['mae']:.4g}{r2}"

    def to_json(self) -> dict[str, Any]:
        """Everything needed to go on counting.

        Returns
        -------
        :
            What :meth:`from_json` reads; JSON can hold it.

        """
        return {"kind": self.kind, "sums": self.sums}

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> NumberErrors:
        """What :meth:`to_json` wrote.

        Parameters
        ----------
        found:
            What :meth:`to_json` gave.

        Returns
        -------
        :
            A score that goes on counting.

        """
        *sums, mean, spread = found["sums"]
        n, *errors, spread = put_away([*sums, spread], (5,), FAR).tolist()
        size = float(put_away(abs(mean), (), FAR))
        return cls([n, *errors, size if mean >= 0 else -size, spread])


@final
class Coverage:
    """How many answers were within the bounds predicted for them, and how wide these were.

    >>> coverage = Coverage()
    >>> coverage.add_bounds(np.array([1.0, 5.0]), np.array([[0.0, 2.0], [0.0, 2.0]]))
    >>> coverage.value()
    {'coverage': 0.5, 'width': 2.0}
    """

    def __init__(self) -> None:
        self.n, self.inside, self.width = 0, 0, 0.0

    def add_bounds(self, y: Numbers, bounds: Numbers) -> None:
        """Count answers (n,) and the bounds (n, 2) predicted before they were known.

        Parameters
        ----------
        y:
            Numbers (n,).
        bounds:
            Lower and upper bounds (n, 2).

        """
        self.n += len(y)
        self.inside += int(np.count_nonzero((bounds[:, 0] <= y) & (y <= bounds[:, 1])))
        self.width += float((bounds[:, 1] - bounds[:, 0]).sum())

    def value(self) -> dict[str, float]:
        """Share within, and mean width.

        Returns
        -------
        :
            "coverage", from 0 to 1, and "width".

        """
        n = max(self.n, 1)
        return {"coverage": self.inside / n, "width": self.width / n}
