"""A personal layer on top of any model."""

from itertools import pairwise

import numpy as np
import pytest

import romco

sklearn = pytest.importorskip("sklearn")
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier  # noqa: E402


def log_loss(y, margins):
    return float(np.mean(np.logaddexp(0.0, -np.where(y, 1.0, -1.0) * margins)))


def rmse(y, found):
    return float(np.sqrt(np.mean(np.square(found - y))))


def simulated(seed, n=1000, d=5, m=20, personal=0.0):
    """Rows of which the first n are for the base, the next n for the layer, the rest for tests."""
    rng = np.random.default_rng(seed)
    X, task = rng.normal(size=(3 * n, d)), rng.integers(0, m, 3 * n)
    own = personal * rng.normal(size=(m, d + 1))
    score = X @ (1.5 * rng.normal(size=d) / np.sqrt(d))
    score += own[task, 0] + (X * own[task, 1:]).sum(axis=1)
    y, number = score + rng.logistic(size=3 * n) > 0.0, 30.0 + score + rng.normal(size=3 * n)
    return X, [f"u{i}" for i in task], y, number


PARTS = [slice(1000), slice(1000, 2000), slice(2000, 3000)]


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))]
)
@pytest.mark.parametrize(("n", "d", "m"), [(1000, 5, 5), (1000, 5, 100), (300, 20, 5)])
def test_costs_next_to_nothing_without_personal_structure(seed, n, d, m):
    """At most 0.5 % of the base's log loss, while it learns and after."""
    X, task, y, number = simulated(seed, n, d, m)
    old, now, later = slice(n), slice(n, 2 * n), slice(2 * n, None)
    base = LogisticRegression().fit(X[old], y[old])
    layer, seen = romco.PersonalLayer(base), []
    for k in range(n, 2 * n, 20):
        part = slice(k, k + 20)
        seen.append(layer.decision_function(X[part], task[part]))
        layer.partial_fit(X[part], y[part], task=task[part])
    scores = base.decision_function(X)
    assert log_loss(y[now], np.concatenate(seen)) < 1.005 * log_loss(y[now], scores[now])
    found = layer.decision_function(X[later], task[later])
    assert log_loss(y[later], found) < 1.005 * log_loss(y[later], scores[later])
    base = LinearRegression().fit(X[old], number[old])
    layer = romco.PersonalLayer(base).partial_fit(X[now], number[now], task=task[now])
    limit = 1.005 * rmse(number[later], base.predict(X[later]))
    assert rmse(number[later], layer.predict(X[later], task[later])) < limit


class Bases:
    """A good base, and others that are of no use or misleading."""

    def __init__(self, good, mean, spread):
        self.good, self.mean, self.spread = good, mean, spread

    def noise(self, X):
        """Return what depends on the row, but has nothing to do with the answer."""
        return self.mean + 3.0 * self.spread * np.sin(1e4 * X[:, 0] + 1e3 * X[:, 1])

    def overconfident(self, X):
        return self.mean + 5.0 * (self.good(X) - self.mean)

    def constant(self, X):
        return np.full(len(X), self.mean + 3.0 * self.spread)

    def turned(self, X):
        return 2.0 * self.mean - self.good(X)


def live_and_frozen(predict, learn, X, y, task, measure, n=1500):
    """Return the loss of predictions of rows that are learned next, and of rows that never are."""
    seen = []
    for begin, end in pairwise([*range(20), *range(20, n + 1, 20)]):
        part = slice(begin, end)
        seen.append(predict(X[part], task[part]))
        learn(X[part], y[part], task[part])
    return measure(y[:n], np.concatenate(seen)), measure(y[n:], predict(X[n:], task[n:]))


@pytest.mark.parametrize("kind", ["good", "noise", "overconfident", "constant", "turned"])
@pytest.mark.parametrize("number", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_no_base_harms(kind, number):
    """At most 1 % worse than the better of the base and romco alone, live and frozen."""
    X, task, y, numbers = simulated(6, n=1500, personal=0.7)
    task = np.array(task)
    old, now = slice(1500), slice(1500, None)
    if number:
        y, measure, target = numbers, rmse, "number"
        good = LinearRegression().fit(X[old], y[old]).predict
        bases = Bases(good, y[old].mean(), y[old].std())
    else:
        measure, target = log_loss, "two classes"
        good = LogisticRegression().fit(X[old], y[old]).decision_function
        bases = Bases(good, 0.0, 1.0)
    base, X, y, task = getattr(bases, kind), X[now], y[now], task[now]
    model = romco.Model(features=romco.Columns(5), target=target)
    layer = romco.PersonalLayer(base, target=target, classes=None if number else [False, True])
    alone = live_and_frozen(model.margins, model.learn, X, y, task, measure)
    with_base = live_and_frozen(layer.decision_function, layer.partial_fit, X, y, task, measure)
    scores = base(X)
    by_itself = measure(y[:1500], scores[:1500]), measure(y[1500:], scores[1500:])
    assert with_base[0] < 1.01 * min(alone[0], by_itself[0])
    assert with_base[1] < 1.01 * min(alone[1], by_itself[1])


@pytest.mark.parametrize("columns", [None, [0, 1, 2], []])
def test_learns_what_is_personal(columns):
    X, task, y, number = simulated(0, personal=1.0)
    old, now, later = PARTS
    base = LogisticRegression().fit(X[old], y[old])
    layer = romco.PersonalLayer(base, columns=columns)
    layer.partial_fit(X[now], y[now], task=task[now])
    before = log_loss(y[later], base.decision_function(X[later]))
    assert log_loss(y[later], layer.decision_function(X[later], task[later])) < 0.97 * before
    np.testing.assert_array_equal(layer.classes_, [False, True])
    chances = layer.predict_proba(X[later], task[later])
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    predicted = layer.predict(X[later], task[later])
    np.testing.assert_array_equal(predicted, chances[:, 1] >= 0.5)
    regressor = LinearRegression().fit(X[old], number[old])
    numbers = romco.PersonalLayer(regressor, columns=columns)
    numbers.partial_fit(X[now], number[now], task=task[now])
    before = rmse(number[later], regressor.predict(X[later]))
    assert rmse(number[later], numbers.predict(X[later], task[later])) < 0.95 * before
    with pytest.raises(ValueError, match="no probability"):
        numbers.predict_proba(X[later], task[later])


def test_is_the_base_before_it_has_learned():
    X, task, y, _ = simulated(1)
    for base in (LogisticRegression().fit(X, y), RidgeClassifier().fit(X, y)):
        layer = romco.PersonalLayer(base)
        np.testing.assert_allclose(
            layer.decision_function(X, task), base.decision_function(X), atol=1e-9
        )
        np.testing.assert_array_equal(layer.predict(X, task), base.predict(X))


def test_a_function_is_a_base():
    X, task, y, _ = simulated(2, personal=1.0)
    layer = romco.PersonalLayer(lambda X: X[:, 0], target="two classes", classes=[False, True])
    layer.partial_fit(X[:2000], y[:2000], task=task[:2000])
    found = layer.decision_function(X[2000:], task[2000:])
    assert log_loss(y[2000:], found) < log_loss(y[2000:], X[2000:, 0])
    with pytest.raises(ValueError, match="say target="):
        romco.PersonalLayer(lambda X: X[:, 0])
    three = LogisticRegression().fit(X, np.arange(len(X)) % 3)
    with pytest.raises(ValueError, match="expected two classes"):
        romco.PersonalLayer(three, target="two classes")


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("classes", [2, 3])
def test_frames_get_a_column_for_each_score(library, classes):
    frames = pytest.importorskip(library)
    rng = np.random.default_rng(0)
    values = rng.normal(size=300)
    X = frames.DataFrame({"size": values, "town": ["Rome", "Bonn", "Oslo"] * 100})
    y, task = np.digitize(values, [0.0, 1.0][: classes - 1]), ["ann", "bob"] * 150
    scores = np.log(np.eye(classes) * 0.8 + 0.1)

    def base(X):
        known = scores[np.digitize(np.asarray(X["size"]), [0.0, 1.0][: classes - 1])]
        return known if classes > 2 else known[:, 1] - known[:, 0]

    target = "classes" if classes > 2 else "two classes"
    layer = romco.PersonalLayer(base, target=target, classes=list(range(classes)))
    layer.partial_fit(X, y, task=task)
    assert (layer.predict(X, task) == y).mean() > 0.95
    features = layer.fitted_model().features
    names = [features.name(j) for j in range(features.width)]
    assert sum(name.startswith("score of the base") for name in names) == {2: 1, 3: 3}[classes]


def test_a_column_of_the_name_of_the_scores_is_refused():
    pd = pytest.importorskip("pandas")
    layer = romco.PersonalLayer(lambda X: np.zeros(len(X)), target="number")
    with pytest.raises(ValueError, match="rename yours"):
        layer.partial_fit(pd.DataFrame({"score of the base": [1.0]}), [1.0], task=["ann"])
    assert layer.model is None


@pytest.mark.parametrize("kind", ["classes", "number", "frame"])
def test_saved_without_its_base(tmp_path, kind):
    X, task, y, number = simulated(3, personal=1.0)
    if kind == "frame":
        pd = pytest.importorskip("pandas")
        X = pd.DataFrame(X, columns=list("abcde"))
    if kind == "number":
        base, y = LinearRegression().fit(X, number), number
    else:
        base = LogisticRegression().fit(X, y)
    layer = romco.PersonalLayer(base).partial_fit(X[:1500], y[:1500], task=task[:1500])
    romco.save(layer, tmp_path / "layer.romco")
    again = romco.load(tmp_path / "layer.romco")
    with pytest.raises(ValueError, match=r"set layer\.base"):
        again.predict(X, task)
    again.base = base
    for made in (layer, again):
        made.partial_fit(X[1500:2000], y[1500:2000], task=task[1500:2000])
    np.testing.assert_array_equal(
        again.decision_function(X, task), layer.decision_function(X, task)
    )


def test_bad_rows_change_nothing():
    X, task, y, _ = simulated(4)
    base = LogisticRegression().fit(X, y)
    layer = romco.PersonalLayer(base).partial_fit(X[:100], y[:100], task=task[:100])
    before = layer.decision_function(X, task), layer.shares
    with pytest.raises(ValueError, match="has 3 entries"):
        layer.partial_fit(X[:5], y[:3], task=task[:5])
    wrong = romco.PersonalLayer(lambda X: np.full(len(X), np.nan), target="two classes")
    with pytest.raises(ValueError, match="score of the base is not finite"):
        wrong.partial_fit(X[:5], y[:5].astype(int), task=task[:5])
    assert wrong.model is None
    np.testing.assert_array_equal(layer.decision_function(X, task), before[0])
    assert layer.shares == before[1]


def test_boosters_are_bases():
    lightgbm = pytest.importorskip("lightgbm")
    X, task, y, number = simulated(5, personal=1.0)
    old, now, later = PARTS
    settings = {"n_estimators": 30, "num_leaves": 7, "verbose": -1}
    made = lightgbm.LGBMClassifier(**settings).fit(X[old], y[old])
    for base in (made, made.booster_):
        layer = romco.PersonalLayer(base, classes=[False, True])
        layer.partial_fit(X[now], y[now], task=task[now])
        scores = made.predict(X[later], raw_score=True)
        found = layer.decision_function(X[later], task[later])
        assert log_loss(y[later], found) < log_loss(y[later], scores)
    trees = lightgbm.LGBMRegressor(**settings).fit(X[old], number[old])
    layer = romco.PersonalLayer(trees.booster_)
    layer.partial_fit(X[now], number[now], task=task[now])
    before = rmse(number[later], trees.predict(X[later]))
    assert rmse(number[later], layer.predict(X[later], task[later])) < before


def test_settings_that_contradict_the_base_are_refused():
    X, _, y, _ = simulated(0)
    base = LogisticRegression().fit(X, np.where(y, "yes", "no"))
    with pytest.raises(ValueError, match=r"classes \[.*no.*yes.*\], in this order"):
        romco.PersonalLayer(base, classes=["yes", "no"])
    with pytest.raises(ValueError, match="a number has no classes"):
        romco.PersonalLayer(lambda X: X[:, 0], target="number", classes=[0, 1])
    with pytest.raises(ValueError, match="target must be one of"):
        romco.PersonalLayer(lambda X: X[:, 0], target="regression")
    many = romco.PersonalLayer(lambda X: X[:, :2], target="number")
    with pytest.raises(ValueError, match="one per row is needed"):
        many.partial_fit(X, X[:, 0], task=["u"] * len(X))
    assert many.model is None


def test_rows_of_weight_zero_do_not_weigh_the_layer():
    X, task, y, _ = simulated(0, personal=2.0)
    base = LogisticRegression().fit(X, y)
    layer = romco.PersonalLayer(base).partial_fit(X, y, task=task)
    shares = layer.shares
    layer.partial_fit(X, ~y, task=task, sample_weight=np.zeros(len(y)))
    assert layer.shares == shares
    none = np.zeros(5)
    before = romco.PersonalLayer(base).partial_fit(X[:5], y[:5], task=task[:5], sample_weight=none)
    scores = before.decision_function(X[:5], task[:5])
    np.testing.assert_allclose(scores, base.decision_function(X[:5]))


def test_text_of_which_no_column_is_personal():
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame({"size": np.sin(np.arange(40.0)), "town": ["Rome", "Bonn"] * 20})
    layer = romco.PersonalLayer(lambda X: X["size"] / 100, target="number", columns=())
    layer.partial_fit(X, X["size"] / 100 + 1.0, task=["u"] * 40)
    assert layer.predict(X, ["u"] * 40).shape == (40,)
    one = romco.PersonalLayer(lambda X: X["size"] / 100, target="number", columns="size")
    assert one.partial_fit(X, X["size"], task=["u"] * 40).columns == ["size"]


def choices(seed, personal, n=1200, classes=4):
    rng = np.random.default_rng(seed)
    X, task = rng.normal(size=(3 * n, 3)), rng.integers(0, 20, 3 * n)
    scores = X @ rng.normal(size=(3, classes)) + personal * rng.normal(size=(20, classes))[task]
    y = np.array(["bus", "car", "foot", "rail"])[
        (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    ]
    return X, [f"u{i}" for i in task], y


@pytest.mark.parametrize("personal", [0.0, 1.0])
def test_a_base_of_classes(personal, tmp_path):
    """Personal habits are learned; without any, log loss rises by at most 0.5 %."""
    X, task, y = choices(3, personal)
    old, now, later = slice(1200), slice(1200, 2400), slice(2400, None)
    base = LogisticRegression().fit(X[old], y[old])
    layer = romco.PersonalLayer(base)
    np.testing.assert_allclose(layer.predict_proba(X, task), base.predict_proba(X), atol=1e-9)
    layer.partial_fit(X[now], y[now], task=task[now])
    true = np.arange(1200), np.searchsorted(base.classes_, y[later])
    found = layer.predict_proba(X[later], task[later])
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    before = -np.log(base.predict_proba(X[later])[true]).mean()
    limit = 1.005 * before if personal == 0.0 else 0.9 * before
    assert -np.log(found[true]).mean() < limit
    assert (layer.predict(X[later], task[later]) == base.classes_[found.argmax(axis=1)]).all()
    romco.save(layer, tmp_path / "m.romco")
    again = romco.load(tmp_path / "m.romco")
    again.base = base
    np.testing.assert_array_equal(again.predict_proba(X[later], task[later]), found)
    with pytest.raises(ValueError, match="'boat' is not one of the base's classes"):
        layer.partial_fit(X[:2], ["bus", "boat"], task=task[:2])
    np.testing.assert_array_equal(layer.predict_proba(X[later], task[later]), found)
    for bad, reason in ((lambda X: np.zeros(len(X)), "not one per class"), (None, "its base")):
        layer.base = bad
        with pytest.raises(ValueError, match=reason):
            layer.predict(X[:2], task[:2])
