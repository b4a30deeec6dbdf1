"""A few numbers for each pair of a task and a feature; zero until touched.

Small problems keep a dense array (m, d, width), whose untouched pages cost
nothing. Large ones keep only the pairs that occurred, one after the other, and a
hash table that tells where each is; so ten thousand tasks over 2^18 hashed
features cost what their events touch, and pairs that came together lie together.
"""

import numpy as np
cimport numpy as cnp
from romco.kernels.ahead cimport ahead

cnp.import_array()

cdef int LEAST_BITS = 10
cdef Py_ssize_t AHEAD = 24         # pairs: by then a place that is asked for is there
cdef Py_ssize_t MOST = 2**31 - 1   # pairs that the table, of 32 bits each, can tell apart


cdef class Pairs:
    """``width`` numbers per pair.

    Keys are ``task << 32 | feature``, so they stay valid when tasks or features are
    added. The table is at most half full.
    """

    def __init__(self, Py_ssize_t n_tasks, Py_ssize_t n_features, Py_ssize_t width, bint dense):
        self.n_tasks, self.n_features, self.width = n_tasks, n_features, width
        self.most = MOST
        self.dense = dense
        if dense:
            self.hold(None, np.zeros((n_tasks, n_features, width)))
        else:
            self.hold(np.empty(512, dtype=np.int64), np.zeros((512, width)))
            self.index(LEAST_BITS)

    cdef hold(self, keys, values):
        self.keys, self.values = keys, values
        self.value = <double*> cnp.PyArray_DATA(<cnp.ndarray> values)
        if keys is not None:
            self.key = <long long*> cnp.PyArray_DATA(<cnp.ndarray> keys)

    cdef index(self, int bits):
        """Make the table anew, of a given size."""
        cdef Py_ssize_t pair
        cdef Place* place
        self.bits = bits
        self.places = np.full(1 << bits, -1, dtype=np.int64)
        self.place = <Place*> cnp.PyArray_DATA(<cnp.ndarray> self.places)
        with nogil:  # millions of them, while other threads learn
            for pair in range(self.used):
                if pair + AHEAD < self.used:
                    ahead(self.place + self.slot(mix(self.key[pair + AHEAD])))
                place = self.find(self.key[pair])
                place.tag, place.pair = <unsigned int> mix(self.key[pair]), <int> pair

    cdef int reserve(self, Py_ssize_t more) except -1 nogil:
        """Make room for so many new pairs."""
        cdef Py_ssize_t needed = self.used + more
        if not self.dense and (2 * needed > (<Py_ssize_t> 1) << self.bits or needed > self.most):
            with gil:
                self.grow(needed)
        return 0

    cdef grow(self, Py_ssize_t needed):
        cdef int bits = self.bits
        if needed > self.most:
            raise OverflowError(
                f"{needed} pairs of task and feature: one store holds {self.most} at most; "
                "deal the tasks out to more shards (romco.cluster), or hash to fewer features"
            )
        while 2 * needed > (<Py_ssize_t> 1) << bits:
            bits += 1
        keys = np.empty(1 << (bits - 1), dtype=np.int64)
        values = np.zeros((1 << (bits - 1), self.width))
        keys[: self.used], values[: self.used] = self.arrays_used()
        self.hold(keys, values)
        self.index(bits)

    def arrays_used(self):
        """Keys and numbers of the pairs that occurred."""
        return self.keys[: self.used], self.values[: self.used]

    def arrays(self):
        """What changes, by name."""
        if self.dense:
            return {"personal": self.values}
        keys, values = self.arrays_used()
        return {"personal": values, "personal_keys": keys}

    def load(self, arrays):
        """Take over the arrays of a store of the same size or smaller, dense or not."""
        values = np.asarray(arrays["personal"])
        keys = arrays.get("personal_keys")
        self.check(keys, values)
        if self.dense:
            if keys is not None:
                raise ValueError("state holds a table of pairs, this learner a dense array")
            self.values[: values.shape[0], : values.shape[1]] = values
            return
        if keys is None:
            task, feature = np.nonzero(values.any(axis=2))
            keys, values = (task << 32) | feature, values[task, feature]
        self.used = 0
        self.grow(len(keys))
        self.keys[: len(keys)], self.values[: len(keys)] = keys, values
        self.used = len(keys)
        self.index(self.bits)

    def check(self, keys, values):
        """Raise ValueError unless the arrays are what ``arrays`` may give."""
        cdef Py_ssize_t task = 0, feature = 0
        axes = 3 if keys is None else 2
        fits = values.dtype == np.float64 and values.ndim == axes and values.shape[axes - 1] == self.width
        if fits and keys is None:
            task, feature = values.shape[:2]
        elif fits:
            keys = np.asarray(keys)
            fits = keys.dtype == np.int64 and keys.shape == values.shape[:1] and \
                keys.min(initial=0) >= 0 and bool((np.diff(np.sort(keys)) > 0).all())
            if fits:
                task = (keys >> 32).max(initial=-1) + 1
                feature = (keys & 0xFFFFFFFF).max(initial=-1) + 1
        if not fits or task > self.n_tasks or feature > self.n_features:
            raise ValueError(
                f"state array 'personal' is {values.dtype}{list(values.shape)}, which does not fit "
                f"{self.n_tasks} tasks, {self.n_features} features and {self.width} numbers each"
            )
        if not np.isfinite(values).all():
            raise ValueError("state array 'personal' holds numbers that are not finite")

    def clear(self, Py_ssize_t task):
        """All numbers of a task become zero."""
        if self.dense:
            self.values[task] = 0.0
        else:
            keys, values = self.arrays_used()
            values[keys >> 32 == task] = 0.0

    def lane(self, Py_ssize_t k):
        """The k-th number of every pair, as a dense array (m, d)."""
        if self.dense:
            return self.values[:, :, k].copy()
        array = np.zeros((self.n_tasks, self.n_features))
        keys, values = self.arrays_used()
        array[keys >> 32, keys & 0xFFFFFFFF] = values[:, k]
        return array
