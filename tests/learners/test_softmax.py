"""Very many classes at once: the same as its transcription, and what it promises."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import romco
from romco.kernels.auto.discriminant import COLUMN_FIELDS
from romco.learners import softmax
from romco.learners.softmax import AutoSoftmax
from tests.reference import softmax as reference

D, M, K = 6, 4, 12


def stream(n=200, seed=0, classes=K, features=D, weight=False, sparse=0.0):
    rng = np.random.default_rng(seed)
    x, task = rng.normal(size=(n, features)), rng.integers(M, size=n)
    z = x @ (2.0 * rng.normal(size=(features, classes)))
    y = (z + rng.gumbel(size=(n, classes))).argmax(axis=1)
    x[rng.random(x.shape) < sparse] = 0.0
    h = rng.choice([0.0, 0.5, 2.0], n) if weight else None
    return romco.Rounds(task, x + 0.5, y.astype(float), np.arange(n + 1), h)


@pytest.mark.parametrize(
    ("weight", "sparse", "known"),
    [
        (False, 0.0, False),
        (True, 0.6, True),
        pytest.param(True, 0.0, False, marks=pytest.mark.slow),
        pytest.param(False, 0.6, False, marks=pytest.mark.slow),
    ],
)
def test_equals_its_transcription(weight, sparse, known):
    rounds = stream(n=140, weight=weight, sparse=sparse)
    rounds.x[:, :2] = np.expm1(2.0 * rounds.x[:, :2])  # far from normal; zeros stay
    offset = 2.0 * np.random.default_rng(1).normal(size=(len(rounds), K)) if known else None
    rounds.offset = offset
    twin, expected = reference.Softmax(D, M, K), []
    for e in range(len(rounds)):
        o = offset[e] if known else None
        expected.append(twin.predict(rounds.task[e], rounds.x[e], o))
        h = 1.0 if rounds.weight is None else rounds.weight[e]
        twin.update(rounds.task[e], rounds.x[e], rounds.y[e], h, o)
    learner = AutoSoftmax(D, M, n_classes=K)
    np.testing.assert_allclose(learner.replay(rounds), expected, rtol=1e-7, atol=1e-8)
    assert learner.arrays()["columns"][:, COLUMN_FIELDS.index("is_score")].any()


def test_the_order_of_features_does_not_matter():
    rounds = stream(n=300, sparse=0.3)
    order = np.random.default_rng(2).permutation(D)
    other = romco.Rounds(rounds.task, rounds.x[:, order], rounds.y, rounds.starts)
    scores = AutoSoftmax(D, M, n_classes=K).replay(rounds)
    shuffled = AutoSoftmax(D, M, n_classes=K).replay(other)
    np.testing.assert_allclose(shuffled, scores, rtol=1e-6, atol=1e-8)


def test_an_exact_relation_between_columns_is_used():
    """Classes that differ in nothing but the sum of three columns, by little."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(600, 3)), rng.integers(4, size=600)
    x[:, 2] = 0.3 * y - x[:, 0] - x[:, 1] + 0.03 * rng.normal(size=600)
    rounds = romco.Rounds(np.zeros(600, int), x, y.astype(float), np.arange(601))
    scores = AutoSoftmax(3, 1, n_classes=4).replay(rounds)
    assert np.mean(scores[300:].argmax(axis=1) != y[300:]) < 0.1


def test_there_are_no_columns_where_too_many_features_occur():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(520, 140)), rng.integers(3, size=520).astype(float)
    x[:, 0] += 2.0 * y
    rounds = romco.Rounds(np.zeros(520, int), x, y, np.arange(521))
    learner = AutoSoftmax(140, 1, n_classes=3)
    scores = learner.replay(rounds)
    assert not learner.arrays()["columns"].any()
    assert np.mean(scores[-200:].argmax(axis=1) != y[-200:]) < 0.5


def test_a_missing_number_is_taken_as_the_median():
    """Of a feature that nearly all events have: as zero it would speak for the first class."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=600)
    x = rng.normal(size=(600, D)) + 10.0
    x[:, 0] += 2.0 * y
    rounds = romco.Rounds(np.zeros(600, int), csr_array(x), y.astype(float), np.arange(601))
    learner = AutoSoftmax(D, 1, n_classes=3)
    learner.replay(rounds)
    missing = csr_array(
        (x[:300, 1:].ravel(), np.tile(np.arange(1, D), 300), np.arange(0, 300 * D - 299, D - 1)),
        shape=(300, D),
    )
    scores = learner.predict(romco.Round(np.zeros(300, int), missing, np.empty(0)))
    means = np.exp(scores).mean(axis=0)
    assert means.argmax() == 1  # the class in the middle
    assert means.max() < 0.8  # 1 / (1 + 2 exp(-2)) = 0.79 at the median


@pytest.mark.parametrize("seed", range(3))
def test_a_number_that_becomes_rarer_than_nearly_always(seed):
    """A row without it is then another one for learning than for the prediction just before."""
    rng = np.random.default_rng(seed)
    present = 60
    n = present + 40
    x = rng.normal(size=(n, 2)) + 3.0
    y = rng.integers(3, size=n)
    x[present:, 0] = 0.0
    rows = csr_array(x)
    rows.eliminate_zeros()
    rounds = romco.Rounds(np.zeros(n, int), rows, y.astype(float), np.arange(n + 1))
    learner = AutoSoftmax(2, 1, n_classes=3)
    learner.replay(rounds)
    shared = learner.arrays()["shared"].reshape(-1, 4, 3)
    spent = shared[:, 1::2]  # of a prior variance of 1
    assert spent.max() <= 1.0


def test_growing_beyond_what_a_discriminant_may_cost(monkeypatch):
    rounds = stream(n=200)
    learner = AutoSoftmax(D, M, n_classes=K)
    learner.replay(rounds)
    monkeypatch.setattr(softmax, "LINE_NUMBERS", 20 * D * D)
    learner.make_classes(24)
    assert learner.arrays()["class_scatter"].size == 0
    scores = learner.replay(rounds)
    assert np.mean(scores.argmax(axis=1) != rounds.y) < 0.4
    again = AutoSoftmax(D, M, n_classes=24)
    again.load(learner.arrays())
    np.testing.assert_array_equal(again.predict(rounds.events), learner.predict(rounds.events))


@pytest.mark.parametrize("dense", [True, False])
def test_promises(dense, monkeypatch):
    monkeypatch.setattr(softmax, "DENSE", 2**23 if dense else 0)
    rounds = stream()

    def made():
        return romco.learner("classes", D, M, n_classes=K, form="softmax")

    looped, replayed, half = made(), made(), made()
    scores = []
    for round in rounds:
        before = looped.state()["arrays"]
        scores.append(looped.predict(round))
        for name, array in looped.arrays().items():
            np.testing.assert_array_equal(array, before[name])
        looped.update(round)
    np.testing.assert_array_equal(replayed.replay(rounds), np.concatenate(scores))
    half.replay(rounds[:70])
    resumed = romco.restore(half.state())
    np.testing.assert_array_equal(resumed.replay(rounds[70:]), np.concatenate(scores)[70:])
    larger = romco.grown(resumed, D + 3, M + 2)
    wide = np.hstack([rounds.x, np.zeros((len(rounds), 3))])
    np.testing.assert_allclose(
        larger.predict(romco.Round(rounds.task, wide, rounds.y)),
        resumed.predict(rounds.events),
        rtol=1e-9,
    )
    sparse = romco.Rounds(rounds.task, csr_array(rounds.x), rounds.y, rounds.starts)
    np.testing.assert_allclose(made().replay(sparse), np.concatenate(scores), rtol=1e-9)
    np.testing.assert_allclose(np.exp(np.concatenate(scores)).sum(axis=1), 1.0, rtol=1e-12)
    assert replayed.weights().shape == (D, M, K)


def test_a_table_of_what_occurred_is_as_good_as_an_array(monkeypatch):
    rounds = stream(sparse=0.5)
    dense = AutoSoftmax(D, M, n_classes=K)
    scores = dense.replay(rounds)
    monkeypatch.setattr(softmax, "DENSE", 0)
    listed = AutoSoftmax(D, M, n_classes=K)
    np.testing.assert_array_equal(listed.replay(rounds), scores)
    np.testing.assert_allclose(listed.weights(), dense.weights(), rtol=1e-12)
    again = AutoSoftmax(D, M, n_classes=K)
    again.load(dense.arrays())  # an array becomes a table where it would be too large
    np.testing.assert_array_equal(again.predict(rounds.events), dense.predict(rounds.events))


def test_classes_may_come_later():
    rounds = stream(n=600, classes=5)
    learner = AutoSoftmax(D, M, n_classes=3)
    known = rounds.y < 3
    learner.replay(
        romco.Rounds(
            rounds.task[known], rounds.x[known], rounds.y[known], np.arange(sum(known) + 1)
        )
    )
    before = learner.predict(rounds.events)
    learner.make_classes(5)
    after = learner.predict(rounds.events)[:, :3]
    difference = (after - before) - (after - before)[:, :1]
    np.testing.assert_allclose(difference, 0.0, atol=0.05)  # what was learned of the three stays
    scores = learner.replay(rounds)
    assert np.mean(scores[300:].argmax(axis=1) != rounds.y[300:]) < 0.3


def test_better_than_each_against_the_rest():
    rounds = stream(n=1200, classes=40, features=10)
    losses = {}
    for form in ("rest", "softmax"):
        learner = romco.learner("classes", 10, M, n_classes=40, form=form)
        scores = learner.replay(rounds)
        losses[form] = -scores[np.arange(1200), rounds.y.astype(int)].mean()
    assert losses["softmax"] < 0.95 * losses["rest"]


def test_a_class_of_one_event_and_a_single_class():
    rounds = stream(n=300)
    alone = romco.Rounds(rounds.task, rounds.x, np.zeros(300), rounds.starts)
    scores = AutoSoftmax(D, M, n_classes=40).replay(alone)
    assert np.isfinite(scores).all()
    assert np.exp(scores[-1, 0]) > 0.95
    learner = AutoSoftmax(D, M, n_classes=K)
    learner.update(romco.Round(np.array([0]), 9.0 * np.ones((1, D)), np.array([7.0])))
    others = np.where(rounds.y == 7.0, 8.0, rounds.y)
    learner.replay(romco.Rounds(rounds.task, rounds.x, others, rounds.starts))
    assert np.exp(learner.predict(rounds.events)[:, 7]).mean() < 0.03


def test_a_sure_and_wrong_judge_does_not_leap():
    """One event that all voices get wrong must not turn their weights upside down."""
    rng = np.random.default_rng(3)
    y = np.arange(200) % 10
    x = 4.0 * rng.normal(size=(10, 30))[y] + rng.normal(size=(200, 30))
    y[::17] = rng.integers(10, size=len(y[::17]))
    rounds = romco.Rounds(np.zeros(200, int), x, y.astype(float), np.arange(201))
    scores = AutoSoftmax(30, 1, n_classes=10).replay(rounds)
    assert -scores[np.arange(200), y].min() < 15.0


def test_forgetting_a_task():
    rounds = stream()
    learner = romco.learner("classes", D, M, n_classes=K, form="softmax")
    learner.replay(rounds)
    learner.forget_task(1)
    arrays = learner.arrays()
    assert not arrays["softmax_counts"][1].any()
    assert not arrays["softmax_groups"][1].any()
    np.testing.assert_allclose(arrays["softmax_seen"], arrays["softmax_counts"].sum(axis=0))
    lines = arrays["softmax_columns"][:, 1] == 0.0
    lines &= arrays["softmax_columns"][:, 0] != 0.0
    sums = arrays["softmax_groups"].sum(axis=0)
    np.testing.assert_allclose(arrays["softmax_sums"][:, lines], sums[:, : lines.sum()], atol=1e-9)
    assert not arrays["softmax_own_level"][1].any()
    assert not arrays["softmax_personal"][1].any()
    assert arrays["softmax_personal"][0].any()


def test_additions_add_up():
    rounds = stream(n=400)
    learner = AutoSoftmax(D, M, n_classes=K)
    learner.replay(rounds)
    for e in range(5):
        round = romco.Round(rounds.task[e : e + 1], rounds.x[e : e + 1], np.empty(0))
        features, shared, personal, rest = learner.additions(round)
        total = shared.sum(axis=0) + personal.sum(axis=0) + rest
        scores = learner.predict(round)[0]
        np.testing.assert_allclose(total - total.max(), scores - scores.max(), atol=1e-9)
        assert features.shape == (D,)
        assert np.ptp(rest) < np.ptp(total)  # features explain the most of it


def test_bad_states_and_answers_are_refused():
    learner = AutoSoftmax(D, M, n_classes=K)
    with pytest.raises(ValueError, match="'seen' is missing"):
        learner.load({})
    arrays = AutoSoftmax(D, M, n_classes=K + 1).arrays()
    with pytest.raises(ValueError, match="13 classes, this learner 12"):
        learner.load(arrays)
    arrays = {**learner.arrays(), "shared": np.zeros((1, D, 3))}
    with pytest.raises(ValueError, match="not of 12 classes"):
        learner.load(arrays)
    bad = {name: array.copy() for name, array in learner.arrays().items()}
    bad["personal"][0, 0, 0] = np.nan
    with pytest.raises(ValueError, match="not finite"):
        learner.load(bad)
    learner.replay(stream())
    for row, column, value in ((0, 0, D + 1.0), (0, 0, 1.5), (1, 0, 1.0), (0, 1, 7.0), (2, 0, 0.0)):
        bad = {name: array.copy() for name, array in learner.arrays().items()}
        bad["columns"][row, column] = value
        with pytest.raises(ValueError, match="'columns' holds columns of no feature"):
            AutoSoftmax(D, M, n_classes=K).load(bad)
    bad = learner.arrays() | {"groups": np.zeros((M, K, D + 1))}
    with pytest.raises(ValueError, match="'groups'"):
        AutoSoftmax(D, M, n_classes=K).load(bad)
    learner = AutoSoftmax(D, M, n_classes=K)
    with pytest.raises(ValueError, match="romco-auto only"):
        romco.learner("classes", D, M, inner="pa-unique", form="softmax")
    with pytest.raises(ValueError, match="10000 classes: romco-auto tells at most 1000 apart"):
        romco.learner("classes", D, M, n_classes=10_000)
    x = np.ones((1, D))
    for y in (-1.0, float(K), 0.5, np.inf):
        with pytest.raises(ValueError, match="event 0"):
            learner.update(romco.Round(np.array([0]), x, np.array([y])))


def test_features_of_any_size():
    rng = np.random.default_rng(0)
    rounds = stream()
    sizes = 10.0 ** rng.uniform(-60, 59, size=D)
    sized = romco.Rounds(rounds.task, rounds.x * sizes, rounds.y, rounds.starts)
    scores = AutoSoftmax(D, M, n_classes=K).replay(sized)
    assert np.isfinite(scores).all()
    error = np.mean(scores[100:].argmax(axis=1) != rounds.y[100:])
    assert error < 0.6


@pytest.mark.parametrize("seed", range(6))
def test_events_of_any_weight_leave_probabilities(seed):
    rng = np.random.default_rng(seed)
    rounds = stream(n=80, seed=seed)
    x = rounds.x.clip(-1, 1) * rng.choice([0.0, 1e-60, 1e60, 1.0], size=rounds.x.shape)
    h = rng.choice([0.0, 1e-12, 1.0, 1e6, 1e12], size=80)
    learner = AutoSoftmax(D, M, n_classes=K)
    scores = learner.replay(romco.Rounds(rounds.task, x, rounds.y, rounds.starts, h))
    np.testing.assert_allclose(np.exp(scores).sum(axis=1), 1.0, rtol=1e-9)
    for array in learner.arrays().values():
        assert np.isfinite(array).all()
