"""Chance as data: the k-th number of a seeded sequence, so that a state is plain numbers."""

from __future__ import annotations

import secrets
from typing import Any

from romco.parameters import whole

_MASK = (1 << 64) - 1


def uniform(seed: int, k: int) -> float:
    """The k-th number in [0, 1) of the sequence ``seed`` (splitmix64).

    >>> uniform(1, 0) == uniform(1, 0), uniform(1, 0) == uniform(1, 1)
    (True, False)
    """
    z = (seed + (k + 1) * 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return ((z ^ (z >> 31)) >> 11) * 2.0**-53


def seeded(seed: Any) -> int:
    """The seed, or one that nobody can guess."""
    return secrets.randbits(63) if seed is None else whole("seed", seed, least=0)
