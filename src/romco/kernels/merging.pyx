"""Shards that learned apart become one again: which rows they touched, and what is made of them.

Rows of a shared array that several shards changed since they last agreed are *entries*,
listed row by row: those of the r-th row are ``order[starts[r]]`` to ``order[starts[r + 1] - 1]``,
in the order of the shards. A row that one shard alone changed is taken as it is, so what
is not shared in fact costs no rounding.
"""

import numpy as np
cimport numpy as cnp
from libc.float cimport DBL_EPSILON
from libc.math cimport exp, log1p

cnp.import_array()

cdef double SURELY = 1.0 - 1e-6        # a precision below this share of another is no rounding


cdef class Touched:
    """How often each feature occurred, other than as 0, since it was last asked."""

    cdef object counts, listed              # the arrays behind the pointers
    cdef int* count                         # (d,) occurrences
    cdef int* row                           # the features that occurred, as they came
    cdef Py_ssize_t used, n_features

    def __init__(self, Py_ssize_t n_features):
        self.n_features = 0
        self.grow(n_features)

    def grow(self, Py_ssize_t n_features):
        """Room for more features."""
        if n_features <= self.n_features:
            return
        counts = np.zeros(n_features, dtype=np.int32)
        listed = np.empty(n_features, dtype=np.int32)
        if self.n_features:
            counts[: self.n_features], listed[: self.n_features] = self.counts, self.listed
        self.counts, self.listed, self.n_features = counts, listed, n_features
        self.count = <int*> cnp.PyArray_DATA(<cnp.ndarray> counts)
        self.row = <int*> cnp.PyArray_DATA(<cnp.ndarray> listed)

    def add(self, const double[::1] values, const int[::1] columns):
        """Count stored entries; releases the GIL."""
        cdef Py_ssize_t k
        with nogil:
            for k in range(values.shape[0]):
                if values[k] != 0.0:
                    self.touch(columns[k])

    def add_dense(self, const double[:, ::1] x):
        """Count the entries of rows (n, d); releases the GIL."""
        cdef Py_ssize_t i, j
        with nogil:
            for i in range(x.shape[0]):
                for j in range(x.shape[1]):
                    if x[i, j] != 0.0:
                        self.touch(<int> j)

    cdef inline void touch(self, int j) noexcept nogil:
        if self.count[j] == 0:
            self.row[self.used] = j
            self.used += 1
        self.count[j] += 1

    def rows(self):
        """The features that occurred, sorted, and how often each did."""
        rows = np.sort(self.listed[: self.used])
        return rows, self.counts[rows]

    def load(self, rows, seen):
        """Go on from what ``rows`` gave."""
        if len(np.unique(rows)) < len(rows) or len(rows) > self.n_features:
            raise ValueError("a feature is listed twice")
        self.clear()
        self.listed[: len(rows)], self.used = rows, len(rows)
        self.counts[rows] = seen

    def clear(self):
        """As if nothing had occurred; costs what was touched."""
        self.counts[self.listed[: self.used]] = 0
        self.used = 0


cdef check_places(
    const double[:, :] array, const int[::1] rows, const long long[::1] columns, const double[:, :] block
):
    """Raise ValueError where a place is outside of the array, or the block is too small."""
    cdef Py_ssize_t i, n = array.shape[0], width = array.shape[1]
    cdef bint fits = block.shape[0] >= rows.shape[0] and block.shape[1] >= columns.shape[0]
    for i in range(rows.shape[0]):
        fits = fits and 0 <= rows[i] < n
    for i in range(columns.shape[0]):
        fits = fits and 0 <= columns[i] < width
    if not fits:
        raise ValueError(f"rows or columns that are not those of an array ({n}, {width})")


def take_rows(const double[:, :] array, const int[::1] rows, const long long[::1] columns, double[:, :] out):
    """out[i, c] = array[rows[i], columns[c]]; releases the GIL."""
    cdef Py_ssize_t i, c
    check_places(array, rows, columns, out)
    with nogil:
        for i in range(rows.shape[0]):
            for c in range(columns.shape[0]):
                out[i, c] = array[rows[i], columns[c]]


def put_rows(double[:, :] array, const int[::1] rows, const long long[::1] columns, const double[:, :] given):
    """array[rows[i], columns[c]] = given[i, c]; releases the GIL."""
    cdef Py_ssize_t i, c
    check_places(array, rows, columns, given)
    with nogil:
        for i in range(rows.shape[0]):
            for c in range(columns.shape[0]):
                array[rows[i], columns[c]] = given[i, c]


def merge_beliefs(
    double[:, ::1] merged, const double[:, ::1] values, const long long[::1] order,
    const long long[::1] starts, const int[::1] seen, Py_ssize_t mean, Py_ssize_t spread,
    double prior, bint spent, double forgetting,
):
    """Gaussian beliefs about single weights: changes of precision and of precision x mean add up.

    ``merged`` (u, w) holds the rows of the common start and gets the result; ``values`` (t, w)
    are the entries, ``seen`` (t,) how often each was touched. Column ``mean`` is the mean;
    ``spread`` what is spent of the ``prior`` variance, or with ``spent`` false the
    variance itself. Each touch let the variance grow by 1 + ``forgetting``, up to the prior.
    Where a shard forgot more than that, what it learned cannot be told from what it forgot:
    such rows become the mean of the shards' beliefs, weighted by precision.
    """
    cdef Py_ssize_t r, e, k
    cdef double start, mu, total, gain, step, precision, touches, kept, weight
    cdef bint forgot
    cdef double least = 1.0 / prior, fading = log1p(forgetting)
    with nogil:
        for r in range(starts.shape[0] - 1):
            if starts[r + 1] - starts[r] == 1:
                e = order[starts[r]]
                merged[r, mean], merged[r, spread] = values[e, mean], values[e, spread]
                continue
            start, mu = 1.0 / variance(merged[r, spread], prior, spent), merged[r, mean]
            gain = step = touches = weight = 0.0
            forgot = False
            for k in range(starts[r], starts[r + 1]):
                e = order[k]
                precision = 1.0 / variance(values[e, spread], prior, spent)
                kept = left(start, fading, seen[e], least)
                forgot = forgot or precision < SURELY * kept
                gain += precision - kept
                weight += precision
                step += precision * (values[e, mean] - mu)
                touches += seen[e]
            total = max(least, left(start, fading, touches, least) + gain)
            merged[r, mean] = mu + step / (weight if forgot else total)
            if forgot:
                total = weight / (starts[r + 1] - starts[r])
            merged[r, spread] = prior - 1.0 / total if spent else 1.0 / total


def merge_sums(
    double[:, ::1] merged, const double[:, ::1] values, const long long[::1] order,
    const long long[::1] starts, Py_ssize_t column, double least,
):
    """Sums: what the shards added is added up, and is never below ``least``."""
    cdef Py_ssize_t r, k
    cdef double start, total
    with nogil:
        for r in range(starts.shape[0] - 1):
            if starts[r + 1] - starts[r] == 1:
                merged[r, column] = values[order[starts[r]], column]
                continue
            start = total = merged[r, column]
            for k in range(starts[r], starts[r + 1]):
                total += values[order[k], column] - start
            merged[r, column] = max(least, total)


def merge_steps(
    double[:, ::1] merged, const double[:, ::1] values, const long long[::1] order,
    const long long[::1] starts, Py_ssize_t column,
):
    """Weights without a variance: steps add up as far as they are steps in different directions.

    The sum of the shards' changes d is shortened by |d_1|^2 + |d_2|^2 + ... over |d_1 + d_2 + ...|^2
    where that is below 1: shards that all learned the same have learned it once.
    """
    cdef Py_ssize_t r, k
    cdef double start, change, total, apart = 0.0, joint = 0.0, share
    with nogil:
        for r in range(starts.shape[0] - 1):
            start, total = merged[r, column], 0.0
            for k in range(starts[r], starts[r + 1]):
                change = values[order[k], column] - start
                apart += change * change
                total += change
            joint += total * total
        share = apart / joint if joint > apart else 1.0
        for r in range(starts.shape[0] - 1):
            if starts[r + 1] - starts[r] == 1 and share == 1.0:
                merged[r, column] = values[order[starts[r]], column]
                continue
            start, total = merged[r, column], 0.0
            for k in range(starts[r], starts[r + 1]):
                total += values[order[k], column] - start
            merged[r, column] = start + share * total


def merge_latest(
    double[:, ::1] merged, const double[:, ::1] values, const long long[::1] order,
    const long long[::1] starts, const int[::1] seen, Py_ssize_t column,
):
    """What cannot be added: that of the shard which touched the row most, the first of equals."""
    cdef Py_ssize_t r, k, most
    with nogil:
        for r in range(starts.shape[0] - 1):
            most = order[starts[r]]
            for k in range(starts[r] + 1, starts[r + 1]):
                if seen[order[k]] > seen[most]:
                    most = order[k]
            merged[r, column] = values[most, column]


cdef inline double variance(double spread, double prior, bint spent) noexcept nogil:
    """Never 0, whatever rounding made of it."""
    return max(prior - spread if spent else spread, prior * DBL_EPSILON)


cdef inline double left(double precision, double fading, double touches, double least) noexcept nogil:
    """What so many touches leave of a precision."""
    if fading == 0.0:
        return precision
    return max(least, precision * exp(-fading * touches))
