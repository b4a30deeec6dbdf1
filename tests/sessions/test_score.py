"""Scores: each number against its plain definition, and the same however events are cut."""

import numpy as np
import pytest
from sklearn.metrics import f1_score, log_loss, roc_auc_score

from romco.sessions.score import Score


def events(n=3000, rare=0.1, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < rare, 1.0, -1.0)
    margins = y + 1.5 * rng.standard_normal(n) - 1.0
    return y, margins, 1.0 / (1.0 + np.exp(-margins))


def test_each_number_is_its_definition():
    y, margins, chances = events()
    score = Score()
    score.add(y, margins, chances)
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
    score.add(y, margins, chances)
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
    score.add(y, margins, chances)
    recent = score.recent()
    assert recent["events"] == 945
    wrong = np.where(margins >= 0, 1, -1) != y
    assert recent["error"] == pytest.approx(np.mean(wrong[-945:]))
    assert recent["log_loss"] == pytest.approx(log_loss(y[-945:], chances[-945:]))


def test_nothing_depends_on_how_events_are_cut_or_where_a_run_stopped():
    y, margins, chances = events(1000)
    whole, cut = Score(), Score()
    whole.add(y, margins, chances)
    for places in np.array_split(np.arange(1000), 37):
        cut.add(y[places], margins[places], chances[places])
        cut = Score.from_json(cut.to_json())
    assert cut.to_json() == whole.to_json()
    assert Score.from_json([1, 2, 3, 4]).events == 10  # of a file of before


def test_one_label_alone_has_no_curve():
    score = Score()
    assert score.auc is None
    score.add(np.ones(3), np.ones(3), np.full(3, 0.9))
    assert score.auc is None
    assert "auc" not in score.summary()
