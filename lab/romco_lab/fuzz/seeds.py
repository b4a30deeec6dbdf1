"""A sound file of every learner, option and kind of features: what mutations start from."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import romco
from romco.files import save
from romco.learners.registry import GIVEN
from romco_lab.fuzz.files import File, taken_apart

OPTIONS: dict[str, list[dict[str, Any]]] = {
    "romco-nucl": [
        {},
        {"max_rank": 2, "lambda2": 0.001},
        {"loss": "logistic"},
        {"always_prox": True, "step": "inverse-sqrt"},
    ],
    "romco-logd": [{}, {"max_rank": 3}],
    "arow-unique": [{}, {"covariance": "full"}],
    "arow-global": [{}, {"covariance": "full"}],
    "cw-col": [{}, {"covariance": "full"}],
    "omtl": [{}, {"norm": "r-max", "update": "scaled"}, {"norm": "L1", "update": "finite"}],
    "omtlvon": [{"prime": 3}],
    "mtfl": [{"every": 7, "window": 20}],
    "trml": [{"every": 7}, {"every": 9, "loss": "least-squares"}],
}
CLASSES = (  # learners of many classes, and how many
    *(("romco-auto", 3), ("romco-auto", 12), ("pa-unique", 3), ("arow-unique", 3)),
    *(("ogd-global", 3), ("romco-nucl", 3)),
)
MANY_TASKS = 80  # more than fit one column each in the core
WIDE = 2**15  # columns: with MANY_TASKS tasks, more pairs than a dense store keeps


def seeds() -> list[File]:
    """All of them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "seed.romco"
        made = []
        for thing in things():
            save(thing, path)
            made.append(taken_apart(path.read_bytes()))
        return made


def things() -> Iterator[Any]:
    """Models and bare learners that have learned, to be saved."""
    for name in romco.LEARNERS:
        for parameters in OPTIONS.get(name, [{}]):
            yield model(name, romco.Columns(6), 4, **parameters)
            yield bare(name, 5, 3, **parameters)
    for name in ("romco-nucl", "romco-logd", "romco-auto", "pa-shared", "arow-shared"):
        yield model(name, romco.Names(), 9)
    for name in ("romco-nucl", "romco-auto", "pa-shared", "arow-shared"):
        yield model(name, romco.Hashed(WIDE if name != "romco-auto" else 2**14), MANY_TASKS)
    yield from other_targets()


def other_targets() -> Iterator[Any]:
    """Models of many classes, by pairs and at once, at once, one against the rest; of numbers."""
    values = np.random.default_rng(2).normal(size=(120, 6)).round(2)
    rows = [{f"f{j}": value for j, value in enumerate(row)} for row in values.tolist()]
    tasks = [f"task {i % 4}" for i in range(120)]
    for name, n in CLASSES:
        classes = romco.Model(name, target="classes")
        classes.learn(rows, [i % n for i in range(120)], tasks)
        yield classes
    for name, method in GIVEN.items():
        if method.target == "number":
            number = romco.Model(name.removesuffix("-number"), target="number")
            number.learn(rows, values[:, 0].tolist(), tasks)
            yield number
            yield number.engine.learner


def model(name: str, features: Any, n_tasks: int, **parameters: Any) -> romco.Model:
    """A model that has learned two events of every task, and forgotten one."""
    made = romco.Model(name, features, classes=("no", "yes"), **parameters)
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(3 * n_tasks + 30, 6)).round(2)
    tasks = [f"task {i % n_tasks}" for i in range(len(rows))]
    labels = [("no", "yes")[int(row[0] > row[i % 3])] for i, row in enumerate(rows)]
    if not isinstance(features, romco.Columns):
        rows = [{f"f{j}": value for j, value in enumerate(row)} for row in rows.tolist()]
    made.learn(rows, labels, tasks)
    made.notes["seen"] = [1, 2.5, {"a": None}]
    return made


def bare(name: str, d: int, m: int, **parameters: Any) -> romco.Learner:
    """A learner that has learned."""
    learner = romco.learner(name, d, m, **parameters)
    rng = np.random.default_rng(1)
    for _ in range(12):
        x = rng.normal(size=(m, d))
        y = rng.choice([-1.0, 1.0], m)
        learner.update(romco.Round(np.arange(m), x, y))
    return learner
