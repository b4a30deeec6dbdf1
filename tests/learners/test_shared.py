"""pa-shared and arow-shared against their plain transcriptions."""

import numpy as np
import pytest

import romco
from romco.learners import shared
from romco.streams import interleaved, simulated
from tests.reference import shared as reference

DENSE = simulated(n_tasks=5, n_features=12, n_events=(40, 25, 30, 10, 1), outliers=1, seed=2)
SPARSE = simulated(n_tasks=5, n_features=12, n_events=30, sparsity=0.6, seed=3)
CASES = [
    ("pa-shared", reference.PassiveAggressiveShared, {"C": 1.0}),
    ("pa-shared", reference.PassiveAggressiveShared, {"C": 0.01}),
    ("arow-shared", reference.ArowShared, {"r": 1.0}),
    ("arow-shared", reference.ArowShared, {"r": 0.1}),
]


def rows(x):
    return x.toarray() if hasattr(x, "toarray") else x


@pytest.mark.parametrize("stream", [DENSE, SPARSE], ids=["dense", "sparse"])
@pytest.mark.parametrize("table", [False, True])
@pytest.mark.parametrize(("name", "twin", "parameters"), CASES)
def test_equals_its_transcription(monkeypatch, name, twin, parameters, table, stream):
    monkeypatch.setattr(shared, "DENSE", 0 if table else 10**6)
    rounds = interleaved(stream, seed=1)
    learner = romco.learner(name, 12, 5, **parameters)
    plain = twin(12, 5, *parameters.values())
    expected = []
    for task, x, y, *_ in rounds:
        expected.append(plain.predict(task[0], rows(x)[0]))
        plain.update(task[0], rows(x)[0], y[0])
    np.testing.assert_allclose(learner.replay(rounds), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["pa-shared", "arow-shared", "romco-auto"])
def test_table_and_array_hold_the_same(monkeypatch, name):
    rounds = interleaved(SPARSE, seed=1)
    monkeypatch.setattr(shared, "DENSE", 10**6)
    array = romco.learner(name, 12, 5)
    monkeypatch.setattr(shared, "DENSE", 0)
    table = romco.learner(name, 12, 5)
    np.testing.assert_allclose(table.replay(rounds), array.replay(rounds), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(table.weights(), array.weights(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["pa-shared", "arow-shared", "romco-auto"])
@pytest.mark.parametrize("limits", [(10**6, 10**6), (10**6, 0), (0, 0)])
def test_grown_learner_goes_on_as_if_it_had_been_large(monkeypatch, name, limits):
    """Also where the larger learner keeps a table and the smaller an array."""
    rounds = interleaved(SPARSE, seed=1)
    monkeypatch.setattr(shared, "DENSE", limits[0])
    small = romco.learner(name, 12, 5)
    small.replay(rounds[:60])
    monkeypatch.setattr(shared, "DENSE", limits[1])
    large = romco.learners.grown(small, 20, 9)
    np.testing.assert_allclose(large.weights()[:12, :5], small.weights(), atol=1e-12)
    blind = rounds[60]
    wide = romco.Round(blind.task, np.pad(rows(blind.x), ((0, 0), (0, 8))), blind.y)
    np.testing.assert_allclose(large.predict(wide), small.predict(blind), atol=1e-12)


def test_a_broken_state_is_refused_and_changes_nothing():
    learner = romco.learner("arow-shared", 12, 5)
    learner.replay(interleaved(SPARSE, seed=1))
    before = learner.state()["arrays"]
    for name, wrong in [
        ("personal", np.zeros((6, 12, 2))),
        ("personal", np.full((5, 12, 2), np.nan)),
        ("personal", np.zeros((5, 12, 3))),
        ("u", np.zeros((13, 2))),
    ]:
        with pytest.raises(ValueError, match=name):
            learner.load({**before, name: wrong})
        for key, array in learner.arrays().items():
            np.testing.assert_array_equal(array, before[key])
    with pytest.raises(ValueError, match="missing"):
        learner.load({"u": before["u"]})


@pytest.mark.parametrize("table", [False, True])
@pytest.mark.parametrize("name", ["pa-shared", "arow-shared", "romco-auto"])
def test_a_forgotten_task_is_as_if_it_had_never_been(monkeypatch, name, table):
    monkeypatch.setattr(shared, "DENSE", 0 if table else 10**6)
    rounds = interleaved(SPARSE, seed=1)
    learner = romco.learner(name, 12, 6)  # task 5 has no events
    learner.replay(rounds)
    x, others = rows(rounds.x), rounds.task != 2
    before = learner.predict(romco.Round(rounds.task[others], x[others], rounds.y[others]))
    learner.forget_task(2)
    after = learner.predict(romco.Round(rounds.task[others], x[others], rounds.y[others]))
    never, forgotten = (
        learner.predict(romco.Round(np.full(len(x), task), x, rounds.y)) for task in (5, 2)
    )
    np.testing.assert_array_equal(forgotten, never)
    np.testing.assert_array_equal(after, before)
