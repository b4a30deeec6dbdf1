"""A loss, a penalty and a step of one's own, and the two readings of shrinkage."""

import json
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import romco
from romco.learners import romco as learners
from romco.losses import LOSSES, Hinge
from romco.penalties import (
    PENALTIES,
    LogDet,
    Nuclear,
    SpectralPenalty,
)
from romco.steps import STEPS, Inverse, InverseSqrt
from romco.streams import interleaved, synchronous
from tests.learners.test_factored import sparse_rounds
from tests.learners.test_romco import OPTIONS, SETTINGS, STREAM, compare, dense
from tests.reference import romco as reference

STRENGTHS = {"eta1": 0.3, "eta2": 0.2, "lambda2": 0.03, "shrinkage": "round"}


@dataclass(frozen=True)
class Elastic(SpectralPenalty):
    """strength * (sum of s + ridge / 2 * sum of s^2)."""

    ridge: float = 0.0
    compiled: ClassVar[str | None] = None
    low_rank: ClassVar[bool] = True

    def price(self, s):
        return self.strength * float((s + 0.5 * self.ridge * s * s).sum())

    def shrink(self, s, step):
        rho = self.strength * step
        return np.maximum(0.0, s - rho) / (1.0 + rho * self.ridge)


@dataclass(frozen=True)
class Smoothed:
    """A hinge whose kink is a parabola of some width."""

    width: float
    compiled: ClassVar[str | None] = None

    def value(self, p, y):
        a = np.maximum(0.0, 1.0 - y * p)
        return np.where(a < self.width, a * a / (2 * self.width), a - self.width / 2)

    def slope(self, p, y):
        return -y * np.clip((1.0 - y * p) / self.width, 0.0, 1.0)


@pytest.fixture(autouse=True)
def listed(monkeypatch):
    monkeypatch.setitem(PENALTIES, "elastic", Elastic)
    monkeypatch.setitem(LOSSES, "smoothed", Smoothed(0.5))


@pytest.fixture(params=[0, 64], ids=["many", "few"])
def road(request, monkeypatch):
    monkeypatch.setattr(learners, "MAX_ONE_SIDED_TASKS", request.param)


def agree(rounds, shrink, parts, **plain):
    """The learner made of parts, against the transcription."""
    d, m = rounds.x.shape[1], int(rounds.task.max()) + 1
    learner = romco.learner("romco", d, m, **STRENGTHS, **parts)
    twin = reference.Romco(d, m, shrink=shrink, **STRENGTHS, **plain)
    expected = []
    for task, x, y, *_ in rounds:
        expected.append(twin.predict(task, dense(x)))
        twin.update(task, dense(x), y)
    np.testing.assert_allclose(learner.replay(rounds), np.concatenate(expected), atol=1e-10)
    np.testing.assert_allclose(learner.shared(), twin.u, atol=1e-10)
    np.testing.assert_allclose(learner.personal(), twin.v, atol=1e-10)
    return learner


@pytest.mark.usefixtures("road")
@pytest.mark.parametrize("order", [synchronous, interleaved])
def test_a_penalty_of_ones_own_is_what_an_online_learner_uses(order):
    penalty = Elastic(0.1, 2.0)

    def shrink(s, rho):  # the transcription's rho is eta1 lambda1, with lambda1 = 0.1
        return np.maximum(0.0, s - rho) / (1 + 2.0 * rho)

    agree(order(STREAM, 1), shrink, {"shared": penalty}, lambda1=0.1)


@pytest.mark.usefixtures("road")
def test_a_part_without_a_compiled_twin_gives_the_same_as_one_with():
    rounds = sparse_rounds(250, 60, 25, 6)
    learner = romco.learner("romco", 60, 25, shared=Elastic(0.05), **STRENGTHS)
    twin = romco.learner("romco-nucl", 60, 25, lambda1=0.05, **STRENGTHS)
    # To rounding only: the SVD may leave out values that the compiled one is known to make 0.
    np.testing.assert_allclose(learner.replay(rounds), twin.replay(rounds), atol=1e-12)
    np.testing.assert_allclose(learner.weights(), twin.weights(), atol=1e-12)


@pytest.mark.usefixtures("road")
def test_a_loss_and_a_step_of_ones_own():
    loss = Smoothed(0.3)
    parts = {"loss": loss, "step": Inverse(), "lambda1": 0.05}
    agree(
        interleaved(STREAM, 1),
        reference.nuclear,
        parts,
        loss=loss.slope,
        step="inverse",
        lambda1=0.05,
    )


def test_what_a_learner_is_made_of_is_kept_as_data():
    parts = {
        "shared": Elastic(0.1, 2.0),
        "loss": Smoothed(0.3),
        "step": InverseSqrt(),
    }
    learner = romco.learner("romco", 30, 6, **STRENGTHS, **parts)
    rounds = sparse_rounds(60, 30, 6, 5)
    learner.replay(rounds)
    state = learner.state()
    state["parameters"] = json.loads(json.dumps(state["parameters"]))
    assert state["parameters"]["shared"] == {"name": "elastic", "strength": 0.1, "ridge": 2.0}
    assert state["parameters"]["step"] == "inverse-sqrt"
    twin = romco.restore(state)
    np.testing.assert_array_equal(twin.replay(rounds), learner.replay(rounds))


class Unlisted(Hinge):
    pass


@pytest.mark.parametrize(
    "parts",
    [
        {"loss": "hinges"},
        {"loss": Unlisted()},
        {"loss": 3},
        {"shared": "frobenius"},
        {"shared": {"name": "nuclear", "power": 2}},
        {"shared": Nuclear},
        {"step": "never"},
        {"shrinkage": "none"},
    ],
    ids=str,
)
def test_what_is_not_listed_is_refused(parts):
    with pytest.raises(ValueError, match=next(iter(parts))):
        romco.learner("romco", 4, 3, **parts)


def test_a_penalty_that_is_none_stops_the_learner():
    """It would have to make more of a smaller singular value: nothing goes on half-made."""

    @dataclass(frozen=True)
    class Upside(Elastic):
        def shrink(self, s, step):
            return s[::-1].copy()

    PENALTIES["elastic"] = Upside
    learner = romco.learner("romco", 4, 3, shared=Upside(0.1), **STRENGTHS)
    rounds = sparse_rounds(20, 4, 3, 2)
    with pytest.raises(FloatingPointError, match="larger singular value"):
        learner.replay(rounds)
    with pytest.raises(RuntimeError, match="restore"):
        learner.predict(next(iter(rounds)))


def test_a_loss_that_gives_no_slope_changes_nothing():
    @dataclass(frozen=True)
    class Broken(Smoothed):
        def slope(self, p, y):
            return np.full_like(p, np.nan)

    LOSSES["smoothed"] = Broken(0.5)
    learner = romco.learner("romco", 4, 3, loss=Broken(0.5))
    with pytest.raises(FloatingPointError, match="finite slopes"):
        learner.replay(sparse_rounds(20, 4, 3, 2))
    assert not learner.weights().any()
    assert learner.kernel.rounds == 0


def test_named_penalties_take_their_strength_from_lambda1():
    for name, kind in (("nuclear", Nuclear), ("logdet", LogDet)):
        assert learners.penalty_of(name, 0.3) == kind(0.3)
    assert set(STEPS) >= {"constant", "inverse-sqrt", "inverse"}


# Shrinkage by share


@pytest.mark.parametrize("name", ["romco-nucl", "romco-logd"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("order", [synchronous, pytest.param(interleaved, marks=pytest.mark.slow)])
def test_shares_agree_with_the_transcription(name, options, order):
    for strengths in SETTINGS[:1] if options else SETTINGS:
        compare(name, order(STREAM, 2), **strengths, **options, shrinkage="share")


@pytest.mark.usefixtures("road")
@pytest.mark.parametrize("size", [1, 7])
def test_shares_agree_on_sparse_rows(size):
    rounds = sparse_rounds(210, 60, 25, 6, size=size)
    compare("romco-nucl", rounds, **SETTINGS[0], shrinkage="share")


@pytest.mark.parametrize("name", ["romco-nucl", "romco-logd"])
def test_rounds_of_all_tasks_are_the_papers_to_the_last_bit(name):
    rng = np.random.default_rng(0)
    n, m = 30, 5
    x, y = rng.standard_normal((n * m, 8)) / 3, rng.choice([-1.0, 1.0], n * m)
    rounds = romco.Rounds(np.tile(np.arange(m), n), x, y, range(0, n * m + 1, m))
    share = romco.learner(name, 8, m, shrinkage="share")
    paper = romco.learner(name, 8, m, shrinkage="round")
    np.testing.assert_array_equal(share.replay(rounds), paper.replay(rounds))
    np.testing.assert_array_equal(share.weights(), paper.weights())


def test_the_events_of_others_cost_a_task_its_share_only():
    """With m - 1 events of others in between, V of a task gets shorter as if by one round."""
    m = 8
    learner = romco.learner(
        "romco-nucl", 2, m, shrinkage="share", eta2=0.5, lambda2=0.1, always_prox=True
    )
    for task in range(m):
        learner.update(romco.Round(np.array([task]), np.array([[1.0, 0.0]]), np.array([1.0])))
    before = learner.personal_norms()[0]
    for task in range(1, m):
        learner.update(romco.Round(np.array([task]), np.array([[0.0, 0.0]]), np.array([1.0])))
    np.testing.assert_allclose(before - learner.personal_norms()[0], 0.05 * (m - 1) / m)


def test_who_took_part_is_kept():
    rounds = sparse_rounds(80, 30, 9, 5)
    learner = romco.learner("romco-nucl", 30, 9, **{**STRENGTHS, "shrinkage": "share"})
    learner.replay(rounds)
    again = romco.restore(learner.state())
    np.testing.assert_array_equal(again.replay(rounds), learner.replay(rounds))
    bad = learner.state()
    bad["arrays"]["last_round"][3] = 10**9
    with pytest.raises(ValueError, match="does not fit together"):
        romco.restore(bad)
