"""ROMCO with a learned coupling: its transcription, what it finds, and who comes late."""

import numpy as np
import pytest

import romco
from romco.checks import check_learner
from romco.streams import interleaved, simulated, synchronous
from tests.reference import romco as prox
from tests.reference.relations import LearnedRomco

STRENGTHS = {"eta1": 0.3, "eta2": 0.1, "lambda1": 0.02, "lambda2": 0.05}
STREAM = simulated(n_tasks=6, n_features=15, n_events=(60, 45, 50, 12, 40, 3), outliers=1, seed=3)
LAST = np.argsort(STREAM.task >= 3, kind="stable")  # tasks 3 to 5 come after all others
LATE = romco.Rounds(
    STREAM.task[LAST], STREAM.x[LAST], STREAM.y[LAST], np.arange(STREAM.n_events + 1)
)


def made(n_tasks=6, name="romco-nucl", **more):
    return romco.learner(name, 15, n_tasks, coupling="learned", **STRENGTHS, **more)


@pytest.mark.parametrize("name", ["romco-nucl", "romco-logd"])
@pytest.mark.parametrize(
    "rounds", [interleaved(STREAM, 1), synchronous(STREAM, 1), LATE], ids=["one", "rounds", "late"]
)
def test_agrees_with_its_transcription(name, rounds):
    shrink = prox.nuclear if name == "romco-nucl" else prox.logdet
    learner, plain = made(name=name), LearnedRomco(15, 6, shrink=shrink, **STRENGTHS)
    for round in rounds:
        np.testing.assert_allclose(
            learner.predict(round), plain.predict(round.task, round.x), atol=1e-9
        )
        learner.update(round)
        plain.update(*round[:3])
    np.testing.assert_allclose(learner.shared(), plain.u, atol=1e-9)
    np.testing.assert_allclose(learner.personal(), plain.v, atol=1e-9)
    np.testing.assert_allclose(learner.coupling(), plain.F @ plain.F.T, atol=1e-9)


@pytest.mark.parametrize("name", ["romco-nucl", "romco-logd"])
def test_keeps_every_promise(name):
    check_learner(lambda d, m: romco.learner(name, d, m, coupling="learned", **STRENGTHS))


def test_finds_who_is_related():
    stream = simulated(n_tasks=8, n_features=30, n_events=150, rank=1, outliers=2, seed=0)
    learner = romco.learner("romco-nucl", 30, 8, coupling="learned", **STRENGTHS)
    learner.replay(synchronous(stream, 0))
    odd = np.isin(np.arange(8), stream.truth.outliers)
    A = learner.coupling()
    assert A[np.ix_(~odd, ~odd)].min() > 0.6
    assert A[np.ix_(odd, ~odd)].max() < 0.5


def test_related_tasks_learn_from_each_other_and_unrelated_ones_hardly_mind():
    strengths = {"eta1": 0.1, "eta2": 0.5, "lambda1": 1e-3, "lambda2": 1e-4}

    def error(outliers, coupling):
        stream = simulated(20, 30, 100, rank=1, outliers=outliers, seed=1)
        rounds = synchronous(stream, 0)
        learner = romco.learner("romco-nucl", 30, 20, coupling=coupling, **strengths)
        return np.mean((learner.replay(rounds) >= 0) != (rounds.y > 0))

    assert error(0, "learned") < 0.7 * error(0, None)
    assert error(20, "learned") < 1.1 * error(20, None)


def test_a_new_task_starts_from_the_mean_of_the_others():
    learner = made(8)  # tasks 6 and 7 have no events
    learner.replay(interleaved(STREAM, 1))
    u = learner.shared()
    np.testing.assert_allclose(u[:, 6], u[:, :6].mean(axis=1), atol=1e-12)


def test_room_for_more_tasks_and_features_changes_no_prediction():
    small = made()
    small.replay(interleaved(STREAM, 1))
    large = romco.learners.registry.grown(small, 20, 9)
    wide = np.pad(STREAM.x, ((0, 0), (0, 5)))
    np.testing.assert_allclose(
        large.predict(romco.Round(STREAM.task, wide, STREAM.y)),
        small.predict(romco.Round(STREAM.task, STREAM.x, STREAM.y)),
        atol=1e-12,
    )
    large.update(romco.Round(np.array([8]), wide[:1], np.array([1.0])))


def test_what_is_refused():
    with pytest.raises(ValueError, match="learned"):
        romco.learner("romco-nucl", 3, 2, coupling="guessed")
    with pytest.raises(ValueError, match="romco-auto"):
        romco.learner("romco-nucl", 2**20, 10_000, coupling="learned")
    state = made().state()
    del state["arrays"]["relations_tally"]
    with pytest.raises(ValueError, match="tally"):
        romco.restore(state)
