"""Streams from plain tables: which columns of a file are the task, the features, the targets."""

import csv
import gzip
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from romco.streams.datasets import Dataset, Times, data_directory
from romco.streams.stream import Stream
from romco_lab.datasets.storage import DamagedData, Provenance, first_existing, located, verified

Columns = dict[str, NDArray[np.str_]]  # text as in the file; an empty one is missing
SCALED = "numbers are standardised over the whole set (looks ahead at features, not at labels)"


@dataclass(frozen=True)
class Recipe:
    """A gzip-compressed CSV file with a header line, and what its columns are for.

    ``numbers`` are taken as they are, each of ``words`` becomes one 0/1 feature per
    value, and an empty cell says nothing. ``derive`` may add columns first.
    """

    name: str
    file: str  # under the data directory
    sha256: str
    task: str
    numbers: tuple[str, ...]
    words: tuple[str, ...]
    origin: str  # who made it, and where to get it
    terms: str  # what its owners allow
    derive: Callable[[Columns], Columns] = dict
    question: Callable[["Tabular"], Stream] | None = None  # what is asked of each event

    @property
    def provenance(self) -> Provenance:
        """Origin, and the places where it is looked for."""
        return Provenance(self.origin, (self.file,), self.terms)

    def load(self, data_dir: Path | None = None, scaled: bool = True) -> Stream:
        """Return the stream of the question; see :func:`read`."""
        assert self.question is not None
        return self.question(read(self, data_dir, scaled))


@dataclass(frozen=True)
class Tabular:
    """Events with whatever is to be predicted of them still in ``columns``, as text.

    ``choose`` makes a stream of a two-way question; ``number`` and ``words`` give a
    column as the target of a regression or of a choice among several classes.
    """

    name: str
    task: NDArray[np.int64]  # (n,)
    tasks: tuple[str, ...]  # (m,) names
    x: csr_array  # (n, d)
    features: tuple[str, ...]  # (d,) "price", "origin=JFK"
    columns: Columns
    notes: tuple[str, ...]

    def number(self, column: str) -> NDArray[np.float64]:
        """A column of numbers (n,), NaN where missing."""
        text = self.columns[column]
        return np.where(text == "", "nan", text).astype(np.float64)

    def words(self, column: str) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """A column of categories: the place (n,) of each in their sorted list."""
        names, place = np.unique(self.columns[column], return_inverse=True)
        return place.astype(np.int64), tuple(names.tolist())

    def choose(self, positive: NDArray[np.bool_], labels: tuple[str, str], *notes: str) -> Stream:
        """The stream that asks whether ``positive`` (n,)."""
        y = np.where(positive, 1.0, -1.0)
        return Stream(self.name, self.task, self.x, y, self.tasks, labels, (*self.notes, *notes))

    def ask_whether_above(self, column: str, bound: float, about: str) -> Stream:
        """Make a stream of whether a number, described by ``about``, is above ``bound``."""
        note = f"the question is whether {column} is above {bound:g}, about its {about}"
        return self.choose(self.number(column) > bound, ("lower", "higher"), note)

    def tell_apart(self, column: str) -> Stream:
        """The stream that asks for one of the classes of a column."""
        y, labels = self.words(column)
        return self._asking(y.astype(np.float64), labels, len(labels))

    def measure(self, column: str) -> Stream:
        """The stream that asks for a column of numbers, where they are known."""
        return self._asking(self.number(column), (), 0)

    def _asking(self, y: NDArray[np.float64], labels: tuple[str, ...], answers: int) -> Stream:
        known = np.flatnonzero(np.isfinite(y))
        return Stream(
            self.name,
            self.task[known],
            self.x[known],
            y[known],
            self.tasks,
            labels,
            self.notes,
            answers=answers,
        )


def find_in(recipe: Recipe) -> Callable[[Path], Path | None]:
    """A function of the data directory: the recipe's file, or None if it is not there."""
    return partial(first_existing, places=(recipe.file,))


def dataset(
    recipe: Recipe,
    summary: str,
    *,
    classes: str | None = None,
    number: str | None = None,
    clock: Callable[[Path | None], tuple[Times, Times]] | None = None,
) -> Dataset:
    """Return the entry of a recipe; ``classes`` and ``number`` are columns of other targets."""

    def variant(kind: str, column: str, data_dir: Path | None) -> Stream:
        events = read(recipe, data_dir)
        stream = events.tell_apart(column) if kind == "classes" else events.measure(column)
        return replace(stream, name=f"{recipe.name}@{kind}")

    columns = {"classes": classes, "number": number}
    return Dataset(
        recipe.name,
        summary,
        recipe.load,
        find_in(recipe),
        recipe.origin,
        (recipe.file,),
        {kind: partial(variant, kind, column) for kind, column in columns.items() if column},
        clock,
    )


def read(recipe: Recipe, data_dir: Path | None = None, scaled: bool = True) -> Tabular:
    """The events of a recipe in the order of its file.

    ``scaled`` standardises each column of numbers over the whole set, for learners that
    need it; without, they are as recorded. ``data_dir`` is where the files are; None is
    ``ROMCO_DATA``, else the cache of the user. Raises MissingData where the file is not there, and
    DamagedData where it is another one.
    """
    data_dir = data_directory(data_dir)
    path = located(recipe.name, find_in(recipe)(data_dir), data_dir, recipe.provenance)
    columns = recipe.derive(columns_of(path, recipe.sha256))
    tasks, task = np.unique(columns[recipe.task], return_inverse=True)
    x, features = encoded(columns, recipe.numbers, recipe.words, scaled)
    return Tabular(
        name=recipe.name,
        task=task.astype(np.int64),
        tasks=tuple(f"{recipe.task} {name}" for name in tasks),
        x=x,
        features=features,
        columns=columns,
        notes=(SCALED,) if scaled else (),
    )


def columns_of(path: Path, sha256: str) -> Columns:
    """The columns of a file by name, verified by checksum."""
    text = gzip.decompress(verified(path, sha256)).decode("utf-8")
    header, *rows = csv.reader(io.StringIO(text))
    if any(len(row) != len(header) for row in rows):
        raise DamagedData(f"{path} has lines of different width: fetch it again")
    return {
        name: np.array(column) for name, column in zip(header, zip(*rows, strict=True), strict=True)
    }


def encoded(
    columns: Columns, numbers: Sequence[str], words: Sequence[str], scaled: bool
) -> tuple[csr_array, tuple[str, ...]]:
    """Features (n, d) and their names: numbers first, then a 0/1 feature per word.

    >>> columns = {"price": np.array(["2", "", "4"]), "town": np.array(["Bonn", "Rome", ""])}
    >>> x, names = encoded(columns, ["price"], ["town"], scaled=True)
    >>> names
    ('price', 'town=Bonn', 'town=Rome')
    >>> x.toarray()
    array([[-1.,  1.,  0.],
           [ 0.,  0.,  1.],
           [ 1.,  0.,  0.]])
    """
    parts: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]] = []  # row, column, value
    names: list[str] = []
    for column in numbers:
        row = np.flatnonzero(columns[column] != "")
        value = columns[column][row].astype(np.float64)
        parts.append((row, np.full(len(row), len(names)), _standard(value) if scaled else value))
        names.append(column)
    for column in words:
        row = np.flatnonzero(columns[column] != "")
        known, place = np.unique(columns[column][row], return_inverse=True)
        parts.append((row, len(names) + place, np.ones(len(row))))
        names += [f"{column}={word}" for word in known.tolist()]
    row, place, value = (np.concatenate(part) for part in zip(*parts, strict=True))
    n = len(columns[next(iter(columns))])
    x = csr_array((value, (row, place)), shape=(n, len(names)))
    x.eliminate_zeros()
    x.indices = x.indices.astype(np.int32)
    x.indptr = x.indptr.astype(np.int32)
    return x, tuple(names)


def _standard(value: NDArray[np.float64]) -> NDArray[np.float64]:
    spread = value.std()
    return (value - value.mean()) / (spread if spread > 0.0 else 1.0)
