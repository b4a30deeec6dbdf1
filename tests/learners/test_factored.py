"""The factorised core: both roads, both stores for V, growth, bounds, long streams."""

import contextlib
import sys
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import romco
from romco.checks import check_learner
from romco.kernels.romco import personal
from romco.learners import registry
from romco.learners import romco as learners
from tests.learners.test_romco import SETTINGS, compare, hostile_rounds
from tests.reference import romco as reference


def sparse_rounds(n, d, m, nnz, seed=0, size=1):
    """Unit rows of few non-zeros, labels from a rank-2 model."""
    rng = np.random.default_rng(seed)
    columns = np.argsort(rng.random((n, d)), axis=1)[:, :nnz]
    values = rng.standard_normal((n, nnz))
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    x = csr_array((values.ravel(), columns.ravel(), np.arange(n + 1) * nnz), shape=(n, d))
    task = rng.integers(0, m, n)
    weights = rng.standard_normal((d, 2)) @ rng.standard_normal((2, m))
    y = np.where(np.einsum("nd,dn->n", x.toarray(), weights[:, task]) >= 0, 1.0, -1.0)
    return romco.Rounds(task, x, y, np.arange(0, n + 1, size))


@pytest.fixture
def many(monkeypatch):
    """Every learner takes the road for many tasks."""
    monkeypatch.setattr(learners, "MAX_ONE_SIDED_TASKS", 0)


@pytest.fixture
def hashed(monkeypatch):
    """Every learner keeps V in hash tables."""
    monkeypatch.setattr(personal, "DENSE_NUMBERS", 0)


@pytest.mark.usefixtures("many", "hashed")
class TestTwoSided:
    def test_keeps_every_promise(self):
        check_learner(lambda d, m: romco.learner("romco-nucl", d, m, **SETTINGS[0]))

    @pytest.mark.parametrize("strengths", SETTINGS, ids=str)
    @pytest.mark.parametrize("size", [pytest.param(1, marks=pytest.mark.slow), 7])
    def test_agrees_with_the_transcription(self, strengths, size):
        compare("romco-nucl", sparse_rounds(350, 60, 25, 6, size=size), **strengths)

    @pytest.mark.parametrize("loss", ["squared-hinge", "logistic"])
    @pytest.mark.parametrize("size", [1, pytest.param(7, marks=pytest.mark.slow)])
    def test_agrees_under_every_loss(self, loss, size):
        for strengths in SETTINGS:
            compare("romco-nucl", sparse_rounds(210, 60, 25, 6, size=size), **strengths, loss=loss)

    @pytest.mark.parametrize(("d", "m"), [(1, 1), (1, 9), (9, 1), (4, 30), (200, 70)])
    def test_agrees_for_any_size(self, d, m):
        compare("romco-nucl", sparse_rounds(200, d, m, min(d, 5)), **SETTINGS[0])

    @settings(max_examples=60)
    @given(
        rounds=hostile_rounds(),
        lambda1=st.sampled_from([0.0, 1e-6, 1e-2, 0.2, 1.0]),
        lambda2=st.sampled_from([0.0, 1e-6, 1e-2, 0.2]),
    )
    def test_agrees_on_hostile_streams(self, rounds, lambda1, lambda2):
        strengths = {"eta1": 0.3, "eta2": 0.2, "lambda1": lambda1, "lambda2": lambda2}
        compare("romco-nucl", rounds, tolerance=1e-9, **strengths)

    @settings(max_examples=40)
    @given(data=st.data())
    def test_agrees_on_crowded_rounds(self, data):
        drawn = {name: data.draw(values) for name, values in CROWDED.items()}
        compare("romco-nucl", **drawn, eta2=0.2, lambda2=0.03)


def test_keeps_every_promise_with_hashed_columns(hashed):
    check_learner(lambda d, m: romco.learner("romco-logd", d, m, **SETTINGS[0]))


def test_rows_left_alone_for_long_catch_up():
    """Two non-zeros of 400: most rows miss many epochs, and blocks of epochs."""
    rounds = sparse_rounds(1500, 400, 3, 2)
    compare("romco-nucl", rounds, eta1=0.3, eta2=0.1, lambda1=0.02, lambda2=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("lambda1", [0.03, 0.012])
def test_long_rows_catch_up_together(many, lambda1):
    """Rank 15 to 30 over several blocks of epochs, where rows on the same way are one product."""
    rounds = sparse_rounds(1300, 250, 40, 4)
    compare("romco-nucl", rounds, eta1=0.05, eta2=0.02, lambda1=lambda1, lambda2=0.01)


def transforms_of(learner):
    """The changes of the left basis that are kept, oldest first, steps and then leaps."""
    arrays, found = learner.kernel.arrays(), []
    at = 0
    for rows, cols in arrays["left_shapes"]:
        found.append(arrays["left_transforms"][at : at + rows * cols])
        at += rows * cols
    return [numbers for numbers in found if len(numbers)]


@pytest.mark.parametrize("length", [1.0, 1e6, 1e-6])
def test_what_has_shrunk_to_nothing_is_forgotten(many, length):
    """Directions die within ten events, so rows of long ago are zeros: without any loss."""
    rounds = sparse_rounds(600, 120, 20, 3)
    x = rounds.x.copy()
    x.data[::7] *= length
    rounds = romco.Rounds(rounds.task, x, rounds.y, rounds.starts)
    step = 1e-3 / max(1.0, length**2)
    lambda1 = 0.2 * max(1.0, length)
    strengths = {"eta1": step, "eta2": step, "lambda1": lambda1, "lambda2": 0.01}
    compare("romco-nucl", rounds, tolerance=1e-14, **strengths)
    learner = romco.learner("romco-nucl", 120, 20, **strengths)
    learner.replay(rounds[:400])
    assert any(not numbers.any() for numbers in transforms_of(learner))
    again = romco.restore(learner.state())
    np.testing.assert_array_equal(again.replay(rounds[400:]), learner.replay(rounds[400:]))


def test_what_lasts_is_not_forgotten(many):
    """A weak penalty keeps directions for good: every row is needed, however old."""
    rounds = sparse_rounds(900, 250, 5, 3)
    learner = romco.learner("romco-nucl", 250, 5, eta1=0.3, eta2=0.1, lambda1=1e-5, lambda2=0.01)
    learner.replay(rounds)
    assert all(numbers.any() for numbers in transforms_of(learner))


def test_rank_above_the_limit_of_jacobi():
    compare("romco-logd", sparse_rounds(150, 60, 55, 12), **SETTINGS[0])


def test_a_round_of_more_tasks_than_the_rank_can_hold():
    """The vectors of 300 tasks, one after the other: the last ones are in the span of the first."""
    rng = np.random.default_rng(1)
    n, m, d = 8, 300, 40
    x = rng.standard_normal((n * m, d)) / np.sqrt(d)
    rounds = romco.Rounds(
        np.tile(np.arange(m), n), x, rng.choice([-1.0, 1.0], n * m), range(0, n * m + 1, m)
    )
    strengths = {"eta1": 0.5, "eta2": 0.05, "lambda1": 0.15, "lambda2": 0.08}
    compare("romco-nucl", rounds, tolerance=1e-9, **strengths)


@pytest.mark.parametrize("distance", [1e-3, 1e-5, 1e-7, 1e-9, 1e-12])
@pytest.mark.parametrize("lambda1", [0.0, 1e-3])
def test_rows_that_are_almost_repeated(distance, lambda1):
    """What is left of x outside the span is too small to be had by subtraction."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal((3, 10))[rng.integers(0, 3, 60)]
    x += distance * rng.standard_normal(x.shape)
    rounds = romco.Rounds(rng.integers(0, 4, 60), x / 3, rng.choice([-1.0, 1.0], 60), range(61))
    strengths = {"eta1": 0.3, "eta2": 0.2, "lambda1": lambda1, "lambda2": 0.01}
    compare("romco-nucl", rounds, tolerance=1e-9, **strengths)


def test_tasks_and_features_that_come_later():
    """Growing over both limits, FEW and DENSE_NUMBERS, is as if there had been room at once."""
    first, second = sparse_rounds(120, 40, 20, 5), sparse_rounds(150, 50_000, 90, 5, seed=1)
    small = romco.learner("romco-nucl", 40, 20, **SETTINGS[0])
    small.replay(first)
    grown = registry.grown(small, 50_000, 90)
    wide = csr_array((first.x.data, first.x.indices, first.x.indptr), shape=(120, 50_000))
    whole = romco.learner("romco-nucl", 50_000, 90, **SETTINGS[0])
    whole.replay(romco.Rounds(first.task, wide, first.y, first.starts))
    np.testing.assert_allclose(grown.replay(second), whole.replay(second), atol=1e-12)
    np.testing.assert_allclose(grown.singular_values(), whole.singular_values(), atol=1e-12)
    np.testing.assert_allclose(grown.personal_norms(), whole.personal_norms(), atol=1e-12)


def test_many_tasks_and_features_cost_nothing_until_seen():
    learner = romco.learner("romco-nucl", 1 << 20, 100_000)
    x = csr_array(([0.6, 0.8], [5, 900_000], [0, 2]), shape=(1, 1 << 20))
    learner.update(romco.Round(np.array([77_777]), x, np.array([1.0])))
    assert len(learner.singular_values()) == 1
    state = learner.state()["arrays"]
    assert sum(array.nbytes for array in state.values()) < 5_000_000  # dense: 1.7e12


def test_a_bounded_rank_is_counted():
    rounds = sparse_rounds(200, 60, 25, 6)
    free = romco.learner("romco-nucl", 60, 25, **SETTINGS[0])
    bounded = romco.learner("romco-nucl", 60, 25, **SETTINGS[0], max_rank=3)
    free.replay(rounds)
    bounded.replay(rounds)
    assert free.truncations == 0
    assert len(free.singular_values()) > 3 == len(bounded.singular_values())
    assert bounded.truncations > 0
    assert romco.restore(bounded.state()).truncations == bounded.truncations
    wide = romco.learner("romco-nucl", 60, 25, **SETTINGS[0], max_rank=25)
    wide.replay(rounds)
    assert wide.truncations == 0
    np.testing.assert_array_equal(wide.weights(), free.weights())


def test_logdet_with_many_tasks_is_exact_too():
    strengths = {"eta1": 0.3, "eta2": 0.2, "lambda1": 0.6, "lambda2": 0.03}
    compare("romco-logd", sparse_rounds(150, 100, 80, 6), **strengths)
    bounded = romco.learner("romco-logd", 100, 80, **strengths, max_rank=4)
    assert np.isfinite(bounded.replay(sparse_rounds(600, 100, 80, 6))).all()
    assert len(bounded.singular_values()) == 4


def test_readers_in_other_threads_see_whole_steps():
    """A margin is that of the state before or after an update, never of one half-made."""
    rounds = sparse_rounds(300, 60, 8, 6)
    learner = romco.learner("romco-nucl", 60, 8, **SETTINGS[0])
    known, seen, done = {0.0}, [], threading.Event()
    probe = rounds[0]

    def read():
        while not done.is_set():
            seen.append(float(learner.predict(probe)[0]))

    reader = threading.Thread(target=read)
    reader.start()
    for round in rounds:
        learner.update(round)
        known.add(float(learner.predict(probe)[0]))
    done.set()
    reader.join()
    assert set(seen) <= known


def refused_while_replaying(learner, rounds, calls):
    """The calls that were refused while another thread replays the rounds again and again.

    Calls are made when the replay is seen to be under way. Made at any time, a call of `replay`
    hands over the interpreter's lock while it is under way itself, and the other is refused.
    """
    refused, done = set(), threading.Event()

    def replay():
        while not done.is_set():
            with contextlib.suppress(RuntimeError):
                learner.replay(rounds)

    writer = threading.Thread(target=replay)
    writer.start()
    deadline = time.monotonic() + 100.0
    for name, call in calls.items():
        while name not in refused and time.monotonic() < deadline:
            if is_refused(learner.kernel.check_idle) and is_refused(call):
                refused.add(name)
    done.set()
    writer.join()
    return refused


def is_refused(call):
    """Whether the learner says that it is replaying."""
    try:
        call()
    except RuntimeError as error:
        return "replaying" in str(error)
    return False


@pytest.mark.parametrize(("name", "n"), [("romco-nucl", 30_000), ("pa-unique", 300_000)])
def test_nobody_meets_a_replay_half_way(name, n):
    """`replay` releases the interpreter's lock, so others are told to wait, then served again."""
    rounds = sparse_rounds(n, 12, 8, 6)
    learner, first, two = romco.learner(name, 12, 8), rounds[0], rounds[:2]
    calls = {
        "predict": lambda: learner.predict(first),
        "update": lambda: learner.update(first),
        "replay": lambda: learner.replay(two),
        "state": learner.state,
    }
    if name == "romco-nucl":
        calls |= {"arrays": learner.arrays, "weights": learner.weights}
    assert refused_while_replaying(learner, rounds, calls) == calls.keys()
    for call in calls.values():
        call()


def test_a_replay_that_is_done_turns_nobody_away():
    """Though it waits for the interpreter's lock, which this thread holds on to."""
    rounds = sparse_rounds(2000, 12, 8, 6)
    learner = romco.learner("romco-nucl", 12, 8)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(30.0)  # seconds for which nobody is asked to give up the lock
    try:
        writer = threading.Thread(target=learner.replay, args=(rounds,))
        writer.start()  # waits for the other to begin, which goes on up to where it needs no lock
        deadline = time.monotonic() + 100.0
        while not is_refused(learner.kernel.check_idle) and writer.is_alive():
            assert time.monotonic() < deadline
            time.sleep(0.0)
        while is_refused(learner.kernel.check_idle):
            assert time.monotonic() < deadline
    finally:
        sys.setswitchinterval(interval)
    writer.join()


def test_a_replay_that_fails_leaves_the_learner_usable():
    learner = romco.learner("romco-nucl", 2, 1, eta1=1e300, eta2=1e300, lambda1=0.0, lambda2=0.0)
    x, y = np.full((3, 2), 1e60), np.array([1.0, -1.0, 1.0])
    with pytest.raises(FloatingPointError):
        learner.replay(romco.Rounds(np.zeros(3, dtype=int), x, y, range(4)))
    learner.state()


@pytest.mark.parametrize("name", ["romco-nucl", "romco-logd"])
@pytest.mark.parametrize(("d", "m", "size"), [(300, 6, 6), (1100, 9, 9), (40, 12, 30), (7, 5, 20)])
def test_dense_rounds_taken_together(name, d, m, size):
    """More rows than a chunk has, more events than features, entries that are 0, unequal rounds."""
    rng = np.random.default_rng(d)
    n = 12 * size
    x = rng.standard_normal((n, d)) / np.sqrt(d)
    x[:, : d // 3] *= rng.random((n, d // 3)) < 0.5  # rows of B that not every event touches
    x[: 4 * size, d // 2] = 0.0  # a feature that comes later
    x[5 * size + 1] = x[5 * size]  # in the span of its own round
    x[6 * size + 2] = 0.0
    starts = np.sort(rng.choice(np.arange(1, n), 14, replace=False))
    rounds = romco.Rounds(rng.integers(0, m, n), x, rng.choice([-1.0, 1.0], n), [0, *starts, n])
    for strengths in SETTINGS[:3]:
        compare(name, rounds, **strengths)


@st.composite
def crowded_rounds(draw):
    """Rounds with many events of each task, more than there are features; x of full rank or less.

    The basis of U is then filled up in every round, by directions in which little of x is left.
    """
    d, m, size = draw(st.integers(1, 12)), draw(st.integers(1, 12)), draw(st.integers(2, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, off = 8 * size, draw(st.sampled_from([0.0, 1e-9, 1e-6, 1e-3]))
    x = rng.standard_normal((n, d)) / np.sqrt(d)
    if draw(st.booleans()):  # near a few directions, or in their span
        few = rng.standard_normal((1 + d // 2, d)) / d
        x = rng.standard_normal((n, len(few))) @ few + off * x
    x[rng.random(n) < 0.1] = x[0]
    x = csr_array(x) if draw(st.booleans()) else x
    starts = np.sort(rng.choice(np.arange(1, n), 8, replace=False))
    return romco.Rounds(rng.integers(0, m, n), x, rng.choice([-1.0, 1.0], n), [0, *starts, n])


CROWDED = {
    "rounds": crowded_rounds(),
    "eta1": st.sampled_from([0.1, 0.3, 1.0]),
    "lambda1": st.sampled_from([0.0, 1e-3, 0.05, 0.3, 0.9, 2.0]),
}


@settings(max_examples=60)
@given(name=st.sampled_from(["romco-nucl", "romco-logd"]), **CROWDED)
def test_agrees_on_crowded_rounds(name, rounds, **strengths):
    compare(name, rounds, eta2=0.2, lambda2=0.03, **strengths)


def test_logdet_with_strong_shrinkage_and_rounds_larger_than_d():
    rng = np.random.default_rng(7)
    x = rng.standard_normal((240, 7)) / np.sqrt(7)
    x[:, :2] *= rng.random((240, 2)) < 0.5
    x[:80, 3], x[101], x[122] = 0.0, x[100], 0.0
    starts = np.sort(rng.choice(np.arange(1, 240), 14, replace=False))
    rounds = romco.Rounds(
        rng.integers(0, 5, 240), x, rng.choice([-1.0, 1.0], 240), [0, *starts, 240]
    )
    compare("romco-logd", rounds, **SETTINGS[1])


@pytest.mark.parametrize("name", ["romco-nucl", "romco-logd"])
def test_a_round_that_fills_a_large_space(name):
    """More dense events than features, too many numbers to be looked at for a sparse event."""
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((660, 150)) / np.sqrt(150), rng.choice([-1.0, 1.0], 660)
    rounds = romco.Rounds(rng.integers(0, 160, 660), x, y, [0, 160, 400, 660])
    compare(name, rounds, eta1=0.3, eta2=0.2, lambda1=0.1, lambda2=0.01)
    learner = romco.learner(name, 150, 160)
    learner.replay(rounds)
    vectors = learner.kernel.left_vectors()
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(vectors.shape[1]), atol=1e-12)


@pytest.mark.slow
def test_a_full_ring_of_epochs():
    """Long enough for transforms to be dropped and their places used again."""
    rounds = sparse_rounds(20_000, 1500, 3, 2)
    compare("romco-nucl", rounds, eta1=0.3, eta2=0.1, lambda1=0.3, lambda2=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("few", [0, 64])
def test_a_million_events(few, monkeypatch):
    """Orthonormal to 1e-12, no more memory, margins as after a fresh start from dense U."""
    monkeypatch.setattr(learners, "MAX_ONE_SIDED_TASKS", few)
    d, m, strengths = 300, 8, {"eta1": 0.05, "eta2": 0.01, "lambda1": 1e-4, "lambda2": 1e-3}
    learner = romco.learner("romco-nucl", d, m, **strengths)
    sizes = []
    for part in range(20):
        learner.replay(sparse_rounds(50_000, d, m, 10, seed=part))
        sizes.append(sum(array.nbytes for array in learner.arrays().values()))
    assert max(sizes[10:]) <= max(sizes[:10])
    for vectors in (learner.kernel.left_vectors(), learner.kernel.right_vectors()):
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(vectors.shape[1]), atol=1e-12)
    twin = reference.Romco(d, m, shrink=reference.nuclear, **strengths)
    twin.u, twin.v = learner.shared(), learner.personal()
    for task, x, y, *_ in sparse_rounds(2000, d, m, 10, seed=99):
        expected = twin.predict(task, x.toarray())
        found = learner.predict(romco.Round(task, x, y))
        np.testing.assert_allclose(found, expected, atol=1e-8)
        twin.update(task, x.toarray(), y)
        learner.update(romco.Round(task, x, y))
