"""Scores: each number against its plain definition, and the same however events are cut."""

import json

import numpy as np
import pytest
from sklearn.metrics import f1_score, log_loss, roc_auc_score

import romco
from romco.evaluation import Score
from romco.model.rows import Rows
from romco.model.target import Predictions


def events(n=3000, rare=0.1, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < rare, 1.0, -1.0)
    margins = y + 1.5 * rng.standard_normal(n) - 1.0
    return y, margins, 1.0 / (1.0 + np.exp(-margins))


def test_each_number_is_its_definition():
    y, margins, chances = events()
    score = Score()
    score.add_binary(y, margins, chances)
    answers = np.where(margins >= 0, 1, -1)
    assert score.error == pytest.approx(np.mean(answers != y))
    assert score.f1 == pytest.approx(f1_score(y, answers))
    assert score.log_loss == pytest.approx(log_loss(y, chances))
    assert score.auc == pytest.approx(roc_auc_score(y, chances), abs=1e-3)
    assert score.positives == pytest.approx(np.mean(y > 0))
    group = np.minimum((chances * 10).astype(int), 9)
    gaps = [abs(np.sum(chances[group == g] - (y[group == g] > 0))) for g in range(10)]
    assert score.calibration == pytest.approx(sum(gaps) / len(y))


def test_the_baseline_knows_only_what_came_before():
    y, margins, chances = events(300)
    score = Score()
    score.add_binary(y, margins, chances)
    wrong = loss = 0.0
    for i, truth in enumerate(y):
        up = np.sum(y[:i] > 0)
        wrong += (1.0 if 2 * up >= i else -1.0) != truth
        rate = (up + 1) / (i + 2)
        loss -= np.log(rate if truth > 0 else 1 - rate)
    assert score.baseline == pytest.approx(wrong / 300)
    assert score.baseline_log_loss == pytest.approx(loss / 300)


def test_recent_is_the_last_nine_to_ten_hundred():
    y, margins, chances = events(2345)
    score = Score()
    score.add_binary(y, margins, chances)
    recent = score.recent()
    assert recent["events"] == 945
    wrong = np.where(margins >= 0, 1, -1) != y
    assert recent["error"] == pytest.approx(np.mean(wrong[-945:]))
    assert recent["log_loss"] == pytest.approx(log_loss(y[-945:], chances[-945:]))


def test_nothing_depends_on_how_events_are_cut_or_where_a_run_stopped():
    y, margins, chances = events(1000)
    whole, cut = Score(), Score()
    whole.add_binary(y, margins, chances)
    for places in np.array_split(np.arange(1000), 37):
        cut.add_binary(y[places], margins[places], chances[places])
        cut = Score.from_json(cut.to_json())
    assert cut.to_json() == whole.to_json()


def test_one_label_alone_has_no_curve():
    score = Score()
    assert score.auc is None
    score.add_binary(np.ones(3), np.ones(3), np.full(3, 0.9))
    assert score.auc is None
    assert "auc" not in score.summary()


def of_classes(n=400, seed=1):
    rng = np.random.default_rng(seed)
    chances = rng.dirichlet(np.ones(3), n)
    y = np.array([rng.choice(3, p=p) for p in chances])
    model = romco.Model(target="classes", classes=("a", "b", "c"))
    return model, [("a", "b", "c")[k] for k in y], Predictions(np.log(chances), chances)


def test_scores_of_named_classes_are_those_of_numbered_ones():
    model, labels, answers = of_classes()
    named, numbered = Score("classes"), Score("classes")
    named.count(model, labels, answers)
    y = np.array(["abc".index(label) for label in labels], dtype=float)
    numbered.add(romco.Round(np.zeros(400, dtype=int), np.empty((400, 0)), y), answers.margins)
    one, other = named.summary(), numbered.summary()
    assert one["error"] == other["error"] == pytest.approx(np.mean(answers[1].argmax(1) != y))
    assert one["f1_macro"] == other["f1_macro"]
    assert one["baseline"] == other["baseline"]
    assert one["log_loss"] == pytest.approx(log_loss(y, answers.probabilities))
    assert {"abc"[int(k)]: sum(row.values()) for k, row in other["table"].items()} == {
        k: sum(row.values()) for k, row in one["table"].items()
    }


@pytest.mark.parametrize("kind", ["classes", "number"])
def test_other_scores_too_do_not_depend_on_how_events_are_cut(kind):
    model, labels, answers = of_classes()
    if kind == "number":
        model, labels = romco.Model(target="number"), answers.margins[:, 0].tolist()
        answers = Predictions(answers.margins[:, 1], np.full(400, np.nan))
    whole, cut = Score.of(model), Score.of(model)
    whole.count(model, labels, answers)
    for places in np.array_split(np.arange(400), 23):
        some = Predictions(answers.margins[places], answers.probabilities[places])
        cut.count(model, [labels[i] for i in places], some)
        cut = Score.of(model, cut.to_json())
    assert json.dumps(cut.to_json()) == json.dumps(whole.to_json())
    assert cut.line() == whole.line()


def test_the_loop_keeps_the_same_score_as_a_model():
    """One set of scores: a learner's margins and a model's answers are counted alike."""
    stream = romco.streams.simulated(n_tasks=3, n_features=4, n_events=50)
    rounds = romco.streams.interleaved(stream, seed=0)
    learner = romco.learner("ogd-unique", 4, 3)
    *_, record = romco.prequential(learner, rounds, {"score": Score()}, every=40)
    model = romco.Model("ogd-unique", new_task="zero", classes=(-1, 1))
    score = Score.of(model)
    rows = [dict(zip("abcd", x.tolist(), strict=True)) for x in rounds.x]
    labels = rounds.y.astype(int).tolist()
    score.count(
        model, labels, model.engine.predict_and_learn(Rows(rows, rounds.task.tolist(), labels))
    )
    told = score.summary()
    for name in ("events", "error", "baseline", "f1"):
        assert record.metrics["score"][name] == told[name]
