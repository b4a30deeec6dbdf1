import numpy as np
import pytest

import romco
from romco import labels
from romco.labels.policies import doubt, uniform


def round_of(n, task=0):
    return romco.Round(np.full(n, task), np.zeros((n, 1)), np.full(n, np.nan))


def reference(margins, share, advance, seed):
    """The rule without an audit, as plainly as it can be written."""
    spent = s = n = 0
    asked = []
    for t, m in enumerate(margins, start=1):
        bank = max(share * t + 1, advance) - spent
        w = max((1 / (1 + np.exp(abs(m)))) ** 2, 1e-12)
        s, n = 0.998 * s + w, 0.998 * n + 1
        q = min(1.0, share * bank * w * n / s)
        if spent > share * t:
            ahead = min(1.0, (spent - share * t) / max(advance, 1.0))
            sure = (3 + 15 * share) * (1 - ahead) + 10 * share * ahead
            q = min(q, (w * (1 + np.exp(sure)) ** 2) ** 4)
        asked.append(bank >= 1 and uniform(seed, t * 4) < q)
        spent += asked[-1]
    return asked


@pytest.mark.parametrize("advance", [0, 30])
def test_the_rule(advance):
    margins = np.random.default_rng(0).normal(size=2000) * 3
    budget = labels.Budget(0.1, advance=advance, audit=0.0, seed=5)
    asked = budget.ask(round_of(2000), margins)
    np.testing.assert_array_equal(asked, reference(margins, 0.1, advance, 5))


def test_doubtful_events_are_asked_more_often():
    margins = np.tile([0.1, 4.0], 3000)
    asked = labels.Budget(0.1, advance=0, audit=0.0, seed=1).ask(round_of(6000), margins)
    assert asked[::2].sum() > 20 * asked[1::2].sum()


def test_the_advance_is_spent_early_and_paid_back():
    asked = labels.Budget(0.02, advance=100, seed=1).ask(round_of(10_000), np.zeros(10_000))
    assert asked[:400].sum() > 40
    assert asked[1000:4000].sum() < 20  # what was asked early is missing now
    assert asked.sum() <= 201


def test_sure_events_are_left_out_while_spending_is_ahead():
    """A learner that is sure soon need not be told: labels are kept for when it is not."""
    margins = np.where(np.arange(3000) < 1500, 9.0, 0.5)
    asked = labels.Budget.of(300, 3000, audit=0.0, seed=1).ask(round_of(3000), margins)
    assert asked[:1500].sum() < 170
    assert asked.sum() >= 299
    unsure = labels.Budget.of(300, 3000, audit=0.0, seed=1)
    assert unsure.ask(round_of(3000), np.full(3000, 0.1))[:330].sum() == 300  # at once


def test_so_many_labels_in_so_many_events_and_none_afterwards():
    budget = labels.Budget.of(50, 1000, seed=3)
    asked = budget.ask(round_of(3000), np.zeros(3000))
    assert 40 <= asked[:1000].sum() <= 50
    assert asked.sum() <= 50
    with pytest.raises(ValueError, match="events"):
        labels.Budget.of(50, 10)


def test_with_a_floor_new_tasks_come_first():
    sure = np.full(200, 9.0)
    for floor, least in ((0, 0), (3, 3)):
        budget = labels.Budget(0.3, advance=0, audit=0.0, seed=2, floor=floor)
        budget.ask(round_of(500), np.full(500, 9.0))
        asked = budget.ask(round_of(200, task=1), sure)
        assert asked[:30].sum() >= least


def test_audits_are_spread_evenly_and_look_at_no_margin():
    budget = labels.Budget(0.1, advance=0, audit=0.5, seed=4)
    round = round_of(4000)
    margins = np.where(np.arange(4000) % 2, 0.0, 30.0)
    budget.ask(round, margins)
    audited = budget.audited
    assert (audited.reshape(-1, 20).sum(axis=1) == 1).all()  # one in each period of 20
    assert 0.35 < audited[::2].mean() / audited.mean() / 2 < 0.65  # sure ones as often


def test_the_audit_is_unbiased_and_its_interval_covers():
    rng = np.random.default_rng(11)
    inside, means = 0, []
    for run in range(200):
        margins = rng.normal(size=500) * 2
        y = np.where(rng.random(500) < 1 / (1 + np.exp(-margins)), 1.0, -1.0)
        round = romco.Round(np.zeros(500, dtype=int), np.zeros((500, 1)), y)
        budget, audit = labels.Budget(0.3, audit=0.2, seed=run), labels.Audit()
        budget.ask(round, margins)
        audit.add_round(round, margins, budget.audited)
        found, truth = audit.error(), np.mean(np.where(margins >= 0, 1, -1) != y)
        inside += found.low <= truth <= found.high
        means.append(found.value - truth)
    assert 0.92 <= inside / 200 <= 0.99
    assert abs(np.mean(means)) < 3 * np.std(means) / np.sqrt(200)


@pytest.mark.parametrize("n", [1, 28, 29, 300])
def test_without_an_error_the_interval_begins_at_none(n):
    audit, wrong = labels.Audit(), labels.Audit()
    for _ in range(n):
        audit.add(0.0, 0.1)
        wrong.add(1.0, 3.0)
    assert audit.error().low == 0.0 < audit.error().high < 1.0
    assert wrong.error().high == 1.0 > wrong.error().low > 0.0


def test_doubt_of_many_classes():
    two = doubt(np.array([1.5]))
    np.testing.assert_allclose(doubt(np.array([[1.5, 0.0]])), two)
    assert doubt(np.array([[np.inf, 0.0, 0.0]])) == 0.0
    assert doubt(np.full((1, 2), -np.inf)) == 0.5


def test_an_audit_goes_through_its_state():
    audit = labels.Audit()
    for k in range(30):
        audit.add(float(k % 3 == 0), 0.5)
    again = labels.Audit.from_state(audit.state())
    assert again.error() == audit.error()
    assert "33.33% [" in str(audit.error())


@pytest.mark.parametrize(
    "state",
    [
        *(None, 7, [0], [1.0, 0.0, 0.5], [1.0, 0.0, "x", 0.5], [-1.0, 0.0, 0.5, 0.5]),
        *([1.0, 2.0, 0.5, 0.5], [1e400, 0.0, 0.5, 0.5], [[1.0], 0.0, 0.5, 0.5]),
    ],
)
def test_what_is_no_audit_is_refused(state):
    with pytest.raises(ValueError, match="not the state of an audit"):
        labels.Audit.from_state(state)
