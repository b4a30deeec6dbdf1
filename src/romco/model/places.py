"""Columns of the names in a lexicon: each name is looked up once, not once per row."""

from __future__ import annotations

from itertools import compress, repeat
from typing import final

import numpy as np
from numpy.typing import NDArray

from romco.kernels.io.delimited import arrange
from romco.kernels.io.encoded import Encoded
from romco.kernels.io.lexicon import Lexicon
from romco.kernels.io.mappings import hash_name
from romco.model.names import Id
from romco.model.rows import Sparse


@final
class Places:
    """Where the names of the lexicon that is read at the moment stand among known ones."""

    def __init__(self) -> None:
        self._lexicon: Lexicon | None = None
        self._column = np.empty(0, dtype=np.int32)  # by number of the name; -1: not known
        self._known = 0  # names known when the -1 were found

    def read(self, rows: Encoded, known: dict[Id, int], new: dict[Id, int] | None) -> Sparse:
        """Rows by column; a name that is not known is added to ``new``, or dropped without it."""
        self._look_up(rows.lexicon, known)
        columns = self._column[rows.names]
        unknown = np.flatnonzero(columns < 0)
        if len(unknown) and (new is not None or len(known) > self._known):
            columns[unknown] = self._again(rows, unknown, known, new)
        return Sparse(*arrange(rows.values, columns, rows.starts))

    def _look_up(self, lexicon: Lexicon, known: dict[Id, int]) -> None:
        if lexicon is not self._lexicon:
            self._column = np.empty(0, dtype=np.int32)  # first: an interrupt may come between
            self._lexicon = lexicon
        if len(self._column) < len(lexicon):
            more = list(map(known.get, lexicon.names[len(self._column) :], repeat(-1)))
            self._column = np.concatenate([self._column, np.array(more, dtype=np.int32)])

    def _again(
        self,
        rows: Encoded,
        unknown: NDArray[np.intp],
        known: dict[Id, int],
        new: dict[Id, int] | None,
    ) -> NDArray[np.int32]:
        """Columns of entries whose names were not known; they may have been learned since."""
        asked = rows.names[unknown]
        numbers, place = _distinct(asked)
        names = list(map(rows.lexicon.names.__getitem__, numbers.tolist()))
        columns = np.array(list(map(known.get, names, repeat(-1))), dtype=np.int32)
        found = columns >= 0
        self._column[numbers[found]] = columns[found]
        if new is None:
            self._known = len(known)
        else:
            columns[~found] = _placed(list(compress(names, ~found)), len(known), new)
        return columns[place]


def _placed(names: list[str], n_known: int, new: dict[Id, int]) -> list[int]:
    """The columns of names, all different, that are not known: those in ``new`` or behind them."""
    if new:
        return [new.setdefault(name, n_known + len(new)) for name in names]
    columns = range(n_known, n_known + len(names))
    new.update(zip(names, columns, strict=True))
    return list(columns)


def _distinct(numbers: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.intp]]:
    """The numbers that occur, in order of appearance, and where among them each one is.

    They are of a lexicon, so they are small: places by number take less time than sorting.
    """
    least = int(numbers.min())
    shifted = numbers - least
    first = np.full(int(shifted.max()) + 1, -1, dtype=np.intp)
    first[shifted[::-1]] = np.arange(len(numbers))[::-1]  # the last that is written stays
    firsts = np.sort(first[first >= 0])
    rank = np.empty(len(numbers), dtype=np.intp)
    rank[firsts] = np.arange(len(firsts))
    return numbers[firsts], rank[first[shifted]]


@final
class HashedPlaces:
    """Columns and signs by hash of the names of the lexicon that is read at the moment."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._lexicon: Lexicon | None = None
        self._column, self._sign = np.empty(0, dtype=np.int32), np.empty(0)

    def read(self, rows: Encoded) -> Sparse:
        """Rows by column; see :class:`romco.model.Hashed`."""
        self._look_up(rows.lexicon)
        values = rows.values * self._sign[rows.names]
        return Sparse(*arrange(values, self._column[rows.names], rows.starts))

    def _look_up(self, lexicon: Lexicon) -> None:
        if lexicon is not self._lexicon:
            self._column, self._sign = np.empty(0, dtype=np.int32), np.empty(0)
            self._lexicon = lexicon
        if len(self._column) < len(lexicon):
            names = lexicon.names[len(self._column) :]
            hashes = np.array([hash_name(name) for name in names], dtype=np.uint64)
            columns = (hashes & np.uint64(self._size - 1)).astype(np.int32)
            signs = np.where(hashes >> np.uint64(63), -1.0, 1.0)
            self._sign = np.concatenate([self._sign[: len(self._column)], signs])
            self._column = np.concatenate([self._column, columns])  # last: then both are there
