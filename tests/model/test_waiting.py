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
    said = model.margin_one({"a": 1.0}, "ann")
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
    assert len(model.waiting) == 2
    model.answer("e1", "yes")
    assert len(model.waiting) == 1


def test_the_oldest_are_dropped_and_counted():
    model = romco.Model("pa-unique", waiting=2)
    model.learn_one({"a": 1.0}, "yes", "ann")
    model.predict([{"a": 1.0}] * 3, ["ann"] * 3, id=[1, 2, 3])
    assert model.waiting.dropped == 1
    with pytest.raises(KeyError, match="dropped"):
        model.answer(1, "yes")


@pytest.mark.parametrize("rows", [np.eye(3), csr_array(np.eye(3))])
def test_rows_of_arrays_wait_too(rows):
    model = romco.Model("pa-unique", features=romco.Columns(3), classes=[0, 1])
    model.predict(rows, ["ann"] * 3, id="abc")
    model.answer("b", 1)
    assert model.margins(np.eye(3), ["ann"] * 3)[1] > 0
    with pytest.raises(ValueError, match="3 rows but id has 2"):
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
