"""Which features a shard has met since all agreed, and rows of arrays of features."""

import numpy as np
cimport numpy as cnp
from romco.kernels.core.prefetch cimport ahead
from romco.kernels.core.bits cimport Word, lowest, mark

cnp.import_array()

cdef Py_ssize_t AHEAD = 24             # entries: by then a count that is asked for is there


cdef class Touched:
    """How often each feature occurred, other than as 0, since it was last asked.

    Which ones did is kept as a set of bits, too, so that they are listed in order, and forgotten,
    without a look at all the others.
    """

    cdef object counts, bits, known         # the arrays behind the pointers
    cdef int* count                         # (d,) occurrences
    cdef Word* word                         # the set of features that occurred,
    cdef Word* ever                         # and of those that did before that
    cdef Py_ssize_t n_features, n_words

    def __init__(self, Py_ssize_t n_features):
        self.n_features = self.n_words = 0
        self.grow(n_features)

    def grow(self, Py_ssize_t n_features):
        """Room for more features."""
        if n_features <= self.n_features:
            return
        counts = np.zeros(n_features, dtype=np.int32)
        bits, known = (np.zeros((n_features + 63) // 64, dtype=np.uint64) for _ in range(2))
        if self.n_features:
            counts[: self.n_features] = self.counts
            bits[: self.n_words], known[: self.n_words] = self.bits, self.known
        self.counts, self.bits, self.known = counts, bits, known
        self.n_features, self.n_words = n_features, len(bits)
        self.count = <int*> cnp.PyArray_DATA(<cnp.ndarray> counts)
        self.word = <Word*> cnp.PyArray_DATA(<cnp.ndarray> bits)
        self.ever = <Word*> cnp.PyArray_DATA(<cnp.ndarray> known)

    def add(self, const double[::1] values, const int[::1] columns):
        """Count stored entries; releases the GIL."""
        cdef Py_ssize_t k, n = values.shape[0]
        with nogil:
            for k in range(n):
                if k + AHEAD < n:
                    ahead(self.count + columns[k + AHEAD])
                if values[k] != 0.0:
                    self.touch(columns[k])

    def add_dense(self, const double[:, ::1] x):
        """Count the entries of rows (n, d); releases the GIL."""
        cdef Py_ssize_t i, j, d = x.shape[1]
        cdef const double* row
        with nogil:
            for i in range(x.shape[0]):
                row = &x[i, 0]
                for j in range(d):  # without a branch: several at a time
                    self.count[j] += row[j] != 0.0
            for j in range(d):
                if self.count[j] > 0:
                    mark(self.word, j)

    cdef inline void touch(self, int j) noexcept nogil:
        if self.count[j] == 0:
            mark(self.word, j)
        self.count[j] += 1

    def rows(self):
        """The features that occurred, sorted, and how often each did."""
        rows = listed(self.word, self.n_words)
        return rows, self.counts[rows]

    def load(self, rows, seen):
        """Go on from what ``rows`` gave."""
        if len(np.unique(rows)) < len(rows):
            raise ValueError("a feature is listed twice")
        self.check(rows)
        self.clear()
        self.counts[rows] = seen
        mark_all(self.word, np.asarray(rows, dtype=np.int32))

    cdef check(self, features):
        if len(features) and not 0 <= np.min(features) <= np.max(features) < self.n_features:
            raise ValueError(f"a feature is out of range; there are {self.n_features}")

    def clear(self):
        """As if nothing had occurred since; costs what was touched; releases the GIL."""
        cdef Py_ssize_t w
        cdef Word left
        with nogil:
            for w in range(self.n_words):
                left = self.word[w]
                self.ever[w] |= left
                while left:
                    self.count[64 * w + lowest(left)] = 0
                    left &= left - 1
                self.word[w] = 0

    def know(self, features):
        """Features (k,) occurred before."""
        self.check(features)
        mark_all(self.ever, np.asarray(features, dtype=np.int32))

    def all(self):
        """The features that occurred before it was last cleared, sorted."""
        return listed(self.ever, self.n_words)


cdef listed(const Word* word, Py_ssize_t n_words):
    """What is in a set, in order."""
    cdef Py_ssize_t w, n = 0
    cdef Word left
    for w in range(n_words):
        left = word[w]
        while left:
            left &= left - 1
            n += 1
    cdef int[::1] found = np.empty(n, dtype=np.int32)
    n = 0
    for w in range(n_words):
        left = word[w]
        while left:
            found[n] = <int> (64 * w) + lowest(left)
            left &= left - 1
            n += 1
    return np.asarray(found)


cdef mark_all(Word* word, const int[::1] features):
    cdef Py_ssize_t i
    for i in range(features.shape[0]):
        mark(word, features[i])


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


def added(const int[::1] rows, const double[:, ::1] values, const int[::1] others, const double[:, ::1] more):
    """Two lists of rows that rise, with numbers each, as one: where both have a row they are added."""
    cdef Py_ssize_t i = 0, j = 0, n = 0, c, width = values.shape[1]
    if values.shape[0] != rows.shape[0] or more.shape[0] != others.shape[0] or more.shape[1] != width:
        raise ValueError("there are not as many numbers as rows")
    found, sums = np.empty(len(rows) + len(others), dtype=np.int32), np.empty((len(rows) + len(others), width))
    cdef int[::1] row = found
    cdef double[:, ::1] total = sums
    with nogil:
        while i < rows.shape[0] or j < others.shape[0]:
            if j == others.shape[0] or (i < rows.shape[0] and rows[i] < others[j]):
                row[n] = rows[i]
                for c in range(width):
                    total[n, c] = values[i, c]
                i += 1
            elif i == rows.shape[0] or others[j] < rows[i]:
                row[n] = others[j]
                for c in range(width):
                    total[n, c] = more[j, c]
                j += 1
            else:
                row[n] = rows[i]
                for c in range(width):
                    total[n, c] = values[i, c] + more[j, c]
                i, j = i + 1, j + 1
            n += 1
    return found[:n], sums[:n]


def put_rows(double[:, :] array, const int[::1] rows, const long long[::1] columns, const double[:, :] given):
    """array[rows[i], columns[c]] = given[i, c]; releases the GIL."""
    cdef Py_ssize_t i, c
    check_places(array, rows, columns, given)
    with nogil:
        for i in range(rows.shape[0]):
            for c in range(columns.shape[0]):
                array[rows[i], columns[c]] = given[i, c]
