"""From a file to a model: the same events as text, each system by its usual road."""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import Row, Say
from benchmarks.systems import Unavailable

WORDS, VOCABULARY, TASKS, TOWNS = 60, 50_000, 200, 50
BITS = 18
CHUNK = 1000  # rows that pandas and scikit-learn take at a time
DEFAULT, VW, PANDAS = "romco-auto", "VW on its file, -q tf", "pandas + scikit-learn SGD, hashed"


def write(folder: Path, rows: int, seed: int = 5) -> None:
    """mail.csv and mail.vw: the same users, sizes, towns, words and labels."""
    rng = np.random.default_rng(seed)
    words = np.array([f"w{i:x}" for i in range(VOCABULARY)])
    leaning = rng.standard_normal(VOCABULARY)
    leaning -= leaning[_drawn(rng, 100_000)].mean()  # so that both labels are about as frequent
    personal = rng.standard_normal(TASKS)
    with (folder / "mail.csv").open("w") as table, (folder / "mail.vw").open("w") as lines:
        table.write("user,label,size,town,text\n")
        for _ in range(rows):
            at = _drawn(rng, WORDS)
            user, town, size = rng.integers(TASKS), rng.integers(TOWNS), rng.integers(100) / 100
            spam = leaning[at].sum() / WORDS**0.5 + personal[user] + 0.5 * rng.standard_normal() > 0
            text = " ".join(words[at])
            table.write(f"u{user},{'spam' if spam else 'ham'},{size},t{town},{text}\n")
            lines.write(f"{1 if spam else -1} |t u{user} |f size:{size} town=t{town} {text}\n")


def _drawn(rng: np.random.Generator, n: int) -> NDArray[np.int64]:
    """Words by number; popularity falls like 1/rank."""
    return (VOCABULARY ** rng.random(n)).astype(np.int64) - 1


def romco_file(folder: Path, learner: str, hashed: bool) -> float:
    """Error of ``romco learn`` as the command does it, checkpoints and all."""
    from romco.model import Hashed, Model, Names
    from romco.runs import Source, learn

    source = Source(str(folder / "mail.csv"), "user", "label", kinds={"text": "text"})
    model = Model(learner, Hashed(2**BITS) if hashed else Names(), classes=("ham", "spam"))
    (folder / "m.romco").unlink(missing_ok=True)
    *_, last = learn(source, folder / "m.romco", model)
    return last.score.error


def reading_only(folder: Path) -> float:
    """Text to sparse rows, nothing learned."""
    from romco.io.reader import Reader
    from romco.io.schema import Schema

    schema = Schema({"text": "text"}, task="user", label="label")
    with Reader(folder / "mail.csv", schema) as blocks:
        while len(blocks.take(CHUNK)[0]):
            pass
    return float("nan")


def vowpal_file(folder: Path) -> float:
    """Vowpal Wabbit's engine on its own text file."""
    try:
        from vowpalwabbit import Workspace
    except Exception as error:  # a wheel for another platform fails in its own ways
        raise Unavailable(f"Vowpal Wabbit cannot be imported: {error}") from None
    options = f"--quiet --no_stdin --loss_function logistic --binary -q tf -b {BITS}"
    model = Workspace(f"{options} --data {folder / 'mail.vw'}")
    error = model.get_sum_loss() / max(model.get_weighted_examples(), 1.0)
    model.finish()
    return float(error)


def pandas_sklearn(folder: Path) -> float:
    """read_csv in chunks, words hashed, one model for all users with the user as a word."""
    try:
        import pandas as pd
    except ImportError as error:
        raise Unavailable(f"pandas is not installed: {error}") from None
    from sklearn.feature_extraction.text import HashingVectorizer
    from sklearn.linear_model import SGDClassifier

    hashing, model = HashingVectorizer(n_features=2**BITS), SGDClassifier(loss="log_loss")
    wrong = total = 0
    for chunk in pd.read_csv(folder / "mail.csv", chunksize=CHUNK):
        x = hashing.transform(chunk["text"] + " town" + chunk["town"] + " user" + chunk["user"])
        if total:
            wrong += int((model.predict(x) != chunk["label"]).sum())
        total += len(chunk)
        model.partial_fit(x, chunk["label"], classes=["ham", "spam"])
    return wrong / total


ROADS: dict[str, Callable[[Path], float]] = {
    f"{DEFAULT}, hashed": lambda folder: romco_file(folder, DEFAULT, hashed=True),
    f"{DEFAULT}, named": lambda folder: romco_file(folder, DEFAULT, hashed=False),
    "pa-global, hashed": lambda folder: romco_file(folder, "pa-global", hashed=True),
    "pa-shared, hashed": lambda folder: romco_file(folder, "pa-shared", hashed=True),
    "romco, reading alone": reading_only,
    VW: vowpal_file,
    PANDAS: pandas_sklearn,
}


def compare(quick: bool, say: Say) -> list[dict[str, Any]]:
    """Rows as of the other parts: all roads in turn, repeat by repeat, processor and wall time."""
    rows_per_file, repeats = (5_000, 3) if quick else (40_000, 5)
    rows = {name: Row("mail", name, events=rows_per_file) for name in ROADS}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        say("writing the same events as CSV and for VW")
        write(folder, rows_per_file)
        for repeat in range(repeats):
            for name, road in ROADS.items():
                if not rows[name].skipped:
                    say(f"{name}, repeat {repeat + 1} of {repeats}")
                    _time(rows[name], road, folder)
    return [asdict(row) for row in rows.values()]


def _time(row: Row, road: Callable[[Path], float], folder: Path) -> None:
    gc.collect()
    cpu, wall = time.process_time(), time.perf_counter()
    try:
        row.error = road(folder)
    except Unavailable as reason:
        row.skipped = str(reason)
        return
    row.microseconds.append(1e6 * (time.perf_counter() - wall) / row.events)
    row.cpu.append(1e6 * (time.process_time() - cpu) / row.events)
