"""Merge of small Gaussians with full covariance.

They have ten numbers or two, and every barrier merges several: a call of LAPACK for each inverse and
each decomposition would cost twenty times the computation.
"""

import numpy as np
from libc.math cimport fabs, sqrt

cdef enum:
    MAX_SWEEPS = 60                        # of Jacobi's method; ten are many

cdef double DIAGONAL_TOLERANCE = 1e-33  # share of its square that a matrix may have beside its diagonal


def merge_gaussians(
    const double[::1] mean not None, const double[:, ::1] covariance not None, parts, counts,
    const double[::1] renewal not None, double ceiling,
):
    """Return mean (n,) and covariance (n, n) merged from parts that started at the given ones.

    ``parts`` are pairs of mean and covariance, ``counts`` the events of each. The change of each
    part's precision is added. Each event adds ``renewal`` (n,) to the variances up to ``ceiling``:
    the start's covariance is aged by a part's events when its change is formed, and by all events in
    the total. No direction becomes less certain than at the start, or than ``ceiling``.
    """
    means, covariances = [part[0] for part in parts], [part[1] for part in parts]
    cdef const long long[::1] events = np.array(counts, dtype=np.int64)
    cdef Py_ssize_t n = mean.shape[0], k
    cdef long long total = 0
    cdef double least
    check(n, covariance, means, covariances, events, renewal)
    cdef double[:, :, ::1] room = np.empty((4, n, n))
    cdef double[:, ::1] precision = room[0], start = room[1], own = room[2], vector = room[3]
    cdef double[:, ::1] merged = np.empty((n, n))
    cdef double[::1] step = np.zeros(n), value = np.empty(n), moved = np.array(mean)
    cdef const double[:, ::1] given
    for k in range(events.shape[0]):
        total += events[k]
    invert(aged(covariance, total, renewal, ceiling, own), precision)
    for k in range(events.shape[0]):
        invert(aged(covariance, events[k], renewal, ceiling, own), start)
        given = covariances[k]
        own[:, :] = given
        invert(own, merged)
        change(precision, start, merged, step, mean, means[k])
    own[:, :] = covariance
    decompose(own, vector, value)
    least = 1.0 / max(ceiling, largest(value))
    symmetrise(precision)
    decompose(precision, vector, value)
    compose(vector, value, least, merged)
    add_product(merged, step, moved)
    return np.asarray(moved), np.asarray(merged)


cdef check(Py_ssize_t n, covariance, means, covariances, events, renewal):
    """Raise ValueError where sizes differ."""
    fits = covariance.shape[0] == covariance.shape[1] == renewal.shape[0] == n
    fits = fits and len(means) == events.shape[0]
    fits = fits and all(own.shape == (n,) for own in means)
    if not fits or not all(own.shape == (n, n) for own in covariances):
        raise ValueError(f"Gaussians of different sizes; the first has {n} numbers")


cdef double[:, ::1] aged(
    const double[:, ::1] covariance, long long events, const double[::1] renewal, double ceiling,
    double[:, ::1] place,
):
    """What the renewal of so many events makes of a covariance."""
    cdef Py_ssize_t i
    place[:, :] = covariance
    for i in range(renewal.shape[0]):
        place[i, i] += min(max(0.0, ceiling - covariance[i, i]), renewal[i] * events)
    return place


cdef invert(double[:, ::1] a, double[:, ::1] inverse):
    """The inverse of a, which is spent, by Gauss and Jordan with pivots."""
    cdef Py_ssize_t n = a.shape[0], i, j, k, pivot
    cdef double by
    inverse[:, :] = 0.0
    for i in range(n):
        inverse[i, i] = 1.0
    for k in range(n):
        pivot = k
        for i in range(k + 1, n):
            if fabs(a[i, k]) > fabs(a[pivot, k]):
                pivot = i
        if a[pivot, k] == 0.0:
            raise np.linalg.LinAlgError("Singular matrix")
        for j in range(n):
            a[k, j], a[pivot, j] = a[pivot, j], a[k, j]
            inverse[k, j], inverse[pivot, j] = inverse[pivot, j], inverse[k, j]
        by = 1.0 / a[k, k]
        for j in range(n):
            a[k, j] *= by
            inverse[k, j] *= by
        for i in range(n):
            by = a[i, k]
            if i != k and by != 0.0:
                for j in range(n):
                    a[i, j] -= by * a[k, j]
                    inverse[i, j] -= by * inverse[k, j]


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


cdef void symmetrise(double[:, ::1] a) noexcept:
    cdef Py_ssize_t i, j
    for i in range(a.shape[0]):
        for j in range(i):
            a[i, j] = a[j, i] = 0.5 * (a[i, j] + a[j, i])


cdef double largest(const double[::1] value) noexcept:
    cdef Py_ssize_t i
    cdef double found = 0.0
    for i in range(value.shape[0]):
        found = max(found, fabs(value[i]))
    return found


cdef void decompose(double[:, ::1] a, double[:, ::1] vector, double[::1] value) noexcept:
    """Eigenvectors, in columns, and eigenvalues of a symmetric matrix, which is spent: Jacobi's method."""
    cdef Py_ssize_t n = a.shape[0], i, j
    cdef int sweep
    vector[:, :] = 0.0
    for i in range(n):
        vector[i, i] = 1.0
    for sweep in range(MAX_SWEEPS):
        if beside(a) <= DIAGONAL_TOLERANCE:
            break
        for i in range(n):
            for j in range(i + 1, n):
                if a[i, j] != 0.0:
                    rotate(a, vector, i, j)
    for i in range(n):
        value[i] = a[i, i]


cdef double beside(const double[:, ::1] a) noexcept:
    """Share of a matrix's square that is not on its diagonal."""
    cdef Py_ssize_t i, j
    cdef double total = 0.0, off = 0.0
    for i in range(a.shape[0]):
        for j in range(a.shape[0]):
            total += a[i, j] * a[i, j]
            off += a[i, j] * a[i, j] if i != j else 0.0
    return off / total if total > 0.0 else 0.0


cdef void rotate(double[:, ::1] a, double[:, ::1] vector, Py_ssize_t p, Py_ssize_t q) noexcept:
    """Turn the plane of two axes so that a[p, q] is 0."""
    cdef double angle = (a[q, q] - a[p, p]) / (2.0 * a[p, q])
    cdef double t = (1.0 if angle >= 0.0 else -1.0) / (fabs(angle) + sqrt(angle * angle + 1.0))
    cdef double c = 1.0 / sqrt(t * t + 1.0), s = t / sqrt(t * t + 1.0), one, two
    cdef Py_ssize_t k
    for k in range(a.shape[0]):
        one, two = a[k, p], a[k, q]
        a[k, p], a[k, q] = c * one - s * two, s * one + c * two
    for k in range(a.shape[0]):
        one, two = a[p, k], a[q, k]
        a[p, k], a[q, k] = c * one - s * two, s * one + c * two
        one, two = vector[k, p], vector[k, q]
        vector[k, p], vector[k, q] = c * one - s * two, s * one + c * two
    a[p, q] = a[q, p] = 0.0


cdef void compose(
    const double[:, ::1] vector, const double[::1] value, double least, double[:, ::1] inverse
) noexcept:
    """The inverse of what was decomposed, never less sure than ``least``."""
    cdef Py_ssize_t n = value.shape[0], i, j, k
    cdef double total
    for i in range(n):
        for j in range(i + 1):
            total = 0.0
            for k in range(n):
                total += vector[i, k] * vector[j, k] / max(value[k], least)
            inverse[i, j] = inverse[j, i] = total


cdef void add_product(const double[:, ::1] a, const double[::1] x, double[::1] place) noexcept:
    cdef Py_ssize_t i, j
    for i in range(a.shape[0]):
        for j in range(a.shape[0]):
            place[i] += a[i, j] * x[j]
