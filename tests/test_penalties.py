"""Definitions: a prox minimises its objective; the log-det root is right to the last digits."""

import csv

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from romco import penalties
from romco.penalties import LogDet, Nuclear, shrink_logdet
from tests.reference.cubic import cubic_roots

KINDS = (*penalties.PENALTIES.values(), penalties.TaskGroups)
PENALTIES = [kind(0.7) for kind in KINDS]


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("penalty", PENALTIES, ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("shape", [(6, 4), (3, 5), (4, 1), (1, 4)])
def test_prox_is_better_than_every_neighbour(rng, penalty, shape):
    w, step = rng.standard_normal(shape), 0.8

    def objective(v):
        return np.sum((v - w) ** 2) / (2 * step) + penalty.value(v)

    best = penalty.prox(w, step)
    for scale in (1e-1, 1e-3, 1e-5):
        for _ in range(30):
            assert objective(best) <= objective(best + scale * rng.standard_normal(shape)) + 1e-12


def test_logdet_prox_is_the_global_minimum(rng):
    w = rng.standard_normal((4, 3)) * 3
    for strength in (0.3, 1.0, 3.0, 6.0):

        def objective(v, strength=strength):
            v = v.reshape(w.shape)
            return np.sum((v - w) ** 2) / 2 + LogDet(strength).value(v)

        found = objective(LogDet(strength).prox(w, 1.0))
        starts = [w, np.zeros_like(w), *(rng.standard_normal((6, *w.shape)) * 2)]
        assert found <= min(minimize(objective, start.ravel()).fun for start in starts) + 1e-8


@pytest.mark.parametrize("penalty", PENALTIES, ids=lambda p: type(p).__name__)
def test_nothing_stays_nothing(penalty):
    assert not penalty.prox(np.zeros((5, 3)), 1.0).any()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strength", [-1.0, np.nan, np.inf])
def test_bad_strength_is_refused(kind, strength):
    with pytest.raises(ValueError, match="strength"):
        kind(strength)


@given(s=st.floats(1e-12, 1e6), rho=st.floats(1e-9, 100))
def test_shrinking_keeps_its_bounds(s, rho):
    """f_NuCl <= f_LogD <= s, and never exactly zero."""
    x = shrink_logdet(np.array([s]), rho)[0]
    assert max(s - rho, s / (1 + 2 * rho)) <= x <= s


def precise(s, rho):
    """The minimiser by 60-digit arithmetic."""
    with mpmath.workdps(60):
        s, rho = mpmath.mpf(s), mpmath.mpf(rho)
        roots = mpmath.polyroots([-s, 1 + 2 * rho, -s, 1], maxsteps=500, extraprec=500, asc=True)
        real = [r.real for r in roots if abs(r.imag) < mpmath.mpf(10) ** -25 * (1 + abs(r))]
        return float(min(real, key=lambda x: (x - s) ** 2 / (2 * rho) + mpmath.log1p(x * x)))


@pytest.mark.parametrize("rho", [1e-9, 1e-3, 0.5, 1.0, 3.9, 5.0, 10.0, 50.0])
@pytest.mark.parametrize("s", [1e-15, 1e-6, 0.3, 1.0, 4.0, 9.0, 9.5, 30.0, 1e6])
def test_logdet_root_to_full_precision(s, rho):
    assert shrink_logdet(np.array([s]), rho)[0] == pytest.approx(precise(s, rho), rel=1e-14)


def test_logdet_root_on_the_reference_table(oracles):
    with (oracles / "prox_logdet_mpmath.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) > 500
    for row in rows:
        s, rho, expected = (float(row[k]) for k in ("sigma_hat", "rho", "sigma_star"))
        near_triple_point = abs(rho - 4) < 0.05 and abs(s - 27**0.5) < 0.05
        assert shrink_logdet(np.array([s]), rho)[0] == pytest.approx(
            expected, rel=1e-5 if near_triple_point else 1e-14
        )


@pytest.mark.parametrize(
    ("s", "rho", "real"),
    [
        (2.0, 0.5, 1),  # discriminant above 0
        (27**0.5, 4.0, 3),  # all three equal
        (9.0, 10.0, 3),  # discriminant below 0
    ],
)
def test_cubic_has_the_roots_the_paper_says(s, rho, real):
    roots = cubic_roots(s, rho)
    for root in roots:
        assert abs(root**3 - s * root**2 + (1 + 2 * rho) * root - s) < 1e-9
    assert sum(abs(root.imag) < 1e-6 for root in roots) == real


def test_cubic_agrees_with_the_stable_root_where_it_is_accurate():
    for s in np.linspace(0.1, 20, 50):
        for rho in (0.1, 1.0, 3.0):
            expected = shrink_logdet(np.array([s]), rho)[0]
            assert cubic_roots(s, rho)[0].real == pytest.approx(expected, rel=1e-11)


def test_cubic_needs_a_positive_rho():
    with pytest.raises(ValueError, match="rho"):
        cubic_roots(1.0, 0.0)


def test_what_penalties_say_of_themselves():
    assert Nuclear(0.1).low_rank  # small singular values become 0
    assert not LogDet(0.1).low_rank
    w = np.array([[3.0, 0.0], [0.0, 0.01]])
    assert np.linalg.matrix_rank(Nuclear(0.1).prox(w, 1.0)) == 1
    assert np.linalg.matrix_rank(LogDet(0.1).prox(w, 1.0)) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_strength_is_no_less_than_0(kind):
    for strength in (-0.1, float("nan"), float("inf"), "much"):
        with pytest.raises(ValueError, match="strength must be 0 or a positive number"):
            kind(strength)


@pytest.mark.parametrize("kind", [Nuclear, LogDet])
def test_a_task_without_weights_gets_none_and_one_with_some_keeps_them(kind):
    w = np.array([[3.0, 0.0, 2.0], [0.0, 0.0, 1.0]])
    shrunk = kind(0.1).prox(w, 1.0)
    assert (shrunk[:, 1] == 0.0).all()
    assert shrunk[:, 0].any()
    assert not kind(0.1).prox(np.zeros((2, 3)), 1.0).any()
