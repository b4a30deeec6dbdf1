"""A third fuzzer, whose lies agree with each other: no checksum, type or range gives them away.

Counters that are absurd in every place that tells them; rows of a store that come twice or in
another order, together with their numbers; arrays of another learner of the same shape; numbers
between the smallest and the largest; names that are no text, that differ in form only, that have no
end. Files are loaded within limits of all sizes, which memory must keep to, and estimators are used
by their own verbs.
"""

import copy
import resource
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numpy.random import Generator

import romco
from romco.shards.schedule import Schedule
from romco_lab.fuzz import strangers
from romco_lab.fuzz.acts import LIMIT, try_loading
from romco_lab.fuzz.files import File, put_together, taken_apart
from romco_lab.fuzz.mutations import one_of

COUNTS = (0, 1, -1, 2**31, 2**53, 2**53 + 1, 2**62, 2**63 - 1, -(2**63), 2**64, 10**30)
SIZES = (-0.0, 5e-324, 1e-310, 1e-160, 1e-60, 1e-16, 1.0, 1e16, 1e60, 1e154, 1e200, 1.7e308)
NAMES: tuple[Any, ...] = (
    *("", "\0", "\n", "\x1b[2J", "\ud800", "e\u0301", "\xe9", "\ufeff", "\u202e", "1", "1.0", "+1"),
    *(
        "true",
        1,
        1.0,
        True,
        0,
        -0.0,
        "-0",
        2**63,
        10**400,
        10**4200,
        "9" * 5000,
        1e308,
        "x" * 10**5,
    ),
    *({"tuple": []}, {"tuple": ["a", 1]}, {"tuple": [{"tuple": ["\udfff"]}]}, {"bytes": "00ff"}),
    *({"bytes": "zz"}, {"tuple": None}, None, [], {"__class__": "x"}, "constructor", "__init__"),
)
SLACK = 48 * 2**20  # bytes that have nothing to do with the file


def try_lie(rng: Generator, seeds: list[File], folder: Path) -> str:
    """Load a file whose lies agree, within a limit, and use it if it can be loaded."""
    path = folder / "lie.romco"
    path.write_bytes(put_together(lied(rng)))
    limit = int(2.0 ** rng.uniform(12, 28)) if rng.random() < 0.2 else LIMIT
    return try_loading(path, partial(use, rng), _loaded, limit)


def lied(rng: Generator) -> File:
    """A sound file with one to three lies."""
    files = sound()
    file = copy.deepcopy(one_of(rng, files))
    for _ in range(int(rng.integers(1, 4))):
        one_of(rng, LIES)(rng, file, one_of(rng, files))
    return file


@cache
def sound() -> list[File]:
    """Those of the other fuzzers, River's estimators, and a model that was learned by shards."""
    import tempfile

    made = list(strangers.sound())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "seed.romco"
        for thing in _rivers():
            romco.save(thing, path)
            made += [taken_apart(path.read_bytes())] * 2
        with mock.patch.object(Schedule, "first", 10):
            shards = romco.shards.Shards("romco-auto", 3, every=20)
            for _ in range(9):
                shards.learn([{"a": 1.0}, {"b": -1.0}, {"a": 2.0}], ["y", "n", "y"], ["s", "t", 3])
        shards.save(path)
        made += [taken_apart(path.read_bytes())] * 2
    return made


def _rivers() -> list[Any]:
    from romco.adapters import river

    classifier = river.ROMCOClassifier()
    regressor = river.ROMCORegressor()
    for k in range(12):
        row = {"a": float(k % 3), "town": ("Rome", "Oslo")[k % 2]}
        classifier.learn_one(row, k % 2 == 0, task=f"t{k % 3}")
        regressor.learn_one(row, float(k), task=f"t{k % 3}")
    return [classifier, regressor]


def _loaded(path: Path, limit: int) -> Any:
    """The thing in a file; memory has kept to the limit meanwhile."""
    peak = _peak()
    here = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    made = romco.load(path, limit=limit)
    assert _peak() <= max(peak, here + limit + SLACK), f"{_peak() - here} bytes, {limit} allowed"
    return made


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


# Lies


def count_wrongly(rng: Generator, file: File, other: File) -> None:
    """A counter is another everywhere: in the arrays of whole numbers, and in the header."""
    whole = [name for name, array in file.arrays.items() if array.dtype.kind in "iu" and array.size]
    value = one_of(rng, COUNTS)
    if whole and rng.random() < 0.7:
        array = file.arrays[one_of(rng, whole)]
        bounds = np.iinfo(array.dtype)
        kept = min(max(value, bounds.min), bounds.max)
        flat = array.reshape(-1)
        old = flat[int(rng.integers(0, flat.size))]
        flat[flat == old] = kept
    keys = [key for key, kept in file.header["state"].items() if type(kept) in (int, float)]
    if keys and rng.random() < 0.6:
        file.header["state"][one_of(rng, keys)] = value


def shuffle_rows(rng: Generator, file: File, other: File) -> None:
    """Rows of all arrays of one length in another order, or some of them twice."""
    lengths = sorted(
        {len(array) for array in file.arrays.values() if array.ndim and len(array) > 1}
    )
    if not lengths:
        return
    n = one_of(rng, lengths)
    at = rng.permutation(n) if rng.random() < 0.5 else rng.integers(0, n, n)
    some = [name for name, array in file.arrays.items() if array.ndim and len(array) == n]
    for name in some if rng.random() < 0.7 else [one_of(rng, some)]:
        file.arrays[name] = np.ascontiguousarray(file.arrays[name][at])


def borrow(rng: Generator, file: File, other: File) -> None:
    """An array of the same shape and type, of another learner or of another place."""
    name = one_of(rng, list(file.arrays))
    array = file.arrays[name]
    for source in (other.arrays, file.arrays):
        alike = [
            n
            for n, a in source.items()
            if n != name and (a.shape, a.dtype) == (array.shape, array.dtype)
        ]
        if alike:
            file.arrays[name] = source[one_of(rng, alike)].copy()
            return


def stretch(rng: Generator, file: File, other: File) -> None:
    """Numbers of all sizes, signs as they were or not."""
    floats = [
        name for name, array in file.arrays.items() if array.dtype == np.float64 and array.size
    ]
    if not floats:
        return
    flat = file.arrays[one_of(rng, floats)].reshape(-1)
    at = rng.random(flat.size) < rng.choice([0.2, 1.0])
    sizes = (
        rng.choice(SIZES, flat.size)
        if rng.random() < 0.5
        else np.full(flat.size, one_of(rng, SIZES))
    )
    flat[at] = (np.copysign(sizes, flat) if rng.random() < 0.6 else sizes)[at]


def rename(rng: Generator, file: File, other: File) -> None:
    """A name of a task, a feature, a label or a column is another; their number stays."""
    lists: list[Any] = []
    for whole in (file.text, file.header["state"]):
        _lists(whole, lists)
    if lists:
        names = one_of(rng, lists)
        names[int(rng.integers(0, len(names)))] = copy.deepcopy(one_of(rng, NAMES))


def _lists(value: Any, found: list[Any]) -> None:
    if isinstance(value, list) and value:
        found.append(value)
    for inner in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        if isinstance(inner, dict | list):
            _lists(inner, found)


LIES = (count_wrongly, shuffle_rows, borrow, stretch, rename)


# Use


def use(rng: Generator, made: Any) -> None:
    """By its own verbs."""
    if isinstance(made, romco.Learner | romco.Model):
        strangers.use(rng, made)
    elif "river" in type(made).__module__:
        _use_river(rng, made)
    else:
        _use_estimator(rng, made)


def _use_river(rng: Generator, made: Any) -> None:
    row = {"a": float(rng.normal()), "town": "Rome"}
    task = one_of(rng, [*made.fitted_model().tasks[:4], "new"])
    number = "Regressor" in type(made).__name__
    for _ in range(3):
        made.predict_one(row, task=task)
        if not number:
            made.predict_proba_one(row, task=task)
        made.learn_one(row, float(rng.normal()) if number else bool(rng.random() < 0.5), task=task)


def _use_estimator(rng: Generator, made: Any) -> None:
    n, number = 4, "Regressor" in type(made).__name__
    tasks = [one_of(rng, [*made.fitted_model().tasks[:4], "new"]) for _ in range(n)]
    rows = rng.normal(size=(n, made.n_features_in_))
    made.predict(rows, task=tasks)
    if not number:
        made.predict_proba(rows, task=tasks)
        made.decision_function(rows, task=tasks)
    words = list(made.fitted_model().classes)
    answers = (
        rng.normal(size=n) if number else [one_of(rng, words) for _ in range(n)] if words else None
    )
    if answers is not None:
        made.partial_fit(rows, answers, task=tasks)
        made.score(rows, answers, task=tasks)
    str(made.explain())
    made.get_params()
    assert len(made.tasks_) == len(made.fitted_model().tasks)
