"""What one cell of a table means: a task, a label, features."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from numbers import Real
from types import MappingProxyType
from typing import cast

MISSING = frozenset(("", "na", "n/a", "nan", "null"))  # spelled in any case
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_WORD = re.compile(r"\w+")
_DATE = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?:[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.[0-9]+)?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)?"
)

Values = dict[str, float]


class BadCell(Exception):  # noqa: N818 - says what is wrong
    """A cell that cannot be used; whoever knows the line makes a ``BadRow`` of it."""

    def __init__(self, column: str, reason: str) -> None:
        self.column, self.reason = column, reason


def is_missing(value: object) -> bool:
    """Whether a cell says nothing: None, NaN, empty text, or NA, n/a, nan, null in any case.

    >>> [is_missing(value) for value in (None, float("nan"), " ", "NA", "null", 0, "none")]
    [True, True, True, True, True, False, False]
    """
    if isinstance(value, str):
        return len(value) < 9 and value.strip().lower() in MISSING
    return value is None or (isinstance(value, float) and math.isnan(value))


def identity(column: str, cells: Mapping[str, object]) -> str:
    """A task or a label as text: 1, 1.0 and "1" are the same, true is "true".

    Only what is not there at all is missing: somebody may be called NA.

    >>> identity("user", {"user": 1.0}), identity("user", {"user": " ann "})
    ('1', 'ann')
    """
    value = cells.get(column)
    if isinstance(value, str):
        value = clean(column, value)
        if value:  # as nearly always
            return value
    if is_missing(value):  # empty text, too
        there = ", ".join(map(repr, list(cells)[:20]))
        raise BadCell(column, "is missing" if column in cells else f"is missing among {there}")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Real | Decimal):
        number = _finite(column, value)
        return str(int(cast(float, value))) if number.is_integer() else str(value)
    raise BadCell(column, f"must be text or a number, not {type(value).__name__}")


def encode(column: str, value: object, features: Values) -> None:
    """Add what one cell says to ``features``; text that reads as a number is one.

    >>> found = {}
    >>> row = {"age": " 7 ", "town": "Rome", "tags": ["a", "b"], "at": {"x": 1}, "size": "NA"}
    >>> for column, cell in row.items():
    ...     encode(column, cell, found)
    >>> found
    {'age': 7.0, 'town=Rome': 1.0, 'tags=a': 1.0, 'tags=b': 1.0, 'at.x': 1.0}
    """
    if is_missing(value):
        return
    if isinstance(value, datetime.date):
        value = value.isoformat()
    if isinstance(value, str):
        number = as_number(value)
        if number is not None:
            _add(features, column, _finite(column, number))
        else:
            _add(features, f"{column}={clean(column, value)}", 1.0)
    elif isinstance(value, Real | Decimal):
        _add(features, column, _finite(column, value))
    elif isinstance(value, dict):
        for key, inner in value.items():
            encode(f"{column}.{key}", inner, features)
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            encode(column if isinstance(inner, str) else f"{column}.{place}", inner, features)
    else:
        raise BadCell(column, f"{type(value).__name__} is no feature; choose others (features=)")


def add_number(column: str, value: object, features: Values) -> None:
    """Add a cell that must be a number."""
    if is_missing(value):
        return
    number = as_number(value) if isinstance(value, str) else value
    if not isinstance(number, Real | Decimal):
        raise BadCell(column, f"{value!r} is not a number")
    _add(features, column, _finite(column, number))


def add_category(column: str, value: object, features: Values) -> None:
    """Add a cell as ``column=value``, even if it reads as a number.

    >>> add_category("zip", "10115", found := {})
    >>> add_category("floor", 2.0, found)
    >>> found
    {'zip=10115': 1.0, 'floor=2': 1.0}
    """
    if not is_missing(value):
        text = value.isoformat() if isinstance(value, datetime.date) else value
        _add(features, f"{column}={identity(column, {column: text})}", 1.0)


def add_date(column: str, value: object, features: Values) -> None:
    """Add month, day of the week and, where told, hour; what is no date is a category.

    >>> add_date("at", "2024-02-29 13:05", found := {})
    >>> found
    {'at.month=02': 1.0, 'at.weekday=Thu': 1.0, 'at.hour=13': 1.0}
    """
    if isinstance(value, datetime.date):
        value = value.isoformat()
    parts = as_date(value) if isinstance(value, str) else None
    if parts is None:
        return add_category(column, value, features)
    day, hour = parts
    _add(features, f"{column}.month={day.month:02d}", 1.0)
    _add(features, f"{column}.weekday={WEEKDAYS[day.weekday()]}", 1.0)
    if hour is not None:
        _add(features, f"{column}.hour={hour:02d}", 1.0)
    return None


def add_words(column: str, value: object, features: Values) -> None:
    """Add log(1 + count) of each word as ``column:word`` in lower case, all of length 1.

    >>> add_words("says", "Hi, hi there", found := {})
    >>> {word: round(weight, 3) for word, weight in found.items()}
    {'says:hi': 0.846, 'says:there': 0.534}
    """
    counts: Values = {}
    count_words(column, value, counts)
    weights = {word: math.log1p(count) for word, count in counts.items()}
    length = math.sqrt(sum(weight * weight for weight in weights.values()))
    for word, weight in weights.items():
        _add(features, word, weight / length)


def count_words(column: str, value: object, features: Values) -> None:
    """Add how often each word occurs, as ``column:word`` in lower case.

    >>> count_words("says", "Hi, hi there", found := {})
    >>> found
    {'says:hi': 2.0, 'says:there': 1.0}
    """
    if is_missing(value):
        return
    if not isinstance(value, str):
        raise BadCell(column, f"must be text, not {type(value).__name__}")
    for word in _WORD.findall(clean(column, value).lower()):
        _add(features, f"{column}:{word}", 1.0)


def add_nothing(column: str, value: object, features: Values) -> None:
    """Pass a cell over."""


ENCODERS: Mapping[str, Callable[[str, object, Values], None]] = MappingProxyType(
    {
        "free": encode,  # each cell says itself what it is
        "number": add_number,
        "category": add_category,
        "text": add_words,
        "counts": count_words,  # of models made before words had weights
        "date": add_date,
        "ignored": add_nothing,
    }
)


def as_number(text: str) -> float | None:
    """The number that text spells, if it does.

    >>> as_number(" 7 "), as_number("1_000")
    (7.0, None)
    """
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def as_date(text: str) -> tuple[datetime.date, int | None] | None:
    """The day, and the hour where told, of ISO 8601 text, if it is.

    >>> as_date("2024-02-29T13:05:00Z")
    (datetime.date(2024, 2, 29), 13)
    """
    found = _DATE.fullmatch(text.strip())
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups())
    if hour > 23 or minute > 59 or second > 60:
        return None
    try:
        return datetime.date(year, month, day), None if found.group(4) is None else hour
    except ValueError:
        return None


def clean(column: str, value: str) -> str:
    """Text without spaces around it; bytes that were no UTF-8 are refused."""
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise BadCell(column, "is not UTF-8 text") from None
    return value.strip()


def _add(features: Values, name: str, value: float) -> None:
    features[name] = features.get(name, 0.0) + value


def _finite(column: str, value: object) -> float:
    try:
        number = float(cast(float, value))
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise BadCell(column, f"{number} is not a finite number")
    return number
