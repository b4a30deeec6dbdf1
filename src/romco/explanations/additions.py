"""What the features of one event add to a margin of one learner."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from romco.learners import Learner
from romco.learners.capabilities import Contributes, Decomposed, Newcomer
from romco.model.engine import as_round, predict
from romco.model.features import Rows, Sparse, count_rows

Numbers = NDArray[np.float64]
SMALL = 1e-12  # of a feature's whole: less is rounding


class Additions(NamedTuple):
    """A margin and its parts by column; what no feature adds is the rest of it."""

    margin: float
    shared: csr_array  # (1, d) through what tasks have in common
    personal: csr_array  # (1, d) through what is the task's own


class Asked(NamedTuple):
    """Of whom something is told: a task that was learned, or one that nobody has seen."""

    number: int  # of the task, or of one that is still free
    known: bool
    common: Newcomer | None = None  # in place of the number, where new tasks begin with it


def additions(learner: Learner, rows: Rows, asked: Asked) -> Additions:
    """Parts of the margin of one event of two classes, or of the number predicted for it.

    Raises ValueError where the learner's margins are no sums over features.
    """

    def margins(rows: Rows) -> Numbers:
        if asked.common is None:
            return predict(learner, rows, np.full(count_rows(rows), asked.number))
        nobody = np.zeros(count_rows(rows), dtype=np.int64)
        return asked.common.margins(as_round(learner, rows, nobody))

    margin = float(margins(rows)[0])
    if isinstance(learner, Contributes) and asked.common is None:
        found = learner.contributions(as_round(learner, rows, np.array([asked.number])))
        return Additions(margin, found.shared, found.personal)
    if not learner.linear:
        raise ValueError(f"margins of {learner.name} are not sums over features")
    return Additions(margin, *_linear(learner, rows, asked, margins))


def _linear(
    learner: Learner, rows: Rows, asked: Asked, margins: Callable[[Rows], Numbers]
) -> tuple[csr_array, csr_array]:
    """What a learner says of each feature alone, beyond what it says of none."""
    values, columns = _entries(rows)
    alone = Sparse(values, columns, np.array([0, *range(len(values) + 1)], dtype=np.int32))
    said = margins(alone)
    shared = whole = said[1:] - said[0]
    if asked.known and not learner.one_for_all:
        shared = np.zeros_like(whole)
        if isinstance(learner, Decomposed):
            left, right = learner.shared_factors()
            shared = values * (left[columns] @ right[asked.number])
    personal = whole - shared
    personal[np.abs(personal) <= SMALL * np.abs(whole)] = 0.0
    starts, shape = np.array([0, len(columns)]), (1, learner.n_features)
    return (
        csr_array((whole - personal, columns, starts), shape=shape),
        csr_array((personal, columns, starts), shape=shape),
    )


def _entries(rows: Rows) -> tuple[Numbers, NDArray[np.int32]]:
    """Values and columns of one row, where it is not 0."""
    if isinstance(rows, Sparse):
        return rows.values, rows.columns
    columns = np.flatnonzero(rows[0]).astype(np.int32)
    return rows[0][columns], columns
