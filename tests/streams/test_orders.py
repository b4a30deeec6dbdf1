import numpy as np
import pytest

from romco.streams import ORDERS, simulated, synchronous

STREAM = simulated(n_tasks=4, n_features=5, n_events=(7, 2, 5, 1), outliers=1)


@pytest.mark.parametrize("order", ORDERS)
def test_every_event_arrives_once(order):
    rounds = ORDERS[order](STREAM, 3)
    arrived = rounds.events
    assert sorted(map(tuple, arrived.x)) == sorted(map(tuple, STREAM.x))
    assert np.bincount(arrived.task).tolist() == [7, 2, 5, 1]


def test_synchronous_rounds_hold_one_event_of_each_task_that_has_one_left():
    rounds = synchronous(STREAM, 0)
    assert [list(round.task) for round in rounds] == [
        [0, 1, 2, 3], [0, 1, 2], [0, 2], [0, 2], [0, 2], [0], [0],
    ]  # fmt: skip


@pytest.mark.parametrize("order", ["synchronous", "interleaved"])
def test_seeds_shuffle(order):
    first, again, other = (ORDERS[order](STREAM, seed).events.x for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
