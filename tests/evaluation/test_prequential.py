import numpy as np
import pytest

import romco
from romco.evaluation import Score, prequential
from romco.streams import simulated, synchronous

STREAM = simulated(n_tasks=4, n_features=10, n_events=(50, 30, 20, 45), outliers=1)
ROUNDS = synchronous(STREAM, 0)


def records(rounds, every):
    learner = romco.learner("romco-nucl", 10, 4)
    metrics = {"all": Score()}
    return list(prequential(learner, rounds, metrics, every))


def test_records_count_rounds_and_events():
    found = records(ROUNDS, 20)
    assert [(r.rounds, r.events) for r in found] == [(20, 80), (40, 130), (50, 145)]


def test_the_last_record_does_not_depend_on_how_often_we_look():
    assert records(ROUNDS, 7)[-1].metrics == records(ROUNDS, 1000)[-1].metrics


def test_a_generator_of_rounds_will_do():
    assert records(iter(list(ROUNDS)), 20)[-1] == records(ROUNDS, 20)[-1]


def test_future_labels_change_no_earlier_record():
    flipped = romco.Rounds(ROUNDS.task, ROUNDS.x, ROUNDS.y.copy(), ROUNDS.starts)
    flipped.y[ROUNDS.starts[20] :] *= -1
    assert records(flipped, 20)[0] == records(ROUNDS, 20)[0]
    assert records(flipped, 20)[-1] != records(ROUNDS, 20)[-1]


def test_every_must_be_positive():
    with pytest.raises(ValueError, match="every"):
        next(iter(prequential(romco.learner("romco-nucl", 10, 4), ROUNDS, {}, every=0)))


def test_arrays_in_place_of_rounds_are_told():
    learner = romco.learner("ogd-unique", n_features=2, n_tasks=1)
    arrays = np.ones((3, 2)), np.ones(3), np.zeros(3, dtype=np.int64)
    with pytest.raises(TypeError, match=r"write \[romco.Round\(task"):
        list(romco.prequential(learner, arrays, {}))
    x, y, task = arrays
    with pytest.raises(TypeError, match=r"write \[round\]"):
        list(romco.prequential(learner, romco.Round(task, x, y), {}))
    rounds = [romco.Round(task[i : i + 1], x[i : i + 1], y[i : i + 1]) for i in range(len(y))]
    assert list(romco.prequential(learner, rounds, {}))[-1].events == 3
