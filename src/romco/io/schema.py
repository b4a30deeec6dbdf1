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

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice, repeat
from operator import attrgetter
from pathlib import Path
from typing import Any, Self

from romco.io.cells import ENCODERS, Values, is_missing
from romco.io.formats import Owns, Sample, TaskFilter, read_sample
from romco.io.frames import SAMPLE_ROWS, category_columns, quoted, rows_of
from romco.io.groupings import split_groupings
from romco.io.inference import (
    Column,
    column_as_asked,
    infer_column,
    rare_label_warnings,
    tells_every_label,
    with_stray_text,
)

MAX_PRINTED_COLUMNS = 30
MAX_COMPARED_COLUMNS = 1000  # known ones that the name of an unknown one is compared with
ROLES = ("task", "label", "weight", "offset")  # columns that are no features


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
            if isinstance(column, str):
                column = Column(column, column, "set")
            self.add(name, column)
        named: dict[str, str] = {}
        roles = [("task", task), ("label", label), ("weight", weight)]
        roles += zip(repeat("offset"), self.offset_columns)
        for role, own in roles:
            if own in named:
                raise ValueError(f"column {own!r} cannot be both the {named[own]} and the {role}")
            if own is not None:
                named[own] = role

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
        where = ""
        roles: dict[str, Any] = {"label": label, "weight": weight, "offset": offset}
        if not one_task:
            roles["task"] = task
        if isinstance(source, str | Path) or hasattr(source, "read"):
            asked = cls(**roles)
            wanted = [*asked.task_columns, *asked.number_roles, *(features or ()), *(kinds or ())]
            if label:
                wanted.append(label)
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
        if chosen is None or not self.task_columns:
            return None
        return TaskFilter(self.task_columns, chosen)

    def extend(self, sample: "Sample", kinds: Mapping[str, str] | None = None) -> None:
        """Add the columns of a sample that are not known yet.

        ``kinds`` are not inferred, nor those that the sample itself has.
        """
        kinds = kinds or {}
        wanted = frozenset(self.features or ())
        cells: dict[str, list[Any]] = defaultdict(list)
        for row in sample.rows:
            for name, cell in row.items():
                if self.features is None or name in wanted:
                    cells[name].append(cell)
        roles = self.roles
        for name in dict.fromkeys((*(self.features or ()), *cells, *kinds)):
            if name in self.columns or name in roles:
                continue
            values = cells.get(name, [])
            if name in self.groupings:
                column = Column("category", "grouping", f"{len(set(values)):,} levels")
            elif name in kinds:
                column = column_as_asked(name, kinds[name], values, "as asked")
            elif name in sample.kinds:
                column = column_as_asked(name, sample.kinds[name], values, "by its type")
            else:
                column = infer_column(name, values, typed=sample.typed)
                column = with_stray_text(column, name, sample)
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
        if parent in self.groupings:
            return (parent, own)
        if self.task is None:
            return ()
        return (self.task,)

    @property
    def number_roles(self) -> list[str]:
        """Columns of numbers that are no features: weight and offsets."""
        if self.weight is None:
            return self.offset_columns
        return [self.weight, *self.offset_columns]

    @property
    def offset_columns(self) -> list[str]:
        """Columns of offsets, of classes one each."""
        offset = self.offset or {}
        if isinstance(offset, str):
            return [offset]
        return list(offset.values())

    @property
    def time(self) -> str | None:
        """The column of the event's time, which history features use; None if there is none."""
        for name, column in self.columns.items():
            if column.kind == "time":
                return name
        return None

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
        roles, kinds, names = self.roles, self.kinds, self.features
        if names is None:
            names = tuple(row)
        for name in names:
            cell = row.get(name)
            if name not in roles and not is_missing(cell):
                ENCODERS[kinds.get(name, "free")](name, cell, features)
        return features

    def unknown(self, names: Iterable[Any]) -> list[str]:
        """Describe columns that the schema does not have, each with names close to it."""
        import difflib  # here, so that `import romco` stays fast

        found, roles = [], self.roles
        known = list(map(str, islice(self.columns, MAX_COMPARED_COLUMNS)))
        for name in names:
            if name not in self.columns and name not in roles:
                text = repr(name)
                close = difflib.get_close_matches(str(name), known, 3)
                if close:
                    text += f" (did you mean {quoted(close, ' or ')}?)"
                found.append(text)
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
        stored: dict[str, Any] = {"task": self.task, "label": self.label, "weight": self.weight}
        if self.offset:
            stored["offset"] = self.offset
        if self.groupings:
            stored["groupings"] = list(self.groupings)
        listed = None
        if self.features is not None:
            listed = list(self.features)
        stored |= {"one_task": self.one_task, "complete": self.complete, "features": listed}
        columns = {name: [column.kind, column.meaning] for name, column in self.columns.items()}
        return {**stored, "columns": columns}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Return the schema that :meth:`to_json` described; ValueError where none could have."""
        try:
            columns = {}
            for name, (kind, meaning) in stored["columns"].items():
                columns[_text_of(name)] = Column(_text_of(kind), _text_of(meaning), "as learned")
            features = stored.get("features")
            if not isinstance(features, list | None):
                raise TypeError(f"expected a list of columns, got {features!r}")
            made = cls(
                columns,
                task=_text_of(stored.get("task"), None),
                label=_text_of(stored.get("label"), None),
                weight=_text_of(stored.get("weight"), None),
                offset=stored.get("offset") or None,
                features=features,
                one_task=bool(stored.get("one_task")),
                complete=bool(stored.get("complete")),
            )
            made.groupings = tuple(stored.get("groupings", ()))
            for name in (*(features or ()), *made.groupings, *made.offset_columns):
                _text_of(name)  # TypeError where one is no text
        except (TypeError, AttributeError, KeyError, ValueError) as error:
            raise ValueError(f"no schema: {error}") from None
        return made

    @classmethod
    def from_session(cls, session: Mapping[str, Any]) -> Self | None:
        """Return the schema that a model file keeps; None if none."""
        stored = session.get("schema")
        if stored is None:
            return None
        return cls.from_json(stored)

    def store(self, session: dict[str, Any], name: str) -> None:
        """Keep the schema in what a model file stores; ValueError if it contradicts that."""
        known = Schema.from_session(session)
        difference = known and known.difference(self)
        if difference:
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
        shown = dict(islice(self.columns.items(), MAX_PRINTED_COLUMNS))
        width = min(max(map(len, shown), default=0), 40)
        lines = [self._title()]
        for name, column in shown.items():
            lines.append(f"  {name:{width}}  {column.meaning:9}  {column.reason}")
        rest = islice(self.columns.values(), MAX_PRINTED_COLUMNS, None)
        counts = Counter(map(attrgetter("meaning"), rest))
        if counts:
            more = [f"{n:,} {meaning}" for meaning, n in counts.items()]
            lines.append(f"  and {', '.join(more)}")
        return "\n".join(lines)

    def _named_roles(self, sign: str) -> list[str]:
        """Return each role that a column has, the sign, and the column."""
        named = []
        for role in ROLES:
            column = getattr(self, role)
            if column is not None:
                named.append(f"{role}{sign}{column!r}")
        return named

    def _title(self) -> str:
        title = "columns"
        roles = ", ".join(self._named_roles(" "))
        if roles:
            title += f" ({roles})"
        if self.sample:
            first = "first row"
            if len(self.sample) > 1:
                first = f"first {len(self.sample):,} rows"
            title += f", as read from the {first}"
        if self.separator:
            title += f", separated by {self.separator!r}"
        return f"{title}:"

    def __repr__(self) -> str:
        return f"Schema({', '.join([repr(self.kinds), *self._named_roles('=')])})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> Any:
        return Schema.from_json, (self.to_json(),)

    def _suspicions(self, sample: "Sample") -> Iterable[str]:
        """Warnings of single columns, of rare labels, and of columns that hold the label itself."""
        yield from filter(None, map(attrgetter("warning"), self.columns.values()))
        rows = sample.rows
        label = self.label or ""
        labels = [str(row[label]).strip() for row in rows if label in row]
        if len(set(labels)) < 2:
            return
        if len(labels) == len(rows):
            yield from rare_label_warnings(labels, sample)
        for name in self.used:
            cells = [str(row.get(name)).strip() for row in rows if name in row]
            if cells == labels:
                what = "has the label itself"
            elif len(cells) == len(labels) and tells_every_label(cells, labels):
                what = "tells every label"
            else:
                continue
            yield (
                f"column {name!r} {what} in all {len(cells):,} rows looked at: "
                f"--ignore {name} unless it is known before the label is"
            )


def _text_of(value: Any, *also: Any) -> Any:
    if isinstance(value, str) or value in also:
        return value
    raise TypeError(f"expected text, got {value!r}")
