"""Models and events that exports are tested with."""

from dataclasses import replace

import numpy as np

import romco
from romco.kernels.auto.discriminant import COLUMN_FIELDS
from romco.learners.frozen import KNOTS, NUMBER, FrozenFunctions
from tests.reference.frozen import frozen_margin

TOWNS = ("Rome", "Paris", "Oslo", "Kyōto", "New York", "Łódź")
FORGOTTEN = ("user 3", "user 7")


def rows_of(rng, n, towns=TOWNS):
    """Rows with numbers of several units, a binary column, categories and gaps."""
    numbers = {
        "age": rng.integers(18, 90, n).astype(float),
        "income": np.round(rng.lognormal(10.0, 1.0, n), 2),
        "tiny": rng.normal(0.0, 1e-4, n),
        "member": (rng.random(n) < 0.9).astype(float),
        "rare": np.where(rng.random(n) < 0.05, rng.normal(size=n), 0.0),
    }
    town = rng.choice(towns, n)
    plan = rng.choice(["free", "pro", "2"], n)
    gaps = rng.random((n, 7)) < 0.15
    rows = []
    for i in range(n):
        row = {name: float(values[i]) for name, values in numbers.items()}
        row |= {"town": str(town[i]), "plan": str(plan[i])}
        for name, gap in zip(list(row), gaps[i], strict=True):
            if gap:
                row[name] = None
        rows.append(row)
    return rows


def tasks_of(rng, n, users):
    return [f"user {k}" for k in rng.integers(users, size=n)]


def learned(
    learner="romco-auto", n=600, users=20, seed=0, target="two classes", classes=2, **options
):
    """A model of two classes, of many or of numbers, two tasks of which are forgotten."""
    rng = np.random.default_rng(seed)
    rows, tasks = rows_of(rng, n), tasks_of(rng, n, users)
    model = romco.Model(learner, target=target, **options)
    score = [
        (row["age"] or 50.0) / 20.0 - 2.5 + (len(task) % 2) * (row["town"] in TOWNS[:2])
        for row, task in zip(rows, tasks, strict=True)
    ]
    score = np.array(score) + rng.normal(size=n)
    labels = np.where(score > 0.0, "yes", "no")
    if target == "number":  # in another unit, and with a curve
        labels = 250.0 + 40.0 * np.abs(score)
    if target == "classes":
        labels = np.clip(np.round(classes * (0.5 + 0.2 * score)), 0, classes - 1).astype(int)
    model.learn(rows, labels.tolist(), tasks)
    for task in () if model.engine.learner.keeps_events else FORGOTTEN:
        model.forget(task)
    return model


def events(n, users=20, seed=1):
    """Rows and tasks: known, forgotten and new tasks, gaps, unknown categories, extreme values."""
    rng = np.random.default_rng(seed)
    rows = rows_of(rng, n, (*TOWNS, "Atlantis"))
    for k in range(0, n, 50):
        rows[k] |= {"income": float(rng.choice([1e9, -1e6, 1e-200, 1e60]))}
    rows[0] = dict.fromkeys(rows[0])
    return rows, tasks_of(rng, n, users + 5)


def assert_close(margins, expected, tolerance):
    """Equal up to rounding, relative to margins above 1; print the largest difference."""
    margins, expected = np.asarray(margins), np.asarray(expected)
    assert margins.shape == expected.shape
    error = np.abs(margins - expected) / np.maximum(1.0, np.abs(expected))
    worst = np.unravel_index(np.argmax(error), error.shape)
    print(f"{len(error):6,} events: largest difference {error[worst]:.1e}, {tolerance:g} allowed")
    assert error[worst] <= tolerance, (worst, margins[worst], expected[worst])


def has_values_and_scores(model):
    """Return whether some numbers of a model of many classes are normal scores, and some not."""
    columns = model.engine.learner.arrays()["softmax_columns"].T
    order, is_score, is_number = (
        columns[COLUMN_FIELDS.index(name)] for name in ("order", "is_score", "is_number")
    )
    lines = is_score[(order == 0.0) & (is_number == 1.0)]
    return set(lines) == {0.0, 1.0}


def with_functions(model, monkeypatch):
    """Give the model's predictor waves and products of features; return it."""
    rng = np.random.default_rng(5)
    learner = model.engine.learner
    old = learner.frozen_predictor()
    column = {model.features.name(j): j for j in range(model.features.width)}
    sample = rows_of(rng, 200)
    numbers = ("age", "income", "tiny", "rare")
    knots = np.zeros((6, KNOTS))
    for k, name in enumerate(numbers):
        values = [row[name] for row in sample if row[name] is not None]
        knots[k] = np.sort(rng.choice(values, KNOTS))
    factors = np.array(
        [
            *([0, 1, -1, 0], [0, 2, -1, 0], [0, 3, -1, 0], [1, 4, -1, 0], [2, 1, -1, 0]),
            *([0, 1, 1, 2], [0, 2, 4, 1], [3, 1, 5, 1], [4, 1, 5, 1], [4, 2, 0, 1]),
        ]
    )
    g = len(factors)
    lanes = old.features.lanes
    weights = rng.normal(size=(g, len(lanes))) * [lane.part == "weight" for lane in lanes]
    functions = FrozenFunctions(
        features=np.array([column[name] for name in (*numbers, "member", "town=Rome")]),
        kinds=np.full(6, NUMBER),
        knots=knots,
        factors=factors,
        scales=rng.uniform(0.2, 1.0, g),
        weights=weights,
    ).with_indicators(np.arange(6) >= len(numbers))
    covariances = []
    for one in old.covariances:
        kept = np.flatnonzero(one.features >= -1)  # without functions that were learned
        n = len(kept)
        values = np.zeros((n + g, n + g))
        values[:n, :n] = one.values[np.ix_(kept, kept)]
        root = 0.3 * rng.normal(size=(n + g, 2))
        features = np.concatenate([one.features[kept], -2 - np.arange(g)])
        covariances.append(one._replace(features=features, values=values + root @ root.T))
    kept = np.flatnonzero(old.pairs.feature > -2 - g)
    pairs = old.pairs._replace(
        task=old.pairs.task[kept],
        feature=old.pairs.feature[kept],
        read=lambda places: old.pairs.read(kept[places]),
    )
    new = replace(old, functions=functions, covariances=covariances, pairs=pairs)
    monkeypatch.setattr(learner, "frozen_predictor", lambda: new)
    return new


def margins_by_reference(model, predictor, rows, tasks):
    """Margins of a predictor, one event at a time."""
    column = {model.features.name(j): j for j in range(model.features.width)}
    number = dict(model.engine.tasks.items())
    margins = []
    for row, task in zip(rows, tasks, strict=True):
        encoded = model.schema.encode(row).items()
        values = {column[name]: value for name, value in encoded if name in column}
        margins.append(
            model.engine.target.sign * frozen_margin(predictor, number.get(task), values)
        )
    return margins
