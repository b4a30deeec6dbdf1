"""V: what is personal to single tasks.

The prox of the column norms (paper eq. 18) makes every column shorter by eta2 lambda2 in
every updating round, also those of tasks that were not seen. A column that is left alone only
gets shorter, so it is enough to know when it was last touched: its length is brought up to
date when it is needed next. Exact, and O(non-zeros) per event.

Columns are stored side by side in one array where that is small, else each in a hash table of
its own features (not in a store of pairs, for a column that dies is wiped as a whole).
"""

import numpy as np
from libc.math cimport fmax, sqrt
from libc.string cimport memset
from romco.kernels.core.prefetch cimport ahead
from romco.kernels.core.memory cimport release, zeros
from romco.kernels.core.events cimport Row, add as add_row, column, dot

cdef int RECOUNT = 64              # additions after which a length is computed from scratch
cdef double CANCELLED = 1e-6       # ... or as soon as an addition leaves less than this
cdef double TINY = 1e-100          # scale under which it is multiplied into the stored numbers
MOST_PLACES = 1 << 30              # in a table; features are counted in 32 bits
DAMAGED = "the state of the personal part does not fit together; was the file damaged?"
DENSE_NUMBERS = 4_000_000          # store V in one array up to here
DENSE_FEATURES = 1 << 14           # ... and up to here, since a column that dies is wiped


def personal_part(n_features, n_tasks, cost):
    """V (d, m) = 0, stored the way that suits its size; a tick costs a column so much length."""
    small = n_features * n_tasks <= DENSE_NUMBERS and n_features <= DENSE_FEATURES
    kind = DensePersonal if small else HashedPersonal
    return kind(n_features, n_tasks, cost)


cdef class Personal:
    """Columns that fade with every tick of a clock (abstract)."""

    def __init__(self, Py_ssize_t n_features, Py_ssize_t n_tasks, double cost):
        self.n_features, self.n_tasks, self.cost = n_features, n_tasks, cost
        self.scale, self.square = np.ones(n_tasks), np.zeros(n_tasks)
        self.since, self.touches = np.zeros(n_tasks), np.zeros(n_tasks, dtype=np.int32)

    cdef double shrinkage(self, Py_ssize_t task) noexcept nogil:
        """What the ticks since the last touch have left of the column: 0 to 1."""
        cdef double lost = self.cost * (self.clock - self.since[task])
        if lost == 0.0:
            return 1.0
        return fmax(0.0, 1.0 - lost / sqrt(self.square[task]))

    cdef double margin(self, Py_ssize_t task, Row x) noexcept nogil:
        """v . x, now."""
        cdef double left
        if self.square[task] == 0.0:
            return 0.0
        left = self.shrinkage(task)
        if left == 0.0:
            return 0.0
        self.scored = self.stored_dot(task, x)
        return left * self.scale[task] * self.scored

    cdef int add(
        self, Py_ssize_t task, Row x, double g, double square, double tick, bint alone
    ) except -1 nogil:
        """v += g x, where |x|^2 = square; a tick of that size will follow.

        If x is alone in its round, it is what was scored last; and if then v will not outlive
        the tick, nothing is stored.
        """
        cdef double before, after, left = 0.0
        if self.square[task] > 0.0:
            left = self.shrinkage(task)
            if left == 0.0:
                self.forget(task)
            else:
                self.scale[task] *= left
                self.square[task] *= left * left
        self.since[task] = self.clock
        before = self.square[task] + g * g * square
        after = before
        if left > 0.0:
            after += 2.0 * g * self.scale[task] * (
                self.scored if alone else self.stored_dot(task, x)
            )
        if alone and after > CANCELLED * before and sqrt(after) <= self.cost * tick:
            return self.forget(task)
        if self.scale[task] < TINY:
            self.stored_scale(task, self.scale[task])
            self.scale[task] = 1.0
        self.stored_add(task, x, g / self.scale[task])
        self.touches[task] += 1
        if self.touches[task] >= RECOUNT or after <= CANCELLED * before:
            after = self.scale[task] * self.scale[task] * self.stored_square(task)
            self.touches[task] = 0
        self.square[task] = after
        return 0

    cdef int prune(self, Py_ssize_t task, double tick) except -1 nogil:
        """Forget a column that will not outlive the tick."""
        if self.square[task] > 0.0 and sqrt(self.square[task]) <= self.cost * (
            tick + self.clock - self.since[task]
        ):
            self.forget(task)
        return 0

    cdef int forget(self, Py_ssize_t task) except -1 nogil:
        self.stored_clear(task)
        self.scale[task], self.square[task], self.touches[task] = 1.0, 0.0, 0
        return 0

    cdef double stored_dot(self, Py_ssize_t task, Row x) noexcept nogil:
        return 0.0

    cdef int stored_add(self, Py_ssize_t task, Row x, double g) except -1 nogil:
        return 0

    cdef double stored_square(self, Py_ssize_t task) noexcept nogil:
        return 0.0

    cdef void stored_scale(self, Py_ssize_t task, double factor) noexcept nogil:
        pass

    cdef int stored_clear(self, Py_ssize_t task) except -1 nogil:
        return 0

    def norms(self):
        """Length (m,) of each column, now."""
        cdef double[::1] out = np.zeros(self.n_tasks)
        cdef Py_ssize_t i
        for i in range(self.n_tasks):
            if self.square[i] > 0.0:
                out[i] = self.shrinkage(i) * sqrt(self.square[i])
        return np.asarray(out)

    def factors(self):
        """What (m,) the stored columns must be multiplied by, now."""
        cdef double[::1] out = np.zeros(self.n_tasks)
        cdef Py_ssize_t i
        for i in range(self.n_tasks):
            if self.square[i] > 0.0:
                out[i] = self.shrinkage(i) * self.scale[i]
        return np.asarray(out)

    def common_arrays(self):
        """The arrays that both kinds have."""
        return {
            "scale": np.asarray(self.scale), "square": np.asarray(self.square),
            "since": np.asarray(self.since), "touches": np.asarray(self.touches),
            "clock": np.array([self.clock]),
        }

    def load_common(self, arrays):
        """Take them over."""
        cdef Py_ssize_t m = len(arrays["scale"])
        names = ("scale", "square", "since", "touches")
        if not (
            m <= self.n_tasks and all(arrays[name].shape == (m,) for name in names)
            and arrays["clock"].shape == (1,)
            and (arrays["scale"] > 0.0).all() and (arrays["square"] >= 0.0).all()
            and (arrays["since"] >= 0.0).all() and (arrays["since"] <= arrays["clock"]).all()
            and (arrays["touches"] >= 0).all() and (arrays["touches"] < RECOUNT).all()
        ):
            raise ValueError(DAMAGED)
        for name, own in zip(names, (self.scale, self.square, self.since, self.touches)):
            np.asarray(own)[:m] = arrays[name]
        self.clock = arrays["clock"][0]

    def check_dense(self, arrays):
        """How many tasks and features the columns have that were stored dense."""
        if arrays.keys() != {*self.common_arrays(), "values"}:
            raise ValueError(f"the personal part is stored as {sorted(arrays)}, which does not fit its size")
        m, d = arrays["values"].shape
        if d > self.n_features or m != len(arrays["scale"]):
            raise ValueError(DAMAGED)
        return m, d


cdef class DensePersonal(Personal):
    """Columns side by side in one array (m, d)."""

    cdef double[:, ::1] values

    def __init__(self, Py_ssize_t n_features, Py_ssize_t n_tasks, double cost):
        Personal.__init__(self, n_features, n_tasks, cost)
        self.values = np.zeros((n_tasks, n_features))

    cdef double stored_dot(self, Py_ssize_t task, Row x) noexcept nogil:
        return dot(x, &self.values[task, 0])

    cdef int stored_add(self, Py_ssize_t task, Row x, double g) except -1 nogil:
        add_row(x, g, &self.values[task, 0])
        return 0

    cdef double stored_square(self, Py_ssize_t task) noexcept nogil:
        cdef Row v
        v.n, v.index, v.value = self.n_features, NULL, &self.values[task, 0]
        return dot(v, v.value)

    cdef void stored_scale(self, Py_ssize_t task, double factor) noexcept nogil:
        cdef Py_ssize_t j
        for j in range(self.n_features):
            self.values[task, j] *= factor

    cdef int stored_clear(self, Py_ssize_t task) except -1 nogil:
        memset(&self.values[task, 0], 0, self.n_features * sizeof(double))
        return 0

    def columns(self):
        """V (d, m) as a dense copy."""
        return (np.asarray(self.values) * self.factors()[:, None]).T

    def arrays(self):
        """All that changes, by name."""
        return {**self.common_arrays(), "values": np.asarray(self.values)}

    def load(self, arrays):
        """Take over the arrays of a dense personal part of this size or smaller."""
        self.load_common(arrays)
        m, d = self.check_dense(arrays)
        np.asarray(self.values)[:m, :d] = arrays["values"]


cdef struct HashTable:               # open addressing
    double* values
    int* keys                    # 1 + feature; 0 where free; in the same block as `values`
    unsigned int mask            # room - 1; room is a power of two
    unsigned int used


cdef class HashedPersonal(Personal):
    """A hash table for each column; a task that has no model of its own costs no memory."""

    cdef HashTable* tables

    def __cinit__(self, Py_ssize_t n_features, Py_ssize_t n_tasks, double cost):
        self.tables = <HashTable*> zeros(n_tasks, sizeof(HashTable))

    def __dealloc__(self):
        cdef Py_ssize_t i
        if self.tables != NULL:
            for i in range(self.n_tasks):  # 0 where the arrays before it could not be made
                release(self.tables[i].values)
        release(self.tables)

    cdef double stored_dot(self, Py_ssize_t task, Row x) noexcept nogil:
        cdef HashTable* table = &self.tables[task]
        cdef double total = 0.0
        cdef Py_ssize_t k
        cdef unsigned int at
        if table.keys == NULL:
            return 0.0
        for k in range(x.n):
            if k + 8 < x.n:
                at = first_place(table, 1 + <int> column(x, k + 8))
                ahead(&table.keys[at])
                ahead(&table.values[at])
            at = place(table, 1 + <int> column(x, k))
            if table.keys[at] != 0:
                total += x.value[k] * table.values[at]
        return total

    cdef int stored_add(self, Py_ssize_t task, Row x, double g) except -1 nogil:
        cdef HashTable* table = &self.tables[task]
        cdef Py_ssize_t k
        cdef unsigned int at
        cdef int key
        for k in range(x.n):
            if x.value[k] == 0.0:
                continue
            if table.keys == NULL or 3 * (table.used + 1) > 2 * (table.mask + 1):
                enlarge(table, max(min(x.n, 256), table.used + 1))
            key = 1 + <int> column(x, k)
            at = place(table, key)
            if table.keys[at] == 0:
                table.keys[at], table.values[at] = key, 0.0
                table.used += 1
            table.values[at] += g * x.value[k]
        return 0

    cdef double stored_square(self, Py_ssize_t task) noexcept nogil:
        cdef HashTable* table = &self.tables[task]
        cdef double total = 0.0
        cdef unsigned int at
        if table.keys == NULL:
            return 0.0
        for at in range(table.mask + 1):
            if table.keys[at] != 0:
                total += table.values[at] * table.values[at]
        return total

    cdef void stored_scale(self, Py_ssize_t task, double factor) noexcept nogil:
        cdef HashTable* table = &self.tables[task]
        cdef unsigned int at
        if table.keys != NULL:
            for at in range(table.mask + 1):
                if table.keys[at] != 0:
                    table.values[at] *= factor

    cdef int stored_clear(self, Py_ssize_t task) except -1 nogil:
        release(self.tables[task].values)
        memset(&self.tables[task], 0, sizeof(HashTable))
        return 0

    def columns(self):
        """V (d, m) as a dense copy."""
        cdef double[:, ::1] out = np.zeros((self.n_features, self.n_tasks))
        cdef double[::1] factors = self.factors()
        cdef Py_ssize_t i
        cdef unsigned int at
        for i in range(self.n_tasks):
            if self.tables[i].keys != NULL:
                for at in range(self.tables[i].mask + 1):
                    if self.tables[i].keys[at] != 0:
                        out[self.tables[i].keys[at] - 1, i] = factors[i] * self.tables[i].values[at]
        return np.asarray(out)

    def arrays(self):
        """All that changes, by name; the tables end to end, with their free places."""
        cdef Py_ssize_t i
        cdef HashTable* table
        rooms = np.zeros(self.n_tasks, dtype=np.int64)
        keys, values = [np.zeros(0, dtype=np.int32)], [np.zeros(0)]
        for i in range(self.n_tasks):
            table = &self.tables[i]
            if table.keys != NULL:
                rooms[i] = table.mask + 1
                keys.append(np.asarray(<int[:table.mask + 1]> table.keys).copy())
                values.append(np.asarray(<double[:table.mask + 1]> table.values).copy())
        return {
            **self.common_arrays(), "rooms": rooms,
            "keys": np.concatenate(keys), "numbers": np.concatenate(values),
        }

    def load(self, arrays):
        """Take over the arrays of a personal part, dense or hashed, of this size or smaller."""
        self.load_common(arrays)
        if "values" in arrays:
            self.check_dense(arrays)
            self.take(np.ascontiguousarray(arrays["values"]))
            return
        self.check_tables(arrays)
        rooms, keys, numbers = arrays["rooms"], arrays["keys"], arrays["numbers"]
        cdef const int[:] key = keys
        cdef const double[:] value = numbers
        cdef Py_ssize_t i, at, start = 0
        for i in np.flatnonzero(rooms):
            make_room(&self.tables[i], rooms[i])
            for at in range(self.tables[i].mask + 1):
                self.tables[i].keys[at], self.tables[i].values[at] = key[start + at], value[start + at]
                self.tables[i].used += key[start + at] != 0
            start += rooms[i]
            self.check_places(&self.tables[i])

    def check_tables(self, arrays):
        """Refuse tables whose sizes do not add up; each alone first, for a sum can wrap around."""
        if arrays.keys() != self.arrays().keys():
            raise ValueError(f"the personal part is stored as {sorted(arrays)}, which does not fit its size")
        rooms, keys, numbers = arrays["rooms"], arrays["keys"], arrays["numbers"]
        if not (
            rooms.shape == arrays["scale"].shape and keys.shape == numbers.shape
            and (rooms >= 0).all() and (rooms <= min(len(keys), MOST_PLACES)).all()
            and not (rooms & (rooms - 1)).any() and rooms.sum() == len(keys)
            and 0 <= keys.min(initial=0) and keys.max(initial=0) <= self.n_features
        ):
            raise ValueError(DAMAGED)

    cdef check_places(self, const HashTable* table):
        """Refuse a table without a free place, or in which a key would not be found."""
        cdef unsigned int at
        if table.used > table.mask:
            raise ValueError(DAMAGED)
        for at in range(table.mask + 1):
            if table.keys[at] != 0 and place(table, table.keys[at]) != at:
                raise ValueError(DAMAGED)

    def take(self, const double[:, ::1] values):
        """Take over columns that were stored dense."""
        cdef Row x
        cdef Py_ssize_t i
        x.n, x.index = values.shape[1], NULL
        for i in range(values.shape[0] if values.shape[1] > 0 else 0):
            if self.square[i] > 0.0:
                x.value = &values[i, 0]
                self.stored_add(i, x, 1.0)


cdef inline unsigned int first_place(const HashTable* table, int key) noexcept nogil:
    """Where to start looking: the upper bits of a multiplicative hash are the good ones."""
    cdef unsigned int hashed = <unsigned int> key * <unsigned int> 2654435769
    return (hashed ^ (hashed >> 15)) & table.mask


cdef inline unsigned int place(const HashTable* table, int key) noexcept nogil:
    """The place of a key, or the free place where it belongs."""
    cdef unsigned int at = first_place(table, key)
    while table.keys[at] != 0 and table.keys[at] != key:
        at = (at + 1) & table.mask
    return at


cdef int make_room(HashTable* table, Py_ssize_t room) except -1 nogil:
    """Become an empty table with that many places, a power of two; what was there is not freed."""
    table.values = <double*> zeros(room, sizeof(double) + sizeof(int))
    table.keys = <int*> (table.values + room)
    table.mask, table.used = <unsigned int> (room - 1), 0
    return 0


cdef int enlarge(HashTable* table, Py_ssize_t need) except -1 nogil:
    """Room for `need` keys at a load of at most two thirds."""
    cdef HashTable old = table[0]
    cdef Py_ssize_t room = 8
    cdef unsigned int i, at
    while 2 * room < 3 * need + 3:
        room *= 2
    make_room(table, room)
    if old.keys != NULL:
        for i in range(old.mask + 1):
            if old.keys[i] != 0:
                at = place(table, old.keys[i])
                table.keys[at], table.values[at] = old.keys[i], old.values[i]
        table.used = old.used
        release(old.values)
    return 0
