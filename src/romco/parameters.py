"""Checks of single parameters: the value as it is used, or an error that names it."""

from __future__ import annotations

import json
from math import isfinite
from numbers import Real
from typing import Any

import numpy as np


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


def truth(name: str, value: Any) -> bool:
    """The value if it is True or False.

    >>> truth("always_prox", False)
    False
    """
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False; got {value!r}")
    return bool(value)


def setting(text: str, form: str = "parameter=value") -> tuple[str, Any]:
    """Name and value from a text of that form, as ``--set`` takes it.

    A value is a number, a truth value (true, false), nothing (none, null), a list of these in
    brackets, or else a word; capitals do not matter, and a word in double quotes is a word
    whatever it says.

    >>> setting("always_prox=False"), setting("eta = 1e-3"), setting("norm=L2")
    (('always_prox', False), ('eta', 0.001), ('norm', 'L2'))
    """
    name, equals, value = text.partition("=")
    if not (equals and name.strip()):
        raise ValueError(f"--set {text}: expected {form}")
    return name.strip(), _value(value.strip())


def _value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None, "null": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return float(text)  # what JSON does not take: .5, +1
    except ValueError:
        return text


def _is_number(value: Any) -> bool:
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and isfinite(value)
    except OverflowError:  # a whole number beyond all that a computer calculates with
        return False
