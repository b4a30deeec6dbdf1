"""The small SVD and the scalar steps, against LAPACK, NumPy twins and 60-digit values."""

import csv

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from romco.kernels.romco.spectral import changed_svd, shrink, small_svd
from romco.penalties import shrink_logdet
from tests.reference import romco as reference

SHAPES = [(1, 1), (1, 7), (5, 4), (4, 5), (13, 12), (30, 50), (50, 30), (45, 45), (9, 300)]


def check_svd(a, tolerance=1e-13):
    left, s, right = small_svd(a)
    size = max(1.0, np.linalg.norm(a))
    np.testing.assert_allclose((left * s) @ right, a, atol=tolerance * size)
    np.testing.assert_allclose(left.T @ left, np.eye(len(s)), atol=tolerance)
    np.testing.assert_allclose(right @ right.T, np.eye(len(s)), atol=tolerance)
    expected = np.linalg.svd(a, compute_uv=False)[: len(s)]
    np.testing.assert_allclose(s, expected, rtol=0, atol=tolerance * size)
    return s


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_svd_of_any_shape(shape):
    rng = np.random.default_rng(1)
    assert len(check_svd(rng.standard_normal(shape))) == min(shape)


@pytest.mark.parametrize("n", [6, 50])
def test_svd_leaves_out_what_is_rounding(n):
    rng = np.random.default_rng(2)
    low = rng.standard_normal((n, 3)) @ rng.standard_normal((3, n))
    assert len(check_svd(low)) <= n
    assert (check_svd(low)[3:] < 1e-13).all()
    assert len(small_svd(np.zeros((n, n)))[1]) == 0


@pytest.mark.parametrize("n", [8, 24])
def test_svd_of_equal_and_of_graded_singular_values(n):
    """Equal ones defeat a stopping rule that counts on quadratic convergence."""
    rng = np.random.default_rng(3)
    turn, other = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
    check_svd(turn)
    check_svd(turn + 1e-9 * rng.standard_normal((n, n)))
    graded = turn * 10.0 ** -np.linspace(0, 12, n) @ other
    left, _, right = small_svd(graded)
    np.testing.assert_allclose(left.T @ left, np.eye(left.shape[1]), atol=1e-13)
    np.testing.assert_allclose(right @ right.T, np.eye(len(right)), atol=1e-13)


def changes(n, w):
    """Diagonal matrices and what an event adds to them: plain, and all that may go wrong."""
    rng = np.random.default_rng(n * w)
    few = min(n, w)
    for kind in ("plain", "equal values", "no new direction", "few entries", "large", "aligned"):
        d = np.sort(rng.random(few))[::-1] + 0.01
        c, q = rng.standard_normal(n) / np.sqrt(n), rng.standard_normal(w) / np.sqrt(w)
        if kind == "equal values":
            d[2:9] = d[2]
        elif kind == "no new direction":
            d[-1] = c[-1] = q[-1] = 0.0
        elif kind == "few entries":
            c[5:], q[:4] = 0.0, 0.0
        elif kind == "large":
            c *= 30.0
        elif kind == "aligned":
            c[:], q[:] = 0.0, 0.0
            c[3] = q[3] = 1.0
        yield kind, d, 0.3 * c, q


@pytest.mark.parametrize(("n", "w"), [(16, 16), (17, 16), (32, 33), (33, 33), (65, 64), (80, 80)])
def test_svd_of_a_changed_diagonal_by_secular_equations(n, w):
    for kind, d, c, q in changes(n, w):
        a = np.zeros((n, w))
        a[np.arange(len(d)), np.arange(len(d))] = d
        a += np.outer(c, q)
        left, s, right, known = changed_svd(d, c, q, 0.05)
        assert known, kind
        expected = np.linalg.svd(a, compute_uv=False)
        size = expected[0]
        np.testing.assert_allclose(s, expected[expected > 0.05], atol=1e-14 * size, err_msg=kind)
        np.testing.assert_allclose(left.T @ left, np.eye(len(s)), atol=1e-11, err_msg=kind)
        np.testing.assert_allclose(right @ right.T, np.eye(len(s)), atol=1e-13, err_msg=kind)
        np.testing.assert_allclose(left.T @ a, s[:, None] * right, atol=1e-12 * size, err_msg=kind)


@pytest.mark.parametrize(("n", "w"), [(16, 17), (33, 33), (64, 63)])
@pytest.mark.parametrize("size", [1e-16, 1e-13, 1e-10])
def test_svd_of_what_was_all_but_diagonal(n, w, size):
    """As after a correction of the bases: what lies beside the diagonal is not lost."""
    beside = size / n * np.random.default_rng(n).standard_normal((n, w))
    for kind, d, c, q in changes(n, w):
        a = beside + np.outer(c, q)
        a[np.arange(len(d)), np.arange(len(d))] += d
        left, s, right, known = changed_svd(d, c, q, 0.05, beside)
        assert known, kind
        expected = np.linalg.svd(a, compute_uv=False)
        np.testing.assert_allclose(s, expected[expected > 0.05], atol=1e-14 * expected[0])
        np.testing.assert_allclose(left.T @ left, np.eye(len(s)), atol=1e-11, err_msg=kind)
        np.testing.assert_allclose(right @ right.T, np.eye(len(s)), atol=1e-13, err_msg=kind)
        np.testing.assert_allclose(left.T @ a, s[:, None] * right, atol=1e-12 * expected[0])


def test_what_is_not_a_falling_diagonal_is_left_to_rotations():
    n = 20
    c, q = np.random.default_rng(1).standard_normal((2, n))
    assert changed_svd(np.linspace(2, 1, n), c, q, 0.1)[3]
    assert not changed_svd(np.linspace(1, 2, n), c, q, 0.1)[3]
    assert not changed_svd(np.linspace(1, -1, n), c, q, 0.1)[3]
    assert not changed_svd(np.linspace(2, 1, n), c, q, 0.1, beside=1e-6)[3]
    assert not changed_svd(np.linspace(2, 1, n), c, q, 0.1, beside=np.nan)[3]


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=8), st.floats(0, 60))
def test_steps_equal_the_penalties(s, rho):
    np.testing.assert_allclose(shrink(s, rho, False), reference.nuclear(np.array(s), rho))
    np.testing.assert_allclose(
        shrink(s, rho, True), shrink_logdet(np.array(s), rho), rtol=1e-6, atol=0
    )


def test_logdet_step_equals_60_digit_values(oracles):
    with (oracles / "prox_logdet_mpmath.csv").open() as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        s, rho, expected = (float(row[k]) for k in ("sigma_hat", "rho", "sigma_star"))
        near_triple_point = abs(rho - 4.0) < 0.2 and abs(s - 3.0 * 3.0**0.5) < 0.3
        tolerance = 1e-5 if near_triple_point else 1e-13
        assert shrink([s], rho, True)[0] == pytest.approx(expected, rel=tolerance)
