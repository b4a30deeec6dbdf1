"""A second fuzzer, which knows less of the format and trusts its luck more.

It edits the text of the header and of the names as text, so that keys come twice, numbers are
written in odd ways and brackets open without end, and arrays as bytes: of another type, another
shape, another file. It starts also from estimators, and from models with a policy that asks for
labels. See ``mutations.py`` for the other one.
"""

import hashlib
import json
import re
import struct
import warnings
import zlib
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

import romco
from romco.io.modelfile import FORMAT, MAGIC
from romco_lab.fuzz.acts import MAX_WEIGHTS, random_round, try_loading
from romco_lab.fuzz.files import File, taken_apart
from romco_lab.fuzz.seeds import bare, model, seeds

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*|true|false|null|[\[\]{},:]')
NUMBERS = (
    *("0", "-0", "-1", "1", "2", "7", "0.5", "1E3", "1e400", "-1e400", "1e-400", "NaN", "Infinity"),
    *("9007199254740993", "2147483648", "4294967296", "9223372036854775807", "1e308", "5e-324"),
    *("18446744073709551616", "1" + "0" * 400, "1" * 5000, "-9223372036854775809", "65536"),
)
TEXTS = (
    *('""', '"\\ud800"', '"\\u0000"', '"__class__"', '"learner"', '"romco-auto"', '"mtfl"'),
    *('"classes"', '"arow-unique-number"', '"../../../etc/passwd"', '"1"', '"nan"', '"names"'),
    *('"hashed"', '"columns"', '"mean"', '"number"', '"river"', '"scikit-learn"', '"model"'),
    *('"' + "a" * 10_000 + '"', '"[/bold]\\u001b[2J"', "null", "true", "false", "[]", "{}"),
    *("[" * 900 + "]" * 900, "[" * 5000 + "]" * 5000, '{"a":' * 3000 + "1" + "}" * 3000),
)
REAL = (0.0, -0.0, 5e-324, 1e-308, 1e-200, 1.0, -1.0, 1e60, 1e154, 1e200, 1.79e308, -1.79e308)
REAL = (*REAL, np.nan, np.inf, -np.inf)
WHOLE = (0, 1, -1, 2, 127, 255, 2**15, 2**31 - 1, -(2**31), 2**32, 2**53, 2**63 - 1, -(2**63))
KINDS = ("<f8", "<f4", "<i8", "<i4", "<u8", "<u4", "|u1", "|i1", "|b1", "<f2", ">f8", "<c16", "|S4")


def try_stranger(rng: Generator, seeds: list[File], folder: Path) -> str:
    """Load an edited file, and use it in every way if it can be loaded; gives what came of it."""
    path = folder / "strange.romco"
    path.write_bytes(_edited(rng))
    return try_loading(path, partial(use, rng))


@cache
def sound() -> list[File]:
    """Files to start from: those of the other fuzzer, and what it does not have."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "seed.romco"
        made = []
        for thing in _others():
            romco.save(thing, path)
            made.append(taken_apart(path.read_bytes()))
    return made * 2 + seeds()


def _others() -> Iterator[Any]:
    rows = np.random.default_rng(2).normal(size=(40, 5))
    tasks = [f"t{i % 4}" for i in range(40)]
    labels = ["bus"] * 20 + ["car"] * 20
    asking = model("romco-auto", romco.Names(), 5)
    asking.labels = romco.labels.Budget(0.5, seed=1)
    asking.ask([{"f1": 1.0}] * 30, ["task 1"] * 30)
    yield asking
    yield romco.ROMCOClassifier().fit(rows, labels, task=tasks)
    yield romco.ROMCORegressor().fit(rows, rows[:, 0], task=tasks)
    yield bare("romco", 5, 3)


def _edited(rng: Generator) -> bytes:
    """Return the bytes of an edited file, with right checksums."""
    files = sound()
    file, other = (files[int(rng.integers(0, len(files)))] for _ in range(2))
    arrays = {name: array.copy() for name, array in file.arrays.items()}
    header, text = json.dumps(file.header), None
    if file.text is not None:
        text = json.dumps(file.text)
    for _ in range(int(rng.geometric(0.65))):
        way = rng.random()
        if way < 0.35:
            header = retyped(rng, header)
        elif way < 0.45 and text is not None:
            text = retyped(rng, text)
        elif arrays:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                _rearranged(rng, arrays, other.arrays)
    if text is not None:
        arrays["json"] = np.frombuffer(text.encode("utf-8", "surrogatepass"), dtype=np.uint8)
    return _packed(rng, header, arrays)


def _packed(rng: Generator, header: str, arrays: dict[str, NDArray[Any]]) -> bytes:
    names = list(arrays)
    if rng.random() < 0.1:
        names = [str(name) for name in rng.permutation(names)]
    blocks = json.dumps(
        [
            {
                "name": name,
                "dtype": arrays[name].dtype.str,
                "shape": list(arrays[name].shape),
                "crc32": zlib.crc32(arrays[name].tobytes()),
            }
            for name in names
        ]
    )
    if rng.random() < 0.08:
        blocks = retyped(rng, blocks)
    text = (header[:-1] + ', "blocks": ' + blocks + "}").encode("utf-8", "surrogatepass")
    head = MAGIC + struct.pack("<IQ", FORMAT, len(text)) + text
    return head + hashlib.sha256(head).digest() + b"".join(arrays[n].tobytes() for n in names)


def retyped(rng: Generator, text: str) -> str:
    """The text with a token exchanged, doubled, dropped, swapped with another, or a key twice."""
    found = list(TOKEN.finditer(text))
    plain = [token for token in found if token.group() not in "[]{},:"]
    if not plain:
        return text
    one, other = (plain[int(rng.integers(0, len(plain)))] for _ in range(2))
    way = rng.random()
    if way < 0.5:
        if one.group()[0] == '"' and rng.random() < 0.7:
            return _cut(text, one, _some(rng, TEXTS))
        return _cut(text, one, _some(rng, NUMBERS if rng.random() < 0.7 else TEXTS))
    if way < 0.7:
        return _cut(text, one, other.group())
    if way < 0.8 and one.group()[0] == '"':  # a key that comes twice, if it was one
        return _cut(text, one, f"{one.group()}: {other.group()}, {one.group()}")
    if way < 0.9:
        return _cut(text, one, f"{one.group()}, {one.group()}")
    any_ = found[int(rng.integers(0, len(found)))]
    return _cut(text, any_, _some(rng, ("", ",", "[", "}", " ")))


def _cut(text: str, token: re.Match[str], new: str) -> str:
    return text[: token.start()] + new + text[token.end() :]


def _rearranged(rng: Generator, arrays: dict[str, Any], others: dict[str, Any]) -> None:
    """Change one array, or exchange it."""
    name = _some(rng, list(arrays))
    array = arrays[name]
    way = rng.random()
    if way < 0.35:
        arrays[name] = _refilled(rng, array)
    elif way < 0.5:
        arrays[name] = _reshaped(rng, array)
    elif way < 0.6:
        kind = _some(rng, KINDS)
        arrays[name] = array.astype(kind) if rng.random() < 0.5 else _seen_as(array, kind)
    elif way < 0.7:
        same = [n for n, a in others.items() if a.shape == array.shape] or list(others)
        arrays[name] = others[name if name in others else _some(rng, same)].copy()
    elif way < 0.8:
        second = _some(rng, list(arrays))
        arrays[name], arrays[second] = arrays[second], array
    elif way < 0.9:
        flat = array.reshape(-1)
        arrays[name] = rng.permutation(flat).reshape(array.shape)
    elif way < 0.95:
        del arrays[name]
    else:
        arrays[_some(rng, ("w", "json", "tasks.seen", "learner.w", name + "."))] = array


def _refilled(rng: Generator, array: NDArray[Any]) -> NDArray[Any]:
    """All of it, or a few places, other numbers of the same type."""
    made = array.copy()
    flat = made.reshape(-1)
    if not flat.size:
        return made
    some = rng.integers(0, flat.size, 1 + int(rng.integers(0, 4)))
    place: Any = slice(None) if rng.random() < 0.4 else some
    way = rng.random()
    if array.dtype.kind != "f":
        flat[place] = np.array(_some(rng, WHOLE) if way < 0.6 else rng.integers(-3, 9)).astype(
            array.dtype
        )
    elif way < 0.5:
        flat[place] = _some(rng, REAL)
    elif way < 0.75:
        flat[place] = rng.normal() * 10.0 ** rng.integers(-300, 300)
    elif way < 0.9:
        flat[place] *= 10.0 ** rng.integers(-40, 40)
    else:
        flat[:] = np.frombuffer(rng.bytes(flat.nbytes), dtype=flat.dtype)
    return made


def _reshaped(rng: Generator, array: NDArray[Any]) -> NDArray[Any]:
    ways = (
        lambda a: a.T,
        lambda a: a.reshape(-1),
        lambda a: a.reshape(1, -1),
        lambda a: a.reshape(-1, 1),
        lambda a: a.reshape(-1, a.shape[0]) if a.shape and a.shape[0] else a,
        lambda a: a[1:],
        lambda a: a[..., 1:],
        lambda a: np.concatenate([a, a]),
        lambda a: np.repeat(a, 2, axis=-1),
        lambda a: a[:0],
        lambda a: np.pad(a, 1),
        lambda a: a.reshape(a.shape + (1,) * 9),
        lambda a: a.reshape(-1)[:1].reshape(()),
    )
    try:
        return np.ascontiguousarray(_some(rng, ways)(array))
    except (ValueError, IndexError):
        return array


def _seen_as(array: NDArray[Any], kind: str) -> NDArray[Any]:
    try:
        return np.ascontiguousarray(array).view(kind)
    except (ValueError, TypeError):
        return array


def use(rng: Generator, made: Any) -> None:
    """Everything that can be asked of it, in any order."""
    if isinstance(made, romco.Learner):
        _use_learner(rng, made)
        return
    inside = made if isinstance(made, romco.Model) else made.fitted_model()
    for _ in range(6):
        _some(rng, MODEL_ACTS)(rng, inside)


def _use_learner(rng: Generator, made: romco.Learner) -> None:
    for _ in range(3):
        round = random_round(rng, made)
        made.predict(round)
        made.update(round)
        made.replay([round])
    if made.n_features * made.n_tasks <= MAX_WEIGHTS:
        made.weights()
    made.state()


def _events(rng: Generator, made: romco.Model) -> tuple[Any, list[Any], list[Any]]:
    n = int(rng.integers(1, 5))
    tasks = [_some(rng, [*made.tasks[:6], "new", "newer", 7]) for _ in range(n)]
    words = list(made.classes) or ["no", "yes"]
    labels = [
        float(rng.normal()) if made.engine.target.kind == "number" else _some(rng, words)
        for _ in tasks
    ]
    if isinstance(made.features, romco.Columns):
        rows: Any = rng.normal(size=(n, made.features.width))
    else:
        rows = [{f"f{rng.integers(0, 9)}": float(rng.normal()), "town": "Rome"} for _ in tasks]
    return rows, labels, tasks


def _learn(rng: Generator, made: romco.Model) -> None:
    rows, labels, tasks = _events(rng, made)
    made.learn(rows, labels, tasks, together=bool(rng.random() < 0.2))


def _predict(rng: Generator, made: romco.Model) -> None:
    rows, _, tasks = _events(rng, made)
    assert len(made.margins(rows, tasks)) == len(tasks)
    if made.engine.target.kind == "number":
        made.intervals(rows, tasks)
    else:
        made.predict_proba(rows, tasks)
        made.predict(rows, tasks)


def _look(rng: Generator, made: romco.Model) -> None:
    for task in made.tasks[:9]:
        assert made.engine.events_of(task) >= 0
        made.engine.personal_since(task)
    if made.engine.learner.n_features * made.engine.learner.n_tasks <= MAX_WEIGHTS:
        str(romco.explain(made))
        if made.tasks and made.engine.target.kind == "two classes":
            rows, _, _ = _events(rng, made)
            str(romco.reasons(made, rows[0], made.tasks[0]))


def _forget(rng: Generator, made: romco.Model) -> None:
    if made.tasks:
        made.forget(_some(rng, made.tasks))


def _ask(rng: Generator, made: romco.Model) -> None:
    if made.labels is not None:
        rows, _, tasks = _events(rng, made)
        made.ask(rows, tasks)


MODEL_ACTS = (_learn, _learn, _predict, _look, _forget, _ask)


def _some(rng: Generator, values: Any) -> Any:
    return values[int(rng.integers(0, len(values)))]
