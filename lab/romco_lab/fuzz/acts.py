"""Use of a fuzzed file, and its possible outcomes."""

import contextlib
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.sparse import csr_array

import romco
from romco.io.modelfile import ModelFileError
from romco_lab.fuzz.files import File, put_together
from romco_lab.fuzz.mutations import HUGE, REAL, WHOLE, mutated

TOLD = (ValueError, ArithmeticError)  # ways to say no, once a file is open
LIMIT = 2**28  # bytes that a file may take
ROWS = 4  # that are predicted and learned
MAX_WEIGHTS = 2**18  # features times tasks of what is explained: dense pictures of more take long


def try_file(rng: Generator, seeds: list[File], folder: Path) -> str:
    """Load a mutated file, and use it if it can be loaded; gives what came of it."""
    sound, other = (seeds[int(rng.integers(0, len(seeds)))] for _ in range(2))
    path = folder / "fuzzed.romco"
    try:
        path.write_bytes(put_together(mutated(rng, sound, other)))
    except (TypeError, ValueError):  # JSON that cannot be written, such as a number too long
        return "not written"
    return try_loading(path, partial(use, rng))


def try_loading(
    path: Path,
    use: Callable[[Any], None],
    load: Callable[..., Any] = romco.load,
    limit: int = LIMIT,
) -> str:
    """Load a file, use what is in it and save it, as far as it goes; gives what came of it."""
    with contextlib.suppress(ModelFileError):
        romco.peek(path)
    try:
        made = load(path, limit)
    except ModelFileError:
        return "refused"
    try:
        use(made)
        romco.save(made, path)
        romco.load(path, limit=4 * LIMIT)
    except TOLD:
        return "told"
    return "used"


def use(rng: Generator, made: Any) -> None:
    """Predict, learn, predict, explain, forget."""
    if isinstance(made, romco.Learner):
        for _ in range(3):
            round = random_round(rng, made)
            made.predict(round)
            made.update(round)
        if made.n_features * made.n_tasks <= MAX_WEIGHTS:
            made.weights()
            str(romco.explain(made))
        return
    rows = _rows(rng, made)
    known = made.classes or ("no", "yes")
    tasks = [*made.tasks[:3], "new", "newer", "newest", "another"][:ROWS]
    labels = [known[i % len(known)] for i in range(ROWS)]
    is_number = made.engine.target.kind == "number"
    if is_number:
        labels = rng.normal(size=ROWS).tolist()
    for _ in range(2):
        made.predict(rows, tasks)
        if not is_number:
            made.predict_proba(rows, tasks)
        made.learn(rows, labels, tasks)
    if made.engine.learner.n_features * made.engine.learner.n_tasks <= MAX_WEIGHTS:
        str(romco.explain(made))
    if made.tasks:
        made.forget(made.tasks[0])
        made.learn(rows, labels, tasks)


def try_arrays(rng: Generator, seeds: list[File], folder: Path) -> str:
    """Hostile rows, dense or CSR, into a learner; nothing may change where they are refused."""
    name = list(romco.LEARNERS)[int(rng.integers(0, len(romco.LEARNERS)))]
    d = int(rng.integers(1, 9))
    m = int(rng.integers(1, 6))
    learner = romco.learner(name, d, m)
    round = _hostile(rng, d, m)
    before = learner.state()["arrays"]
    try:
        learner.predict(round)
        learner.update(round)
        learner.replay([round, round])
    except (*TOLD, TypeError):
        after = learner.state()["arrays"]
        same = all(np.array_equal(before[key], after[key]) for key in before)
        if same:
            return "refused"
        return "told"
    return "used"


def try_source(rng: Generator, seeds: list[File], folder: Path) -> str:
    """A broken file of events into the command line: it ends with a status, whatever is in it."""
    from typer.testing import CliRunner

    from romco.cli.main import app

    suffix, text = SOURCES[int(rng.integers(0, len(SOURCES)))]
    source = folder / f"events{suffix}"
    source.write_bytes(_broken(rng, text.encode() * int(rng.integers(1, 4))))
    with tempfile.TemporaryDirectory(dir=folder) as inner:
        model = f"{inner}/m.romco"
        options = ["--task", "user", "--label", "y"] if suffix != ".svm" else []
        skip = ["--skip-bad"] if rng.random() < 0.5 else []
        outcome = [
            CliRunner().invoke(app, [command, str(source), "--model", model, *options, *skip])
            for command in ("learn", "predict", "evaluate")
        ]
    for result in outcome:
        if result.exception is not None and not isinstance(
            result.exception, (SystemExit, OSError, ImportError, *TOLD)
        ):
            raise result.exception
    if outcome[0].exit_code == 0:
        return "used"
    return "refused"


SOURCES = (
    (".csv", "user,y,a,b\nann,1,0.5,x\nbob,0,-2,y\n"),
    (".tsv", "user\ty\ta\nann\t1\t3\nbob\t0\t4\n"),
    (".jsonl", '{"user": "ann", "y": 1, "a": 0.5}\n{"user": "bob", "y": 0, "b": "x"}\n'),
    (".svm", "1 qid:1 1:0.5 3:2\n-1 qid:2 2:1\n"),
    (".parquet", "PAR1 is how it begins, and PAR1"),
)
PIECES = (
    b"\0",
    b"\xff\xfe",
    b'"',
    b"\n",
    b",",
    b"1e999",
    b"nan",
    b"[/bold]",
    b"\x1b[2J",
    b"-1:",
    b"{",
)


def _broken(rng: Generator, data: bytes) -> bytes:
    for _ in range(int(rng.integers(1, 6))):
        at, end = sorted(int(n) for n in rng.integers(0, len(data) + 1, 2))
        piece = PIECES[int(rng.integers(0, len(PIECES)))] * int(rng.integers(1, 4))
        ways = (
            data[:at] + piece + data[at:],
            data[:at] + data[end:],
            data[:at] + piece + data[end:],
        )
        data = ways[int(rng.integers(0, 3))] or b"\n"
    return data


def _hostile(rng: Generator, d: int, m: int) -> romco.Round:
    n = int(rng.integers(1, 7))
    x: Any = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)
    task = rng.integers(0, m, n)
    y = rng.choice([-1.0, 1.0], n)
    if rng.random() < 0.7:
        x = csr_array(x)
        parts = [str(part) for part in rng.choice(["indices", "indptr", "data"], 2)]
        for part in parts:
            setattr(x, part, _twisted(rng, getattr(x, part)))
    else:
        x = _twisted(rng, x)
    if rng.random() < 0.3:
        task = _twisted(rng, task)
    if rng.random() < 0.2:
        y = _twisted(rng, y)
    return romco.Round(task, x, y)


def _twisted(rng: Generator, array: Any) -> Any:
    """Another type, another length, or a few special numbers."""
    kind = str(rng.choice(["same", "<i8", "<u8", "<i4", "<i2", "<f8", "<f4", ">i8", ">f8"]))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        array = np.array(array) if kind == "same" else np.array(array).astype(kind)
        flat = array.reshape(-1)
        for at in rng.integers(0, max(1, flat.size), 2) if flat.size else ():
            values = REAL if array.dtype.kind == "f" else WHOLE + HUGE
            value = np.array(values[int(rng.integers(0, len(values)))])
            flat[at] = value.astype(array.dtype)
    way = rng.random()
    if way < 0.15:
        return array[:-1]
    if way < 0.25:
        return np.concatenate([array, array])
    if way < 0.35:
        return array[::-1]
    return array


def random_round(rng: Generator, learner: romco.Learner) -> romco.Round:
    """Three events that the learner can learn."""
    n, d = 3, learner.n_features
    y = rng.choice([-1.0, 1.0], n)
    if learner.answers == 0:
        y = rng.normal(size=n)
    elif learner.answers > 1:
        y = rng.integers(0, learner.answers, n).astype(np.float64)
    x = csr_array((rng.normal(size=n), (np.arange(n), rng.integers(0, d, n))), shape=(n, d))
    return romco.Round(rng.integers(0, learner.n_tasks, n), x, y)


def _rows(rng: Generator, model: Any) -> Any:
    if isinstance(model.features, romco.Columns):
        d = model.features.width
        return csr_array(
            (np.ones(ROWS), (np.arange(ROWS), rng.integers(0, d, ROWS))), shape=(ROWS, d)
        )
    return [{f"f{j}": float(rng.normal()), f"new {j}": 1.0} for j in range(ROWS)]
