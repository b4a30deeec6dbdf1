"""Changes that are sent, as on Ray, give the bits of a merge in place, as on threads."""

import numpy as np
import pytest

import romco
from romco.shards import Shards
from tests.shards.streams import assert_same


def stream(target, n=200):
    """Rows, labels or numbers, and tasks."""
    rng = np.random.default_rng(3)
    task = rng.integers(40, size=n)
    x = rng.normal(size=(n, 12)) * (rng.random((n, 12)) < 0.3)
    w = rng.normal(size=12) + 0.5 * rng.normal(size=(40, 12))
    y = (x * w[task]).sum(axis=1) + 0.3 * rng.normal(size=n)
    if target != "number":
        y = np.digitize(y, (-0.5, 0.5) if target == "classes" else (0.0,))
    rows = [{f"x{j}": value for j, value in enumerate(row) if value} for row in x.tolist()]
    return rows, y.tolist(), [f"user {t}" for t in task]


@pytest.mark.parametrize(
    "target", [pytest.param("two classes", marks=pytest.mark.slow), "classes", "number"]
)
def test_changes_that_are_sent_are_merged_as_in_place(target):
    classes = {"two classes": (0, 1), "classes": (0, 1, 2)}.get(target)
    settings = {"target": target, "classes": classes, "engine": "serial"}
    here, sent = (Shards("romco-auto", 4, romco.Hashed(2**10), **settings) for _ in range(2))
    sent.coordinator.engine.local_shards = None
    margins = here.learn(*stream(target))
    np.testing.assert_array_equal(sent.learn(*stream(target)), margins)
    assert_same(sent.state(), here.state())
