"""A few numbers for each pair of a task and a feature; zero until touched.

Small problems keep a dense array (m, d, width), whose untouched pages cost
nothing. Large ones keep a hash table with an entry only for pairs that occurred,
so ten thousand tasks over 2^18 hashed features cost what their events touch.
"""

import numpy as np
cimport numpy as cnp

cnp.import_array()

cdef int LEAST_BITS = 10


cdef class Pairs:
    """``width`` numbers per pair; a table if ``dense`` is false.

    Keys of the table are ``task << 32 | feature`` or -1 for an empty slot, so they
    stay valid when tasks or features are added.
    """

    def __init__(self, Py_ssize_t n_tasks, Py_ssize_t n_features, Py_ssize_t width, bint dense):
        self.n_tasks, self.n_features, self.width = n_tasks, n_features, width
        if dense:
            self.hold(None, np.zeros((n_tasks, n_features, width)))
        else:
            size = 1 << LEAST_BITS
            self.hold(np.full(size, -1, dtype=np.int64), np.zeros((size, width)))

    cdef hold(self, keys, values):
        self.keys, self.values = keys, values
        self.value = <double*> cnp.PyArray_DATA(<cnp.ndarray> values)
        self.key = NULL
        if keys is not None:
            self.key = <long long*> cnp.PyArray_DATA(<cnp.ndarray> keys)
            self.bits = len(keys).bit_length() - 1
            self.used = np.count_nonzero(keys >= 0)

    cdef int reserve(self, Py_ssize_t more) except -1 nogil:
        """Make room for so many new pairs; at most half of the table is ever in use."""
        while self.key != NULL and 2 * (self.used + more) > (<Py_ssize_t> 1) << self.bits:
            with gil:
                self.grow()
        return 0

    cdef grow(self):
        keys, values = self.keys, self.values
        size = 2 * len(keys)
        self.hold(np.full(size, -1, dtype=np.int64), np.zeros((size, self.width)))
        self.fill(keys, values)

    def fill(self, const long long[::1] keys, const double[:, ::1] values):
        """Put entries into the table."""
        cdef Py_ssize_t i, k
        cdef double* numbers
        for i in range(keys.shape[0]):
            if keys[i] >= 0:
                numbers = self.place(keys[i])
                for k in range(self.width):
                    numbers[k] = values[i, k]

    cdef double* place(self, long long wanted) noexcept nogil:
        cdef Py_ssize_t at = self.slot(wanted)
        if self.key[at] < 0:
            self.key[at] = wanted
            self.used += 1
        return self.value + at * self.width

    def arrays(self):
        """What changes, by name."""
        if self.keys is None:
            return {"personal": self.values}
        return {"personal": self.values, "personal_keys": self.keys}

    def load(self, arrays):
        """Take over the arrays of a store of the same size or smaller, dense or not."""
        values = np.asarray(arrays["personal"])
        keys = arrays.get("personal_keys")
        self.check(keys, values)
        if keys is not None:
            if self.keys is None:
                raise ValueError("state holds a table of pairs, this learner a dense array")
            self.hold(np.array(keys), np.array(values, order="C"))
        elif self.keys is None:
            self.values[: values.shape[0], : values.shape[1]] = values
        else:
            task, feature = np.nonzero(values.any(axis=2))
            self.reserve(len(task))
            self.fill((task << 32) | feature, np.ascontiguousarray(values[task, feature]))

    def check(self, keys, values):
        """Raise ValueError unless the arrays are what ``arrays`` may give."""
        fits = values.dtype == np.float64 and values.shape[values.ndim - 1] == self.width
        if keys is None:
            fits = fits and values.ndim == 3
            task, feature = values.shape[:2] if fits else (0, 0)
        else:
            fits = fits and keys.dtype == np.int64 and keys.shape == values.shape[:1] and \
                values.ndim == 2 and len(keys).bit_count() == 1 and len(keys) >= 1 << LEAST_BITS
            inside = keys[keys >= 0]
            fits = fits and 2 * len(inside) <= len(keys)
            task = (inside >> 32).max(initial=-1) + 1
            feature = (inside & 0xFFFFFFFF).max(initial=-1) + 1
        if not fits or task > self.n_tasks or feature > self.n_features:
            raise ValueError(
                f"state array 'personal' is {values.dtype}{list(values.shape)}, which does not fit "
                f"{self.n_tasks} tasks, {self.n_features} features and {self.width} numbers each"
            )
        if not np.isfinite(values).all():
            raise ValueError("state array 'personal' holds numbers that are not finite")

    def lane(self, Py_ssize_t k):
        """The k-th number of every pair, as a dense array (m, d)."""
        if self.keys is None:
            return self.values[:, :, k].copy()
        dense = np.zeros((self.n_tasks, self.n_features))
        filled = self.keys >= 0
        inside = self.keys[filled]
        dense[inside >> 32, inside & 0xFFFFFFFF] = self.values[filled, k]
        return dense
