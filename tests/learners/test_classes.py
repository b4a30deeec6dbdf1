"""Many classes from learners of two: the same as by hand, and what they promise."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import romco
from romco.learners.classes import Classes
from tests.reference import classes as reference
from tests.reference.softmax import ConditionalLogit, Softmax

D, M = 6, 4


def rounds(classes, n=150, seed=0, weight=False):
    rng = np.random.default_rng(seed)
    x, task = rng.normal(size=(n, D)), rng.integers(M, size=n)
    y = (x @ rng.normal(size=(D, classes)) + rng.gumbel(size=(n, classes))).argmax(axis=1)
    h = rng.choice([0.0, 0.5, 2.0], n) if weight else None
    return romco.Rounds(task, x, y.astype(float), np.arange(n + 1), h)


def made(inner="romco-auto", classes=4, **more):
    return romco.learner("classes", D, M, inner=inner, n_classes=classes, **more)


FORMS = [("romco-auto", "pairs"), ("romco-auto", "rest"), ("arow-shared", "rest")]


@pytest.mark.parametrize("weight", [False, True])
@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize(("inner", "form"), FORMS)
def test_equals_its_transcription(inner, form, classes, weight):
    stream = rounds(classes, n=70 if classes < 5 else 25, weight=weight)  # 25 x 10 pairs
    learner = made(inner, classes, form=form)
    twin = reference.Classes(D, M, inner, learner.pairs(), classes)
    expected = []
    for e in range(len(stream)):
        expected.append(twin.predict(stream.task[e], stream.x[e]))
        h = 1.0 if stream.weight is None else stream.weight[e]
        twin.update(stream.task[e], stream.x[e], stream.y[e], h)
    np.testing.assert_allclose(learner.replay(stream), expected, rtol=1e-7, atol=1e-9)


def test_only_pairs_that_matter_are_asked():
    """Where classes lie apart, as their transcription has it, and so for newcomers."""
    stream = rounds(5, n=90)
    x = stream.x + 3.0 * np.eye(6)[stream.y.astype(int)]
    stream = romco.Rounds(stream.task, x, stream.y, stream.starts)
    learner = made(classes=5, form="pairs")
    twin = reference.Classes(D, M, "romco-auto", learner.pairs(), 5)
    for e in range(75):
        twin.update(stream.task[e], stream.x[e], stream.y[e])
    learner.replay(stream[:75])
    scores, asked = learner.predict(stream.events), 0
    margins = np.array([member.predict(stream.events) for member in learner.members()])
    np.testing.assert_allclose(learner.kernel.scores_of(margins), scores, rtol=1e-12)
    for e in range(75, 90):
        asked += len(twin.asked(np.exp(twin.log_a) * margins[:, e]))
        one = twin.predict(stream.task[e], stream.x[e])
        np.testing.assert_allclose(one, scores[e], rtol=1e-6, atol=1e-8)
    assert asked < 0.6 * 15 * len(margins)
    with pytest.raises(FloatingPointError, match="overflowed"):
        learner.kernel.scores_of(np.full((len(margins), 1), np.nan))


def test_a_pair_that_overflows_is_refused_before_anything_changes():
    learner = made("ogd-unique", classes=3, form="pairs")
    stream = rounds(3, n=50)
    learner.replay(stream)
    learner.members()[2].arrays()["w"][:] = np.inf  # of classes 1 and 2
    before = {name: array.copy() for name, array in learner.arrays().items()}
    x = np.ones((1, D))
    with pytest.raises(FloatingPointError, match="overflowed"):
        learner.update(romco.Round(np.array([0]), x, np.array([2.0])))
    for name, array in learner.arrays().items():
        np.testing.assert_array_equal(array, before[name])


@pytest.mark.parametrize("inner", ["romco-auto", "pa-unique", "romco-nucl"])
def test_two_classes_are_the_learner_of_two_to_the_last_bit(inner):
    stream = rounds(2)
    sides = romco.Rounds(stream.task, stream.x, 2.0 * stream.y - 1.0, stream.starts)
    learner, plain = made(inner, 2), romco.learner(inner, D, M)
    if inner == "romco-auto":
        plain.drop_functions()
    margins, scores = plain.replay(sides), learner.replay(stream)
    np.testing.assert_array_equal(margins >= 0.0, scores[:, 1] >= scores[:, 0])
    for name, array in plain.arrays().items():
        np.testing.assert_array_equal(learner.arrays()[f"0.{name}"], array)


@pytest.mark.parametrize(("inner", "form"), FORMS)
def test_promises(inner, form):
    stream = rounds(4, n=100)
    looped, replayed, half = (made(inner, form=form) for _ in range(3))
    scores = []
    for round in stream:
        before = looped.state()["arrays"]
        scores.append(looped.predict(round))
        for name, array in looped.arrays().items():
            np.testing.assert_array_equal(array, before[name])
        looped.update(round)
    np.testing.assert_array_equal(replayed.replay(stream), np.concatenate(scores))
    half.replay(stream[:70])
    resumed = romco.restore(half.state())
    np.testing.assert_array_equal(resumed.replay(stream[70:]), np.concatenate(scores)[70:])
    sparse = romco.Rounds(stream.task, csr_array(stream.x), stream.y, stream.starts)
    np.testing.assert_allclose(
        made(inner, form=form).replay(sparse), np.concatenate(scores), rtol=1e-8, atol=1e-10
    )
    np.testing.assert_allclose(np.exp(np.concatenate(scores)).sum(axis=1), 1.0, rtol=1e-12)
    assert replayed.weights().shape == (D, M, 4)


@pytest.mark.parametrize("form", ["pairs", "rest"])
def test_a_round_is_predicted_as_a_whole_and_learned_in_order(form):
    stream = rounds(3, n=20)
    together, apart = made(classes=3, form=form), made(classes=3, form=form)
    together.update(stream.events)
    for round in stream:
        apart.update(round)
    for one, other in zip(together.members(), apart.members(), strict=True):
        np.testing.assert_allclose(one.weights(), other.weights(), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(stream.y, rounds(3, n=20).y)  # the caller's labels


@pytest.mark.parametrize("form", ["pairs", "rest"])
def test_classes_may_come_later(form):
    stream = rounds(4, n=600)
    early = stream.y < 2
    first = romco.Rounds(
        stream.task[early], stream.x[early], stream.y[early], np.arange(early.sum() + 1)
    )
    learner = made(classes=2, form=form)
    learner.replay(first)
    before = learner.predict(first.events)
    learner.make_classes(3)
    after = learner.predict(first.events)
    assert after.shape[1] == 3
    gain = (after[:, 1] - after[:, 0]) * (before[:, 1] - before[:, 0])
    assert (gain > -0.01).all()  # what was learned stays; centres are found anew from all events
    learner.make_classes(4)
    scores = learner.replay(stream)
    assert np.mean(scores[300:].argmax(axis=1) != stream.y[300:]) < 0.45


def test_bad_answers_and_limits():
    learner = made(classes=3)
    before = learner.state()["arrays"]
    x = np.ones((1, D))
    for y in (-1.0, 3.0, 0.5, np.inf):
        with pytest.raises(ValueError, match="event 0"):
            learner.update(romco.Round(np.array([0]), x, np.array([y])))
    for name, array in learner.arrays().items():
        np.testing.assert_array_equal(array, before[name])
    with pytest.raises(ValueError, match="10000 classes"):
        learner.make_classes(10_000)
    with pytest.raises(ValueError, match="mtfl cannot be one of many"):
        made("mtfl")
    with pytest.raises(ValueError, match="'classes' is missing"):
        learner.load({})


@pytest.mark.parametrize("known", [False, True])
def test_pairs_and_softmax_are_stacked_as_in_their_transcription(known):
    stream = rounds(3, n=40)
    stream.offset = np.random.default_rng(1).normal(size=(40, 3)) if known else None
    learner = made(classes=3)
    by_pairs = reference.Classes(D, M, "romco-auto", learner.pairs(), 3)
    at_once = Softmax(D, M, 3)
    stacking, expected = ConditionalLogit([1.0, 0.0], [0.3, 0.3], 1e-3), []
    for e in range(40):
        i, x, y = stream.task[e], stream.x[e], int(stream.y[e])
        offset = stream.offset[e] if known else None
        base = np.zeros(3) if offset is None else offset
        by_margins = by_pairs.scores(by_pairs.margins(i, x, offset), offset)
        z = np.array([by_margins, at_once.predict(i, x, offset)]) - base
        expected.append(stacking.predict(z, base))
        stacking.update(z, y, 1.0, base)
        by_pairs.update(i, x, y, 1.0, offset)
        at_once.update(i, x, y, 1.0, offset)
    np.testing.assert_allclose(learner.replay(stream), expected, rtol=1e-6, atol=1e-7)


def test_from_the_eleventh_class_on_there_is_no_pair():
    stream = rounds(14, n=400)
    learner = made(classes=10)
    assert (learner.form, len(learner.members())) == ("pairs", 45)
    early = romco.Rounds(stream.task, stream.x, stream.y % 10, stream.starts)
    learner.replay(early)
    again = romco.restore(learner.state())
    again.make_classes(14)
    wider = learner.with_classes(14)
    assert learner.answers == 10
    assert (wider.form, wider.members(), wider.pairs()) == ("softmax", [], [])
    scores = wider.replay(stream)
    np.testing.assert_array_equal(again.replay(stream), scores)
    np.testing.assert_allclose(np.exp(scores).sum(axis=1), 1.0)
    restored = romco.restore(wider.state())
    np.testing.assert_array_equal(restored.predict(stream.events), wider.predict(stream.events))
    assert wider.weights().shape == (D, M, 14)
    wider.forget_task(1)
    assert wider.personal_tasks().tolist() == []
    with pytest.raises(ValueError, match="31 classes: romco-auto tells at most 30 apart by pairs"):
        made(classes=31, form="pairs")


def test_state_is_of_what_occurred():
    """219 classes, 1,099 tasks and 24 features once took 2.95 GB."""
    rng = np.random.default_rng(0)
    n, classes, tasks, d = 2000, 219, 1099, 24
    task, y = rng.integers(tasks, size=n), rng.integers(classes, size=n)
    x = rng.normal(size=(classes, d))[y] + rng.normal(size=(n, d))
    learner = romco.learner("classes", d, tasks, n_classes=classes)
    learner.replay(romco.Rounds(task, x, y.astype(float), np.arange(n + 1)))
    assert sum(array.nbytes for array in learner.arrays().values()) < 200e6


def test_a_round_of_very_many_classes_is_scored_as_its_events():
    stream = rounds(36, n=900)
    learner = made(classes=36)
    learner.replay(stream[:800])
    few = learner.predict(romco.Round(stream.task[800:860], stream.x[800:860], np.empty(0)))
    each = [learner.predict(stream[e])[0] for e in range(800, 860)]
    np.testing.assert_array_equal(few, each)
    learner.update(romco.Round(stream.task[800:], stream.x[800:], stream.y[800:]))
    assert np.isfinite(learner.predict(stream.events)).all()


def species(n, classes=48, seed=1, rare=0.002):
    """Skewed and correlated features, a spread for each class, 30 classes that are frequent."""
    rng = np.random.default_rng(seed)
    d = 12
    middle, spread = rng.normal(size=(classes, d)), np.exp(0.5 * rng.normal(size=(classes, d)))
    shares = rng.dirichlet(2.0 * np.ones(30))
    if classes > 30:
        shares = np.append((1.0 - rare) * shares, np.full(classes - 30, rare / (classes - 30)))
    y = rng.choice(classes, size=n, p=shares)
    x = middle[y] + 0.6 * spread[y] * rng.normal(size=(n, d))
    x = x @ (np.eye(d) + 0.5 * rng.normal(size=(d, d)) / np.sqrt(d))
    x[:, :4], x[:, 4:6] = np.exp(x[:, :4]), x[:, 4:6] > 0.0
    return romco.Rounds(rng.integers(8, size=n), x, y.astype(float), np.arange(n + 1))


def frozen_error(stream, classes, known):
    learner = romco.learner("classes", stream.x.shape[1], 8, n_classes=classes)
    learner.replay(stream[:known])
    rest = romco.Round(stream.task[known:], stream.x[known:], np.empty(0))
    return learner.predict(rest).argmax(axis=1) != stream.y[known:]


@pytest.mark.parametrize("rare", [0.002, pytest.param(0.4, marks=pytest.mark.slow)])
def test_48_classes_are_told_apart_as_well_as_by_logistic_regression(rare):
    """The 31st class once changed the method for all: 19.4 % errors of 30 species, 27.8 of 48."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    stream, known = species(8000, rare=rare), 5600
    scaled = StandardScaler().fit(stream.x[:known]).transform(stream.x)
    logistic = LogisticRegression(max_iter=2000).fit(scaled[:known], stream.y[:known])
    error = np.mean(logistic.predict(scaled[known:]) != stream.y[known:])
    assert frozen_error(stream, 48, known).mean() < 1.02 * error


@pytest.mark.slow
def test_rare_classes_do_not_make_frequent_ones_worse():
    """Over four streams: on one of them, 0.2 points are five events."""
    known, more = 5600, []
    for seed in (1, 2, 3, 4):
        stream = species(8000, seed=seed)
        frequent = stream.y < 30
        wrong = frozen_error(stream, 48, known)[frequent[known:]].mean()
        alone = romco.Rounds(
            *(part[frequent] for part in (stream.task, stream.x, stream.y)),
            np.arange(frequent.sum() + 1),
        )
        more.append(wrong - frozen_error(alone, 30, int(frequent[:known].sum())).mean())
    assert np.mean(more) < 0.002


def test_weight_zero_changes_nothing_that_pairs_have_in_common():
    stream = rounds(3)
    learner = made(classes=3)
    learner.replay(stream)
    before = {name: array.copy() for name, array in learner.arrays().items()}
    learner.update(romco.Round(np.array([0]), np.ones((1, D)), np.array([1.0]), np.zeros(1)))
    for name, array in learner.arrays().items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)


def test_what_hardly_varies_between_two_classes_is_heard():
    """A feature that is large in one class only, and tells the other two apart by little."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=200)
    x = rng.normal(size=(200, D))
    x[:, 0] = np.where(y == 2, 100.0 * x[:, 0], y + 0.2 * x[:, 0])
    learner = made(classes=3, form="pairs")
    twin = reference.Classes(D, M, "romco-auto", learner.pairs(), 3)
    expected = []
    for e in range(100):
        expected.append(twin.predict(e % M, x[e]))
        twin.update(e % M, x[e], float(y[e]))
    found = learner.replay(romco.Rounds(np.arange(200) % M, x, y.astype(float), np.arange(201)))
    np.testing.assert_allclose(found[:100], expected, rtol=1e-6, atol=1e-8)
    told = (y < 2) & (np.arange(200) >= 100)
    assert np.mean(found[told, :2].argmax(axis=1) != y[told]) < 0.05


def test_forgetting_a_task():
    learner = Classes(D, M, n_classes=3)
    stream = rounds(3)
    learner.replay(stream)
    learner.forget_task(1)
    assert not learner.members()[0].arrays()["tasks"][1].any()
