"""More than thirty classes: `python -m benchmarks.very_many`.

Prints error %, log loss, microseconds of processor time per event and megabytes of arrays of
``romco-auto`` by each form, on simulated streams, on digits in four parts, and on flights whose
destination is asked (nycflights, every tenth). The voices and their constants were chosen on
streams of the same kinds: other seeds, other flights, the same digits.
"""

import argparse
import csv
import gzip
import os
import time
from pathlib import Path

import numpy as np

import romco

FORMS = {"as it is": None, "all at once": "softmax"}


def linear(classes, seed=7, features=20, tasks=15, n=3000):
    """Multinomial logistic answers; tasks share half of their weights."""
    rng = np.random.default_rng(seed)
    task, x = rng.integers(tasks, size=n), rng.normal(size=(n, features))
    own = rng.normal(size=(classes, features)) + 0.5 * rng.normal(size=(tasks, classes, features))
    z = 4.5 / np.sqrt(features) * np.einsum("nd,nkd->nk", x, own[task])
    return task, x, (z + rng.gumbel(size=z.shape)).argmax(axis=1)


def places(classes, seed=7, features=16, tasks=10, n=3000):
    """Classes that lie somewhere, a little elsewhere for each task, with a common scatter."""
    rng = np.random.default_rng(seed)
    task, y = rng.integers(tasks, size=n), rng.integers(classes, size=n)
    scatter = 1.3 * rng.normal(size=(features, features)) / np.sqrt(features)
    x = 0.9 * rng.normal(size=(classes, features))[y] + rng.normal(size=(n, features)) @ scatter
    return task, x + 0.3 * rng.normal(size=(tasks, classes, features))[task, y], y


def words(classes, seed=7, vocabulary=1000, tasks=8, n=3000):
    """25 words of a vocabulary as frequent as words are, of each class by its own taste."""
    rng = np.random.default_rng(seed)
    usual = 1.0 / np.arange(1, vocabulary + 1)
    taste = rng.dirichlet(30.0 * usual / usual.sum() + 0.01, size=classes)
    often = 1.0 / np.arange(1, classes + 1) ** 0.7
    y = rng.choice(classes, size=n, p=often / often.sum())
    x = np.log1p([rng.multinomial(25, taste[k]) for k in y])
    return rng.integers(tasks, size=n), x / np.linalg.norm(x, axis=1, keepdims=True), y


def digits():
    """Which digit, and whether two of its middle rows are dark: 40 classes."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    x, y = x[order] / 16.0, y[order]
    dark = [x[:, rows].sum(axis=1) for rows in (slice(20, 28), slice(36, 44))]
    parts = [(one > np.median(one)).astype(int) for one in dark]
    task = np.random.default_rng(1).integers(10, size=len(y))
    return task, x, y + 10 * parts[0] + 20 * parts[1]


def flights(n=3000):
    """The destination, from origin, times and distance; tasks are carriers."""
    path = Path(os.environ["ROMCO_DATA"]) / "flights" / "flights.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [row for e, row in enumerate(csv.DictReader(file)) if e % 10 == 5 and e < 10 * n]

    def hour(clock):
        return int(clock[:2]) + int(clock[3:]) / 60.0

    x = [
        [
            hour(row["scheduled_departure"][11:]),
            (hour(row["scheduled_arrival"]) - hour(row["scheduled_departure"][11:])) % 24.0,
            float(row["distance"]),
            float(row["distance"]) ** 0.5,
            float(row["origin"] == "EWR"),
            float(row["origin"] == "JFK"),
        ]
        for row in rows
    ]
    task, y = (numbered([row[name] for row in rows]) for name in ("carrier", "dest"))
    return task, np.array(x), y


def numbered(names):
    place = {name: i for i, name in enumerate(dict.fromkeys(names))}
    return np.array([place[name] for name in names])


SETS = {
    "linear, 40": lambda: linear(40),
    "linear, 100": lambda: linear(100),
    "linear, 300": lambda: linear(300),
    "places, 100": lambda: places(100),
    "places, 300": lambda: places(300),
    "words, 100": lambda: words(100),
    "digits in four parts, 40": digits,
    "flights, where to": flights,
}


def measured(form, task, x, y):
    n, classes = len(y), int(y.max()) + 1
    learner = romco.learner(
        "classes", x.shape[1], int(task.max()) + 1, n_classes=classes, form=form
    )
    rounds = romco.Rounds(task, np.ascontiguousarray(x), y.astype(float), np.arange(n + 1))
    begin = time.process_time()
    scores = learner.replay(rounds)
    took = 1e6 * (time.process_time() - begin) / n
    size = sum(array.nbytes for array in learner.arrays().values()) / 1e6
    error = 100.0 * np.mean(scores.argmax(axis=1) != y)
    return error, -scores[np.arange(n), y].mean(), took, size


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    print("| classes | events | " + " | ".join(FORMS) + " |")
    print("|---" * (len(FORMS) + 2) + "|")
    for name, made in SETS.items():
        task, x, y = made()
        cells = [
            "{:.1f} / {:.2f} / {:.0f} / {:.0f}".format(*measured(f, task, x, y))
            for f in FORMS.values()
        ]
        title = name if name[-1].isdigit() else f"{name}, {y.max() + 1}"
        print(f"| {title} | {len(y):,} | " + " | ".join(cells) + " |", flush=True)
