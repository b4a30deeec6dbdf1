"""Fit to rows that are all at hand: random orders, averaged into one model."""

import threading

import numpy as np
import pytest

import romco
from romco.learners.averaging import order_effect, shares_of_orders
from romco.learners.base import Learner
from romco.learners.capabilities import AveragesOrders
from romco.learners.classes import Classes
from romco.learners.softmax import AutoSoftmax
from romco.model.fitting import fit
from romco.model.rows import Rows
from romco.rounds import Rounds

N, D, M = 3000, 6, 12


def rows_of(seed=0, n=N, d=D, m=M):
    """Rows of tasks that differ, two classes."""
    random = np.random.default_rng(seed)
    task = random.integers(m, size=n)
    x = random.normal(size=(n, d))
    own = np.random.default_rng(1).normal(size=(m, d))
    margin = x @ np.linspace(-2.0, 2.0, d) + (x * own[task]).sum(axis=1)
    y = np.where(margin + random.logistic(size=n) > 0.0, "yes", "no")
    return x, y.tolist(), [f"user {i}" for i in task]


def new(**settings):
    return romco.Model(features=romco.Columns(D), **settings)


def turned(rows, order):
    x, y, task = rows
    return x[order], [y[i] for i in order], [task[i] for i in order]


def probabilities(model, seed=9):
    x, _, task = rows_of(seed, 500)
    return model.predict_proba(x, task)[:, 1]


def mappings(x):
    return [{f"column {j}": value for j, value in enumerate(row)} for row in x.tolist()]


# The order of rows


def test_shuffled_rows_give_nearly_the_same_model():
    rows = rows_of()
    orders = [np.random.default_rng(seed).permutation(N) for seed in range(3)]
    found = [probabilities(new().fit(*turned(rows, order))) for order in orders]
    learned = []
    for order in orders:
        model = new()
        model.learn(*turned(rows, order))
        learned.append(probabilities(model))
    for one, other in ((0, 1), (1, 2), (0, 2)):
        assert np.abs(found[one] - found[other]).mean() < 0.01
        assert np.abs(learned[one] - learned[other]).mean() > 0.01


@pytest.mark.parametrize("target", ["classes", "number"])
def test_other_targets_do_not_depend_on_the_order_of_rows(target):
    x, y, task = rows_of(n=400)
    rows = x, x[:, 0].tolist() if target == "number" else y, task
    order = np.random.default_rng(0).permutation(400)
    one, other = (new(target=target).fit(*some) for some in (rows, turned(rows, order)))
    np.testing.assert_allclose(one.margins(x, task), other.margins(x, task), atol=1e-6)
    assert one.events == 400


def test_rows_in_order_of_time_are_predicted_better_later_than_shuffled_ones():
    random = np.random.default_rng(0)
    x = random.normal(size=(6000, 2))
    level = np.linspace(-3.0, 3.0, 6000)
    y = np.where(x[:, 0] + level + random.logistic(size=6000) > 0.0, 1, 0).tolist()
    task = ["all"] * 6000
    order = random.permutation(4000)
    given = romco.Model(features=romco.Columns(2)).fit(x[:4000], y[:4000], task[:4000])
    rows = x[order], [y[i] for i in order], task[:4000]
    shuffled = romco.Model(features=romco.Columns(2)).fit(*rows)

    def loss(model):
        chances = model.predict_proba(x[4000:], task[4000:])
        return -np.log(chances[np.arange(2000), y[4000:]]).mean()

    assert loss(given) < 0.9 * loss(shuffled)


def test_an_order_counts_as_far_as_it_differs_from_random_ones():
    random = np.random.default_rng(0)
    covariance = np.diag([1.0, 4.0, 9.0, 1.0, 1.0, 1.0])
    found = []
    for _ in range(200):
        weights = random.multivariate_normal(np.zeros(6), covariance, size=4)
        found.append(order_effect(weights[:3], weights[3], covariance))
    assert np.mean(found) < 0.15
    assert order_effect(weights[:3], np.full(6, 30.0), covariance) > 0.95
    same = np.ones((3, 6))
    assert order_effect(same, same[0], covariance) == 0.0  # no order has learned


def test_the_same_seed_gives_the_same_model():
    rows = rows_of(n=600)
    one, other, third = (new().fit(*rows, random_state=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(probabilities(one), probabilities(other))
    assert (probabilities(one) != probabilities(third)).any()
    with pytest.raises(ValueError, match="random_state"):
        new().fit(*rows, random_state=-1)


def test_kinds_of_columns_come_from_all_rows():
    grades = ["1", "2", "3"] * 500 + ["K"] * 20
    rows = [{"grade": grade, "age": 7} for grade in grades]
    labels = ["yes" if grade in "1K" else "no" for grade in grades]
    model = romco.Model().fit(rows, labels, ["all"] * len(rows))
    assert model.schema.kinds == {"grade": "category", "age": "number"}
    numbers = [{"grade": int(grade) if grade != "K" else grade} for grade in grades]
    model = romco.Model().fit(numbers, labels, ["all"] * len(rows))
    assert model.schema.kinds == {"grade": "category"}
    assert model.predict_one({"grade": "K"}, "all") == "yes"


def classes_of(n_classes, n=1500):
    """Rows of tasks that differ, many classes."""
    random = np.random.default_rng(2)
    x, task = random.normal(size=(n, D)), random.integers(M, size=n)
    own = random.normal(size=(n_classes, D)) + 0.5 * random.normal(size=(M, n_classes, D))
    z = np.einsum("nd,nkd->nk", x, own[task])
    y = (z + random.gumbel(size=z.shape)).argmax(axis=1)
    return x, [f"class {k}" for k in y], [f"user {i}" for i in task]


@pytest.mark.parametrize("n_classes", [4, 14])  # with pairs, and without
def test_shuffled_rows_of_many_classes_give_nearly_the_same_model(n_classes):
    x, y, task = classes_of(n_classes)
    known, later = (x[:1000], y[:1000], task[:1000]), (x[1000:], task[1000:])
    fitted, learned = [], []
    for seed in range(2):
        rows = turned(known, np.random.default_rng(seed).permutation(1000))
        for found, way in ((fitted, "fit"), (learned, "learn")):
            model = new(target="classes")
            getattr(model, way)(*rows)
            columns = [model.classes.index(name) for name in sorted(set(y))]
            found.append(model.predict_proba(*later)[:, columns])
    apart = [np.abs(one - other).max(axis=1).mean() for one, other in (fitted, learned)]
    assert apart[0] < 0.02
    assert apart[0] < 0.3 * apart[1]
    right = np.array([sorted(set(y)).index(name) for name in y[1000:]])
    losses = [-np.log(one[np.arange(500), right]).mean() for one in (*fitted, *learned)]
    assert np.mean(losses[:2]) < 1.005 * np.mean(losses[2:])


def test_a_fitted_model_of_many_classes_goes_on_learning_and_forgets(tmp_path):
    x, y, task = classes_of(5)
    model = new(target="classes").fit(x[:1000], y[:1000], task[:1000])
    assert model.events == 1000
    romco.save(model, tmp_path / "m.romco")
    loaded = romco.load(tmp_path / "m.romco")
    margins = model.learn(x[1000:], y[1000:], task[1000:])
    np.testing.assert_array_equal(loaded.learn(x[1000:], y[1000:], task[1000:]), margins)
    alone = new(target="classes", classes=model.classes)
    late = alone.learn(x[1000:], y[1000:], task[1000:])
    right = np.arange(500), [model.classes.index(name) for name in y[1000:]]
    assert -margins[right].mean() < -0.85 * late[right].mean()
    model.forget("user 0")
    assert np.isfinite(model.margins(x, task)).all()


def test_many_words_have_no_columns_in_any_order():
    random = np.random.default_rng(0)
    y = random.integers(3, size=400)
    chances = random.dirichlet(np.full(200, 0.05), size=3)
    words = [random.choice(200, size=8, p=chances[k]) for k in y]
    rows = [{f"word {j}": 1.0 for j in row} for row in words]
    labels = [f"class {k}" for k in y]
    model = romco.Model(target="classes").fit(rows[:300], labels[:300], ["all"] * 300)
    assert np.mean(model.predict(rows[300:], ["all"] * 100) != labels[300:]) < 0.1


# Starting anew and going on


def test_fit_starts_anew():
    x, y, task = rows_of(n=600)
    fresh = romco.Model().fit(mappings(x), y, task)
    again = romco.Model()
    again.learn([{"other": 1.0}, {"more": 1.0}] * 20, ["a", "b"] * 20, ["ann"] * 40)
    again.fit(mappings(x), y, task)
    assert (again.events, again.classes, again.tasks) == (600, ("no", "yes"), fresh.tasks)
    assert again.features.to_json() == fresh.features.to_json()
    np.testing.assert_array_equal(
        again.margins(mappings(x), task), fresh.margins(mappings(x), task)
    )


@pytest.mark.parametrize("target", ["two classes", "classes", "number"])
def test_a_loaded_model_can_be_fitted_anew(tmp_path, target):
    x, y, task = rows_of(n=300)
    y = x[:, 1].tolist() if target == "number" else y
    model = romco.Model(target=target).fit(mappings(x), y, task)
    romco.save(model, tmp_path / "m.romco")
    loaded = romco.load(tmp_path / "m.romco")
    np.testing.assert_array_equal(
        loaded.margins(mappings(x), task), model.margins(mappings(x), task)
    )
    loaded.fit(mappings(x), y, task)
    np.testing.assert_allclose(loaded.margins(mappings(x), task), model.margins(mappings(x), task))


def test_a_fitted_model_goes_on_learning(tmp_path):
    rows, more = rows_of(), rows_of(5, 2000)
    model = new().fit(*rows)
    romco.save(model, tmp_path / "m.romco")
    loaded = romco.load(tmp_path / "m.romco")
    margins = model.learn(*more)
    np.testing.assert_array_equal(loaded.learn(*more), margins)
    assert model.events == N + 2000
    alone = new()
    late = alone.learn(*more)
    y = np.where(np.array(more[1]) == "yes", 1.0, -1.0)
    assert np.logaddexp(0.0, -y * margins).mean() < 0.9 * np.logaddexp(0.0, -y * late).mean()


def test_a_bad_row_changes_nothing():
    x, y, task = rows_of(n=300)
    model = new().fit(x, y, task)
    before = probabilities(model)
    bad = x.copy()
    bad[200, 0] = np.nan
    faults = {
        "features are numbers": (bad, y, task),
        "x has 300 rows but y has 299": (x, y[:-1], task),
        "a third label": (x, [*y[:-1], "third"], task),
        "no rows": (x[:0], [], []),
    }
    for message, rows in faults.items():
        with pytest.raises(ValueError, match=message):
            model.fit(*rows)
    np.testing.assert_array_equal(probabilities(model), before)


@pytest.mark.parametrize("after", [0.0, 0.4])  # in the first pass, and in those on threads
def test_a_fit_can_be_broken_off(after):
    shares = []

    def stop(share):
        shares.append(share)
        if share > after:
            raise KeyboardInterrupt

    engine = new().engine
    x, y, task = rows_of(n=10_000)
    rows = Rows(x, task, y)
    with pytest.raises(KeyboardInterrupt):
        fit(engine, rows, np.random.RandomState(0), report=stop)
    assert shares == sorted(shares)
    assert sum(share > after for share in shares) == 1
    assert shares[-1] < after + 0.1
    assert engine.events == 0
    assert not any(thread.name.startswith("romco-fit") for thread in threading.enumerate())


# Weights, offsets, histories, groupings


def test_a_row_of_weight_two_is_a_row_given_twice():
    x, y, task = rows_of(n=300)
    twice = np.repeat(np.arange(300), np.arange(300) % 3)
    one = new().fit(x, y, task, weight=np.arange(300) % 3)
    other = new().fit(*turned((x, y, task), twice))
    np.testing.assert_allclose(probabilities(one), probabilities(other))
    assert one.events == len(twice)
    with pytest.raises(ValueError, match="every row has weight 0"):
        new().fit(x, y, task, weight=np.zeros(300))


def test_an_offset_takes_over_what_it_explains():
    x, y, task = rows_of()
    known = 3.0 * x[:, 0]
    model = new().fit(x, y, task, offset=known)
    with pytest.raises(ValueError, match="offset"):
        model.predict(x, task)
    margins = model.margins(x, task, offset=known)
    plain = new().fit(x, y, task).margins(x, task)
    np.testing.assert_allclose(margins - model.margins(x, task, offset=0.0 * known), known)
    assert np.corrcoef(margins, plain)[0, 1] > 0.95


def test_a_history_is_learned_in_the_order_given():
    rows = [{"skill": "ab"[k % 2], "size": k % 5} for k in range(200)]
    y, task = ["yes" if k % 3 else "no" for k in range(200)], ["ann", "bob"] * 100
    fitted = romco.Model(history=["skill"]).fit(rows, y, task)
    learned = romco.Model(history=["skill"], classes=("no", "yes"), tasks=["ann", "bob"])
    learned.learn(rows, y, task)
    np.testing.assert_allclose(fitted.margins(rows, task), learned.margins(rows, task))


def test_groupings_are_columns():
    x, y, task = rows_of(n=300)
    days = [{"who": who, "day": k % 7} for k, who in enumerate(task)]
    rows = [row | day for row, day in zip(mappings(x), days, strict=True)]
    model = romco.Model().fit(rows, y, ["who", "day"])
    assert model.schema.groupings == ("day",)
    assert len(model.predict(rows, ["who", "day"])) == 300


def test_estimators_take_the_same_road():
    x, y, task = rows_of(n=600)
    estimator = romco.ROMCOClassifier().fit(x, y, task=task)
    model = new(classes=("no", "yes"), tasks=dict.fromkeys(task)).fit(x, y, task)
    np.testing.assert_array_equal(
        estimator.predict_proba(x, task=task), model.predict_proba(x, task)
    )


# Averages


def learners(name, seeds, n_features, n_tasks, rows):
    x, y, task = rows
    made = []
    first = romco.learner(name, n_features, n_tasks)
    first.replay(Rounds(task, x, y, np.arange(len(y) + 1)))
    for seed in seeds:
        learner = romco.learner(name, n_features, n_tasks)
        learner.update(romco.Round(task, x, np.full(len(y), np.nan)))
        learner.start_events()
        learner.adopt_functions(first)
        order = np.random.default_rng(seed).permutation(len(y))
        learner.replay(Rounds(task[order], x[order], y[order], np.arange(len(y) + 1)))
        made.append(learner)
    return made


@pytest.mark.parametrize(
    ("name", "d", "m"),
    [
        ("romco-auto", 6, 12),  # pairs in an array
        ("romco-auto-number", 6, 12),
        ("romco-auto", 30_000, 40),  # pairs in a table
        pytest.param("romco-auto-number", 30_000, 40, marks=pytest.mark.slow),
    ],
)
def test_the_mean_of_learners_has_the_mean_of_their_margins(name, d, m):
    from scipy.sparse import csr_array

    random = np.random.default_rng(0)
    task = random.integers(m, size=2000)
    x = csr_array(random.normal(size=(2000, 6)) @ np.eye(6, d))
    y = 100.0 + x[:, [0]].toarray()[:, 0] + random.normal(size=2000) + task % 3
    if name == "romco-auto":
        y = np.where(y > 101.0, 1.0, -1.0)
    first, *others = learners(name, range(3), d, m, (x, y, task))
    given = romco.restore(first.state())  # an order that tells nothing
    round = romco.Round(task, x, y)
    margins = [one.predict_frozen(round) for one in (first, *others)]
    clock = first.arrays()["clock"].copy()
    assert first.pair_store.dense == (d == 6)
    first.average(others, given)
    found = first.predict_frozen(round)
    mean = np.mean(margins, axis=0)
    apart = np.mean([np.abs(one - mean).mean() for one in margins])
    assert np.abs(found - mean).mean() < 0.7 * apart
    np.testing.assert_array_equal(first.arrays()["clock"], clock)
    assert first.arrays()["typical"][0] == 2000  # each row counts once
    np.testing.assert_allclose(romco.restore(first.state()).predict_frozen(round), found)


def test_only_learners_that_can_be_averaged_have_the_method():
    made: list[Learner] = [romco.learner(name, 3, 2) for name in ("romco-auto", "romco-nucl")]
    assert [isinstance(one, AveragesOrders) for one in made] == [True, False]
    many = [Classes(3, 2, inner=name, n_classes=3) for name in ("romco-auto", "arow-unique")]
    assert [one.averages_orders for one in many] == [True, False]


def test_the_mean_of_softmaxes_has_the_mean_of_their_scores():
    x, labels, tasks = classes_of(12)
    y = np.array([int(name.split()[1]) for name in labels], dtype=float)
    task = np.array([int(name.split()[1]) for name in tasks])
    rounds = Rounds(task, x, y, np.arange(len(y) + 1))
    scout = AutoSoftmax(D, M, n_classes=12)
    scout.replay(rounds)
    columns = scout.renew_columns()["columns"]
    made = []
    for seed in range(3):
        learner = AutoSoftmax(D, M, n_classes=12)
        learner.adopt_columns(scout)
        order = np.random.default_rng(seed).permutation(len(y))
        learner.replay(Rounds(task[order], x[order], y[order], np.arange(len(y) + 1)))
        made.append(learner)
    first, *others = made
    np.testing.assert_array_equal(first.arrays()["columns"][:, :2], columns[:, :2])
    given = AutoSoftmax(D, M, n_classes=12)  # an order that tells nothing
    given.load(first.arrays())
    scores = [learner.predict(rounds.events) for learner in made]
    first.average(others, given)
    found = first.predict(rounds.events)
    mean = np.mean(scores, axis=0)
    apart = np.mean([np.abs(one - mean).mean() for one in scores])
    assert np.abs(found - mean).mean() < 0.7 * apart
    np.testing.assert_allclose(first.class_events, np.bincount(y.astype(int), minlength=12))
    assert first.arrays()["typical"][0] == len(y)  # each row counts once


def test_weights_of_pairs_and_softmax_are_averaged_as_stacking_weights_are():
    random = np.random.default_rng(0)
    x, task = random.normal(size=(600, 3)), random.integers(5, size=600)
    y = np.digitize(x[:, 0] + 0.5 * random.normal(size=600), [-0.5, 0.5]).astype(float)
    scout = Classes(3, 5, n_classes=3)
    scout.replay(Rounds(task, x, y, np.arange(601)))
    made = []
    for order in [*(random.permutation(600) for _ in range(3)), np.argsort(y + 0.5 * x[:, 1])]:
        learner = Classes(3, 5, n_classes=3)
        learner.update(romco.Round(task, x, np.full(600, np.nan)))
        learner.adopt_functions(scout)
        learner.replay(Rounds(task[order], x[order], y[order], np.arange(601)))
        made.append(learner)
    softmaxes, of_pairs, of_softmax = zip(*(one.stacked() for one in made), strict=True)
    weights = np.array([one.arrays()["weight"] for one in softmaxes])
    shares = shares_of_orders(weights, softmaxes[0].arrays()["covariance"].copy()).of_stacking
    assert shares[-1] > 0.9, "this order matters"
    first, *others, given = made
    first.average(others, given)
    assert first.stacked()[1:] == pytest.approx((shares @ of_pairs, shares @ of_softmax))
