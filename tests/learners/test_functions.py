"""Curves of columns and products of two, found while a stream is learned."""

import numpy as np
import pytest

import romco
from romco.kernels.auto.functions import DEFINITION_FIELDS

N, M = 4000, 10


def stream(truth, seed=0, number=False, d=4):
    rng = np.random.default_rng(seed)
    x, task = rng.uniform(-2.0, 2.0, (N, d)), rng.integers(M, size=N)
    margin = truth(x) + 0.3 * rng.normal(size=M)[task]
    if number:
        y = margin + 0.3 * rng.normal(size=N)
    else:
        y = np.where(rng.random(N) < 1.0 / (1.0 + np.exp(-3.0 * margin)), 1.0, -1.0)
    return romco.Rounds(task, x, y, np.arange(N + 1))


def learned(truth, number=False, **more):
    name = "romco-auto-number" if number else "romco-auto"
    rounds = stream(truth, number=number, **more)
    learner = romco.learner(name, rounds.x.shape[1], M)
    learner.replay(rounds[:2000])
    return learner, rounds[2000:]


def definitions(learner):
    fields = dict(zip(DEFINITION_FIELDS, learner.arrays()["definitions"].T, strict=True))
    return {name: column[fields["used"] == 1.0] for name, column in fields.items()}


TRUTHS = {
    "sine": lambda x: np.sin(2.0 * x[:, 0]),
    "step": lambda x: np.where(x[:, 1] > 0.5, 1.0, -1.0),
    "product": lambda x: x[:, 0] * x[:, 2],
}


@pytest.mark.parametrize("number", [False, True])
@pytest.mark.parametrize("shape", TRUTHS)
def test_a_planted_truth_is_found_by_2000_events(shape, number):
    learner, later = learned(TRUTHS[shape], number)
    found = learner.predict_frozen(later.events)
    truth = TRUTHS[shape](later.events.x)
    assert np.corrcoef(found, truth)[0, 1] > 0.85


@pytest.mark.parametrize("number", [False, True])
def test_a_product_joins_only_where_two_columns_act_together(number):
    together, _ = learned(TRUTHS["product"], number)
    found = definitions(together)
    crossed = found["second"] >= 0.0
    pairs = {
        frozenset(pair)
        for pair in zip(found["feature"][crossed], found["second"][crossed], strict=True)
    }
    assert frozenset((0.0, 2.0)) in pairs
    apart, _ = learned(lambda x: x @ [1.0, -1.0, 0.5, 0.0], number)
    assert (definitions(apart)["second"] >= 0.0).sum() <= 1


def test_a_linear_world_costs_numbers_nothing():
    learner, _ = learned(lambda x: x @ [1.0, -1.0, 0.5, 0.0], number=True)
    assert len(definitions(learner)["used"]) <= 4


def test_reasons_add_up_where_there_are_curves():
    for number in (False, True):
        learner, later = learned(lambda x: np.sin(2.0 * x[:, 0]) + x[:, 1] * x[:, 2], number)
        assert len(definitions(learner)["used"]) > 4
        round = later[:50].events
        np.testing.assert_allclose(
            learner.contributions(round).margins(), learner.predict_frozen(round), rtol=1e-9
        )


def test_beyond_the_past_range_a_curve_is_its_line():
    """Waves end where the values did: steps of equal size change the margin by the same amount."""
    learner, later = learned(TRUTHS["sine"], number=True)
    x = np.repeat(later.events.x[:1], 3, axis=0)
    x[:, 0] = 4.0, 5.0, 6.0
    found = learner.predict_frozen(romco.Round(np.zeros(3, int), x, np.empty(0)))
    np.testing.assert_allclose(found[1] - found[0], found[2] - found[1], rtol=1e-6)


def test_text_has_no_functions():
    rng = np.random.default_rng(0)
    x = rng.poisson(20.0 / np.arange(1.0, 2001.0), (600, 2000)).astype(float)  # Zipf's law
    rounds = romco.Rounds(rng.integers(3, size=600), x, np.sign(x[:, 20] - 0.5), np.arange(601))
    learner = romco.learner("romco-auto", 2000, 3)
    learner.replay(rounds)
    assert not definitions(learner)["used"].any()


def test_a_column_whose_values_move_is_followed():
    rng = np.random.default_rng(1)
    x = np.column_stack([np.arange(N) + 1.0, rng.uniform(-2.0, 2.0, N)])
    y = np.sin(2.0 * x[:, 1]) + 0.001 * x[:, 0] + 0.1 * rng.normal(size=N)
    learner = romco.learner("romco-auto-number", 2, 1)
    live = learner.replay(romco.Rounds(np.zeros(N, int), x, y, np.arange(N + 1)))
    assert np.sqrt(np.mean((live - y)[2000:] ** 2)) < 0.3
    far = romco.Round(np.zeros(1, int), np.array([[1.1 * N, 0.0]]), np.empty(0))
    assert abs(learner.predict_frozen(far)[0] - 0.0011 * N) < 1.0


@pytest.mark.parametrize(
    ("name", "columns", "most"),
    [("romco-auto-number", 120, 1.4), ("romco-auto", 300, 0.49)],  # were 1.60 and 0.508
)
def test_wide_tables_have_covariances_and_curves(name, columns, most):
    """More columns than places, all correlated: twenty act by a line, four by a curve."""
    errors = []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        n, learned = 3000, 2100
        factors = rng.normal(size=(n, 8)) @ rng.normal(size=(8, columns)) / np.sqrt(8)
        x = 0.8 * factors + 0.6 * rng.normal(size=(n, columns))
        task = rng.integers(10, size=n)
        lines = rng.permutation(columns)[:20]
        mean = x[:, lines] @ rng.normal(size=20) * 2.0 / np.sqrt(20)
        mean += 0.5 * rng.normal(size=10)[task]
        curves = x[:, rng.permutation(columns)[:4]]
        mean += 1.2 * np.sin(2.0 * curves[:, 1::2]).sum(axis=1)
        mean += np.abs(curves[:, ::2]).sum(axis=1)
        if name == "romco-auto":
            y = np.where(mean - np.median(mean) + 0.5 * rng.logistic(size=n) > 0.0, 1.0, -1.0)
        else:
            y = mean + 0.5 * rng.normal(size=n)
        learner = romco.learner(name, columns, 10)
        old = slice(learned)
        learner.replay(romco.Rounds(task[old], x[old], y[old], np.arange(learned + 1)))
        found = learner.predict_frozen(romco.Round(task[learned:], x[learned:], y[learned:]))
        later = y[learned:]
        if name == "romco-auto":
            errors.append(np.logaddexp(0.0, -later * found).mean())
        else:
            errors.append(np.sqrt(np.mean((found - later) ** 2)))
    assert np.mean(errors) < most


def test_a_column_may_join_when_all_functions_are_in_use():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12_500, 12))
    products = sum(x[:, i] * x[:, j] for i in range(11) for j in range(i))
    y = np.where(products + rng.normal(size=len(x)) > 0.0, 1.0, -1.0)
    x[:9000, 11] = 0.0  # comes late
    learner = romco.learner("romco-auto", 12, 1)
    learner.replay(romco.Rounds(np.zeros(len(x), int), x, y, np.arange(len(x) + 1)))
    state = learner.arrays()
    assert np.count_nonzero(state["definitions"][:, 0]) == len(state["definitions"])
    assert 11.0 in state["frequent"]
