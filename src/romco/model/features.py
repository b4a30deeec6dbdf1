"""Features by column, by growing name, or by hashed name: rows of events become rows of numbers.

Text, numbers and gaps of a raw row become numbers in one place: ``read_row`` of
:mod:`romco.kernels.io.mappings`, which all rows by name go through.
"""

from collections.abc import Callable, Iterable, KeysView, Mapping, Sequence, Set
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from romco.io.encoder import CellEncoder
from romco.io.frames import SAMPLE_ROWS
from romco.kernels.core.events import LARGEST_FEATURE
from romco.kernels.io.encoded import Encoded
from romco.kernels.io.mappings import (
    HashedMappings,
    LexiconColumns,
    Mappings,
    NameCache,
    NamedMappings,
)
from romco.model.names import Action, Id, forgotten_name, from_json, identity, to_json
from romco.typing import Floats

if TYPE_CHECKING:
    from scipy.sparse import csr_array

New = dict[Id, int]
Pairs = Sequence[tuple[Id, int]]  # new names and their columns, in order


class Sparse(NamedTuple):
    """Rows in CSR form whose width is still open; each sorted, without duplicates."""

    values: NDArray[np.float64]
    columns: NDArray[np.int32]
    starts: NDArray[np.int32]

    def at(self, rows: NDArray[np.intp]) -> "Sparse":
        """Some of the rows, in the order asked for."""
        begins = self.starts[rows]
        sizes = self.starts[rows + 1] - begins
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        entries = np.arange(starts[-1]) + np.repeat(begins - starts[:-1], sizes)
        return Sparse(self.values[entries], self.columns[entries], starts)


Matrix = Floats | Sparse


class Features:
    """Turns the rows of outside events into rows of numbers (abstract)."""

    width: int  # columns in use
    known: Set[Id] = frozenset()  # names with a column, where names are stored
    cells: CellEncoder | None = None  # reads columns by name, where rows have such

    def read(self, rows: Any, new: New | None = None) -> Matrix:
        """Return rows of numbers (n, d), as an array or sparse.

        Names not seen before are added to ``new`` with their columns, or dropped if it is None.
        Raises ValueError where a row cannot be read, or a number is not finite or too large.
        """
        raise NotImplementedError

    def add(self, new: New) -> None:
        """Adopt the new names that :meth:`read` found, where names are stored."""

    def actions(self, new: Pairs, top: int) -> list[Action]:
        """Return the actions that adopt the new names whose columns are below ``top``."""
        return []

    def name(self, column: int) -> Id:
        """Return the name of a column."""
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        """Return what :func:`features_from_json` reads."""
        raise NotImplementedError


class Columns(Features):
    """A fixed number of columns: rows are arrays, or mappings if the columns have names.

    >>> Columns(3).read([[1.0, 0.0, 2.0]])
    array([[1., 0., 2.]])
    """

    def __init__(self, n: int, names: Sequence[Any] | None = None) -> None:
        if n < 1 or (names is not None and len(names) != n):
            raise ValueError(f"{n} columns with {len(names or ())} names: give one name per column")
        self.width = int(n)
        self.names: tuple[Id, ...] | None = None
        if names is not None:
            self.names = tuple(map(partial(identity, "feature"), names))

    def read(self, rows: Any, new: New | None = None) -> Matrix:
        """Return the rows (n, d) of an array, a CSR matrix, a frame, or mappings by column name.

        ``new`` stays as it is: there are no new names.
        """
        _check_many(rows)
        if isinstance(rows, list | tuple) and rows and isinstance(rows[0], Mapping):
            return self._by_name(rows)
        if self.names is not None and hasattr(rows, "columns"):
            rows = self._in_order(rows)
        if hasattr(rows, "tocsr"):
            matrix = rows.tocsr()
            return self._fits(tidy(matrix.data, matrix.indices, matrix.indptr), matrix.shape)
        try:
            x = np.ascontiguousarray(rows, dtype=np.float64)
        except OverflowError:
            raise ValueError(
                f"features are numbers up to {LARGEST_FEATURE:g} in size; one is a whole number "
                "far beyond: scale or drop it"
            ) from None
        return self._fits(x, x.shape)

    def name(self, column: int) -> Id:
        """Return the column's name; its number where columns have none."""
        if self.names is None:
            return column
        return self.names[column]

    def to_json(self) -> dict[str, Any]:
        names = None
        if self.names is not None:
            names = list(map(to_json, self.names))
        return {"kind": "columns", "width": self.width, "names": names}

    def _fits(self, rows: Matrix, shape: tuple[int, ...]) -> Matrix:
        if len(shape) != 2 or shape[1] != self.width:
            raise ValueError(f"expected rows of {self.width} features; got shape {shape}")
        _check_numbers(rows, self.name)
        return rows

    def _in_order(self, frame: Any) -> Any:
        """Return a frame's columns in the order of the names, without columns of other names."""
        missing = [name for name in self.names or () if name not in frame.columns]
        if missing:
            raise ValueError(f"the frame has no column {', '.join(map(repr, missing))}")
        return frame[list(self.names or ())]

    def _by_name(self, rows: Sequence[Mapping[Any, Any]]) -> Matrix:
        if self.names is None:
            raise ValueError("these columns have no names: give arrays, or use features=Names()")
        known = {name: column for column, name in enumerate(self.names)}
        read = NamedMappings(known).read(rows)
        assert read is not None
        return Sparse(*read)


class NamedFeatures(Features):
    """Features of rows that are mappings, a pandas or Polars frame, or a file's block (abstract).

    A number is a feature of its name; other values are read by the schema that is inferred from
    the first rows that have them, see :mod:`romco.io.schema`: ``{"town": "Rome"}`` becomes
    ``"town=Rome"`` with value 1, a text its words. None, NaN and empty text are absent.
    """

    def __init__(self) -> None:
        self._column: New = {}  # of each name; none where names are hashed
        self._of_lexicon = LexiconColumns()
        self.cells: CellEncoder = CellEncoder()

    def read(self, rows: Any, new: New | None = None) -> Matrix:
        """Return sparse rows; the schema takes up their columns if they are to be learned."""
        if isinstance(rows, Sparse):
            return rows
        listed = isinstance(rows, list | tuple) and not isinstance(rows, Encoded)
        read = None
        if self.cells.schema is None and listed:  # perhaps plain numbers
            read = self.mappings(new).read(rows)
            if read is None and new is not None:
                new.clear()
        if read is None:
            rows = self.encode(rows, new is not None)
            read = self.mappings(new).read_encoded(rows, self._of_lexicon)
        sums = Sparse(*read)
        _check_numbers(sums, partial(self._name_with, new or {}))
        return sums

    def _name_with(self, new: New, column: int) -> Id:
        """Return the name of a column, which may be among the new ones."""
        for name, place in new.items():
            if place == column:
                return name
        return self.name(column)

    def encode(
        self,
        rows: Any,
        learning: bool,
        sample: int | None = SAMPLE_ROWS,
        unseen: bool = False,
    ) -> Encoded:
        """Return rows by name, as :meth:`read` takes them; others as of ``cells.prepare``."""
        if isinstance(rows, Encoded):
            return rows
        _check_many(rows)
        if isinstance(rows, np.ndarray) or hasattr(rows, "tocsr"):
            raise ValueError(
                "rows without names: give mappings or a frame, or use features=Columns(n)"
            )
        encoded = self.cells.prepare(rows, self._column, learning, sample, unseen)
        _check_numbers(encoded, encoded.lexicon.names.__getitem__)
        return encoded

    def mappings(self, new: New | None = None) -> Mappings:
        """Return a reader of mappings; without ``new`` it drops new names, but sees later ones."""
        raise NotImplementedError


class Names(NamedFeatures):
    """Columns by name, in order of appearance: a new name gets a new column.

    >>> names = Names()
    >>> new = {}
    >>> names.read([{"age": 7, "town": "Rome"}], new).columns
    array([0, 1], dtype=int32)
    >>> names.add(new)
    >>> names.name(1)
    'town=Rome'
    """

    def __init__(self, names: Iterable[Any] = ()) -> None:
        super().__init__()
        self._names = list(map(partial(identity, "feature"), names))  # in the order of columns
        self._column = {name: column for column, name in enumerate(self._names)}
        self._cache = NameCache()
        if len(self._column) < len(self._names):
            raise ValueError("a feature is named twice")

    @property
    def width(self) -> int:  # type: ignore[override]
        """Names known."""
        return len(self._column)

    @property
    def known(self) -> KeysView[Id]:  # type: ignore[override]
        """Names that have a column: a view that grows with them."""
        return self._column.keys()

    def add(self, new: New) -> None:
        self._column.update(new)

    def actions(self, new: Pairs, top: int) -> list[Action]:
        if not new:
            return []
        known, first = self.width, new[0][1]
        names = dict(new[known - first : max(top, known) - first])
        if not names:
            return []
        return [(self._column.update, names)]

    def without(self, columns: Sequence[int], given: Iterable[Any] = ()) -> "Names":
        """Return the same columns, some of them with names that say nothing.

        Columns of rows that were ``given`` stay in the schema.
        """
        names = list(self._listed())
        gone = list(map(names.__getitem__, columns))
        for column in columns:
            names[column] = forgotten_name(column, self._column)
        made = Names(names)
        made.cells = self.cells
        made.cells.forget(gone, names, given)
        return made

    def mappings(self, new: New | None = None) -> Mappings:
        return NamedMappings(self._column, new, True, self._cache)

    def name(self, column: int) -> Id:
        return self._listed()[column]

    def to_json(self) -> dict[str, Any]:
        names = self._listed()
        if set(map(type, names)) <= {str}:  # as they mostly are
            return {"kind": "names", "names": names[:]}
        return {"kind": "names", "names": list(map(to_json, names))}

    def _listed(self) -> list[Id]:
        """Return names by column; listed anew after names were added."""
        names = self._names
        if len(names) < len(self._column):
            self._names = names = list(self._column)
        return names


class Hashed(NamedFeatures):
    """Names hashed to columns, with a sign that makes collisions cancel.

    The same name has the same column and sign on every machine. Nothing is stored, so a column has
    no name of its own. ``size`` is a power of two from 2 to 2**30.

    >>> Hashed(16).read([{"age": 7, "town": "Rome"}]).columns
    array([ 3, 10], dtype=int32)
    """

    def __init__(self, size: int = 2**18) -> None:
        if size < 2 or size & (size - 1) or size > 2**30:
            raise ValueError(f"size must be a power of two from 2 to 2**30; got {size}")
        super().__init__()
        self.width = int(size)

    def mappings(self, new: New | None = None) -> Mappings:
        return HashedMappings(self.width, True)

    def name(self, column: int) -> Id:
        """Return the column's number behind a "#": names are not stored."""
        return f"#{column}"

    def to_json(self) -> dict[str, Any]:
        return {"kind": "hashed", "size": self.width}


def features_from_json(entry: Mapping[str, Any]) -> Features:
    """Restore the features that ``to_json`` described; ValueError where the kind is unknown."""
    if entry["kind"] == "columns":
        names = entry["names"]
        return Columns(entry["width"], names and list(map(from_json, names)))
    if entry["kind"] == "names":
        return Names(map(from_json, entry["names"]))
    if entry["kind"] == "hashed":
        return Hashed(entry["size"])
    raise ValueError(f"unknown kind of features {entry['kind']!r}")


# Rows of any kind


def count_rows(rows: Matrix | Encoded) -> int:
    """Return the number of rows; sparse matrices have no length."""
    if isinstance(rows, Sparse | Encoded):
        return len(rows.starts) - 1
    return int(rows.shape[0])


def needed_widths(rows: Matrix) -> NDArray[np.int64]:
    """Return the number of columns that rows 0 to i need, for each i."""
    return np.maximum.accumulate(row_widths(rows))


def row_widths(rows: Matrix) -> NDArray[np.int64]:
    """Return the number of columns (n,) that each row needs; 0 where all have the same."""
    top = np.zeros(count_rows(rows), dtype=np.int64)
    if isinstance(rows, Sparse):
        filled = np.diff(rows.starts) > 0
        top[filled] = rows.columns[rows.starts[1:][filled] - 1] + 1  # sorted: the last is largest
    return top


def share_unseen(rows: Matrix, width: int) -> Matrix:
    """Return rows whose columns from ``width`` on are numbered anew in each row.

    Nothing is known of these, so that they may be columns of several names.
    """
    if not isinstance(rows, Sparse):
        return rows
    n = count_rows(rows)
    row = np.repeat(np.arange(n), np.diff(rows.starts))
    known = rows.columns < width
    first = rows.starts[:-1] + np.bincount(row[known], minlength=n)
    place = width + np.arange(len(row)) - first[row]  # sorted: columns that are known come first
    columns = np.where(known, rows.columns, place).astype(np.int32)
    return rows._replace(columns=columns)


def cut(rows: Matrix, begin: int, end: int) -> Matrix:
    """Return rows begin to end."""
    if not isinstance(rows, Sparse):
        return rows[begin:end]
    if begin == 0 and end == len(rows.starts) - 1:
        return rows
    first, last = rows.starts[begin], rows.starts[end]
    return Sparse(
        rows.values[first:last], rows.columns[first:last], rows.starts[begin : end + 1] - first
    )


def as_matrix(rows: Sparse, width: int) -> "csr_array":
    """Return rows with ``width`` columns; what is stored beyond is dropped."""
    from scipy.sparse import csr_array  # here, so that `import romco` stays fast

    values, columns, starts = rows
    if len(columns) and columns.max() >= width:
        kept = columns < width
        starts = np.concatenate([[0], np.cumsum(kept)]).astype(np.int32)[starts]
        values, columns = values[kept], columns[kept]
    return csr_array((values, columns, starts), shape=(len(starts) - 1, width))


def select_rows(x: Any, at: NDArray[np.intp]) -> Any:
    """Return some rows of a list, a matrix, a frame or a file."""
    if isinstance(x, Encoded | Sparse):
        return x.at(at)
    if isinstance(x, list | tuple):
        return list(map(x.__getitem__, at))
    if hasattr(x, "iloc"):
        return x.iloc[at]
    if hasattr(x, "tocsr"):
        x = x.tocsr()
    return x[at]


def in_order(columns: NDArray[np.int32], starts: NDArray[np.int32]) -> bool:
    """Return whether rows in CSR form fit their arrays, and are sorted and free of duplicates."""
    n = len(columns)
    if not len(starts) or starts[0] != 0 or starts[-1] != n or (np.diff(starts) < 0).any():
        return False
    rising = np.diff(columns) > 0
    begins = starts[1:-1]
    rising[begins[(begins > 0) & (begins < n)] - 1] = True  # from one row to the next
    return bool(rising.all())


def tidy(values: NDArray[Any], columns: NDArray[Any], starts: NDArray[Any]) -> Sparse:
    """Sort each row by column and add entries of the same column; the input stays as it is."""
    values = np.ascontiguousarray(values, dtype=np.float64)
    columns = np.ascontiguousarray(columns, dtype=np.int32)
    starts = np.ascontiguousarray(starts, dtype=np.int32)
    if in_order(columns, starts):
        return Sparse(values, columns, starts)
    from scipy.sparse import csr_array  # here, so that `import romco` stays fast

    shape = len(starts) - 1, int(columns.max(initial=0)) + 1
    rows = csr_array((values, columns, starts), shape=shape, copy=True)
    rows.check_format()  # raises ValueError where it does not fit its arrays
    rows.sum_duplicates()
    return Sparse(rows.data, rows.indices, rows.indptr)


def _check_many(rows: Any) -> None:
    if isinstance(rows, Mapping):
        raise ValueError("expected rows, got a single mapping: put it in a list")


def _check_numbers(rows: Matrix | Encoded, name_of: Callable[[int], Any]) -> None:
    """Raise ValueError where a number is not finite, or too large to be learned."""
    if isinstance(rows, np.ndarray):
        values = rows
    else:
        values = rows.values
    low, high = values.min(initial=0.0), values.max(initial=0.0)  # a product would start threads
    if -low <= LARGEST_FEATURE and high <= LARGEST_FEATURE:
        return
    bad = ~(np.abs(values) <= LARGEST_FEATURE)  # NaN is bad, too
    value = values[bad][0]
    if isinstance(rows, np.ndarray):
        place, column = map(int, np.argwhere(bad)[0])
    else:
        at = int(np.flatnonzero(bad)[0])
        place, column = int(np.searchsorted(rows.starts, at, side="right")) - 1, int(rows[1][at])
    what = "is not finite"
    if np.isfinite(value):
        what = f"is {value:g}"
    raise ValueError(
        f"row {place}: feature {name_of(column)!r} {what}: features are numbers up to "
        f"{LARGEST_FEATURE:g} in size; scale, impute or drop it"
    )
