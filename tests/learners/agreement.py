"""Streams with everything in them, and how a learner is held against its transcription."""

import numpy as np

import romco
from romco.streams import interleaved, simulated, synchronous

UNEQUAL = simulated(n_tasks=5, n_features=9, n_events=(40, 25, 40, 10, 1), outliers=1, seed=5)
SPARSE = simulated(n_tasks=5, n_features=9, n_events=30, outliers=1, sparsity=0.7, seed=6)


def batches(stream, seed):
    """Rounds of 1 to 20 events in any mix of tasks."""
    every = interleaved(stream, seed)
    sizes = np.random.default_rng(seed).integers(1, 20, len(every.y))
    starts = np.concatenate([[0], np.cumsum(sizes)])
    return romco.Rounds(every.task, every.x, every.y, starts[starts <= len(every.y)])


def with_an_empty_event(rounds):
    """The same rounds, one event of which has no feature at all."""
    x = rounds.x.copy()
    x[7] = 0.0
    return romco.Rounds(rounds.task, x, rounds.y, rounds.starts)


ROUNDS = {
    "unequal tasks": synchronous(UNEQUAL, 1),
    "one by one": interleaved(UNEQUAL, 2),
    "batches": batches(UNEQUAL, 3),
    "sparse": synchronous(SPARSE, 4),
    "sparse batches": batches(SPARSE, 5),
    "with an empty event": with_an_empty_event(synchronous(UNEQUAL, 6)),
}


def compare(learner, twin, rounds, tolerance=1e-10):
    """Margins of the whole stream and the weights after it."""
    expected = []
    for task, x, y, *_ in rounds:
        x = x.toarray() if hasattr(x, "toarray") else x
        expected.append(twin.predict(task, x))
        twin.update(task, x, y)
    found = learner.replay(rounds)
    np.testing.assert_allclose(found, np.concatenate(expected), rtol=0, atol=tolerance)
    np.testing.assert_allclose(learner.weights(), twin.W, rtol=0, atol=tolerance)
    assert learner.weights().any()


def same_margins(one, other, rounds, tolerance=1e-12):
    """Two learners that are the same method under two names."""
    np.testing.assert_allclose(one.replay(rounds), other.replay(rounds), rtol=0, atol=tolerance)
    assert one.weights().any()
