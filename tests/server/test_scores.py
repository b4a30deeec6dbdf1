from __future__ import annotations

import numpy as np
import pytest

from romco.server.protocol import encode
from romco.server.state import CURVE_POINTS as POINTS
from romco.server.state import ErrorCount, Scores, decode_scores


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


def test_running_metrics_against_numpy():
    random = np.random.default_rng(0)
    p, y = random.random(500), random.random(500) < 0.5
    running = Scores()
    for k in range(500):
        label = "yes" if p[k] >= 0.5 else "no"
        wrong = float((label == "yes") != y[k])
        running.add(k % 7, wrong, float(p[k]), bool(y[k]))
    assert running.total.mean == pytest.approx(((p >= 0.5) != y).mean())
    assert running.log_loss == pytest.approx(-np.log(np.where(y, p, 1 - p)).mean())
    for k, found in enumerate(running.calibration()):
        inside = np.floor(p * 10) == k
        assert found["events"] == inside.sum()
        assert found["predicted"] == pytest.approx(p[inside].mean())
        assert found["observed"] == pytest.approx(y[inside].mean())
    assert sum(score.events for score in running.tasks.values()) == 500
    back = decode_scores(encode(running))
    assert back == running
    assert back.of_task(3) == back.of_task("3") == running.tasks["3"]


@pytest.mark.parametrize("part", ["bin_events", "bin_predicted", "bin_observed", "curve", "width"])
def test_scores_that_do_not_hold_together_are_refused(part):
    scores = Scores()
    for _ in range(60):
        scores.add("ann", 0.0, 0.8, True)
    assert decode_scores(encode(scores)) == scores
    if part == "curve":
        scores.total.curve[2].extend(scores.total.curve[2])
    elif part == "width":
        scores.tasks["ann"].curve = (0, *scores.tasks["ann"].curve[1:])
    else:
        getattr(scores, part).pop()
    with pytest.raises(ValueError, match=r"(?i)expected|curve"):
        decode_scores(encode(scores))
