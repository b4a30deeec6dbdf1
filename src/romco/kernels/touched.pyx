"""Which features a shard has met since all agreed, and rows of arrays of features."""

import numpy as np
cimport numpy as cnp

cnp.import_array()


cdef class Touched:
    """How often each feature occurred, other than as 0, since it was last asked."""

    cdef object counts, listed, known       # the arrays behind the pointers
    cdef int* count                         # (d,) occurrences
    cdef int* row                           # the features that occurred, as they came
    cdef unsigned char* ever                # (d,) whether they occurred before that, too
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
        known = np.zeros(n_features, dtype=np.uint8)
        if self.n_features:
            counts[: self.n_features], listed[: self.n_features] = self.counts, self.listed
            known[: self.n_features] = self.known
        self.counts, self.listed, self.n_features = counts, listed, n_features
        self.known = known
        self.ever = <unsigned char*> cnp.PyArray_DATA(<cnp.ndarray> known)
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
        if len(np.unique(rows)) < len(rows):
            raise ValueError("a feature is listed twice")
        if len(rows) and not 0 <= min(rows) <= max(rows) < self.n_features:
            raise ValueError(f"a feature is out of range; there are {self.n_features}")
        self.clear()
        self.listed[: len(rows)], self.used = rows, len(rows)
        self.counts[rows] = seen

    def clear(self):
        """As if nothing had occurred since; costs what was touched; releases the GIL."""
        cdef Py_ssize_t k
        with nogil:
            for k in range(self.used):
                self.count[self.row[k]] = 0
                self.ever[self.row[k]] = 1
            self.used = 0

    def know(self, features):
        """Features (k,) occurred before."""
        self.known[features] = 1

    def all(self):
        """The features that occurred before it was last cleared, sorted."""
        return np.flatnonzero(self.known).astype(np.int32)


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


def add_rows(double[:, :] array, const int[::1] rows, const double[:, :] given):
    """array[rows[i]] += given[i]; releases the GIL."""
    cdef Py_ssize_t i, c
    with nogil:
        for i in range(rows.shape[0]):
            for c in range(given.shape[1]):
                array[rows[i], c] += given[i, c]


def put_rows(double[:, :] array, const int[::1] rows, const long long[::1] columns, const double[:, :] given):
    """array[rows[i], columns[c]] = given[i, c]; releases the GIL."""
    cdef Py_ssize_t i, c
    check_places(array, rows, columns, given)
    with nogil:
        for i in range(rows.shape[0]):
            for c in range(columns.shape[0]):
                array[rows[i], columns[c]] = given[i, c]
