"""Schema of a table: how each column is read, and which is the task, label, weight, offset.

One object for files, frames, mappings, estimators and the service. It is inferred from the first
rows, printed, stored in the model file, and usable alone::

    schema = romco.Schema.infer("clicks.csv", task="user", label="clicked")
    print(schema)
    schema.encode({"age": 41, "town": "Rome", "at": "2024-02-29 13:05"})

A cell that is empty, None, NaN, NA, n/a or null gives no feature. By the kind of the column:

========  =======================================================================
number    a feature named as the column; true and false are 1 and 0
category  "column=value" with value 1
text      "column:word", lower case, log(1 + count), scaled to length 1
date      "column.month=02", "column.weekday=Thu", "column.hour=13"; day: no hour
free      each cell decides: a number, else a category; nested JSON gets dotted names
ignored   nothing
time      seconds or a date; no feature, but how long ago labels of the task came
========  =======================================================================
"""

import datetime
import re
import warnings
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from romco.io.cells import (
    ENCODERS,
    BadCell,
    Values,
    encode_cell,
    is_missing,
    number_of,
    parse_date,
    plain_value,
)
from romco.io.formats import Owns, Sample, TaskFilter, read_sample
from romco.kernels.io.encoded import Encoded
from romco.kernels.io.encoder import Encoder, only_numbers
from romco.kernels.io.lexicon import Lexicon

SAMPLE_ROWS = 1000  # rows from which kinds are inferred
MIN_ROWS_RARE_LABEL = 100  # from which on a label that occurs once may be a mistake
MAX_CODES = 20  # whole numbers up to which a column of numbers and text is one of codes
MIN_NUMBER_SHARE = 0.9  # of cells, from which on text among numbers may be a mistake
MIN_TEXT_WORDS = 4  # of a cell, from which on a column is text
MIN_ROWS_CONSTANT = 20  # below, no column is called constant or id-like
MIN_ROWS_ID_TEXT = 50  # below, no column of text is called id-like
MAX_PRINTED_COLUMNS = 30
MAX_GROUPINGS = 8  # columns that a task may be given by
MAX_REPORTED_COLUMNS = 20  # unknown or missing ones that a model warns of
MAX_COMPARED_COLUMNS = 1000  # known ones that the name of an unknown one is compared with
MAX_NAMES = 2**20  # kept; beyond it names are dropped and found again, so that memory is bounded
CATEGORY_TYPES = ("category", "categorical", "dictionary<", "enum")  # how their names begin
ROLES = ("task", "label", "weight", "offset")  # columns that are no features
_DECIMAL_COMMA = re.compile(r"[+-]?(?:\d+|\d{1,3}(?:\.\d{3})+),\d+")  # 1,5 and 1.234,5
_ID_NAME = re.compile(r"(?i:(?:|.*[_\W])(?:id|uuid|guid|key|index|hash))|[a-z0-9]+(?:Id|ID|UUID)")


# Of which a model warns when it learns a column in Python.
MEANINGS_WARNED_OF = ("id-like", "decimal comma", "number or category", "numbers as text")


class Column(NamedTuple):
    """Kind of a column, and why it was chosen."""

    kind: str  # a key of ``ENCODERS``
    meaning: str  # for people: number, category, id-like, constant, ...
    reason: str
    warning: str | None = None


class Schema:
    """Kinds of the columns of a table, and which is the task, label, weight, offset.

    Columns not listed are read as "free"; ``features`` names those to use, None uses all. With
    several columns as ``task`` the first is the task, and each value of the others is a feature.
    With ``one_task`` all events are of one task, "all". Where the list is ``complete``, any other
    column is unknown. ``offset`` is a column or, by class, one for each.

    >>> schema = Schema({"zip": "category", "says": "text"}, task="user", label="clicked")
    >>> schema.encode({"user": "ann", "zip": 10115, "says": "Hi", "age": "7", "size": None})
    {'zip=10115': 1.0, 'says:hi': 1.0, 'age': 7.0}
    """

    def __init__(
        self,
        columns: Mapping[str, str | Column] | None = None,
        *,
        task: str | Sequence[str] | None = None,
        label: str | None = None,
        weight: str | None = None,
        offset: str | Mapping[str, str] | None = None,
        features: Sequence[str] | None = None,
        one_task: bool = False,
        complete: bool = False,
    ) -> None:
        task, self.groupings = split_groupings(task)
        self.task, self.label, self.weight, self.offset = task, label, weight, offset
        self.one_task = one_task
        self.features = None
        if features is not None:
            self.features = tuple(dict.fromkeys((*features, *self.groupings)))
        self.columns: dict[str, Column] = {}
        self.complete = complete
        self.sample: Sequence[Mapping[str, Any]] = ()  # rows it was inferred from; not stored
        self.separator: str | None = None  # of the file's columns, where it is unusual; not stored
        self.warnings: tuple[str, ...] = ()  # what is suspicious in the sample; not stored
        for name, column in (columns or {}).items():
            self.add(name, column if isinstance(column, Column) else Column(column, column, "set"))
        named: dict[str, str] = {}
        offsets = [("offset", name) for name in self.offset_columns]
        for role, name in [*((role, getattr(self, role)) for role in ROLES[:3]), *offsets]:
            if name in named:
                raise ValueError(f"column {name!r} cannot be both the {named[name]} and the {role}")
            named |= {} if name is None else {name: role}

    @classmethod
    def infer(
        cls,
        source: Any,
        *,
        task: str | Sequence[str] | None = None,
        label: str | None = None,
        weight: str | None = None,
        offset: str | Mapping[str, str] | None = None,
        features: Sequence[str] | None = None,
        kinds: Mapping[str, str] | None = None,
        one_task: bool = False,
        format: str | None = None,
        sample_rows: int = SAMPLE_ROWS,
        chosen: Owns | None = None,
    ) -> Self:
        r"""Infer a schema from the first 1,000 rows of a file, a frame or a list of mappings.

        ``source`` is a path, "-" for stdin, a binary stream, rows as mappings, or a pandas, Polars
        or Arrow table; a pipe is looked into as far as it has come. ``kinds`` are not inferred.
        Of a file only rows of ``chosen`` tasks are looked at.
        Raises ValueError if a column that is named is not there.

        >>> import io
        >>> table = io.BytesIO(b"user,age,at,clicked\nann,7,2024-05-01,yes\n")
        >>> Schema.infer(table, task="user", label="clicked", format="csv").kinds
        {'age': 'number', 'at': 'day'}
        """
        sample = Sample(rows=[])
        where = ""
        roles: dict[str, Any] = {"label": label, "weight": weight, "offset": offset}
        roles["task"] = None if one_task else task
        if isinstance(source, str | Path) or hasattr(source, "read"):
            asked = cls(**roles)
            columns = *asked.task_columns, label or "", *asked.number_roles
            wanted = list(filter(None, (*columns, *(features or ()), *(kinds or ()))))
            sample = read_sample(source, format, wanted, sample_rows, asked.filter(chosen))
            where = f"{sample.name}: "
        else:
            sample = Sample(rows=rows_of(source, sample_rows), kinds=category_columns(source))
        rows = sample.rows
        complete = bool(rows) and not sample.fixed
        made = cls(**roles, features=features, one_task=one_task, complete=complete)
        made.sample, made.separator = rows, sample.separator
        if not sample.fixed:  # else indices and numbers: nothing to infer
            made.extend(sample, kinds)
        there = made.sample_columns
        missing = [name for name in kinds or () if rows and name not in there]
        if missing:
            raise ValueError(f"{where}no column {quoted(missing)}; there are {quoted(there)}")
        made.warnings = tuple(made._suspicions(sample))
        return made

    def filter(self, chosen: Owns | None) -> TaskFilter | None:
        """Return the filter of rows whose task is chosen; None if all are."""
        columns = self.task_columns
        return TaskFilter(columns, chosen) if chosen is not None and columns else None

    def extend(self, sample: "Sample", kinds: Mapping[str, str] | None = None) -> None:
        """Add the columns of a sample that are not known yet.

        ``kinds`` are not inferred, nor those that the sample itself has.
        """
        kinds = kinds or {}
        cells: dict[str, list[Any]] = {name: [] for name in self.features or ()}
        places: dict[str, list[int]] = {name: [] for name in cells}
        for place, row in enumerate(sample.rows):
            for name, cell in row.items():
                if self.features is None or name in cells:
                    cells.setdefault(name, []).append(cell)
                    places.setdefault(name, []).append(place)
        roles = self.roles
        for name in dict.fromkeys((*cells, *kinds)):
            if name in self.columns or name in roles:
                continue
            values = cells.get(name, [])
            if name in self.groupings:
                column = Column("category", "grouping", f"{len(set(values)):,} levels")
            elif name in kinds:
                column = _as_asked(name, kinds[name], values, "as asked")
            elif name in sample.kinds:
                column = _as_asked(name, sample.kinds[name], values, "by its type")
            else:
                column = infer_column(name, values, typed=sample.typed)
                column = _with_stray_text(column, name, values, places[name], sample)
            self.add(name, column)
        if self.features is not None:
            self.features = tuple(dict.fromkeys((*self.features, *kinds)))

    def add(self, name: str, column: Column) -> None:
        """Add a column, or replace how it is read."""
        if column.kind not in ENCODERS:
            known = ", ".join(ENCODERS)
            raise ValueError(f"column {name!r}: no kind {column.kind!r}; there are {known}")
        self.columns[name] = column

    @property
    def kinds(self) -> dict[str, str]:
        """Kind of each column."""
        return {name: column.kind for name, column in self.columns.items()}

    @property
    def roles(self) -> frozenset[str | None]:
        """Columns that are no features."""
        own = self.task_columns[-1:]
        return frozenset((self.task, *own, self.label, *self.number_roles))

    @property
    def task_columns(self) -> tuple[str, ...]:
        """Columns of a file that the task is made of: two where "school/class" is nested."""
        parent, _, own = (self.task or "").rpartition("/")
        nested = parent in self.groupings
        return (parent, own) if nested else () if self.task is None else (self.task,)

    @property
    def number_roles(self) -> list[str]:
        """Columns of numbers that are no features: weight and offsets."""
        return [*([] if self.weight is None else [self.weight]), *self.offset_columns]

    @property
    def offset_columns(self) -> list[str]:
        """Columns of offsets, of classes one each."""
        offset = self.offset or {}
        return [offset] if isinstance(offset, str) else list(offset.values())

    @property
    def time(self) -> str | None:
        """The column of the event's time, which history features use; None if there is none."""
        return next((name for name, column in self.columns.items() if column.kind == "time"), None)

    @property
    def sample_columns(self) -> list[str]:
        """All columns of the sample."""
        return list(dict.fromkeys(chain.from_iterable(self.sample)))

    @property
    def used(self) -> list[str]:
        """Columns that give features."""
        return [name for name, column in self.columns.items() if column.kind != "ignored"]

    def encode(self, row: Mapping[str, Any]) -> Values:
        """Return the features of one row by name: the reference of the compiled encoder.

        Raises BadCell if a cell cannot be read as its column is.
        """
        features: Values = {}
        roles, columns = self.roles, self.columns
        for name in row if self.features is None else self.features:
            if name not in roles:
                kind = columns[name].kind if name in columns else "free"
                ENCODERS[kind](name, row.get(name), features)
        return features

    def unknown(self, names: Iterable[Any]) -> list[str]:
        """Describe columns that the schema does not have, each with names close to it."""
        import difflib  # here, so that `import romco` stays fast

        found, roles = [], self.roles
        known = list(map(str, islice(self.columns, MAX_COMPARED_COLUMNS)))
        for name in names:
            if name not in self.columns and name not in roles:
                close = difflib.get_close_matches(str(name), known, 3)
                hint = f" (did you mean {quoted(close, ' or ')}?)" if close else ""
                found.append(f"{name!r}{hint}")
        return found

    def difference(self, other: "Schema") -> str | None:
        """Return what another schema has otherwise, or None if rows are read alike by both."""
        for part in (*ROLES, "groupings", "features", "one_task"):
            if getattr(self, part) != getattr(other, part):
                return f"{part} {getattr(self, part)!r}, not {getattr(other, part)!r}"
        for name, column in other.columns.items():
            mine = self.columns.get(name)
            if mine is not None and mine.kind != column.kind:
                return f"column {name!r} as {mine.kind}, not as {column.kind}"
        return None

    def to_json(self) -> dict[str, Any]:
        """Return roles and kinds, for :meth:`from_json`; reasons are those of one sample."""
        roles = {part: getattr(self, part) for part in ROLES if self.offset or part != "offset"}
        listed = None if self.features is None else list(self.features)
        columns = {name: [column.kind, column.meaning] for name, column in self.columns.items()}
        if self.groupings:
            roles["groupings"] = list(self.groupings)
        rest = {"one_task": self.one_task, "complete": self.complete, "features": listed}
        return {**roles, **rest, "columns": columns}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Return the schema that :meth:`to_json` described; ValueError where none could have."""
        try:
            columns = {
                _text_of(name): Column(_text_of(kind), _text_of(meaning), "as learned")
                for name, (kind, meaning) in stored["columns"].items()
            }
            roles = {part: _text_of(stored.get(part), None) for part in ROLES[:3]}
            roles["offset"] = stored.get("offset") or None
            listed = stored.get("features")
            if not isinstance(listed, list | None):
                raise TypeError(f"expected a list of columns, got {listed!r}")
            features = None if listed is None else [_text_of(name) for name in listed]
            complete = bool(stored.get("complete"))
            one_task = bool(stored.get("one_task"))
            made = cls(columns, **roles, features=features, one_task=one_task, complete=complete)
            made.groupings = tuple(_text_of(name) for name in stored.get("groupings", ()))
            _ = [_text_of(name) for name in made.offset_columns]  # TypeError where one is no text
        except (TypeError, AttributeError, KeyError, ValueError) as error:
            raise ValueError(f"no schema: {error}") from None
        return made

    @classmethod
    def from_session(cls, session: Mapping[str, Any]) -> Self | None:
        """Return the schema that a model file keeps; None if none."""
        stored = session.get("schema")
        return None if stored is None else cls.from_json(stored)

    def store(self, session: dict[str, Any], name: str) -> None:
        """Keep the schema in what a model file stores; ValueError if it contradicts that."""
        known = Schema.from_session(session)
        difference = None if known is None else known.difference(self)
        if difference is not None:
            raise ValueError(
                f"{name} was learned with {difference}: use the same columns, or another model file"
            )
        session["schema"] = self.to_json()

    def copy(self) -> Self:
        """Return a schema to be extended, without the sample."""
        made = Schema.__new__(type(self))
        made.__dict__.update(vars(self), columns=dict(self.columns), sample=(), warnings=())
        return made

    def __str__(self) -> str:
        """Return the table that ``romco learn`` prints."""
        shown = list(self.columns.items())[:MAX_PRINTED_COLUMNS]
        width = min(max((len(name) for name, _ in shown), default=0), 40)
        lines = [f"  {name:{width}}  {column.meaning:9}  {column.reason}" for name, column in shown]
        if len(self.columns) > len(shown):
            rest = list(self.columns.values())[len(shown) :]
            counts = Counter(column.meaning for column in rest)
            lines.append("  and " + ", ".join(f"{n:,} {what}" for what, n in counts.items()))
        return "\n".join([self._title(), *lines])

    def _title(self) -> str:
        roles = {part: getattr(self, part) for part in ROLES}
        named = ", ".join(f"{role} {name!r}" for role, name in roles.items() if name is not None)
        of = f" ({named})" if named else ""
        rows = f", as read from the first {len(self.sample):,} rows" if self.sample else ""
        apart = f", separated by {self.separator!r}" if self.separator else ""
        return f"columns{of}{rows}{apart}:"

    def __repr__(self) -> str:
        roles = {part: getattr(self, part) for part in ROLES}
        parts = [f"{role}={name!r}" for role, name in roles.items() if name is not None]
        return f"Schema({', '.join([repr(self.kinds), *parts])})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> Any:
        return Schema.from_json, (self.to_json(),)

    def _suspicions(self, sample: "Sample") -> Iterable[str]:
        """Warnings of single columns, of rare labels, and of columns that hold the label itself."""
        yield from (column.warning for column in self.columns.values() if column.warning)
        rows = sample.rows
        label = self.label or ""
        labels = [str(row[label]).strip() for row in rows if label in row]
        if len(set(labels)) < 2:
            return
        if len(labels) == len(rows):
            yield from _rare_labels(labels, sample)
        for name in self.used:
            cells = [str(row.get(name)).strip() for row in rows if name in row]
            if cells == labels:
                yield (
                    f"column {name!r} has the label itself in all {len(cells):,} rows looked at: "
                    f"--ignore {name} unless it is known before the label is"
                )


def split_groupings(task: str | Sequence[str] | None) -> tuple[str | None, tuple[str, ...]]:
    """Return the column of the task, and those of further groupings.

    >>> split_groupings(["lecturer", "student"])
    ('lecturer', ('student',))
    """
    names = (task,) if task is None or isinstance(task, str) else tuple(task)
    if len(set(names)) < len(names) or (None in names[1:]):
        raise ValueError(f"groupings must be different columns; got {list(names)}")
    return (names[0], names[1:]) if names else (None, ())


def take_groupings(
    rows: Any, names: Sequence[str]
) -> tuple[list[dict[Any, Any]], list[Any], tuple[str, tuple[str, ...]]]:
    """Take tasks and groupings out of rows that have them as columns.

    "school/class" is a class within its school: it becomes two groupings, itself and "school".
    Returns rows in which further groupings are text, the task of each, and the names of the
    groupings.

    >>> take_groupings([{"school": "A", "class": 1, "age": 7}], ["school/class"])
    ([{'age': 7, 'school': 'A'}], ['A/1'], ('school/class', ('school',)))
    """
    found = rows_of(rows)
    columns = set().union(*map(set, found[:SAMPLE_ROWS])) if len(found) else set()
    parts = expand_groupings(names, columns)
    task, *groupings = parts
    used = {column for split in parts.values() for column in split}
    made, tasks = [], []
    for at, row in enumerate(found):
        levels = {
            name: [plain_value(row.get(column)) for column in split]
            for name, split in parts.items()
        }
        texts = {
            name: None if any(map(is_missing, cells)) else "/".join(map(str, cells))
            for name, cells in levels.items()
        }
        if texts[task] is None:
            raise ValueError(f"row {at}: no value of {task!r}, which is its task")
        tasks.append(levels[task][0] if len(parts[task]) == 1 else texts[task])
        rest = {column: cell for column, cell in row.items() if column not in used}
        made.append(rest | {name: texts[name] for name in groupings})
    return made, tasks, (task, tuple(groupings))


def expand_groupings(
    names: Sequence[str], columns: Container[str] = ()
) -> dict[str, tuple[str, ...]]:
    """Return the groupings that names stand for, and the columns that each consists of.

    >>> expand_groupings(["school/class"])
    {'school/class': ('school', 'class'), 'school': ('school',)}
    """
    parts: dict[str, tuple[str, ...]] = {}
    for name in names:
        split = (name,) if name in columns else tuple(name.split("/"))
        parts |= {"/".join(split[:k]): split[:k] for k in range(len(split), 0, -1)}
    return parts


def schema_of_groupings(names: Sequence[str]) -> Schema:
    """Return a schema in which further groupings are categories, however their levels look."""
    first, *rest = names
    return Schema(dict.fromkeys(rest, "category"), task=[first, *rest], complete=True)


def names_columns(rows: Any, task: Any) -> bool:
    """Return whether ``task`` lists columns of rows, instead of the task of each row."""
    if not isinstance(task, list | tuple) or not 0 < len(task) <= MAX_GROUPINGS:
        return False
    if not all(isinstance(name, str) for name in task):
        return False
    columns = getattr(rows, "columns", None)
    if columns is None and isinstance(rows, list | tuple) and rows and isinstance(rows[0], Mapping):
        columns = rows[0]
    if columns is None:
        return False
    return all(name in columns or all(part in columns for part in name.split("/")) for name in task)


def rows_of(source: Any, most: int | None = None) -> Sequence[Mapping[str, Any]]:
    """Return the rows of a frame (pandas, Polars, Arrow) or of an iterable as mappings."""
    if isinstance(source, Mapping):
        raise ValueError("expected rows, got a single mapping: put it in a list")
    column_types(source)  # raises where two columns have one name
    if hasattr(source, "to_dicts"):  # Polars
        return (source if most is None else source.head(most)).to_dicts()
    if hasattr(source, "to_dict"):  # pandas
        frame = source if most is None else source.head(most)
        names = list(frame.columns)
        if not names:
            return frame.to_dict("records")
        cells = zip(*(frame[name].tolist() for name in names), strict=True)
        return [dict(zip(names, row, strict=True)) for row in cells]
    if hasattr(source, "to_pylist"):  # Arrow
        return (source if most is None else source.slice(0, most)).to_pylist()
    rows = source if isinstance(source, list | tuple) else list(source)
    return rows if most is None else rows[:most]


def category_columns(source: Any) -> dict[str, str]:
    """Return the kind of columns whose type is one of categories.

    These are the category of pandas, the dictionary of Arrow, Categorical and Enum of Polars.
    """
    types = {name: str(kind).lower() for name, kind in column_types(source)}
    return {name: "category" for name, kind in types.items() if kind.startswith(CATEGORY_TYPES)}


def column_types(source: Any) -> list[tuple[Any, Any]]:
    """Return name and type of each column of a frame (pandas, Polars, Arrow); none of others.

    Raises ValueError where two columns have the same name.
    """
    names, types = getattr(source, "columns", None), getattr(source, "dtypes", None)
    if hasattr(source, "column_names"):  # Arrow
        names, types = source.schema.names, source.schema.types
    if names is None or types is None:
        return []
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise ValueError(f"columns of the same name: {quoted(twice)}; rename or drop one of them")
    return list(zip(names, types, strict=True))


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
            column, hint = schema.columns.get(bad.column), ""
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
    ) -> Encoded:
        """Return rows encoded.

        A number whose name is among ``names`` is a feature, whatever the schema. Kinds of new
        columns are inferred from the first ``sample`` rows, None: from all.
        """
        listed, kinds = isinstance(rows, list | tuple), category_columns(rows)
        if not listed and not learning and self.schema is not None:
            self._report_missing(name for name, _ in column_types(rows))
        rows = rows if listed else rows_of(rows)
        if learning and self.required:
            self._check_required(rows)
        if len(self._lexicon) > MAX_NAMES:  # so that memory is bounded
            self._lexicon = Lexicon()
        plain = self.schema is None and (not learning or (listed and only_numbers(rows)))
        schema = self.schema or Schema(complete=not plain)
        if learning and not plain:
            schema = self._extended(schema, rows, names, kinds, sample)
        numbers = names if schema.complete and not learning else None
        encoder = Encoder(encode_cell, self._lexicon, schema.columns, numbers)
        encoded = encode_rows(rows, schema, encoder)
        self._report(encoder.skipped)
        if learning and not plain:
            self._adopt(schema, rows)
        return encoded

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
        known, roles, used = schema.columns, schema.roles, schema.features
        # Others are refused later; to ask for a Mapping takes long.
        rows = [row for row in rows if type(row) is dict or isinstance(row, Mapping)]
        found = dict.fromkeys(chain.from_iterable(rows)) if used is None else used
        new = {
            name
            for name in found
            if name not in known and name not in roles and isinstance(name, str)
        }
        if not new:
            return schema
        numbers = {name: "number" for name in new if name in names}
        cells = [{name: row[name] for name in row if name in new} for row in rows[:sample]]
        schema = schema.copy()
        schema.extend(Sample(rows=cells, kinds=kinds), numbers)
        return schema

    def _adopt(self, schema: Schema, rows: Any) -> None:
        """Keep the schema of rows that were learned; warn of what may not be meant."""
        known, self.schema = self.schema, schema
        new = [name for name in schema.columns if known is None or name not in known.columns]
        for name in new if known is not schema else ():
            column = schema.columns[name]
            if column.warning and column.meaning in MEANINGS_WARNED_OF:
                warnings.warn(column.warning, UserWarning, stacklevel=2)
        for name, value in rows[0].items() if len(rows) == 1 else ():
            words = value.count(" ") + 1 if isinstance(value, str) else 0
            if words < MIN_TEXT_WORDS or name not in self._by_one_event:
                continue
            self._by_one_event.discard(name)
            text = f"column {name!r} is a category by its first event, but {value[:60]!r} is text"
            hint = _KIND_HINT.format(name=name, kind="text")
            warnings.warn(f"{text}: {hint}", UserWarning, stacklevel=2)
        if len(rows) == 1:
            self._by_one_event.update(n for n in new if schema.columns[n].kind == "category")

    def _report_missing(self, columns: Iterable[Any]) -> None:
        """Warn of columns that were learned and are not in a frame, each once."""
        assert self.schema is not None
        there = frozenset(columns)
        missing = [name for name in self.schema.used if name not in there] if there else []
        new = self._not_yet_reported(missing)
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


# Inference


def infer_column(name: str, values: Sequence[Any], *, typed: bool = True) -> Column:
    """Infer how a column is best read from some of its cells, whatever their order.

    Where cells are ``typed``, as in a frame, text is text; else it may spell numbers.

    >>> infer_column("price", ["3", "4.5", "NA"], typed=False)
    Column(kind='number', meaning='number', reason='3 to 4.5', warning=None)
    >>> infer_column("grade", ["1", "2", "K"], typed=False).kind
    'category'
    >>> infer_column("at", ["2024-02-29 13:05", "2024-03-01 09:00"]).kind
    'date'
    >>> infer_column("says", ["the quick brown fox jumps", "over the lazy dog again"]).kind
    'text'
    """
    present = [plain_value(value) for value in values if not is_missing(value)]
    if not present:
        return Column("free", "empty", f"no value in {len(values):,} rows")
    if any(
        issubclass(kind, Mapping | list | tuple | np.ndarray) for kind in set(map(type, present))
    ):
        return Column("free", "nested", "each part is a feature of its own")
    spelled = [number_of(value) for value in present]
    cells = zip(present, spelled, strict=True)
    numbers = [
        number
        for value, number in cells
        if number is not None and not (typed and isinstance(value, str))
    ]
    if len(numbers) == len(present):
        return _infer_number(name, numbers)
    texts = [str(value).strip() for value in present]
    commas = [text for text in texts if _DECIMAL_COMMA.fullmatch(text)]
    if 2 * len(commas) > len(texts):  # no numbers to us: each would be a category
        warning = (
            f"column {name!r} has numbers with a decimal comma, as {commas[0]!r}, and is ignored: "
            f"write them with a point; --categorical {name} takes each as a category"
        )
        return Column("ignored", "decimal comma", f"such as {commas[0]}: ignored", warning)
    dates = [date for date in map(parse_date, texts) if date is not None]
    if len(dates) >= 0.9 * len(texts):
        kind = _date_kind(values)
        parts = "month, weekday" + (", hour" if kind == "date" else "")
        return Column(kind, "date", f"such as {texts[0]}: {parts}")
    if None not in spelled and not all(number.is_integer() for number in spelled if number):
        warning = (
            f"column {name!r} has numbers as text, as {texts[0]!r}, and is read as a category: "
            "give numbers, or name its kind (kinds of Schema.infer and of the estimators)"
        )
        return Column("category", "numbers as text", f"such as {texts[0]!r}", warning)
    return _infer_text(name, texts, numbers)


def _date_kind(values: Iterable[Any]) -> str:
    """Return "day" where no cell has a time of day; frames write a day as midnight."""
    for value in values:
        if isinstance(value, datetime.datetime | np.datetime64):
            text = plain_value(value)
            if parse_date(text) is not None and not re.search(r"T00:00:00(?:\.0*)?$", text):
                return "date"
        elif isinstance(value, str) and (parse_date(value) or (0, None))[1] is not None:
            return "date"
    return "day"


def _with_stray_text(
    column: Column, name: str, values: Sequence[Any], places: Sequence[int], sample: Sample
) -> Column:
    """Return a column of numbers and some text with a warning that names the first such cell."""
    if column.meaning != "number or category":
        return column
    texts = [
        (place, value)
        for place, value in zip(places, values, strict=True)
        if not is_missing(value) and number_of(plain_value(value)) is None
    ]
    place, value = texts[0]
    warning = (
        f"column {name!r} has numbers, but {str(value)[:60]!r} in {sample.place(place)} is none "
        f"({len(texts):,} such cells): mend it, or leave it empty; else it is a category"
    )
    return column._replace(warning=warning)


def _rare_labels(labels: Sequence[str], sample: Sample) -> Iterable[str]:
    """Warn of labels that may be mistyped: they occur once, or are no number as the others."""
    counts = Counter(labels)
    words = [label for label in counts if number_of(label) is None]
    numbers = len(labels) - sum(counts[word] for word in words)
    amounts = len(counts) - len(words) > MAX_CODES
    if words and amounts and numbers >= MIN_NUMBER_SHARE * len(labels):
        where = sample.place(labels.index(words[0]))
        yield (
            f"label {words[0]!r} in {where} is no number, as {numbers:,} others are: "
            "mend it, or the labels are classes"
        )
        return
    once = [label for label, count in counts.items() if count == 1]
    often = [count for count in counts.values() if count >= 0.05 * len(labels)]
    if len(labels) < MIN_ROWS_RARE_LABEL or len(often) < 2 or len(often) + len(once) < len(counts):
        return
    for label in once[:MAX_REPORTED_COLUMNS]:
        where = sample.place(labels.index(label))
        yield (
            f"label {label!r} occurs once in {len(labels):,} rows, in {where}: is it mistyped? "
            "It makes a class of its own"
        )


def _as_asked(name: str, kind: str, values: Sequence[Any], reason: str) -> Column:
    """Return the column as the user wants it; with a warning where values speak against it."""
    if kind not in ("category", "date"):
        return Column(kind, kind, reason)
    column, warning = infer_column(name, values), None
    if kind == "category" and column.meaning in ("text", "date", "id-like"):
        different = len({str(plain_value(value)).strip() for value in values})
        warning = (
            f"column {name!r} looks like {column.meaning}: as a category, {different:,} of "
            f"{len(values):,} rows have a value of their own, which says nothing about new events"
        )
    if kind == "date" and column.meaning == "date":
        return Column(column.kind, "date", reason)
    return Column(kind, kind, reason, warning)


def _infer_number(name: str, numbers: list[float]) -> Column:
    low, high, n = min(numbers), max(numbers), len(numbers)
    different, whole = len(set(numbers)), all(number.is_integer() for number in numbers)
    if n >= MIN_ROWS_CONSTANT and low == high:
        return Column("number", "constant", f"always {low:g} in {n:,} rows")
    if n >= MIN_ROWS_CONSTANT and whole and all(b - a == 1 for a, b in pairwise(numbers)):
        return _id_like(name, "counts the rows", "numeric")
    if n >= MIN_ROWS_CONSTANT and whole and _ID_NAME.fullmatch(name) and different > 0.9 * n:
        return _id_like(name, f"{different:,} different in {n:,} rows", "numeric")
    return Column("number", "number", f"{low:g} to {high:g}")


def _infer_text(name: str, texts: list[str], numbers: list[float]) -> Column:
    n, different = len(texts), len(set(texts))
    words = sum(len(text.split()) for text in texts) / n
    spread = f"{different:,} different in {n:,} rows"
    long = words >= 3 and n >= MIN_ROWS_CONSTANT and different > 0.9 * n
    if (words >= MIN_TEXT_WORDS and different > 0.5 * n) or long:
        return Column("text", "text", f"{words:.0f} words each, {spread}")
    codes = len(set(numbers)) <= MAX_CODES and all(number.is_integer() for number in numbers)
    if len(numbers) >= MIN_NUMBER_SHARE * n and not codes and not _ID_NAME.fullmatch(name):
        return Column("free", "number or category", f"{len(numbers):,} numbers in {n:,} rows")
    if n >= MIN_ROWS_ID_TEXT and different > 0.95 * n:
        return _id_like(name, spread, "categorical")
    if n >= MIN_ROWS_CONSTANT and different == 1:
        return Column("category", "constant", f"always {texts[0]!r} in {n:,} rows")
    warning = None
    if n >= MIN_ROWS_ID_TEXT and different > 0.5 * n:
        warning = (
            f"column {name!r} is a category with {spread}: most say nothing about new events; "
            f"--text {name} takes its words, --ignore {name} leaves it out"
        )
    return Column("category", "category", spread, warning)


def _id_like(name: str, reason: str, option: str) -> Column:
    warning = (
        f"column {name!r} looks like an id ({reason}) and is ignored; --{option} {name} uses it "
        "all the same (in Python: kinds of Schema.infer)"
    )
    return Column("ignored", "id-like", f"{reason}: ignored", warning)


# Details


def quoted(names: Iterable[Any], joint: str = ", ") -> str:
    """Return at most 20 names in quotes, and how many more there are."""
    names = list(names)
    more = f" and {len(names) - 20:,} more" if len(names) > 20 else ""
    return joint.join(map(repr, names[:20])) + more


def _text_of(value: Any, *also: Any) -> Any:
    if isinstance(value, str) or value in also:
        return value
    raise TypeError(f"expected text, got {value!r}")
