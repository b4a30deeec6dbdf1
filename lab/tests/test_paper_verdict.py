import numpy as np
import pytest

from romco import LEARNERS, Learner, Method
from romco.compare.results import Finished
from romco.compare.run import Run
from romco_lab.learner_runs import Outcome, paired
from romco_lab.paper.experiment import PaperData
from romco_lab.paper.verdict import Sweep, losses, overall, verdicts

SPAM = PaperData("spam", "spam")
NOISE = np.array([0.0, 0.001, -0.001])


def outcome(learner, error, seconds=1.0):
    def file(seed, noise):
        scores = {"error": error + noise, "error_per_task": [error - 0.01, error + 0.01]}
        record = {"rounds": 1, "scores": scores, "seconds": seconds}
        run = Run("spam", "", learner, (), "synchronous", seed)
        return Finished(run, {}, {}, [record], {}, None)

    return Outcome(learner, [file(seed, noise) for seed, noise in enumerate(NOISE)])


def by_claim(outcomes, sweeps=()):
    return {verdict.claim: verdict for verdict in verdicts({SPAM: outcomes}, list(sweeps))}


def test_a_paired_difference_beyond_doubt():
    difference = paired(0.1 + NOISE, 0.12 + NOISE)
    assert difference.status == "holds"
    assert difference.wins == 3
    assert difference.mean == pytest.approx(-2)


def test_one_shuffle_decides_nothing():
    assert paired([0.1], [0.9]).status == "undecided"


def test_equal_errors_are_undecided():
    assert paired(0.1 + NOISE, 0.1 - NOISE).status == "undecided"


@pytest.mark.parametrize(
    ("statuses", "status"),
    [
        (["holds", "holds"], "holds"),
        (["holds", "does not hold"], "does not hold"),
        (["undecided", "does not hold"], "does not hold"),
        ([], "undecided"),
    ],
)
def test_overall(statuses, status):
    assert overall(statuses) == status


def test_claims_follow_the_numbers(monkeypatch):
    class Retrained(Learner):
        keeps_events = True

    monkeypatch.setitem(LEARNERS, "mtfl", Method(Retrained, "MTFL", role="paper"))
    found = by_claim(
        [
            outcome("romco-nucl", 0.10),
            outcome("romco-logd", 0.11),
            outcome("pa-unique", 0.12),
            outcome("pa-global", 0.105),
            outcome("mtfl", 0.2, seconds=200.0),
            outcome("cw-col", 0.2, seconds=0.1),
        ]
    )
    assert found["ROMCO beats PA-Unique"].status == "holds"
    assert found["ROMCO beats PA-Global"].status == "does not hold"  # LogD does not
    assert found["ROMCO beats the batch methods"].status == "holds"
    assert found["ROMCO-LogD beats ROMCO-NuCl"].status == "does not hold"
    assert found["ROMCO is more than 100 times faster than MTFL"].status == "holds"
    slower = next(v for claim, v in found.items() if "slightly slower" in claim)
    assert slower.status == "does not hold"
    assert next(v for claim, v in found.items() if "Spread" in claim).status == "holds"


def test_a_control_that_beats_romco_is_named_first():
    outcomes = [
        outcome("romco-nucl", 0.10),
        outcome("romco-logd", 0.10),
        outcome("ogd-unique", 0.08),
        outcome("pa-unique", 0.12),
    ]
    [sentence] = losses({SPAM: outcomes})
    assert "OGD-Unique 8.00 %" in sentence
    assert "PA-Unique" not in sentence
    control = next(v for c, v in by_claim(outcomes).items() if "control" in c)
    assert control.status == "does not hold"


@pytest.mark.parametrize(("ends", "status"), [((0.1, 0.3), "holds"), ((0.3, 0.1), "does not hold")])
def test_the_shape_of_a_sensitivity_curve(ends, status):
    errors = np.array([end + NOISE * (1 + i) for i, end in enumerate(ends)])
    values = np.array([1e-6, 1.0])
    sweep = Sweep(SPAM, "romco-nucl", "lambda1", {"lambda2": 1e-4}, values, errors)
    found = next(
        v for c, v in by_claim([outcome("romco-nucl", 0.1)], [sweep]).items() if "Sens" in c
    )
    assert found.status == status
