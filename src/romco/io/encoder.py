"""Encoding of rows as numbers of names, by a schema that is inferred as columns come."""

import warnings
from collections.abc import Container, Iterable, Mapping
from itertools import chain
from typing import Any

import numpy as np

from romco.io.cells import BadCell, encode_cell
from romco.io.formats import Sample
from romco.io.frames import SAMPLE_ROWS, category_columns, column_types, quoted, rows_of
from romco.io.inference import MAX_REPORTED_COLUMNS, MIN_TEXT_WORDS, Column
from romco.io.schema import Schema
from romco.kernels.io.encoded import Encoded
from romco.kernels.io.encoder import Encoder, only_numbers
from romco.kernels.io.lexicon import Lexicon

MAX_NAMES = 2**20  # kept; beyond it names are dropped and found again, so that memory is bounded
# Of which a model warns when it learns a column in Python.
MEANINGS_WARNED_OF = ("id-like", "comma or sign", "number or category", "numbers as text")


def encode_rows(
    rows: Iterable[Mapping[Any, Any]],
    schema: Schema,
    encoder: Encoder | None = None,
) -> Encoded:
    """Encode mappings by compiled code, as :meth:`Schema.encode`; ValueError names the cell."""
    encoder = encoder or Encoder(encode_cell, Lexicon(), schema.columns)
    roles, features, ends = schema.roles, schema.features, [0]
    for at, row in enumerate(rows):
        try:
            ends.append(encoder.add_row(row, roles, features))
        except BadCell as bad:
            hint = ""
            column = schema.columns.get(bad.column)
            if column is not None and column.reason != "set":
                kind = _KIND_HINT.format(name=bad.column, kind="category")
                hint = f", as in earlier events: leave the cell out, or {kind}"
            raise ValueError(f"row {at}: {bad}{hint}") from None
        except ValueError as error:
            raise ValueError(f"row {at}: {error}") from None
    values, names = encoder.take()
    return Encoded(values, names, np.array(ends, dtype=np.int64), encoder.lexicon)


_KIND_HINT = "name its kind before learning, as Model(schema=romco.Schema({{{name!r}: {kind!r}}}))"


class CellEncoder:
    """Encoder of rows that come as mappings or frames, for a model's features.

    Rows of plain numbers need no schema: each number is a feature of its name. Once other values
    come, columns are inferred from the rows of that call, as from the first rows of a file, and
    keep their kind.
    """

    def __init__(self) -> None:
        self.schema: Schema | None = None  # None while rows are plain numbers
        self.required: tuple[str, ...] = ()  # columns that the first rows learned must have
        self._lexicon = Lexicon()
        self._reported: set[str] = set()  # unknown and missing columns that were warned of
        self._by_one_event: set[str] = set()  # columns whose kind one event decided
        self._of_one: tuple[Encoder, Schema, Mapping[str, Column]] | None = None

    def prepare(
        self,
        rows: Any,
        names: Container[Any],
        learning: bool,
        sample: int | None = SAMPLE_ROWS,
        unseen: bool = False,
    ) -> Encoded:
        """Return rows encoded.

        A number whose name is among ``names`` is a feature, whatever the schema. Kinds of new
        columns are inferred from the first ``sample`` rows, None: from all. Where rows are not
        learned, columns that are not known are left out, unless ``unseen`` ones are asked for.
        """
        listed = isinstance(rows, list | tuple)
        kinds = category_columns(rows)
        if not listed and not learning and self.schema is not None:
            self._report_missing(dict(column_types(rows)))
        if not listed:
            rows = rows_of(rows)
        if learning and self.required:
            self._check_required(rows)
        if len(self._lexicon) > MAX_NAMES:  # so that memory is bounded
            self._lexicon = Lexicon()
        plain = self.schema is None and (not learning or (listed and only_numbers(rows)))
        schema = self.schema or Schema(complete=not plain)
        if learning and not plain:
            schema = self._extended(schema, rows, names, kinds, sample)
        numbers = None
        if schema.complete and not learning and not unseen:
            numbers = names
        encoder = Encoder(encode_cell, self._lexicon, schema.columns, numbers)
        encoded = encode_rows(rows, schema, encoder)
        self._report(encoder.skipped)
        if learning and not plain:
            self._adopt(schema, rows)
        return encoded

    def forget(self, gone: Iterable[Any], left: Iterable[Any], given: Iterable[Any]) -> None:
        """Forget columns of features that are gone, unless features that are left have them.

        Columns that were ``given`` stay, and those whose kind was set.
        """
        self._lexicon = Lexicon()
        if self.schema is None:
            return
        schema = self.schema.copy()
        inferred = {name for name, column in schema.columns.items() if column.reason != "set"}
        inferred -= set(given)
        used = set[str]()
        for name in left:
            used |= _columns_of(name, inferred)
        for name in gone:
            for column in _columns_of(name, inferred) - used:
                schema.columns.pop(column, None)
        self.schema = schema

    def _check_required(self, rows: Any) -> None:
        """Raise ValueError where no row has a column that is required."""
        there = dict.fromkeys(chain.from_iterable(row for row in rows if isinstance(row, Mapping)))
        missing = [name for name in self.required if name not in there]
        if missing and there:
            raise ValueError(
                f"no row has the column {quoted(missing)} that history= or time= names; "
                f"there are {quoted(there)}"
            )
        self.required = ()

    def encoder_of_one(self) -> tuple[Encoder, Schema, Mapping[str, Column]] | None:
        """Return an encoder for single rows of known columns; None where there is no schema.

        With it come the schema, and the columns whose numbers need no encoder.
        """
        schema, kept = self.schema, self._of_one
        if schema is None or len(self._lexicon) > MAX_NAMES:
            return None
        if kept is None or kept[0].lexicon is not self._lexicon or kept[1] is not schema:
            columns = schema.columns
            if schema.features is not None or not schema.roles.isdisjoint(columns):
                columns = {}
            encoder = Encoder(encode_cell, self._lexicon, schema.columns)
            self._of_one = kept = encoder, schema, columns
        return kept

    def _extended(
        self,
        schema: Schema,
        rows: Any,
        names: Container[Any],
        kinds: Mapping[str, str],
        sample: int | None,
    ) -> Schema:
        """Return the schema with the columns of rows that it does not have yet."""
        # Others are refused later; to ask for a Mapping takes long.
        rows = [row for row in rows if type(row) is dict or isinstance(row, Mapping)]
        found = set(schema.features or ())
        if schema.features is None:
            found.update(*rows)
        new = {
            name for name in found - schema.columns.keys() - schema.roles if isinstance(name, str)
        }
        if not new:
            return schema
        cells = rows[:sample]
        if len(new) < len(found):
            cells = [{name: row[name] for name in row if name in new} for row in cells]
        schema = schema.copy()
        numbers = {name: "number" for name in new if name in names}
        schema.extend(Sample(rows=cells, kinds=kinds), numbers)
        return schema

    def _adopt(self, schema: Schema, rows: Any) -> None:
        """Keep the schema of rows that were learned; warn of what may not be meant."""
        new = dict(schema.columns)
        if self.schema is not None:
            for name in self.schema.columns:
                new.pop(name, None)
        self.schema = schema
        for column in new.values():
            if column.warning and column.meaning in MEANINGS_WARNED_OF:
                warnings.warn(column.warning, UserWarning, stacklevel=2)
        if len(rows) != 1:
            return
        for name, value in rows[0].items():
            if name not in self._by_one_event or not isinstance(value, str):
                continue
            if value.count(" ") + 1 < MIN_TEXT_WORDS:
                continue
            self._by_one_event.discard(name)
            text = f"column {name!r} is a category by its first event, but {value[:60]!r} is text"
            hint = _KIND_HINT.format(name=name, kind="text")
            warnings.warn(f"{text}: {hint}", UserWarning, stacklevel=2)
        for name, column in new.items():
            if column.kind == "category":
                self._by_one_event.add(name)

    def _report_missing(self, columns: Iterable[Any]) -> None:
        """Warn of columns that were learned and are not in a frame, each once."""
        assert self.schema is not None
        there = frozenset(columns)
        if not there:
            return
        new = self._not_yet_reported(name for name in self.schema.used if name not in there)
        if new:
            text = f"the frame has no column {quoted(new)}, which the model has learned"
            warnings.warn(f"{text}: it is taken as empty", UserWarning, stacklevel=2)

    def _not_yet_reported(self, names: Iterable[str]) -> list[str]:
        new = [name for name in names if name not in self._reported]
        new = new[: max(0, MAX_REPORTED_COLUMNS - len(self._reported))]
        self._reported.update(new)
        return new

    def _report(self, names: Iterable[str]) -> None:
        """Warn of columns that are not known, each once."""
        if self.schema is None:
            return
        new = self._not_yet_reported(names)
        if new:
            unknown = ", ".join(self.schema.unknown(new))
            text = f"the model has not learned column {unknown}: it is not used"
            warnings.warn(text, UserWarning, stacklevel=2)


def _columns_of(name: Any, columns: Container[str]) -> set[str]:
    """Return the columns that a feature may come from: its name, or what is before = : or a dot."""
    if not isinstance(name, str):
        return set()
    found = set()
    for k, mark in enumerate(name):
        if mark in "=:." and name[:k] in columns:
            found.add(name[:k])
    if name in columns:
        found.add(name)
    return found
