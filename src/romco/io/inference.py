"""Inference: the kind of a column from some of its cells."""

import datetime
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import filterfalse, pairwise, starmap
from operator import ne
from typing import Any, NamedTuple

import numpy as np

from romco.io.cells import is_missing, number_of, parse_date, plain_value
from romco.io.formats import Sample

MIN_ROWS_RARE_LABEL = 100  # from which on a label that occurs once may be a mistake
MAX_CODES = 20  # whole numbers up to which a column of numbers and text is one of codes
MIN_NUMBER_SHARE = 0.9  # of cells, from which on text among numbers may be a mistake
MIN_TEXT_WORDS = 4  # of a cell, from which on a column is text
MIN_ROWS_CONSTANT = 20  # below, no column is called constant or id-like
MIN_ROWS_ID_TEXT = 50  # below, no column of text is called id-like
MAX_REPORTED_COLUMNS = 20  # unknown or missing ones that a model warns of
_SIGN = "[$€£¥%]?"
_OTHER_NUMBER = re.compile(  # 1,5 and 1.234,5 and 1,234.5 and $1.5 and 15 %
    rf"{_SIGN} ?[+-]?(?:\d+|\d{{1,3}}(?:[.,' ]\d{{3}})+)(?:[.,]\d+)? ?{_SIGN}"
)
_OTHER_DATE = re.compile(  # 31.1.2024, 1/31/24, 2024/01/31, 20240131, 31 Jan 2024, Jan 31 2024
    r"\d{1,2}([./-])\d{1,2}\1(?:\d{4}|\d{2})(?:\D.*)?|\d{4}([./])\d{1,2}\2\d{1,2}(?:\D.*)?"
    r"|(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])"
    r"|\d{1,2}\.? [A-Z][a-z]{2,8}\.? \d{4}.*|[A-Z][a-z]{2,8}\.? \d{1,2},? \d{4}.*"
)
_CODE = re.compile(r"0\d{4,}")  # a ZIP code: zeros in front would be lost by a number
_ID_NAME = re.compile(r"(?i:(?:|.*[_\W])(?:id|uuid|guid|key|index|hash))|[a-z0-9]+(?:Id|ID|UUID)")


class Column(NamedTuple):
    """Kind of a column, and why it was chosen."""

    kind: str  # a key of ``ENCODERS``
    meaning: str  # for people: number, category, id-like, constant, ...
    reason: str
    warning: str | None = None


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
    plain = set(map(type, values)) <= {int, float}
    present = list(filterfalse(is_missing, values))
    if not plain:
        present = list(map(plain_value, present))
    if not present:
        return Column("free", "empty", f"no value in {len(values):,} rows")
    for kind in set(map(type, present)):
        if issubclass(kind, Mapping | list | tuple | np.ndarray):
            return Column("free", "nested", "each part is a feature of its own")
    spelled = list(map(number_of, present))
    numbers = []
    for value, number in zip(present, spelled, strict=True):
        if number is not None and not (typed and isinstance(value, str)):
            numbers.append(number)
    if plain and not _OTHER_DATE.fullmatch(str(present[0])):
        return _infer_number(name, numbers)
    texts = [str(value).strip() for value in present]
    if len(texts) >= MIN_ROWS_CONSTANT and all(map(_OTHER_DATE.fullmatch, texts)):
        warning = (
            f"column {name!r} seems to hold dates, as {texts[0]!r}, which are not read as such: "
            f"write them as 2024-01-31 or 2024-01-31 13:05; --ignore {name} leaves them out"
        )
        column = _infer_text(name, texts, [])
        if len(numbers) == len(present):
            column = _infer_number(name, numbers)
        return column._replace(warning=warning)
    if len(numbers) == len(present):
        if any(map(_CODE.fullmatch, texts)):
            return _infer_text(name, texts, [])
        return _infer_number(name, numbers)
    odd = list(filter(is_other_number, texts))
    if 2 * len(odd) > len(texts):  # no numbers to us: each would be a category
        warning = (
            f"column {name!r} has numbers with a comma or a sign, as {odd[0]!r}, and is ignored: "
            f"write them as 1234.5; --categorical {name} takes each as a category"
        )
        return Column("ignored", "comma or sign", f"such as {odd[0]}: ignored", warning)
    dates = list(filter(None, map(parse_date, texts)))
    if len(dates) >= 0.9 * len(texts):
        parts = "month, weekday"
        if _has_hours(values):
            return Column("date", "date", f"such as {texts[0]}: {parts}, hour")
        return Column("day", "date", f"such as {texts[0]}: {parts}")
    if None not in spelled and not all(map(float.is_integer, filter(None, spelled))):
        warning = (
            f"column {name!r} has numbers as text, as {texts[0]!r}, and is read as a category: "
            f"give numbers, or name its kind (--numeric {name}; in Python kinds of Schema.infer "
            "and of the estimators)"
        )
        return Column("category", "numbers as text", f"such as {texts[0]!r}", warning)
    return _infer_text(name, texts, numbers)


def is_other_number(text: str) -> bool:
    """Return whether a text is a number to people, but not to programs.

    >>> [is_other_number(text) for text in ("12,5", "1,234.50", "$3", "71 %", "3.5", "1.2.3")]
    [True, True, True, True, False, False]
    """
    return number_of(text) is None and _OTHER_NUMBER.fullmatch(text) is not None


def _has_hours(values: Iterable[Any]) -> bool:
    """Return whether a cell has a time of day; frames write a day as midnight."""
    for value in values:
        if isinstance(value, datetime.datetime | np.datetime64):
            text = plain_value(value)
            if parse_date(text) is not None and not re.search(r"T00:00:00(?:\.0*)?$", text):
                return True
        elif isinstance(value, str) and (parse_date(value) or (0, None))[1] is not None:
            return True
    return False


def with_stray_text(column: Column, name: str, sample: Sample) -> Column:
    """Return a column of numbers and some text with a warning that names the first such cell."""
    if column.meaning != "number or category":
        return column
    texts = []
    for place, row in enumerate(sample.rows):
        value = row.get(name)
        if not is_missing(value) and number_of(plain_value(value)) is None:
            texts.append((place, value))
    place, value = texts[0]
    warning = (
        f"column {name!r} has numbers, but {str(value)[:60]!r} in {sample.place(place)} is none "
        f"({len(texts):,} such cells): mend it, or leave it empty; else it is a category"
    )
    return column._replace(warning=warning)


def rare_label_warnings(labels: Sequence[str], sample: Sample) -> Iterable[str]:
    """Warn of labels that may be mistyped: they occur once, or are no number as the others."""
    counts = Counter(labels)
    words = [label for label in counts if number_of(label) is None]
    numbers = len(labels) - sum(map(counts.__getitem__, words))
    amounts = len(counts) - len(words) > MAX_CODES
    if words and amounts and numbers >= MIN_NUMBER_SHARE * len(labels):
        where = sample.place(labels.index(words[0]))
        yield (
            f"label {words[0]!r} in {where} is no number, as {numbers:,} others are: "
            "mend it, or the labels are classes"
        )
        return
    for label in labels_that_occur_once(counts)[:MAX_REPORTED_COLUMNS]:
        where = sample.place(labels.index(label))
        yield (
            f"label {label!r} occurs once in {len(labels):,} rows, in {where}: is it mistyped? "
            "It makes a class of its own"
        )


def labels_that_occur_once(counts: Mapping[str, int]) -> list[str]:
    """Return labels that occur once where all others are frequent: they may be mistyped.

    >>> labels_that_occur_once({"ham": 300, "spam": 200, "spm": 1})
    ['spm']
    """
    events = sum(counts.values())
    once = [label for label, count in counts.items() if count == 1]
    often = [count for count in counts.values() if count >= 0.05 * events]
    if events < MIN_ROWS_RARE_LABEL or len(often) < 2 or len(often) + len(once) < len(counts):
        return []
    return once


def tells_every_label(cells: Sequence[str], labels: Sequence[str]) -> bool:
    """Return whether labels follow from a column: from each value, by thresholds, or by its order.

    >>> prices = [str(k % 97 + 0.5) for k in range(200)]
    >>> tells_every_label(prices, ["dear" if float(price) > 60 else "cheap" for price in prices])
    True
    """
    if len(cells) < MIN_ROWS_RARE_LABEL:
        return False
    different, classes = len(set(cells)), len(set(labels))
    if different <= MAX_CODES:
        pairs = set(zip(cells, labels, strict=True))
        return classes <= MAX_CODES and len(pairs) == different
    values = [value for value in map(number_of, cells) if value is not None]
    if len(values) < len(cells):
        return False
    if classes <= MAX_CODES:
        by_value = [label for _, label in sorted(zip(values, labels, strict=True))]
        return sum(starmap(ne, pairwise(by_value))) == classes - 1
    numbers = [number for number in map(number_of, labels) if number is not None]
    if len(numbers) < len(labels):
        return False
    ordered = [number for _, number in sorted(zip(values, numbers, strict=True))]
    return ordered in (sorted(numbers), sorted(numbers, reverse=True))


def column_as_asked(name: str, kind: str, values: Sequence[Any], reason: str) -> Column:
    """Return the column as the user wants it; with a warning where values speak against it."""
    if kind not in ("category", "date"):
        return Column(kind, kind, reason)
    warning = None
    column = infer_column(name, values)
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
    low = min(numbers)
    high = max(numbers)
    n = len(numbers)
    usual = Column("number", "number", f"{low:g} to {high:g}")
    if n < MIN_ROWS_CONSTANT:
        return usual
    if low == high:
        return Column("number", "constant", f"always {low:g} in {n:,} rows")
    if not all(map(float.is_integer, numbers)):
        return usual
    if (np.diff(numbers) == 1.0).all():
        return _id_like(name, "counts the rows", "numeric")
    different = len(set(numbers))
    if _ID_NAME.fullmatch(name) and different > 0.9 * n:
        return _id_like(name, f"{different:,} different in {n:,} rows", "numeric")
    return usual


def _infer_text(name: str, texts: list[str], numbers: list[float]) -> Column:
    n = len(texts)
    different = len(set(texts))
    words = len(" ".join(texts).split()) / n
    spread = f"{different:,} different in {n:,} rows"
    long = words >= 3 and n >= MIN_ROWS_CONSTANT and different > 0.9 * n
    if (words >= MIN_TEXT_WORDS and different > 0.5 * n) or long:
        return Column("text", "text", f"{words:.0f} words each, {spread}")
    codes = len(set(numbers)) <= MAX_CODES and all(map(float.is_integer, numbers))
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
