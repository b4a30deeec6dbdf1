"""What features add to a margin adds up to it."""

import json

import numpy as np
import pytest

import romco
from romco.explanations import reasons
from romco.explanations.attribution import odds_against_rest, shares_of_pairs
from romco.learners.classes import Classes

STREAM = romco.streams.simulated(n_tasks=4, n_features=6, n_events=60, outliers=1, seed=8)
WORDS = ["free", "money", "lunch", "noon", "bus", "train"]


def taught(name, **options):
    model = romco.Model(name, features=romco.Columns(6), classes=["no", "yes"], **options)
    labels = np.where(STREAM.y > 0, "yes", "no")
    model.learn(STREAM.x, labels, [f"user {i}" for i in STREAM.task])
    return model


def mail(n=200, seed=3):
    """Mappings of words, users, and one of three folders."""
    rng = np.random.default_rng(seed)
    x = [dict.fromkeys(rng.choice(WORDS, 3, replace=False), 1.0) for _ in range(n)]
    y = ["work" if "noon" in each else "spam" if "free" in each else "home" for each in x]
    return x, y, [f"user {i}" for i in rng.integers(3, size=n)]


def total(found):
    return found.intercept + sum(each.total for each in found.features)


@pytest.mark.parametrize("name", ["romco-auto", "romco-nucl", "arow-shared", "pa-unique", "mtfl"])
def test_they_add_up(name):
    model = taught(name)
    for row in (0, 7, 100):
        task = f"user {STREAM.task[row]}"
        found = reasons(model, STREAM.x[row], task)
        assert found.margin == model.engine.margin_one(STREAM.x[row], task)
        assert total(found) == pytest.approx(found.margin, abs=1e-9)
        assert 1 <= len(found.features) <= 6
        assert "personal" in str(found)
    if name in ("romco-nucl", "pa-unique"):  # no intercept: features alone make the margin
        assert found.intercept == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("learner", ["romco-auto", "romco-auto-number"])
def test_they_add_up_where_features_are_too_many_for_covariances(learner):
    rng = np.random.default_rng(0)
    x, task = rng.normal(size=(600, 130)), rng.integers(3, size=600)
    y = np.sign(x[:, 0] + 0.5 * x[:, 1])
    made = romco.learner(learner, 130, 3)
    made.replay(romco.Rounds(task, x, y, np.arange(601)))
    few = romco.Round(task[:5], x[:5], np.empty(0))
    np.testing.assert_allclose(made.contributions(few).margins(), made.predict_frozen(few))


@pytest.mark.parametrize("new_task", ["mean", "zero"])
@pytest.mark.parametrize(
    "name", ["romco-auto", "romco-nucl", "arow-shared", "pa-unique", "pa-global", "trml"]
)
def test_a_task_that_nobody_has_seen_is_told_from_what_tasks_share(name, new_task):
    model = taught(name, new_task=new_task)
    before, events = model.engine.learner, model.events
    found = reasons(model, STREAM.x[3], "nobody")
    assert model.engine.learner is before
    assert model.events == events
    assert found.margin == pytest.approx(model.engine.margin_one(STREAM.x[3], "nobody"), abs=1e-12)
    assert total(found) == pytest.approx(found.margin, abs=1e-9)
    assert not found.task_known
    assert "unknown" in str(found)
    assert all(each.personal == 0.0 for each in found.features)


@pytest.mark.parametrize("learner", ["romco-auto", "arow-shared", "romco-nucl"])
def test_of_many_classes_one_is_told_against_the_rest(learner):
    x, y, task = mail()
    model = romco.Model(learner, target="classes")
    model.learn(x, y, task)
    for who in ("user 1", "nobody"):
        scores = dict(zip(model.classes, model.margins([x[0]], [who])[0], strict=True))
        likeliest = reasons(model, x[0], who)
        assert likeliest.label == model.predict_one(x[0], who)
        assert likeliest.margin == max(reasons(model, x[0], who, label=y).margin for y in scores)
        for label, score in scores.items():
            found = reasons(model, x[0], who, label=label)
            assert found.label == label
            assert found.margin == pytest.approx(np.log(np.expm1(-score) ** -1), abs=1e-8)
            assert total(found) == pytest.approx(found.margin, abs=1e-9)
    spam = reasons(model, {"free": 1.0, "bus": 1.0}, "user 1", label="spam")
    assert spam.features[0].feature == "free"
    assert spam.features[0].total > 0.0


def test_of_very_many_classes_the_parts_add_up_too():
    rng = np.random.default_rng(0)
    centres = 2.0 * rng.normal(size=(40, 3))
    labels = [f"shop {k}" for k in rng.integers(40, size=600)]
    rows = [
        dict(zip("abc", centres[int(label[5:])] + rng.normal(size=3), strict=True))
        for label in labels
    ]
    model = romco.Model(target="classes")
    model.learn(rows, labels, [f"user {e % 3}" for e in range(600)])
    for who in ("user 1", "nobody"):
        scores = dict(zip(model.classes, model.margins([rows[0]], [who])[0], strict=True))
        assert len(scores) == 40
        for label in (model.predict_one(rows[0], who), "shop 3"):
            found = reasons(model, rows[0], who, label=label)
            assert found.margin == pytest.approx(np.log(np.expm1(-scores[label]) ** -1), abs=1e-8)
            assert total(found) == pytest.approx(found.margin, abs=1e-8)
            assert {each.feature for each in found.features} == set("abc")
        assert found.task_known == (who == "user 1")


@pytest.mark.parametrize("form", ["pairs", "rest"])
def test_shares_of_pairs_are_the_mean_slopes_on_the_straight_way(form):
    learner = Classes(n_features=2, n_tasks=1, inner="romco-auto", n_classes=4, form=form)
    odds = np.random.default_rng(0).normal(scale=4.0, size=len(learner.pairs()))
    steps, small = np.linspace(0.0, 1.0, 2001), 1e-5

    def told(z):
        return odds_against_rest(learner.kernel.scores_of(z[:, None])[0], 2)

    shares = shares_of_pairs(learner, odds, 2)
    assert told(0.0 * odds) + shares @ odds == pytest.approx(told(odds), abs=1e-9)
    for p, one in enumerate(np.eye(len(odds)) * small):
        slopes = [(told(t * odds + one) - told(t * odds - one)) / (2.0 * small) for t in steps[::8]]
        assert shares[p] == pytest.approx(np.trapezoid(slopes, steps[::8]), abs=1e-4)


@pytest.mark.parametrize("learner", ["romco-auto", "arow-unique", "pa-global"])
def test_of_numbers_the_parts_add_up_to_what_is_predicted(learner):
    x, y, task = mail()
    model = romco.Model(learner, target="number")
    model.learn(x, [len(label) + 40.0 for label in y], task)
    for who in ("user 1", "nobody"):
        found = reasons(model, x[0], who)
        assert found.margin == pytest.approx(model.predict_one(x[0], who))
        assert total(found) == pytest.approx(found.margin, abs=1e-9)
        assert found.label is None
    with pytest.raises(ValueError, match="leave label out"):
        reasons(model, x[0], "user 1", label="work")


def test_the_other_label_turns_the_sign():
    model = taught("romco-auto")
    yes = reasons(model, STREAM.x[0], "user 0")
    no = reasons(model, STREAM.x[0], "user 0", label="no")
    assert (yes.label, no.label) == ("yes", "no")
    assert no.margin == -yes.margin
    assert no.features[0].total == -yes.features[0].total
    with pytest.raises(ValueError, match="'maybe' is not one"):
        reasons(model, STREAM.x[0], "user 0", label="maybe")


def test_hashed_features_have_the_names_the_event_tells():
    x, y, task = mail()
    model = romco.Model(features=romco.Hashed(2**12))
    model.learn(x, [label == "spam" for label in y], task)
    found = reasons(model, {"free": 1.0, "town": "Rome"}, "user 1")
    assert {each.feature for each in found.features} <= {"free", "town=Rome"}
    assert found.features[0].feature == "free"


def test_a_summary_is_json_and_adds_up_whatever_is_left_out():
    model = taught("romco-auto")
    found = reasons(model, STREAM.x[0], "user 0")
    told = json.loads(json.dumps(found.summary(top=2)))
    assert len(told["features"]) == 2
    assert told["others"]["features"] == len(found.features) - 2
    parts = [
        told["intercept"],
        told["others"]["adds"],
        *(each["adds"] for each in told["features"]),
    ]
    assert sum(parts) == pytest.approx(told["margin"], abs=1e-9)
    assert "others" not in found.summary()


@pytest.mark.parametrize("features", [romco.Names(), romco.Hashed(64)])
@pytest.mark.parametrize("name", ["pa-unique", "ogd-global", "romco-nucl", "cw-col", "mtfl"])
def test_rows_by_name_add_up_too(name, features):
    model = romco.Model(name, features, classes=["no", "yes"])
    rows = [{"a": 1.0, "b": 0.5}, {"b": -2.0}, {"a": -1.0}]
    model.learn(rows, ["yes", "no", "no"], ["ann", "bob", "ann"])
    found = reasons(model, {"a": 2.0, "never seen": 1.0}, "ann")
    total = found.intercept + sum(each.total for each in found.features)
    assert total == pytest.approx(found.margin, abs=1e-9)


@pytest.mark.parametrize("number", [False, True])
def test_a_column_has_one_line_and_so_has_a_product_of_two(number):
    rng = np.random.default_rng(1)
    x = rng.uniform(-2.0, 2.0, (3000, 3))
    y = np.sin(2.0 * x[:, 0]) + 2.0 * x[:, 1] * x[:, 2] + 0.3 * rng.normal(size=3000)
    rows = [dict(zip("abc", row, strict=True)) for row in x.tolist()]
    labels = y.tolist() if number else np.where(y > 0.0, "yes", "no").tolist()
    model = romco.Model(target="number" if number else "two classes")
    model.learn(rows, labels, [f"user {k % 5}" for k in range(3000)])
    for who in ("user 1", "nobody"):
        found = reasons(model, {"a": 0.8, "b": 1.5, "c": 1.5}, who)
        assert total(found) == pytest.approx(found.margin, abs=1e-9)
        adds = {each.feature: each.total for each in found.features}
        assert set(adds) <= {"a", "b", "c", "a * b", "a * c", "b * c"}
        assert len(adds) == len(found.features)
        assert found.features[0].feature == "b * c"
        assert adds["b * c"] > 0.0 > reasons(model, {"b": 1.5, "c": -1.5}, who).features[0].total
    assert json.loads(json.dumps(found.summary(1)))["features"][0]["feature"] == "b * c"


@pytest.mark.parametrize("labels", [[], ["a"]])
def test_fewer_than_two_classes_have_no_reasons_yet(labels):
    model = romco.Model(target="classes")
    for label in labels:
        model.learn_one({"x": 1.0}, label, task="t")
    with pytest.raises(ValueError, match="fewer than two labels"):
        reasons(model, {"x": 1.0}, "t")


def test_of_classes_without_any_feature_the_rest_is_all():
    model = romco.Model(target="classes", classes=["bus", "car", "foot"])
    model.learn([{}] * 9, ["bus", "car", "bus"] * 3, ["ann"] * 9)
    found = reasons(model, {}, "ann")
    assert found.label == "bus"
    assert found.features == ()
    assert found.margin == pytest.approx(found.intercept)
