"""What is known after a few events: `python -m benchmarks.few_events [--streams N]`.

Simulated streams of three tasks that are alike, six features, answers by a logistic model. After
the first n events of each, 400 fresh ones are asked: error in per cent / log loss. The orders are
chance; all events of one answer, then as many of the other; eight of each in turn; and 50 of one
answer before anything else.

Then small sets of scikit-learn's, two answers and three made-up tasks, shuffled, as they are and
standardised: of the other events error in per cent.
"""

import argparse

import numpy as np
from sklearn import datasets

import romco

SIZES = (2, 4, 8, 16, 32, 64)
TASKS, FEATURES = 3, 6
LEARNERS = ("romco-auto", "arow-global", "arow-shared")


def events(rng, n, weights):
    """Tasks (n,), rows (n, 6) and answers (n,)."""
    task, x = rng.integers(TASKS, size=n), rng.normal(size=(n, FEATURES))
    logit = 3.0 * (x * weights[:, task].T).sum(axis=1)
    return task, x, np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-logit)), 1.0, -1.0)


def shuffled(y, n):
    return np.arange(n)


def sorted_(y, n):
    return np.concatenate([np.flatnonzero(y > 0)[: n // 2], np.flatnonzero(y < 0)[: n // 2]])


def blocks(y, n):
    both = [np.flatnonzero(y > 0).tolist(), np.flatnonzero(y < 0).tolist()]
    return np.array([both[i // 8 % 2].pop(0) for i in range(n)])


def one_sided(y, n):
    first = np.flatnonzero(y > 0)[:50]
    return np.concatenate([first, np.setdiff1d(np.arange(len(y)), first)])[:n]


ORDERS = {"shuffled": shuffled, "sorted": sorted_, "blocks of 8": blocks, "50 of one": one_sided}


def scores(learner, fresh):
    margins = learner.predict(fresh)
    wrong = 100.0 * np.mean((margins >= 0) != (fresh.y > 0))
    return wrong, np.mean(np.logaddexp(0.0, -fresh.y * margins))


def measure(order, streams):
    """Mean error and log loss (learners, sizes, 2)."""
    total = np.zeros((len(LEARNERS), len(SIZES), 2))
    for seed in range(streams):
        rng = np.random.default_rng([seed, 17])
        common = rng.normal(size=(FEATURES, 1))
        weights = common + 0.3 * rng.normal(size=(FEATURES, TASKS))
        fresh, (task, x, y) = romco.Round(*events(rng, 400, weights)), events(rng, 600, weights)
        for k, n in enumerate(SIZES):
            at = order(y, n)
            rounds = romco.Rounds(task[at], x[at], y[at], np.arange(n + 1))
            for c, name in enumerate(LEARNERS):
                learner = romco.learner(name, FEATURES, TASKS)
                learner.replay(rounds)
                total[c, k] += scores(learner, fresh)
    return total / streams


def small_sets():
    """Name, rows and answers of each; iris without the flowers that are easily told."""
    for load, classes in (("iris", (1, 2)), ("wine", (0, 1)), ("breast_cancer", (0, 1))):
        x, label = getattr(datasets, f"load_{load}")(return_X_y=True)
        at = np.isin(label, classes)
        x, y = x[at], np.where(label[at] == classes[0], -1.0, 1.0)
        yield f"{load}, as it is", x, y
        yield f"{load}, standardised", (x - x.mean(axis=0)) / x.std(axis=0), y


def errors(x, y, streams):
    """Mean error (learners, sizes)."""
    total = np.zeros((len(LEARNERS), len(SIZES)))
    for seed in range(streams):
        rng = np.random.default_rng([seed, 18])
        order, task = rng.permutation(len(y)), rng.integers(TASKS, size=len(y))
        for k, n in enumerate(SIZES):
            at, rest = order[:n], order[n:]
            rounds = romco.Rounds(task[at], x[at], y[at], np.arange(n + 1))
            for c, name in enumerate(LEARNERS):
                learner = romco.learner(name, x.shape[1], TASKS)
                learner.replay(rounds)
                total[c, k] += scores(learner, romco.Round(task[rest], x[rest], y[rest]))[0]
    return total / streams


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=200)
    streams = parser.parse_args().streams
    print("| order | learner | " + " | ".join(map(str, SIZES)) + " |")
    print("|---|---|" + "---|" * len(SIZES))
    for name, order in ORDERS.items():
        for learner, row in zip(LEARNERS, measure(order, streams), strict=True):
            cells = (f"{error:.1f} / {loss:.3f}" for error, loss in row)
            print(f"| {name} | {learner} | " + " | ".join(cells) + " |")
    for name, x, y in small_sets():
        for learner, row in zip(LEARNERS, errors(x, y, streams), strict=True):
            print(f"| {name} | {learner} | " + " | ".join(f"{error:.1f}" for error in row) + " |")


if __name__ == "__main__":
    main()
