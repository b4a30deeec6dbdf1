"""Cells of a table: a task, a label, or features by the kind of the column.

Each function is the reference of the compiled encoder; see :mod:`romco.io.schema` for the kinds.
"""

import datetime
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from numbers import Real
from types import MappingProxyType
from typing import Any, cast

import numpy as np

MAX_TEXT_CHARACTERS = 1_000_000  # of one cell
ONLY_TASK = "all"  # the task of events that have no column for it
MISSING = frozenset(("", "na", "n/a", "nan", "null"))  # in any case
BOOLEANS = MappingProxyType({"true": 1.0, "false": 0.0})
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_WORD = re.compile(r"\w+")
_DATE = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?:[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.[0-9]+)?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)?"
)

Values = dict[str, float]


class BadCell(ValueError):  # noqa: N818 - says what is wrong
    """A cell that cannot be read; a file's reader turns it into a ``BadRow`` with its line."""

    def __init__(self, column: str, reason: str) -> None:
        self.column, self.reason = column, reason
        super().__init__(f"column {column!r}: {reason}")


def is_missing(value: object) -> bool:
    """Return whether a cell is empty: None, NaN, NaT, empty text, or NA, n/a, nan, null.

    >>> [is_missing(value) for value in (None, float("nan"), " ", "NA", "null", 0, "none")]
    [True, True, True, True, True, False, False]
    """
    if isinstance(value, str):
        return len(value) < 9 and value.strip().lower() in MISSING
    if value is None or isinstance(value, float):
        return value is None or math.isnan(value)
    if type(value) is int:
        return False
    if type(value).__name__ in ("NaTType", "NAType"):  # of pandas
        return True
    return isinstance(value, Real | Decimal) and bool(value != value)


def read_name(column: str, cells: Mapping[str, object]) -> str:
    """Return a task or a label as text: 1, 1.0 and "1" are the same, true is "true".

    Only an empty cell is missing: somebody may be called NA.

    >>> read_name("user", {"user": 1.0}), read_name("user", {"user": " ann "})
    ('1', 'ann')
    """
    value = cells.get(column)
    if isinstance(value, str):
        value = _clean(column, value)
        if value:  # as nearly always
            return value
    if isinstance(value, np.generic):
        value = value.item()
    if is_missing(value):  # empty text, too
        if column in cells:
            raise BadCell(column, "is missing")
        there = ", ".join(map(repr, list(cells)[:20]))
        raise BadCell(column, f"is missing among {there}")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Real | Decimal):
        number = _finite(column, value)
        if number.is_integer():
            return str(int(cast(float, value)))
        return str(value)
    raise BadCell(column, f"must be text or a number, not {type(value).__name__}")


def read_task(columns: Sequence[str], cells: Mapping[str, object]) -> str:
    """Return the task of a row, "A/1" where it is nested in another column."""
    return "/".join(read_name(column, cells) for column in columns)


def encode_free(column: str, value: Any, features: Values) -> None:
    """Add a cell by its own type; text that reads as a number is one.

    >>> features = {}
    >>> row = {"age": " 7 ", "town": "Rome", "tags": ["a", "b"], "at": {"x": 1}, "size": "NA"}
    >>> for column, cell in row.items():
    ...     encode_free(column, cell, features)
    >>> features
    {'age': 7.0, 'town=Rome': 1.0, 'tags=a': 1.0, 'tags=b': 1.0, 'at.x': 1.0}
    """
    if is_missing(value):
        return
    value = plain_value(value)
    if isinstance(value, str):
        number = parse_number(value)
        if number is not None:
            _add(features, column, _finite(column, number))
        else:
            _add(features, f"{column}={_clean(column, value)}", 1.0)
    elif isinstance(value, Real | Decimal):
        _add(features, column, _finite(column, value))
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            encode_free(f"{column}.{key}", inner, features)
    elif isinstance(value, list | tuple | np.ndarray):
        for place, inner in enumerate(value):
            name = column
            if not isinstance(inner, str):
                name = f"{column}.{place}"
            encode_free(name, inner, features)
    else:
        raise BadCell(column, f"{type(value).__name__} is no feature; leave the column out")


def encode_number(column: str, value: Any, features: Values) -> None:
    """Add a cell that must be a number, or true or false."""
    number = number_of(plain_value(value))
    if number is None:
        raise BadCell(column, f"{_short(value)} is not a number")
    _add(features, column, _finite(column, number))


def encode_category(column: str, value: Any, features: Values) -> None:
    """Add a cell as ``column=value``, even if it reads as a number.

    >>> encode_category("zip", "10115", features := {})
    >>> encode_category("floor", 2.0, features)
    >>> features
    {'zip=10115': 1.0, 'floor=2': 1.0}
    """
    _add(features, f"{column}={read_name(column, {column: plain_value(value)})}", 1.0)


def encode_date(column: str, value: Any, features: Values, hours: bool = True) -> None:
    """Add month, weekday and, where known, hour; what is no date is a category.

    >>> encode_date("at", "2024-02-29 13:05", features := {})
    >>> features
    {'at.month=02': 1.0, 'at.weekday=Thu': 1.0, 'at.hour=13': 1.0}
    """
    value = plain_value(value)
    parts = None
    if isinstance(value, str):
        parts = parse_date(value)
    if parts is None:
        return encode_category(column, value, features)
    day, hour = parts
    _add(features, f"{column}.month={day.month:02d}", 1.0)
    _add(features, f"{column}.weekday={WEEKDAYS[day.weekday()]}", 1.0)
    if hours and hour is not None:
        _add(features, f"{column}.hour={hour:02d}", 1.0)
    return None


def encode_time(column: str, value: Any, features: Values) -> None:
    """Add seconds: a number as it is, a date since 1970, in UTC where it has no zone.

    >>> encode_time("at", "1970-01-02 00:01", features := {})
    >>> features
    {'at': 86460.0}
    """
    value = plain_value(value)
    number = number_of(value)
    if number is None:
        if not isinstance(value, str) or parse_date(value) is None:
            why = "neither seconds nor a date as 2024-02-29 13:05"
            raise BadCell(column, f"{_short(value)} is {why}")
        moment = datetime.datetime.fromisoformat(value.strip())
        zone = moment.tzinfo or datetime.UTC
        number = moment.replace(tzinfo=zone).timestamp()
    _add(features, column, _finite(column, number))


def encode_text(column: str, value: Any, features: Values) -> None:
    """Add log(1 + count) of each word as ``column:word`` in lower case, scaled to length 1.

    >>> encode_text("says", "Hi, hi there", features := {})
    >>> {word: round(weight, 3) for word, weight in features.items()}
    {'says:hi': 0.846, 'says:there': 0.534}
    """
    if not isinstance(value, str):
        raise BadCell(column, f"must be text, not {type(value).__name__}")
    counts = Counter(_WORD.findall(_clean(column, value).lower()))
    weights = {word: math.log1p(count) for word, count in counts.items()}
    length = math.sqrt(sum(weight * weight for weight in weights.values()))
    for word, weight in weights.items():
        _add(features, f"{column}:{word}", weight / length)


def ignore(column: str, value: Any, features: Values) -> None:
    """Add nothing."""


# By kind of column; cells are not missing, but parts of free ones may be.
ENCODERS: Mapping[str, Callable[[str, Any, Values], None]] = MappingProxyType(
    {
        "free": encode_free,
        "number": encode_number,
        "category": encode_category,
        "text": encode_text,
        "date": encode_date,
        "day": partial(encode_date, hours=False),  # midnight, as frames write a day, is no hour
        "ignored": ignore,
        "time": encode_time,
    }
)


def encode_cell(kind: str, column: str, value: object) -> dict[str, float]:
    """Return the features of a cell that compiled code leaves to Python."""
    features: dict[str, float] = {}
    if not is_missing(value):
        ENCODERS[kind](column, value, features)
    return features


def parse_number(text: str) -> float | None:
    """Return the number that text spells, if it does."""
    if "_" in text:
        return None
    try:
        return float(text)
    except ValueError:
        return None


def parse_date(text: str) -> tuple[datetime.date, int | None] | None:
    """Return the day, and the hour where given, of ISO 8601 text, if it is."""
    match = _DATE.fullmatch(text.strip())
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups())
    if hour > 23 or minute > 59 or second > 60:
        return None
    try:
        date = datetime.date(year, month, day)
    except ValueError:
        return None
    if match.group(4) is None:
        return date, None
    return date, hour


def plain_value(value: Any) -> Any:
    """Return dates as ISO text, durations in seconds, and NumPy's scalars as Python's."""
    if type(value) in (float, int, str):
        return value
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, np.datetime64):
        return str(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if type(value).__name__ in ("Interval", "Period"):  # of pandas
        return str(value)
    return value


def number_of(value: Any) -> float | None:
    """Return the number that a cell is or spells; true and false are 1 and 0."""
    if type(value) is float:
        return value
    if isinstance(value, str):
        number = parse_number(value)
        if number is None:
            return BOOLEANS.get(value.strip().lower())
        return number
    if not isinstance(value, Real | Decimal):
        return None
    try:
        return float(value)
    except OverflowError:
        if value > 0:  # type: ignore[operator]
            return math.inf
        return -math.inf


def _finite(column: str, value: object) -> float:
    try:
        number = float(cast(float, value))
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise BadCell(column, f"{number} is not a finite number")
    return number


def _clean(column: str, value: str) -> str:
    """Return text without spaces around it; refuse what is no UTF-8, or too long."""
    if len(value) > MAX_TEXT_CHARACTERS:
        size = f"{len(value):,} characters, more than {MAX_TEXT_CHARACTERS:,}"
        raise BadCell(column, f"has a text of {size}: shorten it")
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise BadCell(column, "is not UTF-8 text") from None
    return value.strip()


def _add(features: Values, name: str, value: float) -> None:
    features[name] = features.get(name, 0.0) + value


def _short(value: object) -> str:
    if isinstance(value, str):
        value = value.strip()
    text = repr(value)
    if len(text) <= 60:
        return text
    return text[:57] + "..."
