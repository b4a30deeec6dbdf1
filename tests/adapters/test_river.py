import random
from functools import partial

import pandas as pd
import polars as pl
import pytest
from river import checks, compose, datasets, evaluate, metrics, preprocessing
from river.checks.common import check_shuffle_features_no_impact

import romco
from romco.adapters.river import ROMCOClassifier, ROMCORegressor

STREAM = romco.streams.simulated(n_tasks=4, n_features=6, n_events=50, outliers=1)
ROUNDS = romco.streams.interleaved(STREAM, seed=0)
EVENTS = [
    (dict(zip("abcdef", x.tolist(), strict=True)), bool(y > 0), {"task": f"user {task}"})
    for task, x, y in zip(ROUNDS.task, ROUNDS.x, ROUNDS.y, strict=True)
]


def all_checks():
    for kind in (ROMCOClassifier, ROMCORegressor):
        for parameters in kind._unit_test_params():
            model = kind(**parameters)
            for check in checks.yield_checks(model):
                name = getattr(check, "__name__", None) or check.func.__qualname__
                yield pytest.param(
                    model,
                    check,
                    id=f"{kind.__name__}-{parameters['learner']}-{name}",
                    marks=[pytest.mark.slow] * (parameters["learner"] == "romco-nucl"),
                )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("model", "check"), list(all_checks()))
def test_river_checks(model, check):
    if getattr(check, "func", None) is check_shuffle_features_no_impact:
        check = partial(check.func, dataset=list(check.keywords["dataset"]))
    check(model.clone())


@pytest.mark.parametrize("seed", [1, 2, 4, 13])
def test_numbers_do_not_depend_on_the_order_of_names(seed):
    order, model, other = random.Random(seed), ROMCORegressor(), ROMCORegressor()
    for x, y in datasets.TrumpApproval().take(20):
        shuffled = dict(order.sample(list(x.items()), len(x)))
        assert other.predict_one(shuffled) == pytest.approx(model.predict_one(x), rel=1e-6)
        model.learn_one(x, y)
        other.learn_one(shuffled, y)


def test_same_margins_as_the_bare_learner():
    bare = romco.learner("romco-nucl", 64, 8)
    model = ROMCOClassifier("romco-nucl", new_task="zero")
    margins = []
    for x, y, extra in EVENTS:
        margins.append(model.model.engine.margin_one(x, extra["task"]))
        model.learn_one(x, y, **extra)
    order = {name: i for i, name in enumerate(model.model.tasks)}
    padded = romco.Rounds(
        [order[extra["task"]] for _, _, extra in EVENTS],
        pd.DataFrame([x for x, _, _ in EVENTS]).reindex(columns=[*"abcdef", *range(58)]).fillna(0),
        ROUNDS.y,
        ROUNDS.starts,
    )
    assert margins == pytest.approx(bare.replay(padded).tolist(), abs=1e-12)


def test_progressive_validation_with_task():
    model = compose.Pipeline(preprocessing.StandardScaler(), ROMCOClassifier())
    with_task = evaluate.progressive_val_score(EVENTS, model, metrics.Accuracy())
    assert len(model["ROMCOClassifier"].model.tasks) == 4
    assert with_task.get() > 0.6
    one = evaluate.progressive_val_score(
        [event[:2] for event in EVENTS], ROMCOClassifier(), metrics.ROCAUC()
    )
    assert one.get() > 0.5


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_many_equals_one(kind):
    frame = kind([x for x, _, _ in EVENTS])
    y, task = [y for _, y, _ in EVENTS], [extra["task"] for _, _, extra in EVENTS]
    one, many = ROMCOClassifier(), ROMCOClassifier()
    for x, label, extra in EVENTS:
        one.learn_one(x, label, **extra)
    many.learn_many(frame, y, task=task)
    single = [one.predict_one(x, **extra) for x, _, extra in EVENTS]
    assert list(many.predict_many(frame, task=task)) == single
    chances = many.predict_proba_many(frame, task=task)
    positive = chances[True] if kind is pd.DataFrame else chances["True"]
    assert list(positive) == [one.predict_proba_one(x, **e)[True] for x, _, e in EVENTS]


def test_rounds_are_learned_in_one_step():
    frame = pd.DataFrame([x for x, _, _ in EVENTS])
    y, task = [y for _, y, _ in EVENTS], [extra["task"] for _, _, extra in EVENTS]
    model, loop = ROMCOClassifier("romco-nucl", rounds=True), ROMCOClassifier("romco-nucl")
    model.learn_many(frame, y, task=task)
    loop.learn_many(frame, y, task=task)
    assert model.model.engine.learner.kernel.rounds == 1
    assert loop.model.engine.learner.kernel.rounds == len(y)


def test_labels_of_other_kinds():
    model = ROMCOClassifier()
    assert model.predict_proba_one({"a": 1.0}) == {False: 0.5, True: 0.5}
    model.learn_one({"a": 1.0}, "ham")
    assert model.predict_proba_one({"a": 1.0}) == {"ham": 1.0}
    model.learn_one({"b": 1.0}, "spam")
    assert model.predict_proba_one({"b": 1.0})["spam"] > 0.5


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_task_among_the_features_is_the_task_beside(kind):
    beside, within = ROMCOClassifier("pa-shared"), ROMCOClassifier("pa-shared", task_column="who")
    for x, y, extra in EVENTS[:100]:
        beside.learn_one(x, y, **extra)
        within.learn_one({**x, "who": extra["task"]}, y)
    assert beside.model.tasks == within.model.tasks
    frame = kind([{**x, "who": extra["task"]} for x, _, extra in EVENTS[:30]])
    labels = [y for _, y, _ in EVENTS[:30]]
    pipeline = compose.Pipeline(within)
    pipeline.learn_many(frame, kind({"y": labels})["y"])
    beside.learn_many(
        frame[list(EVENTS[0][0])], labels, task=[e["task"] for _, _, e in EVENTS[:30]]
    )
    assert len(pipeline.predict_many(frame)) == 30  # River hands on no task= here
    for x, _, extra in EVENTS[:20]:
        asked = {**x, "who": extra["task"]}
        assert within.predict_proba_one(asked) == beside.predict_proba_one(x, **extra)
    with pytest.raises(ValueError, match="no 'who'"):
        within.predict_one({"a": 1.0})


def test_save_and_load_give_the_estimator_back(tmp_path):
    first = ROMCOClassifier("romco-nucl", {"eta1": 0.3}, hashed=64, task_column=("the", "task"))
    events = [({("the", "task"): i % 3, "a": i % 5, "b": 1}, i % 5 > 2) for i in range(30)]
    for x, y in events:
        first.learn_one(x, y)
    romco.save(first, tmp_path / "e.romco")
    again = romco.load(tmp_path / "e.romco")
    assert type(again) is ROMCOClassifier
    assert again._get_params() == first._get_params()
    for x, y in events:
        assert again.predict_proba_one(x) == first.predict_proba_one(x)
        first.learn_one(x, y)
        again.learn_one(x, y)


MODES = [
    (x, "car" if x["a"] > 0.5 else "bus" if x["b"] > 0 else "train", extra)
    for x, _, extra in EVENTS
]


@pytest.mark.parametrize("learner", ["romco-auto", "arow-shared"])
def test_a_third_label_makes_it_a_classifier_of_many(learner):
    model, frame = ROMCOClassifier(learner), ROMCOClassifier(learner)
    right = 0
    for x, y, extra in MODES:
        right += model.predict_one(x, **extra) == y
        model.learn_one(x, y, **extra)
        assert sum(model.predict_proba_one(x, **extra).values()) == pytest.approx(1.0)
    assert right > 0.6 * len(MODES)
    assert set(model.model.classes) == {"bus", "car", "train"}
    rows = pd.DataFrame([x for x, _, _ in MODES])
    tasks = [extra["task"] for _, _, extra in MODES]
    frame.learn_many(rows, [y for _, y, _ in MODES], task=tasks)
    chances = frame.predict_proba_many(rows, task=tasks)
    assert list(chances.columns) == list(model.model.classes)
    one = pd.DataFrame([model.predict_proba_one(x, **extra) for x, _, extra in MODES])
    pd.testing.assert_frame_equal(chances, one)
    assert list(frame.predict_many(rows, task=tasks)) == [
        model.predict_one(x, **extra) for x, _, extra in MODES
    ]


def test_widening_forgets_nothing():
    two, many = ROMCOClassifier(), ROMCOClassifier()
    for x, y, extra in EVENTS:
        two.learn_one(x, y, **extra)
        many.learn_one(x, y, **extra)
    many.model.engine.widen_for(["a third label"])
    for x, _, extra in EVENTS:
        expected = two.predict_proba_one(x, **extra)  # with curves, which classes do not have
        assert many.predict_proba_one(x, **extra) == pytest.approx(expected, abs=0.2)


def test_weights_count():
    heavy, plain = ROMCOClassifier(), ROMCOClassifier()
    for x, y, extra in EVENTS:
        heavy.learn_one(x, y, **extra, w=5.0 if y else 1.0)
        plain.learn_one(x, y, **extra)
    said = [
        sum(model.predict_one(x, **extra) for x, _, extra in EVENTS) for model in (heavy, plain)
    ]
    assert said[0] > said[1]
    before = heavy.model.events
    heavy.learn_one(EVENTS[0][0], True, "new", w=0.0)
    assert heavy.model.events == before


def test_numbers(tmp_path):
    events = [(x, 50.0 + 3.0 * x["a"] - x["b"], extra) for x, _, extra in EVENTS]
    model = ROMCORegressor()
    score = evaluate.progressive_val_score(events, model, metrics.MAE())
    assert score.get() < 1.0
    low, high = model.predict_interval_one(events[0][0], level=0.9, **events[0][2])
    assert low < model.predict_one(events[0][0], **events[0][2]) < high
    many = ROMCORegressor(task_column="who")
    rows = pd.DataFrame([{**x, "who": extra["task"]} for x, _, extra in events])
    many.learn_many(rows, pd.Series([y for _, y, _ in events]))
    # After 100 predictions without an answer it no longer follows the last ones.
    one_by_one = [model.predict_one(x, **extra) for x, _, extra in events[:50]]
    assert list(many.predict_many(rows[:50])) == one_by_one
    romco.save(model, tmp_path / "numbers.romco")
    again = romco.load(tmp_path / "numbers.romco")
    assert type(again) is ROMCORegressor
    assert again.predict_one(events[0][0]) == model.predict_one(events[0][0])


def test_reasons_of_one_event_add_up():
    for make, y in ((ROMCOClassifier, "spam"), (ROMCORegressor, 7.0)):
        model = make(task_column="user")
        for other in "abcde":  # so that no word is in nearly every mail
            model.learn_one({"free": 1.0, other: 1.0, "user": "ann"}, y)
            model.learn_one({"lunch": 1.0, "user": "ann"}, "ham" if y == "spam" else 3.0)
        found = model.reasons_one({"free": 1.0, "user": "ann"})
        total = found.intercept + sum(each.total for each in found.features)
        assert total == pytest.approx(found.margin, abs=1e-9)
        assert found.features[0].feature == "free"
