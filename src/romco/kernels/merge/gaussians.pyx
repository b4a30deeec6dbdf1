"""Merge of small Gaussians with full covariance.

Every barrier merges several, most of them of ten numbers or two: LAPACK is called without NumPy, whose
checks would cost twenty times the computation.
"""

import numpy as np
from libc.math cimport INFINITY, fabs, pow, sqrt
from scipy.linalg.cython_lapack cimport dsyev

from romco.kernels.core.dense cimport add_gram, axpy

cdef Py_ssize_t STEP = 16          # rows of a matrix that are swept out at once


def merge_gaussians(
    const double[::1] mean not None, const double[:, ::1] covariance not None, parts, counts=None,
    double forgetting=0.0, ceiling=0.0,
):
    """Return mean (n,) and covariance (n, n) merged from parts that started at the given ones.

    ``parts`` are pairs of mean and covariance, ``counts`` the events of each. The change of each
    part's precision is added. Each event lets the covariance grow by a share ``forgetting``, up to
    variances ``ceiling``, one number or (n,): the start's covariance is aged by a part's events when its
    change is formed, and by all events in the total. No direction becomes less certain than at the
    start, or than ``ceiling``. Without ``counts`` nothing is aged. LinAlgError unless all are positive
    definite.
    """
    cdef bint ages = counts is not None and forgetting > 0.0
    if not ages:
        counts = [0] * len(parts)
    means, covariances = [part[0] for part in parts], [part[1] for part in parts]
    cdef const long long[::1] events = np.array(counts, dtype=np.int64)
    cdef Py_ssize_t n = mean.shape[0], k
    cdef long long total = 0
    cdef double least
    cdef const double[::1] ceilings = np.full(n, ceiling, dtype=np.float64)
    check(n, covariance, means, covariances, events)
    cdef double[:, :, ::1] room = np.empty((3, n, n))
    cdef double[:, ::1] precision = room[0], start = room[1], own = room[2]
    cdef double[:, ::1] merged = np.empty((n, n)), rows = np.empty((STEP, n))
    cdef double[::1] step = np.zeros(n), value = np.empty(n), moved = np.array(mean)
    cdef const double[:, ::1] given
    for k in range(events.shape[0]):
        total += events[k]
    invert(aged(covariance, total, forgetting, ceilings, own), precision, rows)
    start[:, :] = precision
    for k in range(events.shape[0]):
        if ages:
            invert(aged(covariance, events[k], forgetting, ceilings, own), start, rows)
        given = covariances[k]
        invert(given, merged, rows)
        change(precision, start, merged, step, mean, means[k])
    if ages or not inverted(precision, merged, rows):
        own[:, :] = covariance
        decompose(own, value)
        least = 1.0 / max(np.max(ceiling), fabs(value[0]), fabs(value[n - 1]))
        decompose(precision, value)
        compose(precision, value, least, merged)
    add_product(merged, step, moved)
    return np.asarray(moved), np.asarray(merged)


cdef check(Py_ssize_t n, covariance, means, covariances, events):
    """Raise ValueError where sizes differ."""
    fits = covariance.shape[0] == covariance.shape[1] == n
    fits = fits and len(means) == events.shape[0]
    fits = fits and all(own.shape == (n,) for own in means)
    if not fits or not all(own.shape == (n, n) for own in covariances):
        raise ValueError(f"Gaussians of different sizes; the first has {n} numbers")


cdef double[:, ::1] aged(
    const double[:, ::1] covariance, long long events, double forgetting,
    const double[::1] ceiling, double[:, ::1] place,
):
    """What so many events make of a covariance without learning; correlations stay."""
    cdef double growth, most = pow(1.0 + forgetting, events)
    cdef Py_ssize_t i, j
    place[:, :] = covariance
    if most == 1.0:
        return place
    for i in range(ceiling.shape[0]):
        growth = sqrt(max(1.0, min(most, ceiling[i] / covariance[i, i])))
        for j in range(ceiling.shape[0]):
            place[i, j] *= growth
            place[j, i] *= growth
    return place


cdef invert(const double[:, ::1] a, double[:, ::1] inverse, double[:, ::1] rows):
    if not inverted(a, inverse, rows):
        raise np.linalg.LinAlgError("Singular matrix, or not positive definite")


cdef bint inverted(const double[:, ::1] a, double[:, ::1] inverse, double[:, ::1] rows) noexcept:
    """Whether a symmetric matrix is positive definite; then its inverse.

    Rows and columns are swept out ``STEP`` at a time: with D their block on the diagonal, the other
    rows A become A - A D^-1 A', and theirs A D^-1. LAPACK is slower without blocks, and with them its
    bits depend on the number of threads. ``rows`` is a place for (STEP, n) numbers.
    """
    cdef Py_ssize_t n = a.shape[0], i, j, k, height
    for i in range(n):
        for j in range(i + 1):
            inverse[i, j] = -a[i, j]
    for k in range(0, n, STEP):
        height = min(STEP, n - k)
        for i in range(height):
            for j in range(k + i):
                rows[i, j] = -inverse[k + i, j]
            for j in range(k + i, n):
                rows[i, j] = -inverse[j, k + i]
        if not eliminated(rows, k, height):
            return False
        for i in range(k, k + height):
            for j in range(i):
                inverse[i, j] = 0.0
        for i in range(k, n):
            for j in range(k, min(i + 1, k + height)):
                inverse[i, j] = 0.0
        add_gram(height, n, &rows[0, 0], n, &inverse[0, 0], n)
    for i in range(n):
        for j in range(i):
            inverse[j, i] = inverse[i, j]
    return True


cdef bint eliminated(double[:, ::1] rows, Py_ssize_t k, Py_ssize_t height) noexcept:
    """Replace rows (D A) by L^-1 (-1 A), where LL' is D, the square that begins in column k."""
    cdef Py_ssize_t n = rows.shape[1], i, j
    cdef double pivot, factor
    for i in range(height):
        pivot = rows[i, k + i]
        if not 0.0 < pivot < INFINITY:
            return False
        rows[i, k + i] = -1.0
        factor = 1.0 / sqrt(pivot)
        for j in range(n):
            rows[i, j] *= factor
        for j in range(i + 1, height):
            factor = rows[i, k + j]
            rows[j, k + i] = 0.0
            axpy(n, -factor, &rows[i, 0], &rows[j, 0])
        for j in range(i + 1, height):
            rows[i, k + j] = 0.0
    return True


cdef change(
    double[:, ::1] precision, const double[:, ::1] start, const double[:, ::1] own, double[::1] step,
    const double[::1] mean, const double[::1] own_mean,
):
    """Add what a part learned: its precision less the start's, and that of what it moved."""
    cdef Py_ssize_t n = mean.shape[0], i, j
    cdef double moved
    for i in range(n):
        moved = 0.0
        for j in range(n):
            precision[i, j] += own[i, j] - start[i, j]
            moved += own[i, j] * (own_mean[j] - mean[j])
        step[i] += moved


cdef decompose(double[:, ::1] a, double[::1] value):
    """Eigenvalues, from small to large, of a symmetric matrix, whose rows become its eigenvectors."""
    cdef int n = a.shape[0], size = 8 * n, info = 0
    cdef double[::1] work = np.empty(size)
    dsyev("V", "U", &n, &a[0, 0], &n, &value[0], &work[0], &size, &info)
    if info != 0:
        raise np.linalg.LinAlgError("Eigenvalues did not converge")


cdef void compose(
    const double[:, ::1] vector, const double[::1] value, double least, double[:, ::1] inverse
) noexcept:
    """The inverse of what was decomposed, with eigenvectors in rows, never less sure than ``least``."""
    cdef Py_ssize_t n = value.shape[0], i, j, k
    cdef double total
    for i in range(n):
        for j in range(i + 1):
            total = 0.0
            for k in range(n):
                total += vector[k, i] * vector[k, j] / max(value[k], least)
            inverse[i, j] = inverse[j, i] = total


cdef void add_product(const double[:, ::1] a, const double[::1] x, double[::1] place) noexcept:
    cdef Py_ssize_t i, j
    for i in range(a.shape[0]):
        for j in range(a.shape[0]):
            place[i] += a[i, j] * x[j]
