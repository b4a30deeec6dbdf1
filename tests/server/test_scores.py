from __future__ import annotations

import json
import sqlite3
from itertools import repeat

import numpy as np
import pytest

from romco.model import Model
from romco.server.state import CURVE_POINTS as POINTS
from romco.server.state import ErrorCount, Scores, ServedModel, decode_scores, encode_scores
from romco.server.store import DamagedError, Event, Learn, Prediction
from tests.server.conftest import opened


@pytest.mark.parametrize("n", [0, 1, 2, POINTS - 1, POINTS, POINTS + 1, 1000, 4097])
def test_a_curve_counts_every_event_once(n):
    wrong = np.random.default_rng(n).random(n) < 0.3
    curve = ErrorCount()
    for each in wrong:
        curve.add(bool(each))
    points = curve.points()
    assert len(points) <= POINTS
    ends = [0, *(end for end, _ in points)]
    assert ends[-1] == n
    for begin, (end, error) in zip(ends, points, strict=False):
        assert error == pytest.approx(wrong[begin:end].mean())


def learned(model, answers, made):
    """Scores of a served model, and of the same restored, after predictions made before."""
    served = ServedModel(model)
    tasks = [f"t{k % 7}" for k in range(len(answers))]
    events = [
        Event(None, *each) for each in zip(tasks, repeat({"a": 1.0}), answers, made, strict=False)
    ]
    assert served.apply([Learn(events[:9]), Learn(events[9:])]) == [None, None]
    back = decode_scores(encode_scores(served.scores))
    assert encode_scores(back) == encode_scores(served.scores)
    assert back.tasks == served.scores.tasks
    assert sum(score.events for score in back.tasks.values()) == back.total.events == len(answers)
    return back


@pytest.mark.parametrize("target", ["two classes", "classes"])
def test_scores_of_labels_against_numpy(target):
    random = np.random.default_rng(0)
    p, y = random.random(500), random.random(500) < 0.5
    names = np.array(["no", "yes"])
    labels = names[(p >= 0.5).astype(int)].tolist()
    made = list(map(Prediction, labels, p.tolist(), (p - 0.5).tolist()))
    model = (
        Model("pa-unique", classes=("no", "yes"))
        if target == "two classes"
        else Model(target=target)
    )
    scores = learned(model, names[y.astype(int)].tolist(), made)
    wrong = (p >= 0.5) != y
    true = y if target == "two classes" else ~wrong
    assert scores.total.mean == scores.score.error == pytest.approx(wrong.mean())
    assert scores.score.log_loss == pytest.approx(-np.log(np.where(true, p, 1 - p)).mean())
    for k, found in enumerate(scores.score.calibration_bins()):
        inside = np.floor(p * 10) == k
        assert found["events"] == inside.sum()
        assert found["predicted"] == pytest.approx(p[inside].mean())
        assert found["observed"] == pytest.approx(true[inside].mean())


def test_scores_of_numbers_against_numpy():
    random = np.random.default_rng(0)
    y, predicted = random.normal(size=300), random.normal(size=300)
    made = [Prediction(label, None, label) for label in predicted.tolist()]
    scores = learned(Model(target="number"), y.tolist(), made)
    assert scores.total.mean == pytest.approx(np.abs(y - predicted).mean())
    assert scores.score.error == pytest.approx(np.sqrt(np.square(y - predicted).mean()))


def test_scores_of_first_classes_do_not_depend_on_how_events_are_grouped():
    random = np.random.default_rng(0)
    labels = random.integers(0, 1 + np.arange(24) // 4).astype(str).tolist()
    rows = [{"a": value, "b": 1.0} for value in random.normal(size=24).tolist()]
    events = [Event(None, f"t{k % 3}", rows[k], labels[k]) for k in range(24)]
    found = set()
    for size in (1, 2, 7, 24):
        served = ServedModel(Model("romco-auto", target="classes"))
        for begin in range(0, 24, size):
            served.apply([Learn(events[begin : begin + size])])
        found.add(encode_scores(served.scores))
    assert len(found) == 1


@pytest.mark.parametrize("part", ["curve", "width", "score", "target", "sums", "groups"])
def test_scores_that_do_not_hold_together_are_refused(tmp_path, part):
    scores = Scores()
    for count in (scores.total, scores.tasks.setdefault("ann", ErrorCount())):
        for _ in range(60):
            count.add(0.0)
    scores.score.add_binary(np.ones(60), np.ones(60), np.full(60, 0.8))
    state = json.loads(encode_scores(scores))
    if part == "curve":
        state["total"][2] *= 2
    elif part == "width":
        state["tasks"]["ann"][2][0][0] = 0
    elif part == "score":
        state["score"] = {}
    elif part == "target":
        state["score"]["target"] = "nothing"
    else:
        state["score"][part].pop()
    with opened(tmp_path) as service:
        service.checkpoint().result()
    with sqlite3.connect(tmp_path / "romco.sqlite") as database:
        damaged = (json.dumps(state).encode(),)
        database.execute("UPDATE checkpoint SET scores = ?", damaged)
    with pytest.raises(DamagedError, match="scores"), opened(tmp_path):
        pass
