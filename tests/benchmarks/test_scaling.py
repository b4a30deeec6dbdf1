"""Tests of the benchmark of shards on threads."""

import numpy as np

from benchmarks.scaling_speed import timed


def test_time_under_the_lock_is_a_part_of_all_time():
    rng = np.random.default_rng(0)
    x, tasks = rng.normal(size=(400, 5)), np.arange(400) % 7
    found = timed(2, x, np.where(x[:, 0] > 0, 1.0, -1.0), tasks)
    assert found["events"] == 400
    assert 0.0 < found["locked"] < found["cpu"]
