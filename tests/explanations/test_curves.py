"""Planted truths are drawn: curves of columns, products of two, and people who differ."""

import json

import numpy as np
import pytest

import romco
from romco.explanations import explain
from romco.explanations.text import curve_lines

N, M = 2000, 10
SEEDS = range(4)


def taught(truth, number, seed=0, noise=1.0, n=N):
    """A model of four columns of which ``truth(x, task)`` is the margin."""
    rng = np.random.default_rng(seed)
    x, task = rng.uniform(-2.0, 2.0, (n, 4)), rng.integers(M, size=n)
    margin = truth(x, task) + 0.3 * rng.normal(size=M)[task]
    if number:
        y = (margin + 0.3 * noise * rng.normal(size=n)).tolist()
    else:
        chance = 1.0 / (1.0 + np.exp(-3.0 / noise * margin))
        y = np.where(rng.random(n) < chance, "yes", "no").tolist()
    model = romco.Model(target="number" if number else "two classes")
    rows = [dict(zip("abcd", row, strict=True)) for row in x.tolist()]
    model.learn(rows, y, [f"user {k}" for k in task])
    return model


def curve_of(model, column):
    return {curve.column: curve for curve in explain(model).curves}[column]


def sine(x):
    return np.sin(2.0 * x)


def step(x):
    return np.where(x > 0.5, 1.0, -1.0)


def correlation(a, b):
    return np.corrcoef(np.ravel(a), np.ravel(b))[0, 1]


LEAST = {sine: 0.93, step: 0.93}  # four waves of ranks draw a step by .956 at best
TARGETS = pytest.mark.parametrize("number", [False, True])


@TARGETS
@pytest.mark.parametrize("shape", [sine, pytest.param(step, marks=pytest.mark.slow)])
def test_a_planted_curve_is_drawn(shape, number):
    found = []
    for seed in SEEDS:
        model = taught(lambda x, _: shape(x[:, 1]), number, seed)
        curve = curve_of(model, "b")
        assert explain(model).curves[0].column == "b"
        found.append(correlation(shape(curve.values), curve.effect))
    assert np.mean(found) > LEAST[shape]
    assert min(found) > 0.9


@TARGETS
def test_a_planted_product_is_drawn(number):
    found = []
    for seed in SEEDS:
        first = explain(taught(lambda x, _: x[:, 0] * x[:, 2], number, seed)).crosses[0]
        assert first.columns == ("a", "c")
        assert first.effect.shape == (len(first.y), len(first.x))
        found.append(correlation(np.outer(first.y, first.x), first.effect))
    assert np.mean(found) > 0.95
    assert min(found) > 0.9


@TARGETS
def test_the_curve_of_a_person_who_differs_is_drawn_beside_it(number):
    model = taught(lambda x, task: np.where(task == 3, -1.0, 1.0) * x[:, 3], number)
    curve = curve_of(model, "d")
    assert correlation(curve.values, curve.effect) > 0.95
    people = {one.task: one.effect for one in curve.people}
    assert next(iter(people)) == "user 3"
    assert correlation(curve.values, people["user 3"]) < -0.95


@TARGETS
def test_a_curve_of_one_persons_own_is_drawn(number):
    """No line tells one person from the others."""
    found = []
    for seed in SEEDS:
        model = taught(
            lambda x, task: np.where(task == 3, -1.0, 1.0) * np.cos(1.6 * x[:, 0]), number, seed
        )
        curve = curve_of(model, "a")
        first = curve.people[0]
        assert first.task == "user 3"
        assert correlation(np.cos(1.6 * curve.values), curve.effect) > 0.9
        found.append(-correlation(np.cos(1.6 * curve.values), first.effect))
    assert np.mean(found) > 0.95


@TARGETS
def test_people_who_are_alike_are_not_drawn(number):
    curve = curve_of(taught(lambda x, _: x[:, 3], number), "a")
    assert curve.people == ()


def test_a_band_has_the_truth_as_often_as_it_says():
    """Smooth curves of two classes in noise, of 90 % intervals."""
    inside = []
    for seed in range(6):
        model = taught(lambda x, _: np.cos(0.75 * (x[:, 0] + 2.0)), False, seed, noise=3.0)
        curve = curve_of(model, "a")
        truth = np.cos(0.75 * (curve.values + 2.0))
        truth -= np.cos(0.75 * (curve.ranked + 2.0)).mean()
        inside.append(np.mean((curve.low <= truth) & (truth <= curve.high)))
    assert 0.75 < np.mean(inside) <= 1.0


@TARGETS
def test_a_curve_is_what_reasons_say(number):
    model = taught(lambda x, _: sine(x[:, 0]), number)
    curve = curve_of(model, "a")
    ends = curve.values[[0, -1]].tolist()
    first, last = (
        next(one.total for one in romco.reasons(model, {"a": value}, "nobody").features)
        for value in ends
    )
    assert last - first == pytest.approx(curve.effect[-1] - curve.effect[0], abs=1e-9)
    assert curve.at(curve.ranked).mean() == pytest.approx(0.0, abs=1e-9)


def test_the_first_label_turns_a_curve():
    model = taught(lambda x, _: x[:, 0], False)
    turned = romco.Model(classes=("yes", "no"))
    rng = np.random.default_rng(0)
    x = rng.uniform(-2.0, 2.0, 500).tolist()
    turned.learn([{"a": v} for v in x], ["yes" if v > 0 else "no" for v in x], ["ann"] * 500)
    assert curve_of(model, "a").slope > 0.0
    assert (curve_of(turned, "a").slope > 0.0) == (explain(turned).positive == "yes")


def test_text_page_and_json_have_the_curves():
    model = taught(lambda x, _: sine(x[:, 0]) + x[:, 1] * x[:, 2], True)
    found = explain(model)
    lines = curve_lines(found)
    assert {line.split()[0] for line in lines[1:5]} == set("abcd")
    assert any(line.startswith("  b * c: from -") for line in lines)
    assert all(line in str(found) for line in lines)
    page = found.page()
    assert page.index("What a column does") < page.index("What two columns do together")
    assert page.count('<polygon class="band"') == 4
    stored = json.loads(json.dumps(found.summary()))
    curve = stored["curves"][0]
    assert len(curve["values"]) == len(curve["effect"]) == len(curve["low"]) == len(curve["high"])
    assert len(curve["deciles"]) == 9
    assert len(stored["crosses"][0]["effect"]) == len(stored["crosses"][0]["y"])
    assert len(stored["tasks"]) == M


def test_what_has_no_curves_is_explained_without():
    rows = [{"a": 1.0}, {"b": 1.0}] * 20
    for model in (romco.Model(), romco.Model("romco-nucl"), romco.Model(target="classes")):
        assert explain(model).curves == ()
        model.learn(rows, ["x", "y"] * 20, ["ann", "bob"] * 20)
        found = explain(model)
        assert (found.curves, found.crosses) == ((), ())
        assert "What a column does" not in found.page()


def test_the_level_of_a_task_is_at_the_mean_of_a_curve():
    """Not at its top, where the mean value happens to be."""
    model = taught(lambda x, _: 3.0 * np.cos(1.5 * x[:, 0]), True)
    levels = [task.level for task in explain(model).tasks]
    mean = 3.0 * np.sin(3.0) / 3.0
    assert np.mean(levels) == pytest.approx(mean, abs=0.8)  # at the mean value it is 3
    (name, _), *_ = explain(model).effects
    assert name == "a"  # though it has no slope


@pytest.mark.parametrize("target", ["two classes", "number"])
def test_few_values_and_values_of_any_size_are_drawn(target):
    rng = np.random.default_rng(0)
    floor = rng.integers(1, 6, 600)
    income = np.exp(rng.normal(20.0, 3.0, 600))
    y = (floor == 3).astype(float) if target == "number" else np.where(floor == 3, "yes", "no")
    rows = [{"floor": int(f), "income": v} for f, v in zip(floor, income.tolist(), strict=True)]
    model = romco.Model(target=target)
    model.learn(rows, y.tolist(), ["ann"] * 600)
    found = explain(model)
    curve = {one.column: one for one in found.curves}["floor"]
    assert curve.values.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert int(np.argmax(curve.effect)) == 2
    assert "nan" not in found.page()


def test_products_that_are_next_to_nothing_are_left_out(monkeypatch):
    def truth(x, task):
        return 20.0 * x[:, 0] + x[:, 0] * x[:, 3] + 0.3 * x[:, 1] * x[:, 2]

    model = taught(truth, number=True, noise=0.1)
    assert [cross.columns for cross in explain(model).crosses] == [("a", "d"), ("b", "c")]
    monkeypatch.setattr("romco.explanations.curves.MIN_CROSS_SIZE", 0.05)
    assert [cross.columns for cross in explain(model).crosses] == [("a", "d")]
