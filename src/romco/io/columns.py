"""What the columns of a table are: a guess from its first rows, and why."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Real
from typing import Any

from romco.io.cells import as_date, as_number, is_missing

FEW = 20  # rows below which nothing is called id-like or constant
MANY = 50  # and below which no text is
_COMMA = re.compile(r"[+-]?(?:\d+|\d{1,3}(?:\.\d{3})+),\d+")  # 1,5 and 1.234,5
_ID = re.compile(r"(?i:(?:|.*[_\W])(?:id|uuid|guid|key|index|hash))|[a-z0-9]+(?:Id|ID|UUID)")


@dataclass(frozen=True)
class Reading:
    """How a column is read."""

    column: str
    kind: str  # a key of ``romco.io.cells.ENCODERS``
    told: str  # what people are told it is
    why: str
    warning: str | None = None


def guess(column: str, values: Sequence[object]) -> Reading:
    """How a column is best read, from some of its cells.

    >>> guess("price", ["3", "4.5", "NA"])
    Reading(column='price', kind='free', told='number', why='3 to 4.5', warning=None)
    >>> guess("at", ["2024-02-29", "2024-03-01"]).kind
    'date'
    >>> guess("says", ["the quick brown fox jumps", "over the lazy dog again"]).kind
    'text'
    """
    present = [value for value in values if not is_missing(value)]
    if not present:
        return Reading(column, "free", "empty", f"no value in {len(values):,} rows")
    if any(isinstance(value, dict | list) for value in present):
        return Reading(column, "free", "nested", "each part is a feature of its own")
    numbers = [_number(value) for value in present]
    if all(number is not None for number in numbers):
        return _guess_number(column, [float(n) for n in numbers if n is not None])
    texts = [_text(value) for value in present]
    if 2 * sum(_COMMA.fullmatch(text) is not None for text in texts) > len(texts):
        return _decimal_comma(column, texts)
    if sum(as_date(text) is not None for text in texts) >= 0.9 * len(texts):
        return Reading(column, "date", "date", f"such as {texts[0]}: month, weekday, hour")
    return _guess_text(column, texts, sum(number is not None for number in numbers))


def asked(column: str, kind: str, values: Sequence[object]) -> Reading:
    """How a column is read that the user has decided on; warned of where the guess differs."""
    reading = guess(column, values)
    warning = None
    if kind == "category" and reading.told in ("text", "date", "id-like"):
        n, different = len(values), len({_text(value) for value in values})
        warning = (
            f"column {column!r} looks like {reading.told}: as a category, {different:,} of {n:,} "
            "rows have a value of their own, which says nothing about new events"
        )
    return Reading(column, kind, kind, "as asked", warning)


def _guess_number(column: str, numbers: list[float]) -> Reading:
    low, high, n = min(numbers), max(numbers), len(numbers)
    whole = all(number.is_integer() for number in numbers)
    if n >= FEW and low == high:
        return Reading(column, "free", "constant", f"always {low:g} in {n:,} rows")
    if n >= FEW and whole and all(b - a == 1 for a, b in pairwise(numbers)):
        return _id_like(column, "counts the rows", "numeric")
    if n >= FEW and whole and _ID.fullmatch(column) and len(set(numbers)) > 0.9 * n:
        return _id_like(column, f"{len(set(numbers)):,} different in {n:,} rows", "numeric")
    large = max(abs(low), abs(high)) >= 1000
    warning = (
        f"column {column!r} has numbers up to {max(abs(low), abs(high)):g}: if the learner does "
        "not scale features itself, divide them so that they are about 1"
    )
    return Reading(column, "free", "number", f"{low:g} to {high:g}", warning if large else None)


def _guess_text(column: str, texts: list[str], numbers: int) -> Reading:
    n, different = len(texts), len(set(texts))
    words = sum(len(text.split()) for text in texts) / n
    spread = f"{different:,} different in {n:,} rows"
    if (words >= 4 and different > 0.5 * n) or (words >= 3 and n >= FEW and different > 0.9 * n):
        return Reading(column, "text", "text", f"{words:.0f} words each, {spread}")
    if n >= MANY and different > 0.95 * n:
        return _id_like(column, spread, "categorical")
    if n >= FEW and different == 1:
        return Reading(column, "category", "constant", f"always {texts[0]!r} in {n:,} rows")
    if 2 * numbers >= n:
        return Reading(column, "free", "number or category", f"{numbers:,} numbers in {n:,} rows")
    warning = None
    if n >= MANY and different > 0.5 * n:
        warning = (
            f"column {column!r} is a category with {spread}: most say nothing about new events; "
            f"--text {column} takes its words, --ignore {column} leaves it out"
        )
    return Reading(column, "category", "category", spread, warning)


def _decimal_comma(column: str, texts: list[str]) -> Reading:
    """Numbers that are none to us: each would be a category of its own."""
    shown = next(text for text in texts if _COMMA.fullmatch(text))
    warning = (
        f"column {column!r} has numbers with a decimal comma, as {shown!r}, and is ignored: write "
        f"them with a point; --categorical {column} takes each as a category"
    )
    return Reading(column, "ignored", "decimal comma", f"such as {shown}: ignored", warning)


def _id_like(column: str, why: str, option: str) -> Reading:
    warning = (
        f"column {column!r} looks like an id ({why}) and is ignored; "
        f"--{option} {column} uses it all the same"
    )
    return Reading(column, "ignored", "id-like", f"{why}: ignored", warning)


def _number(value: Any) -> float | None:
    if isinstance(value, str):
        return as_number(value)
    try:
        return float(value) if isinstance(value, Real) else None
    except OverflowError:  # its row is told when it is read
        return None


def _text(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime.date) else str(value).strip()
