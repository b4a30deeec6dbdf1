"""Identities of tasks, features and labels: text, numbers, bytes, tuples; their form in a file."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from math import isfinite
from typing import Any

import numpy as np

Id = Hashable
Effect = tuple[Callable[[Any], object], Any]  # a compiled function, and what it is called with
_WHOLE = re.compile(r"[+-]?(?:0|[1-9][0-9]*)(?:\.0*)?")
_TRUTH = {"true": "1", "false": "0"}
DIGITS = 4000  # of a whole number as a name: Python writes and reads no more than 4300
_LARGEST = 10**DIGITS


def identity(what: str, value: Any) -> Id:
    """The value as it is kept: a NumPy scalar becomes Python's, a missing value is refused.

    >>> identity("task", np.int64(3))
    3
    """
    if type(value) is str:
        return value if value.isascii() else _sound(what, value)
    if type(value) is int and -_LARGEST < value < _LARGEST:
        return value
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or not _equals_itself(value):
        raise ValueError(f"{what} is missing ({value!r}): drop the event or name it")
    return _storable(what, value)


def _storable(what: str, value: Any) -> Id:
    """The value if a file can hold it: what could never be saved is not learned."""
    if isinstance(value, str):
        return _sound(what, str.__str__(value))
    if isinstance(value, tuple):
        return tuple(identity(what, part) for part in value)
    if isinstance(value, int):
        if -_LARGEST < value < _LARGEST:
            return value
        raise ValueError(f"{what} is a number of more than {DIGITS:,} digits: give it as text")
    if isinstance(value, bytes) or (isinstance(value, float) and isfinite(value)):
        return value
    raise ValueError(
        f"{what} {value!r} cannot be a name: give text, a finite number, bytes or a tuple of them"
    )


def identities(what: str, values: Iterable[Any]) -> list[Id]:
    """The identity of each value; where all are plain text, which they mostly are, at one look.

    >>> identities("task", ["ann", np.int64(3)])
    ['ann', 3]
    """
    given = list(values)
    if set(map(type, given)) == {str} and all(map(str.isascii, given)):
        return given
    return [identity(what, value) for value in given]


def known_as(value: Id) -> Id:
    """What a task or label is known as, however it was typed or written.

    A whole number, the text that spells it plainly, and a truth value are one name: 1, 1.0,
    "1", "+1", "1.0", True and "True" are the same, and so are 0, "0" and False. Other text
    is itself: "007" is not 7.

    >>> {known_as(one) for one in (1, 1.0, "1", "1.0", True, "true")}, known_as("007")
    ({'1'}, '007')
    """
    if isinstance(value, str):
        if value[:1] in "+-0123456789" and len(value) < DIGITS and _WHOLE.fullmatch(value):
            return str(int(value.partition(".")[0]))
        return _TRUTH.get(value.lower(), value) if len(value) < 6 else value
    if isinstance(value, int | float):
        return str(int(value)) if value == value // 1 else str(value)
    if isinstance(value, np.generic):
        return known_as(value.item())
    if isinstance(value, tuple):
        return tuple(known_as(part) for part in value)
    return value


def _sound(what: str, value: str) -> str:
    """Text that can be written as UTF-8: half a surrogate pair could be in no file and no page."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"{what} {value!a} is no text: it holds half a surrogate pair; decode it anew"
        ) from None
    return value


def _equals_itself(value: Id) -> bool:
    """False for NaN and NaT, and for pandas' NA, which cannot say."""
    try:
        return bool(value == value)
    except (TypeError, ValueError):
        return False


def to_json(value: Id) -> Any:
    """An identity as JSON: text and numbers as they are, tuples and bytes with a tag.

    >>> to_json(("shop", 7))
    {'tuple': ['shop', 7]}
    """
    if isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, tuple):
        return {"tuple": [to_json(part) for part in value]}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    raise TypeError(
        f"{value!r} cannot be written to a file: names of tasks, features and labels "
        f"must be text, numbers, bytes or tuples of them, not {type(value).__name__}"
    )


def all_to_json(values: Sequence[Id]) -> list[Any]:
    """Identities as JSON; where all are text, which they mostly are, at one look.

    >>> all_to_json(["town=Rome", ("shop", 7)])
    ['town=Rome', {'tuple': ['shop', 7]}]
    """
    plain = set(map(type, values)) <= {str}
    return list(values) if plain else [to_json(value) for value in values]


def from_json(value: Any) -> Id:
    """The identity that :func:`to_json` wrote.

    >>> from_json({'tuple': ['shop', 7]})
    ('shop', 7)
    """
    if isinstance(value, str | bool | int | float):
        return identity("name", value)
    if isinstance(value, dict) and len(value) == 1:
        (tag, inner), *_ = value.items()
        if tag == "tuple" and isinstance(inner, list):
            return tuple(from_json(part) for part in inner)
        if tag == "bytes" and isinstance(inner, str):
            return bytes.fromhex(inner)
    raise ValueError(f"{value!r} is not the name of a task, feature or label")
