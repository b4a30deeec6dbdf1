"""Merge rule of each array that tasks share.

A learner that can be sharded names in ``task_axes`` the arrays that have a row per task, which are
never merged, and lists all others once, a line each::

    SHARING = (
        PerFeature("u", Belief(mean=0, spread=1)),  # merged where shards meet
        PerPair("personal", "personal_keys"),  # a task's own: never merged
    )
"""

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass
from itertools import chain
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from romco.typing import Floats


@dataclass(frozen=True)
class Sum:
    """Columns that only ever get something added."""

    columns: tuple[int, ...] = (0,)


@dataclass(frozen=True)
class Belief:
    """Two columns that are a Gaussian about one weight.

    ``spread`` holds what is spent of the ``prior`` variance, or, with ``spent`` false, the
    variance itself.
    """

    mean: int
    spread: int
    prior: float = 1.0
    spent: bool = True

    @property
    def columns(self) -> tuple[int, ...]:
        """Both columns."""
        return self.mean, self.spread


@dataclass(frozen=True)
class Pooled:
    """Three columns: count, mean and sum of squared deviations of numbers."""

    columns: tuple[int, int, int]


@dataclass(frozen=True)
class Steps:
    """A column of weights that nothing is known of but their values."""

    columns: tuple[int, ...] = (0,)


@dataclass(frozen=True)
class Latest:
    """Columns that cannot be added, as they are found from others: taken from one shard.

    From the one that touched the row most, of a small array the one that learned most events. With
    ``count``, from the one in which that column has grown most; the part that merges it comes after
    this one.
    """

    columns: tuple[int, ...] = (0,)
    count: int | None = None


@dataclass(frozen=True)
class Tracked:
    """Columns of a small array that follow the events, each of which moves them by ``pace``.

    With ``count``, the column of the events so far, early events move them by 2 / (events + 2).
    """

    columns: tuple[int, ...]
    pace: float
    count: int | None = None


@dataclass(frozen=True)
class Moments:
    """Count, sum and squares of numbers in a small array, measured from the first number.

    Shards that begin together have different first numbers; that of the first shard is taken.
    """

    count: int
    origin: int
    total: int
    squares: int

    @property
    def columns(self) -> tuple[int, ...]:
        """All four columns."""
        return self.count, self.origin, self.total, self.squares


@dataclass(frozen=True)
class Scale:
    """Two columns of a small array: a number learned by Newton steps, and its curvature.

    The curvature is at least 1, and forgets with every event, as that of a model's margins does.
    """

    columns: tuple[int, int] = (0, 1)


@dataclass(frozen=True)
class Merged:
    """Columns of a small array that ``merge(start, shards)`` merges into its start."""

    columns: tuple[int, ...]
    merge: Callable[[Floats, list[Floats]], None]


Part = Sum | Belief | Pooled | Steps | Latest | Tracked | Moments | Scale | Merged
Counts = tuple[str, tuple[int, ...]]  # a small array of sums, and those of its columns that count


def columns_of(fields: tuple[str, ...], *starts: str) -> tuple[int, ...]:
    """Return the places of the fields whose names begin so."""
    return tuple(k for k, name in enumerate(fields) if name.startswith(starts))


def _first_columns(name: str, parts: Iterable[Part]) -> tuple[int, ...]:
    """Return the columns that parts name, which must be the first ones."""
    columns = tuple(sorted(chain.from_iterable(part.columns for part in parts)))
    if columns != tuple(range(len(columns))):
        raise ValueError(f"parts of {name} must name its first columns, each once")
    return columns


class Line:
    """Merge rule of some arrays, the first of which gives it its name (abstract).

    Where ``counts`` is given, these sums have changed by as many events as the arrays are of.
    """

    arrays: tuple[str, ...]
    counts: Counts | None = None

    @property
    def name(self) -> str:
        """Name of the first array."""
        return self.arrays[0]

    def of_member(self, prefix: str, counts: Counts | None = None) -> Self:
        """Return the line of an inner learner, whose arrays have names with a prefix."""
        line = copy(self)
        line.arrays = tuple(prefix + name for name in self.arrays)
        line.counts = counts
        return line


class PerFeature(Line):
    """Arrays, side by side, whose rows are features: only those that were touched are merged.

    Parts name all their columns.
    """

    def __init__(self, arrays: str | tuple[str, ...], *parts: Part) -> None:
        self.arrays = (arrays,) if isinstance(arrays, str) else arrays
        self.parts = parts
        self.columns = _first_columns(self.name, parts)

    def views(self, arrays: dict[str, NDArray[Any]], n: int) -> dict[str, Floats]:
        """The live arrays of n features, which are rows, by name."""
        return {name: arrays[name].reshape(n, -1) for name in self.arrays}

    def all_columns(self, views: dict[str, NDArray[Any]], n: int) -> list[Floats]:
        """Return the columns (n,) of such views; ValueError if they do not fit."""
        blocks = [views[name] for name in self.arrays]
        fit = all(block.shape[:-1] == (n,) for block in blocks)
        if not fit or sum(block.shape[1] for block in blocks) != len(self.columns):
            raise ValueError(f"{self.name} of {n} rows does not have {len(self.columns)} columns")
        return list(chain.from_iterable(block.T for block in blocks))


class Whole(Line):
    """A small array that is handed over and merged as a whole; its rows as if all were touched.

    Parts name its first ``width`` columns.
    """

    def __init__(self, array: str, *parts: Part) -> None:
        self.arrays, self.parts = (array,), parts
        self.width = len(_first_columns(array, parts))

    def view(self, arrays: dict[str, NDArray[Any]]) -> NDArray[Any]:
        """The live array as rows."""
        array = arrays[self.name]
        return array.reshape(-1, array.shape[-1])


class Full(Line):
    """Gaussians with a full covariance, which grows by a share ``forgetting`` with each event.

    The arrays may stack several: mean (k, n), covariance (k, n, n). No variance grows beyond
    ``ceiling``, one number or one of each (n,).
    """

    def __init__(
        self, mean: str, covariance: str, forgetting: float, ceiling: float | Floats
    ) -> None:
        self.arrays, self.forgetting, self.ceiling = (mean, covariance), forgetting, ceiling

    def view(self, arrays: dict[str, NDArray[Any]]) -> tuple[Floats, Floats]:
        """Live means (k, n) and covariances (k, n, n)."""
        mean, covariance = (arrays[name] for name in self.arrays)
        n = mean.shape[-1]
        return mean.reshape(-1, n), covariance.reshape(-1, n, n)


class Block(Line):
    """A Gaussian with a full covariance, of an intercept and of some features' weights.

    The kernel of the learner returns and takes it as (1 + n, n): means, and what is spent of the
    prior covariance, which is diagonal: ``prior``, of the intercept 1. It stores weights and
    variances in arrays of other lines, too, and has the last word on these.
    """

    def __init__(self, array: str, kernel: Any, prior: float) -> None:
        self.arrays, self.kernel, self.prior = (array,), kernel, prior


class ClassWeights(Line):
    """Gaussians about the weights of each class, whose prior variance is 1.

    Their ``owner`` returns and takes them as blocks (c + t, lanes): rows that every event touches,
    and those of some features. In a row lie the means of all ``classes``, then what is spent of
    their variances, ``vectors`` times.
    """

    def __init__(self, owner: Any, vectors: int, classes: int, *arrays: str) -> None:
        self.owner, self.arrays = owner, arrays
        means = [2 * v * classes + k for v in range(vectors) for k in range(classes)]
        self.parts = tuple(Belief(mean, mean + classes) for mean in means)


class PerPair(Line):
    """Values per task and feature, owned by one shard and never merged."""

    def __init__(self, values: str, keys: str) -> None:
        self.arrays = (values, keys)


def stored_pairs(
    values: Floats, keys: NDArray[np.int64] | None
) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    """Return tasks, features and numbers of stored pairs: a table with keys, or dense (m, d, k)."""
    if keys is not None:
        return keys >> 32, keys & 0xFFFFFFFF, values
    task, feature = np.nonzero(values.any(axis=2))
    return task, feature, values[task, feature]


class Fixed(Line):
    """Arrays that are the same in every shard at every time."""

    def __init__(self, *arrays: str) -> None:
        self.arrays = arrays


Sharing = tuple[Line, ...]
