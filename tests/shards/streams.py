"""Small streams with named tasks, and how states are compared."""

from __future__ import annotations

import numpy as np

from romco.io.modelfile import load_state


def events(n, n_tasks=12, d=9, seed=0, sparse=True):
    """Rows as mappings (or arrays), labels, tasks."""
    rng = np.random.default_rng(seed)
    w = rng.normal(size=d) + 0.5 * rng.normal(size=(n_tasks, d))
    task = rng.integers(n_tasks, size=n)
    x = rng.normal(size=(n, d)) * (rng.random((n, d)) < (0.5 if sparse else 1.0))
    y = np.where(np.einsum("nd,nd->n", x, w[task]) + 0.3 * rng.normal(size=n) > 0, "yes", "no")
    names = [f"user {t}" for t in task]
    if not sparse:
        return x, y.tolist(), names
    rows = [{f"f{j}": v for j, v in enumerate(row) if v != 0.0} for row in x]
    return rows, y.tolist(), names


def pieces(n, sizes):
    """Slices of n events, of sizes that repeat."""
    begin, k = 0, 0
    while begin < n:
        end = min(n, begin + sizes[k % len(sizes)])
        yield slice(begin, end)
        begin, k = end, k + 1


def learn(model, stream, sizes=(7, 1, 30)):
    """Margins of a stream learned piece by piece."""
    x, y, task = stream
    margins = [model.learn(x[part], y[part], task[part]) for part in pieces(len(y), sizes)]
    return np.concatenate(margins)


def place_of(path):
    """Place in the stream of a checkpoint."""
    return load_state(path)["cluster"]["place"]


def assert_same(a, b):
    """Two states of models are equal to the last bit."""
    assert {k: v for k, v in a.items() if k != "arrays"} == {
        k: v for k, v in b.items() if k != "arrays"
    }
    assert a["arrays"].keys() == b["arrays"].keys()
    for name in a["arrays"]:
        np.testing.assert_array_equal(a["arrays"][name], b["arrays"][name], err_msg=name)
