"""Answers that come later, and labels that a model asks for."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import romco


@pytest.fixture
def model():
    made = romco.Model("pa-unique", labels=romco.labels.Budget(0.5, advance=0, seed=3))
    made.learn([{"a": 1.0}, {"b": 1.0}], ["yes", "no"], ["ann", "bob"])
    return made


def test_an_answer_is_learned_once_and_gives_what_was_said_then(model):
    said = model.engine.margin_one({"a": 1.0}, "ann")
    assert model.predict_one({"a": 1.0, "new": 2.0}, "ann", id=7) == "yes"
    model.learn([{"a": 1.0}] * 5, ["no"] * 5, ["ann"] * 5)
    twin = romco.Model.from_state(model.state())
    assert model.answer(7, "no") == said
    twin.learn_one({"a": 1.0, "new": 2.0}, "no", "ann")
    rows = [{"a": 1.0, "new": 1.0}]
    np.testing.assert_array_equal(model.margins(rows, ["ann"]), twin.margins(rows, ["ann"]))
    with pytest.raises(KeyError, match="no event 7 waits"):
        model.answer(7, "no")


def test_a_bad_answer_leaves_the_event_waiting(model):
    model.predict([{"a": 1.0}, {"b": 1.0}], ["ann", "bob"], id=["e1", "e2"])
    with pytest.raises(ValueError, match="maybe"):
        model.answer("e1", "maybe")
    assert len(model.pending) == 2
    model.answer("e1", "yes")
    assert len(model.pending) == 1


def test_the_oldest_are_dropped_and_counted():
    model = romco.Model("pa-unique", pending=2)
    model.learn_one({"a": 1.0}, "yes", "ann")
    model.predict([{"a": 1.0}] * 3, ["ann"] * 3, id=[1, 2, 3])
    assert model.pending.dropped == 1
    with pytest.raises(KeyError, match="dropped"):
        model.answer(1, "yes")


@pytest.mark.parametrize("rows", [np.eye(3), csr_array(np.eye(3))])
def test_rows_of_arrays_wait_too(rows):
    model = romco.Model("pa-unique", features=romco.Columns(3), classes=[0, 1])
    model.predict(rows, ["ann"] * 3, id="abc")
    model.answer("b", 1)
    assert model.margins(np.eye(3), ["ann"] * 3)[1] > 0
    with pytest.raises(ValueError, match="task has 3 entries but id has 2"):
        model.predict(rows, ["ann"] * 3, id="ab")


def test_a_model_asks_within_its_budget_and_goes_on_from_its_file(model, tmp_path):
    rows, tasks = [{"a": float(k % 7)} for k in range(200)], ["ann", "somebody new"] * 100
    whole = romco.Model.from_state(model.state()).ask(rows, tasks)
    first = model.ask(rows[:80], tasks[:80])
    romco.save(model, tmp_path / "m.romco")
    rest = romco.load(tmp_path / "m.romco").ask(rows[80:], tasks[80:])
    np.testing.assert_array_equal(np.concatenate([first, rest]), whole)
    assert 0 < whole.sum() <= 101
    with pytest.raises(ValueError, match="no policy"):
        romco.Model().ask(rows, tasks)


def test_many_classes_can_be_asked_for():
    classes = romco.Model(target="classes", labels=romco.labels.Budget(0.5, advance=0, seed=1))
    classes.learn([{"a": 1.0}, {"b": 1.0}, {"c": 1.0}], list("abc"), ["ann"] * 3)
    assert classes.ask([{"a": 1.0}] * 20, ["ann"] * 20).sum() <= 11


def test_numbers_are_asked_for_by_the_width_of_their_interval():
    policy = romco.labels.Budget(0.2, advance=0, audit=0.0, seed=1)
    widths = np.where(np.arange(2000) % 2, 0.1, 5.0)
    round = romco.Round(np.zeros(2000, dtype=int), np.zeros((2000, 1)), np.full(2000, np.nan))
    asked = policy.ask_by_width(round, widths)
    assert asked[::2].sum() > 5 * asked[1::2].sum()
    with pytest.raises(ValueError, match="width of interval 0"):
        policy.ask_by_width(round, -widths)


def drifting(n=1500, length=50):
    """Events whose level lasts for a while, so that romco-auto finds that they drift."""
    rng = np.random.default_rng(1)
    x, task = rng.normal(size=(n, 3)), rng.integers(3, size=n)
    level = np.repeat(3.0 * rng.normal(size=n // length), length)
    y = np.where(x[:, 0] + level + rng.logistic(size=n) > 0, 1, 0)
    return x, y.tolist(), task.tolist()


def answered_late(model, x, y, task, late=60):
    """Predict each event, and answer it ``late`` events later."""
    for k in range(len(y)):
        model.predict(x[k : k + 1], [task[k]], id=[k])
        if k >= late:
            model.answer(k - late, y[k - late])
    return model


def test_a_late_answer_is_learned_with_what_was_said_of_its_event():
    x, y, task = drifting()
    make = {"features": romco.Columns(3), "classes": [0, 1]}
    model = answered_late(romco.Model(**make), x, y, task)
    learner, waiting = romco.learner("romco-auto", 3, 8), []
    for k in range(len(y)):
        one = romco.Round(np.array([task[k]]), x[k : k + 1], np.array([2.0 * y[k] - 1.0]))
        waiting.append((one, learner.prediction_context(one)))
        if k >= 60:
            learner.update_delayed(*waiting.pop(0))
    assert learner.drift() > 0.0
    number = dict(zip(model.tasks, model.engine.tasks.numbers(model.tasks), strict=True))
    for i in range(3):
        rows = romco.Round(np.full(9, i), x[:9], np.full(9, np.nan))
        np.testing.assert_allclose(
            model.margins(x[:9], [i] * 9), learner.predict_frozen(rows), rtol=1e-9
        )
    assert sorted(number) == [0, 1, 2]


def test_opinions_may_be_kept_by_others_and_some_may_be_missing():
    x, y, task = drifting()
    model = romco.Model(features=romco.Columns(3), classes=[0, 1])
    model.learn(x[:1400], y[:1400], task[:1400])
    said = model.engine.prediction_context(x[1400:], task[1400:])
    model.learn(x[:300], y[:300], task[:300])
    told, halves, untold = (romco.Model.from_state(model.state()) for _ in range(3))
    rest = x[1400:], y[1400:], task[1400:]
    given = [None if k % 2 else row for k, row in enumerate(said.tolist())]
    margins = [
        told.learn(*rest, context=said),
        halves.learn(*rest, context=given),
        untold.learn(*rest, context=[None] * 100),
    ]
    assert not np.array_equal(margins[0], margins[1])
    assert not np.array_equal(margins[1], margins[2])
    weighed = romco.Model.from_state(model.state())
    some = weighed.learn(*rest, weight=np.arange(100) % 2 == 0, context=said)
    again = romco.Model.from_state(model.state())
    kept = x[1400::2], y[1400::2], task[1400::2]
    np.testing.assert_array_equal(some[::2], again.learn(*kept, context=said[::2]))
    state = model.state()["arrays"]
    for bad, why in ((said[1:], "99 entries"), (said * np.nan, "numbers"), (said[:, 1:], "shape")):
        with pytest.raises(ValueError, match=why):
            model.learn(*rest, context=bad)
    for name, array in model.state()["arrays"].items():
        np.testing.assert_array_equal(array, state[name])


def test_other_learners_say_nothing_that_helps_later(model):
    assert model.engine.prediction_context([{"a": 1.0}], ["ann"]) is None
    model.predict([{"a": 1.0}], ["ann"], id=["late"])
    model.answer("late", "yes")


@pytest.mark.parametrize("target", ["two classes", "classes", "number"])
@pytest.mark.parametrize("learner", ["romco-auto", "pa-unique"])
@pytest.mark.parametrize("history", [None, ["town"]])
def test_single_late_answers_are_learned_as_rows_of_context_are(target, learner, history):
    rng = np.random.default_rng(0)
    rows = [
        {"a": float(v), "b": float(w), "town": "RB"[int(v > 0)]}
        for v, w in rng.normal(size=(80, 2))
    ]
    if history is None:
        rows = [{"a": row["a"], "b": row["b"]} for row in rows]
    labels = [1.0 if row["a"] + 0.3 * row["b"] > 0 else 0.0 for row in rows]
    tasks = [f"u{k % 3}" for k in range(80)]
    one, many = (romco.Model(learner, target=target, history=history) for _ in range(2))
    for model in (one, many):
        model.learn(rows[:40], labels[:40], tasks[:40])
    for begin in range(40, 80, 10):
        part = slice(begin, begin + 10)
        predicted = many.predict(rows[part], tasks[part], id=range(begin, begin + 10))
        for k in range(begin, begin + 10):
            if target != "number" and k % 2:
                chances = one.predict_proba_one(rows[k], tasks[k], id=k)
                assert chances == one.predict_proba_one(rows[k], tasks[k])
            else:
                assert one.predict_one(rows[k], tasks[k], id=k) == pytest.approx(
                    predicted[k - begin]
                )
        for k in range(begin, begin + 10):
            event = many.pending.take(k)
            many.learn([rows[k]], [labels[k]], [tasks[k]], context=event.context)
            assert one.answer(k, labels[k]) == pytest.approx(event.margin)
        one.learn_one(rows[begin], labels[begin], tasks[begin])  # by no context
        many.learn_one(rows[begin], labels[begin], tasks[begin])
    found, expected = one.margins(rows, tasks), many.margins(rows, tasks)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert one.events == many.events == 84


def test_a_probability_of_a_number_keeps_nothing_waiting():
    model = romco.Model(target="number")
    with pytest.raises(ValueError, match="a number has no probability"):
        model.predict_proba_one({"a": 1.0}, "ann", id=3)
    assert len(model.pending) == 0
