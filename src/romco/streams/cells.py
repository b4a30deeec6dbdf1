"""What one cell of a table means: a task, a label, features."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from numbers import Real
from typing import cast

_WORD = re.compile(r"\w+")


class BadCell(Exception):  # noqa: N818 - says what is wrong
    """A cell that cannot be used; whoever knows the line makes a ``BadRow`` of it."""

    def __init__(self, column: str, reason: str) -> None:
        self.column, self.reason = column, reason


def is_missing(value: object) -> bool:
    """Whether a cell says nothing: None or empty text.

    >>> is_missing(" "), is_missing(0)
    (True, False)
    """
    return value is None or (isinstance(value, str) and not value.strip())


def identity(column: str, cells: Mapping[str, object]) -> str:
    """A task or a label as text: 1, 1.0 and "1" are the same, true is "true".

    >>> identity("user", {"user": 1.0}), identity("user", {"user": " ann "})
    ('1', 'ann')
    """
    value = cells.get(column)
    if isinstance(value, str):
        value = _clean(column, value)
    if value is None or value == "":
        there = ", ".join(map(repr, cells))
        raise BadCell(column, "is missing" if column in cells else f"is missing among {there}")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Real | Decimal):
        number = _finite(column, value)
        return str(int(cast(float, value))) if number.is_integer() else str(value)
    if isinstance(value, str):
        return value
    raise BadCell(column, f"must be text or a number, not {type(value).__name__}")


def encode(column: str, value: object, features: dict[str, float]) -> None:
    """Add what one cell says to ``features``; text that reads as a number is one.

    >>> found = {}
    >>> row = {"age": " 7 ", "town": "Rome", "tags": ["a", "b"], "at": {"x": 1}}
    >>> for column, cell in row.items():
    ...     encode(column, cell, found)
    >>> found
    {'age': 7.0, 'town=Rome': 1.0, 'tags=a': 1.0, 'tags=b': 1.0, 'at.x': 1.0}
    """
    if isinstance(value, str):
        number = _number(value)
        if number is not None:
            _add(features, column, _finite(column, number))
        elif word := _clean(column, value):
            _add(features, f"{column}={word}", 1.0)
    elif isinstance(value, Real | Decimal):
        _add(features, column, _finite(column, value))
    elif isinstance(value, dict):
        for key, inner in value.items():
            encode(f"{column}.{key}", inner, features)
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            encode(column if isinstance(inner, str) else f"{column}.{place}", inner, features)
    elif value is not None:
        raise BadCell(column, f"{type(value).__name__} is no feature; choose others (features=)")


def count_words(column: str, value: object, features: dict[str, float]) -> None:
    """Add how often each word occurs, as ``column:word`` in lower case.

    >>> count_words("says", "Hi, hi there", found := {})
    >>> found
    {'says:hi': 2.0, 'says:there': 1.0}
    """
    if value is None:
        return
    if not isinstance(value, str):
        raise BadCell(column, f"must be text, not {type(value).__name__}")
    for word in _WORD.findall(_clean(column, value).lower()):
        _add(features, f"{column}:{word}", 1.0)


def _add(features: dict[str, float], name: str, value: float) -> None:
    features[name] = features.get(name, 0.0) + value


def _clean(column: str, value: str) -> str:
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise BadCell(column, "is not UTF-8 text") from None
    return value.strip()


def _number(text: str) -> float | None:
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def _finite(column: str, value: object) -> float:
    try:
        number = float(cast(float, value))
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise BadCell(column, f"{number} is not a finite number")
    return number
