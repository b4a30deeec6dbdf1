"""Changes that keep the simple checks of a file true: finite numbers, known names, right sums."""

import copy
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from romco_lab.fuzz.files import File

WHOLE = (0, 1, -1, 2, 3, 7, 16, 63, 64, 65, 255, 256, 2**15, 2**16, 2**31 - 1, 2**31, 2**32 - 1)
HUGE = (2**32, 2**40, 2**53, 2**62, 2**63 - 1, -(2**31), -(2**32) + 1, -(2**40), -(2**63))
REAL = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-308, 5e-324, 1e-160, 1e150, -1e150, 1.7e308, -1.7e308, 1e16)
JSON: tuple[Any, ...] = (None, True, False, "", "x", [], {}, 0, -1, 3, 2.5, 10**9, 10**30, 1e308)


def mutated(rng: Generator, sound: File, other: File) -> File:
    """A copy with one to four changes."""
    file = copy.deepcopy(sound)
    for _ in range(int(rng.integers(1, 5))):
        change = CHANGES[rng.choice(len(CHANGES), p=SHARES)]
        change(rng, file, other)
    return file


def change_numbers(rng: Generator, file: File, other: File) -> None:
    """A few entries of an array become special ones, or those of a neighbour."""
    name = one_of(rng, list(file.arrays))
    array = file.arrays[name].reshape(-1)
    if not array.size:
        return
    for at in rng.integers(0, array.size, int(rng.integers(1, 4))):
        array[at] = _number(rng, array, at)


def change_all(rng: Generator, file: File, other: File) -> None:
    """All entries of an array: shifted, negated, scaled, sorted, alike."""
    name = one_of(rng, list(file.arrays))
    array = file.arrays[name]
    if not array.size or array.dtype.kind == "b":
        return
    ways = (
        lambda a: -a,
        lambda a: a + a.dtype.type(1),
        lambda a: np.roll(a, 1),
        lambda a: np.sort(a.reshape(-1)).reshape(a.shape),
        lambda a: np.full_like(a, a.reshape(-1)[0]),
        lambda a: np.zeros_like(a),
        lambda a: np.nan_to_num(a * a.dtype.type(3)),
        lambda a: a[::-1],
    )
    with np.errstate(all="ignore"):
        file.arrays[name] = np.ascontiguousarray(one_of(rng, ways)(array)).astype(array.dtype)


def change_shape(rng: Generator, file: File, other: File) -> None:
    """An axis longer, shorter, gone, swapped or added; the numbers go along."""
    name = one_of(rng, list(file.arrays))
    array = file.arrays[name]
    ways = (
        lambda a: a.T,
        lambda a: a.reshape(-1),
        lambda a: a[None],
        lambda a: a[..., None],
        lambda a: a[:0],
        lambda a: a[..., :0],
        lambda a: a[:-1],
        lambda a: a[..., :-1],
        lambda a: np.concatenate([a, a[-1:]]),
        lambda a: np.concatenate([a, a[..., -1:]], axis=-1),
        lambda a: np.zeros(
            (0, *(int(n) for n in rng.choice(WHOLE, a.ndim - 1) if n >= 0)), a.dtype
        ),
        lambda a: a.reshape(a.shape[::-1]),
    )
    if array.ndim and array.size:
        try:
            file.arrays[name] = np.ascontiguousarray(one_of(rng, ways)(array))
        except (ValueError, MemoryError):
            return


def change_sizes(rng: Generator, file: File, other: File) -> None:
    """Every axis of one length gets another, and the numbers in the header that say so, too."""
    lengths = sorted({n for array in file.arrays.values() for n in array.shape if 1 < n < 2**20})
    if not lengths:
        return
    old = int(one_of(rng, lengths))
    new = max(1, old + int(one_of(rng, (-2, -1, 1, 2, old))))
    for name, array in file.arrays.items():
        for axis in [axis for axis, n in enumerate(array.shape) if n == old]:
            array = np.take(array, np.arange(new) % old, axis=axis)
        file.arrays[name] = np.ascontiguousarray(array)
    file.header = _with(file.header, old, new)


def change_kind(rng: Generator, file: File, other: File) -> None:
    """An array of another type."""
    name = one_of(rng, list(file.arrays))
    kind = one_of(rng, ("<f8", "<f4", "<i8", "<i4", "<u8", "|u1", "|b1"))
    with np.errstate(all="ignore"):
        file.arrays[name] = np.nan_to_num(file.arrays[name].astype(kind)).astype(kind)


def change_json(rng: Generator, file: File, other: File) -> None:
    """A value in the header or the long text becomes another, is gone, or comes twice."""
    whole = file.header["state"] if file.text is None or rng.random() < 0.7 else file.text
    at: Any = whole
    for _ in range(int(rng.integers(0, 5))):
        inner = [v for v in (at.values() if isinstance(at, dict) else at) if _holds(v)]
        if not inner:
            break
        at = one_of(rng, inner)
    keys = list(at) if isinstance(at, dict) else list(range(len(at)))
    if not keys:
        return
    key = one_of(rng, keys)
    way = rng.integers(0, 5)
    if way == 0:
        del at[key]
    elif way == 1 and isinstance(at, list):
        at.append(copy.deepcopy(at[key]))
    elif way == 2 and type(at[key]) in (int, float):
        at[key] = at[key] + one_of(rng, (-1, 1, 2, 0.5, at[key]))
    elif way == 3:
        at[key] = copy.deepcopy(at[one_of(rng, keys)])
    else:
        at[key] = copy.deepcopy(one_of(rng, (*JSON, *map(int, WHOLE))))


def splice(rng: Generator, file: File, other: File) -> None:
    """An array of another file, or of another name in this one."""
    source = other.arrays if rng.random() < 0.5 else file.arrays
    name = one_of(rng, list(file.arrays))
    taken = one_of(rng, list(source))
    name = taken if taken in file.arrays and rng.random() < 0.7 else name
    file.arrays[name] = source[taken].copy()


def drop_or_add(rng: Generator, file: File, other: File) -> None:
    """An array fewer, or one more."""
    name = one_of(rng, list(file.arrays))
    if rng.random() < 0.5 and len(file.arrays) > 1:
        del file.arrays[name]
    else:
        file.arrays[name + one_of(rng, ("2", "_", "s"))] = file.arrays[name].copy()


CHANGES = (
    *(change_numbers, change_all, change_shape, change_sizes),
    *(change_kind, change_json, splice, drop_or_add),
)
SHARES = (0.4, 0.1, 0.12, 0.1, 0.04, 0.14, 0.08, 0.02)


def _number(rng: Generator, array: NDArray[Any], at: int) -> Any:
    way = rng.random()
    if way < 0.3:
        return array[rng.integers(0, array.size)]
    if array.dtype.kind == "f":
        value = (
            float(one_of(rng, REAL))
            if way < 0.7
            else float(array[at]) * 10.0 ** rng.integers(-9, 9)
        )
        if array.dtype.itemsize == 8:
            return value
        return np.float32(np.clip(value, -1e38, 1e38))
    value = (
        int(one_of(rng, WHOLE + HUGE)) if way < 0.65 else int(array[at]) + int(rng.integers(-3, 4))
    )
    if array.dtype.kind == "b":
        return bool(value)
    bounds = np.iinfo(array.dtype)
    return array.dtype.type(min(max(value, bounds.min), bounds.max))


def _with(value: Any, old: int, new: int) -> Any:
    """JSON in which a whole number is another."""
    if isinstance(value, dict):
        return {key: _with(part, old, new) for key, part in value.items()}
    if isinstance(value, list):
        return [_with(part, old, new) for part in value]
    if type(value) is int and value == old:
        return new
    return value


def _holds(value: Any) -> bool:
    return isinstance(value, dict | list) and len(value) > 0


def one_of(rng: Generator, values: Any) -> Any:
    return values[int(rng.integers(0, len(values)))]
