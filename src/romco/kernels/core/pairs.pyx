"""A few numbers for each pair of a task and a feature; zero until touched.

Small problems keep a dense array (m, d, width), whose untouched pages cost
nothing. Large ones keep only the pairs that occurred, one after the other, and for each task a
hash table that tells which are its own; so ten thousand tasks over 2^18 hashed
features cost what their events touch, and pairs that came together lie together. From some ten thousand pairs
on addresses are taken for very many at once, and memory as it is touched: so the store is not copied
again whenever it has doubled, for which one event would have to wait.
"""

import numpy as np
cimport numpy as cnp
from libc.string cimport memcpy, memset
from romco.kernels.core.arenas cimport Arena
from romco.kernels.core.memory cimport release, zeros

from romco.kernels.core.memory import mapped_zeros

cnp.import_array()

cdef int LEAST_BITS = 4
cdef Py_ssize_t BLOCK = 512             # numbers of a dense array that are copied or left out together
cdef Py_ssize_t MAX_PAIRS = 2**32 - 1   # pairs that tables, of 32 bits each, can tell apart
FEW = 2**15                        # pairs up to which room is doubled; copying them takes no time
RESERVED = 2**25                   # pairs that have addresses from then on,
FURTHER = 8                        # or so many times as many as there are


cdef class Pairs:
    """``width`` numbers per pair.

    Keys are ``task << 32 | feature``, so they stay valid when tasks or features are
    added. A task's table is at most two thirds full, and grows by itself: no event waits for those of
    other tasks.
    """

    def __init__(self, Py_ssize_t n_tasks, Py_ssize_t n_features, Py_ssize_t width, bint dense):
        release(self.table)
        self.table, self.arena = NULL, Arena()
        self.n_tasks, self.n_features, self.width = n_tasks, n_features, width
        self.most = MAX_PAIRS
        self.dense = dense
        if dense:
            self.hold(None, np.zeros((n_tasks, n_features, width)))
        else:
            self.table = <Table*> zeros(n_tasks, sizeof(Table))
            self.hold(np.empty(512, dtype=np.int64), np.zeros((512, width)))

    def __dealloc__(self):
        release(self.table)

    cdef hold(self, keys, values):
        self.keys, self.values = keys, values
        self.value = <double*> cnp.PyArray_DATA(<cnp.ndarray> values)
        if keys is not None:
            self.key = <long long*> cnp.PyArray_DATA(<cnp.ndarray> keys)
            self.room = len(keys)

    cdef index(self):
        """Make the tables anew, of the pairs there are."""
        cdef Py_ssize_t pair, task
        cdef Table* table
        cdef Place* place
        cdef const long long[::1] counts = np.bincount(
            self.keys[: self.used] >> 32, minlength=self.n_tasks
        )
        for task in range(self.n_tasks):
            table = self.table + task
            table.used = 0
            if table.bits:
                memset(table.place, 0, size_of(table))
            if counts[task]:
                self.widen(table, counts[task])
        for pair in range(self.used):
            table = self.table + (self.key[pair] >> 32)
            place = place_of(table, <Py_ssize_t> <unsigned int> self.key[pair])
            place.name, place.pair = <unsigned int> self.key[pair] + 1, <unsigned int> pair
            table.used += 1

    cdef int widen(self, Table* table, Py_ssize_t needed) except -1 nogil:
        """Make a table large enough for so many pairs; what it holds stays."""
        cdef Table wider
        cdef Py_ssize_t at
        wider.bits, wider.used = max(LEAST_BITS, table.bits), table.used
        while 3 * needed > (<Py_ssize_t> 2) << wider.bits:
            wider.bits += 1
        if wider.bits == table.bits:
            return 0
        wider.place = <Place*> self.arena.take(size_of(&wider))
        memset(wider.place, 0, size_of(&wider))
        for at in range((<Py_ssize_t> 1) << table.bits if table.bits else 0):
            if table.place[at].name:
                place_of(&wider, table.place[at].name - 1)[0] = table.place[at]
        self.arena.give(table.place, size_of(table))
        table[0] = wider
        return 0

    cdef int reserve(self, long long task, Py_ssize_t more) except -1 nogil:
        """Make room for so many new pairs of a task."""
        cdef Py_ssize_t needed = self.used + more
        if self.dense:
            return 0
        if needed > self.room or needed > self.most:
            with gil:
                self.grow(needed)
        if 3 * (self.table[task].used + more) > (<Py_ssize_t> 2) << self.table[task].bits:
            self.widen(self.table + task, self.table[task].used + more)
        return 0

    cdef grow(self, Py_ssize_t needed):
        cdef Py_ssize_t room = self.room
        if needed > self.most:
            raise OverflowError(
                f"{needed} pairs of task and feature: one store holds {self.most} at most; "
                "deal the tasks out to more shards (romco.shards), or hash to fewer features"
            )
        while needed > room:
            room *= 2
        keys, values = roomy(room, self.width)
        keys[: self.used], values[: self.used] = self.arrays_used()
        self.hold(keys, values)

    def arrays_used(self):
        """Keys and numbers of the pairs that occurred."""
        return self.keys[: self.used], self.values[: self.used]

    def places(self):
        """How many places all tables have; for tests."""
        cdef Py_ssize_t task, n = 0
        for task in range(0 if self.dense else self.n_tasks):
            n += (<Py_ssize_t> 1) << self.table[task].bits if self.table[task].bits else 0
        return n

    def arrays(self, name="personal"):
        """What changes: an array of this name, and where only some pairs are kept their keys."""
        if self.dense:
            return {name: self.values}
        keys, values = self.arrays_used()
        return {name: values, f"{name}_keys": keys}

    def load(self, arrays, name="personal"):
        """Take over the arrays of a store of the same size or smaller, dense or not."""
        values = np.asarray(arrays[name])
        keys = arrays.get(f"{name}_keys")
        self.check(keys, values, name)
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
        self.index()

    def take(self, Pairs old not None):
        """Take over all pairs of a store of the same size or smaller, without a copy if not dense.

        The old store may be used on only if this one changes nothing.
        """
        cdef Py_ssize_t task, feature, n, d = old.n_features, width = self.width
        cdef const double* row
        if old.n_tasks > self.n_tasks or d > self.n_features or old.width != width or (
            self.dense and not old.dense
        ):
            raise ValueError("expected a smaller store of as many numbers")
        if not old.dense:
            self.hold(old.keys, old.values)
            self.used, self.arena = old.used, old.arena
            memcpy(self.table, old.table, old.n_tasks * sizeof(Table))
            return
        for task in range(old.n_tasks):
            row = old.value + task * d * width
            if self.dense:
                copy_filled(self.value + task * self.n_features * width, row, d * width)
                continue
            n = 0
            for feature in range(d):
                n += filled(row + feature * width, width)
            self.reserve(task, n)
            for feature in range(d):
                if filled(row + feature * width, width):
                    memcpy(self.touch(task, feature), row + feature * width, width * sizeof(double))

    def check(self, keys, values, name="personal"):
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
                f"state array {name!r} is {values.dtype}{list(values.shape)}, which does not fit "
                f"{self.n_tasks} tasks, {self.n_features} features and {self.width} numbers each"
            )
        if not np.isfinite(values).all():
            raise ValueError(f"state array {name!r} holds numbers that are not finite")

    def clear(self, Py_ssize_t task):
        """All numbers of a task become zero."""
        cdef Py_ssize_t at
        cdef const Table* table
        if self.dense:
            self.values[task] = 0.0
            return
        table = self.table + task
        for at in range((<Py_ssize_t> 1) << table.bits if table.bits else 0):
            if table.place[at].name:
                memset(self.value + <Py_ssize_t> table.place[at].pair * self.width, 0, self.width * sizeof(double))

    def put(self, Py_ssize_t task, const int[::1] features not None, const double[:, ::1] numbers not None):
        """Replace the numbers (t, width) of some features of a task."""
        cdef Py_ssize_t i
        if numbers.shape[0] != features.shape[0] or numbers.shape[1] != self.width:
            raise ValueError(f"expected {self.width} numbers of each feature")
        if not 0 <= task < self.n_tasks:
            raise ValueError(f"task {task} is out of range")
        for i in range(features.shape[0]):
            if not 0 <= features[i] < self.n_features:
                raise ValueError(f"feature {features[i]} is out of range")
        self.reserve(task, features.shape[0])
        for i in range(features.shape[0]):
            memcpy(self.touch(task, features[i]), &numbers[i, 0], self.width * sizeof(double))

    def lane(self, Py_ssize_t k):
        """The k-th number of every pair, as a dense array (m, d)."""
        if self.dense:
            return self.values[:, :, k].copy()
        array = np.zeros((self.n_tasks, self.n_features))
        keys, values = self.arrays_used()
        array[keys >> 32, keys & 0xFFFFFFFF] = values[:, k]
        return array


cdef inline bint filled(const double* numbers, Py_ssize_t n) noexcept nogil:
    """Return whether some number is not zero."""
    cdef Py_ssize_t k
    for k in range(n):
        if numbers[k] != 0.0:
            return True
    return False


cdef void copy_filled(double* target, const double* source, Py_ssize_t n) noexcept nogil:
    """Copy numbers to where zeros are; memory that both have not touched stays untouched."""
    cdef Py_ssize_t at = 0, size
    while at < n:
        size = min(BLOCK, n - at)
        if filled(source + at, size):
            memcpy(target + at, source + at, size * sizeof(double))
        at += size


def roomy(Py_ssize_t room, Py_ssize_t width):
    """Keys and zeros for at least so many pairs.

    Pages of 2 MB save time where they are read here and there, as numbers are. Keys are read in
    turn, and the first touch of both would fall on one event.
    """
    most = max(RESERVED, FURTHER * room)
    if room > FEW:
        keys, values = mapped_zeros(most, np.int64), mapped_zeros(most * width, np.float64, True)
        if keys is not None and values is not None:
            return keys, values.reshape(most, width)
    return np.empty(room, dtype=np.int64), np.zeros((room, width))
