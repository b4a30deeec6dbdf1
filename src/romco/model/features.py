"""Features by column, by growing name, or by hashed name: outside rows to numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Protocol, final

import numpy as np

from romco.kernels.core.events import LARGEST_FEATURE
from romco.kernels.io.encoded import Encoded
from romco.kernels.io.mappings import HashedMappings, Mappings, NamedMappings
from romco.model.names import Effect, Id, all_to_json, from_json, identity, to_json
from romco.model.places import HashedPlaces, Places
from romco.model.rows import Rows, Sparse, tidy

New = dict[Id, int]


class Features(Protocol):
    """Turns the rows of outside events into rows of numbers."""

    @property
    def width(self) -> int:
        """Columns in use."""

    def read(self, rows: Any, new: New | None = None) -> Rows:
        """Rows of numbers. Names not seen before are added to ``new``, or dropped if it is None.

        Parameters
        ----------
        rows:
            As the kind of features has them.
        new:
            Takes the names not seen before, with their columns; None drops these.

        Returns
        -------
        :
            Rows of numbers (n, d), as an array or sparse.

        Raises
        ------
        ValueError
            Where a row cannot be read, or a number is not finite or too large.

        """

    def add(self, new: New) -> None:
        """Take over the new names that ``read`` found.

        Parameters
        ----------
        new:
            What :meth:`read` found.

        """

    def adding(self, new: New, top: int) -> list[Effect]:
        """What takes over those of them whose columns are below ``top``.

        Parameters
        ----------
        new:
            What :meth:`read` found.
        top:
            The first column that is not taken over.

        Returns
        -------
        :
            Functions and what to call them with; none where nothing is to be done.

        """

    def name(self, column: int) -> Id:
        """What a column is called.

        Parameters
        ----------
        column:
            Its number.

        Returns
        -------
        :
            Its name.

        """

    def to_json(self) -> dict[str, Any]:
        """Everything needed to make the same again.

        Returns
        -------
        :
            What :func:`features_from_json` reads; JSON can hold it.

        """


@final
class Columns:
    """A fixed number of columns: rows are arrays, or mappings if the columns have names.

    Parameters
    ----------
    n:
        How many.
    names:
        Of the columns, in their order.

    >>> Columns(3).read([[1.0, 0.0, 2.0]])
    array([[1., 0., 2.]])

    """

    def __init__(self, n: int, names: Sequence[Any] | None = None) -> None:
        if n < 1 or (names is not None and len(names) != n):
            raise ValueError(f"{n} columns with {len(names or ())} names: give one name per column")
        self.width = int(n)
        self.names = None if names is None else tuple(identity("feature", name) for name in names)

    def read(self, rows: Any, new: New | None = None) -> Rows:
        """Rows (n, d) of an array, a CSR matrix, a frame, or mappings by column name.

        Parameters
        ----------
        rows:
            An array (n, d), a CSR matrix, a frame, or mappings if the columns have names.
        new:
            Stays as it is: there are no new names.

        Returns
        -------
        :
            Rows of numbers (n, d), as an array or sparse.

        Raises
        ------
        ValueError
            Where a row cannot be read, or a number is not finite or too large.

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

    def add(self, new: New) -> None:
        """Columns are fixed: there is nothing to add.

        Parameters
        ----------
        new:
            What :meth:`read` found.

        """

    def adding(self, new: New, top: int) -> list[Effect]:
        """Columns are fixed: there is nothing to add.

        Parameters
        ----------
        new:
            What :meth:`read` found.
        top:
            The first column that is not taken over.

        Returns
        -------
        :
            Functions and what to call them with; none where nothing is to be done.

        """
        return []

    def name(self, column: int) -> Id:
        """The column's name, or its number.

        Parameters
        ----------
        column:
            Its number.

        Returns
        -------
        :
            Its name; its number where columns have none.

        """
        return column if self.names is None else self.names[column]

    def to_json(self) -> dict[str, Any]:
        """Everything needed to make the same again.

        Returns
        -------
        :
            What :func:`features_from_json` reads; JSON can hold it.

        """
        names = None if self.names is None else [to_json(name) for name in self.names]
        return {"kind": "columns", "width": self.width, "names": names}

    def _fits(self, rows: Rows, shape: tuple[int, ...]) -> Rows:
        if len(shape) != 2 or shape[1] != self.width:
            raise ValueError(
                f"expected rows of {self.width} features; got an array of shape {shape}"
            )
        _check_finite(rows, self.name)
        return rows

    def _in_order(self, frame: Any) -> Any:
        """A frame's columns in the order of the names; columns of other names are left out."""
        missing = [name for name in self.names or () if name not in frame.columns]
        if missing:
            raise ValueError(f"the frame has no column {', '.join(map(repr, missing))}")
        return frame[list(self.names or ())]

    def _by_name(self, rows: Sequence[Mapping[Any, Any]]) -> Rows:
        if self.names is None:
            raise ValueError("these columns have no names: give arrays, or use features=Names()")
        known = {name: column for column, name in enumerate(self.names)}
        return Sparse(*NamedMappings(known).read(rows))


@final
class Names:
    """Columns by name, in order of appearance: a new name gets a new column.

    A number is a feature of its name; text ``{"town": "Rome"}`` becomes the feature
    ``"town=Rome"`` with value 1; None is absent.

    Parameters
    ----------
    names:
        Names that have columns from the beginning.

    >>> names = Names()
    >>> new = {}
    >>> names.read([{"age": 7, "town": "Rome"}], new).columns
    array([0, 1], dtype=int32)
    >>> names.add(new)
    >>> names.name(1)
    'town=Rome'

    """

    def __init__(self, names: Iterable[Any] = ()) -> None:
        self._names = [identity("feature", name) for name in names]  # in the order of columns
        self._column = {name: column for column, name in enumerate(self._names)}
        self._places = Places()
        if len(self._column) < len(self._names):
            raise ValueError("a feature is named twice")

    @property
    def width(self) -> int:
        """Names known."""
        return len(self._column)

    def read(self, rows: Any, new: New | None = None) -> Rows:
        """Rows of mappings or of a frame; see the class for what values mean.

        Parameters
        ----------
        rows:
            Mappings by name, a pandas or Polars frame, the encoded rows of a file, or rows that
            :meth:`mappings` has read.
        new:
            Takes the names not seen before, with their columns; None drops these.

        Returns
        -------
        :
            Sparse rows of numbers.

        Raises
        ------
        ValueError
            Where a row cannot be read, or a number is not finite or too large.

        """
        if isinstance(rows, Sparse):
            return rows
        if isinstance(rows, Encoded):
            return _checked(self._places.read(rows, self._column, new), rows)
        return Sparse(*NamedMappings(self._column, new).read(_mappings(rows)))

    def add(self, new: New) -> None:
        """Take over new names.

        Parameters
        ----------
        new:
            What :meth:`read` found.

        """
        self._column.update(new)

    def adding(self, new: New, top: int) -> list[Effect]:
        """What takes over the new names whose columns are below ``top``.

        Parameters
        ----------
        new:
            What :meth:`read` found.
        top:
            The first column that is not taken over.

        Returns
        -------
        :
            Functions and what to call them with; none where nothing is to be done.

        """
        known, first = self.width, next(iter(new.values()), 0)
        met = dict(islice(new.items(), known - first, max(top, known) - first))
        return [(self._column.update, met)] if met else []

    def mappings(self) -> Mappings:
        """What reads single rows as :meth:`read` does, dropping new names.

        Returns
        -------
        :
            A reader that sees names added later.

        """
        return NamedMappings(self._column)

    def name(self, column: int) -> Id:
        """What a column is called.

        Parameters
        ----------
        column:
            Its number.

        Returns
        -------
        :
            Its name.

        """
        return self._listed()[column]

    def to_json(self) -> dict[str, Any]:
        """Everything needed to make the same again.

        Returns
        -------
        :
            What :func:`features_from_json` reads; JSON can hold it.

        """
        return {"kind": "names", "names": all_to_json(self._listed())}

    def _listed(self) -> list[Id]:
        """Names by column; listed anew after names were added."""
        names = self._names
        if len(names) < len(self._column):
            self._names = names = list(self._column)
        return names


@final
class Hashed:
    """Names hashed to columns, with a sign that makes collisions cancel.

    The same name has the same column and sign on every machine. Nothing is stored,
    so a column has no name of its own.

    Parameters
    ----------
    size:
        How many columns, a power of two.

    Raises
    ------
    ValueError
        Where it is none.

    >>> Hashed(16).read([{"age": 7, "town": "Rome"}]).columns
    array([ 3, 10], dtype=int32)

    """

    def __init__(self, size: int = 2**18) -> None:
        if size < 2 or size & (size - 1) or size > 2**30:
            raise ValueError(f"size must be a power of two from 2 to 2**30; got {size}")
        self.width = int(size)
        self._places = HashedPlaces(self.width)

    def read(self, rows: Any, new: New | None = None) -> Rows:
        """Rows of mappings or of a frame; values mean the same as in :class:`Names`.

        Parameters
        ----------
        rows:
            Mappings by name, a pandas or Polars frame, the encoded rows of a file, or rows that
            :meth:`mappings` has read.
        new:
            Stays as it is: there are no new names.

        Returns
        -------
        :
            Sparse rows of numbers.

        Raises
        ------
        ValueError
            Where a row cannot be read, or a number is not finite or too large.

        """
        if isinstance(rows, Sparse):
            return rows
        if isinstance(rows, Encoded):
            return _checked(self._places.read(rows), rows)
        return Sparse(*HashedMappings(self.width).read(_mappings(rows)))

    def add(self, new: New) -> None:
        """Nothing is stored.

        Parameters
        ----------
        new:
            What :meth:`read` found.

        """

    def adding(self, new: New, top: int) -> list[Effect]:
        """Nothing is stored.

        Parameters
        ----------
        new:
            What :meth:`read` found.
        top:
            The first column that is not taken over.

        Returns
        -------
        :
            Functions and what to call them with; none where nothing is to be done.

        """
        return []

    def mappings(self) -> Mappings:
        """What reads single rows as :meth:`read` does.

        Returns
        -------
        :
            A reader.

        """
        return HashedMappings(self.width)

    def name(self, column: int) -> Id:
        """The column's number: names are not stored.

        Parameters
        ----------
        column:
            Its number.

        Returns
        -------
        :
            Its number behind a "#".

        """
        return f"#{column}"

    def to_json(self) -> dict[str, Any]:
        """Everything needed to make the same again.

        Returns
        -------
        :
            What :func:`features_from_json` reads; JSON can hold it.

        """
        return {"kind": "hashed", "size": self.width}


def features_from_json(found: Mapping[str, Any]) -> Features:
    """The features that ``to_json`` described.

    Parameters
    ----------
    found:
        What ``to_json`` gave.

    Returns
    -------
    :
        Features of the same kind and columns.

    Raises
    ------
    ValueError
        Where the kind is unknown.

    >>> features_from_json({"kind": "hashed", "size": 8}).width
    8

    """
    if found["kind"] == "columns":
        names = found["names"]
        return Columns(found["width"], names and [from_json(name) for name in names])
    if found["kind"] == "names":
        return Names(from_json(name) for name in found["names"])
    if found["kind"] == "hashed":
        return Hashed(found["size"])
    raise ValueError(f"unknown kind of features {found['kind']!r}")


def _mappings(rows: Any) -> Sequence[Mapping[Any, Any]]:
    """Rows as mappings: of a pandas or Polars frame, or as they are."""
    if isinstance(rows, list | tuple):
        return rows
    _check_many(rows)
    if hasattr(rows, "to_dicts"):
        return rows.to_dicts()
    if hasattr(rows, "to_dict"):
        return _records(rows)
    if isinstance(rows, np.ndarray) or hasattr(rows, "tocsr"):
        raise ValueError("rows without names: give mappings or a frame, or use features=Columns(n)")
    return list(rows)


def _records(frame: Any) -> Sequence[Mapping[Any, Any]]:
    """Rows of a pandas frame; missing text, which is NaN there, becomes None, that is absent."""
    gaps = [c for c in frame.columns if frame[c].dtype.kind == "O" and frame[c].hasnans]
    if gaps:
        frame = frame.copy()
        for column in gaps:
            text = frame[column].astype(object)
            frame[column] = text.where(text.notna(), None)
    return frame.to_dict("records")


def _check_many(rows: Any) -> None:
    if isinstance(rows, Mapping):
        raise ValueError("expected rows, got a single mapping: put it in a list")


def _checked(found: Sparse, rows: Encoded) -> Sparse:
    """Rows of a file, if their numbers can be learned."""
    if len(rows.values) and np.abs(rows.values).max() > LARGEST_FEATURE:
        at = int(np.argmax(np.abs(rows.values)))
        place = int(np.searchsorted(rows.starts, at, side="right")) - 1
        raise ValueError(
            f"row {place}: feature {rows.lexicon.names[rows.names[at]]!r} is {rows.values[at]}: "
            f"features are numbers up to {LARGEST_FEATURE:g} in size; scale or drop it"
        )
    return found


def _check_finite(rows: Rows, name: Any) -> None:
    values = rows.values if isinstance(rows, Sparse) else rows
    if np.vdot(values, values) <= LARGEST_FEATURE**2:  # one look at all of them, mostly enough
        return
    bad = ~(np.abs(values) <= LARGEST_FEATURE)  # NaN is bad, too
    if not bad.any():
        return
    if isinstance(rows, Sparse):
        at = int(np.flatnonzero(bad)[0])
        place, column = int(np.searchsorted(rows.starts, at, side="right")) - 1, rows.columns[at]
    else:
        place, column = (int(i) for i in np.argwhere(bad)[0])
    what = "is not finite" if not np.isfinite(values[bad]).all() else "is too large"
    raise ValueError(
        f"row {place}: feature {name(int(column))!r} {what}: features are numbers up to "
        f"{LARGEST_FEATURE:g} in size; scale, impute or drop it"
    )
