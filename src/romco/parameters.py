"""Checks of single parameters: the value as it is used, or an error that names it."""

from __future__ import annotations

from math import isfinite
from numbers import Real
from typing import Any


def whole(name: str, value: Any, least: int = 1) -> int:
    """The value as an int if it is a whole number of at least ``least``.

    >>> whole("n_tasks", 3.0)
    3
    """
    if not _is_number(value) or int(value) != value or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}; got {value!r}")
    return int(value)


def positive(name: str, value: Any) -> float:
    """The value if it is a finite number above 0."""
    if not (_is_number(value) and value > 0):
        raise ValueError(f"{name} must be a positive number; got {value!r}")
    return float(value)


def not_negative(name: str, value: Any) -> float:
    """The value if it is a finite number, 0 or above."""
    if not (_is_number(value) and value >= 0):
        raise ValueError(f"{name} must be 0 or a positive number; got {value!r}")
    return float(value)


def choice(name: str, value: Any, *known: str) -> str:
    """The value if it is one of the known words."""
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}; got {value!r}")
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and isfinite(value)
