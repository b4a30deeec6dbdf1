"""A few numbers for each pair of a task and a feature, as compiled code sees them."""

from romco.kernels.core.prefetch cimport ahead, soon
from romco.kernels.core.arenas cimport Arena


cdef struct Place:                               # of a task's table
    unsigned int name                            # of the feature: one more than its number, or 0
    unsigned int pair


cdef struct Table:                               # which pairs a task has; open addressing
    Place* place
    int bits                                     # of its size, 0 where there is none
    int used                                     # at most two thirds


cdef class Pairs:
    cdef readonly Py_ssize_t n_tasks, n_features, width
    cdef readonly Py_ssize_t used                # pairs that occurred; not counted where dense
    cdef public Py_ssize_t most                  # pairs that it may hold
    cdef readonly bint dense
    cdef object keys, values                     # the arrays behind the pointers
    cdef long long* key                          # of each pair in turn: task << 32 | feature
    cdef double* value                           # its numbers
    cdef Py_ssize_t room                         # pairs that these hold
    cdef Table* table                            # one of each task,
    cdef Arena arena                             # and the memory behind them
    cdef double nothing[16]                      # what an untouched pair holds

    cdef hold(self, keys, values)
    cdef index(self)
    cdef grow(self, Py_ssize_t needed)
    cdef int widen(self, Table* table, Py_ssize_t needed) except -1 nogil
    cdef int reserve(self, long long task, Py_ssize_t more) except -1 nogil

    cdef inline Py_ssize_t find(self, long long task, Py_ssize_t feature) noexcept nogil:
        """The number of a pair, or -1 where it has not occurred."""
        cdef const Table* table = self.table + task
        cdef const Place* place
        if table.bits == 0:
            return -1
        place = place_of(table, feature)
        return <Py_ssize_t> place.pair if place.name else -1

    cdef inline Py_ssize_t found(self, long long task, Py_ssize_t feature) noexcept nogil:
        """The number of a pair, which occurs from now on; call ``reserve`` first."""
        cdef Table* table = self.table + task
        cdef Place* place = place_of(table, feature)
        if not place.name:
            place.name, place.pair = <unsigned int> (feature + 1), <unsigned int> self.used
            self.key[self.used] = (task << 32) | feature
            self.used += 1
            table.used += 1
        return place.pair

    cdef inline void ask_table(self, long long task, Py_ssize_t feature) noexcept nogil:
        """Ask for what tells where the pair is; a while later ``ask_pair`` for the pair itself."""
        if not self.dense and self.table[task].bits:
            soon(self.table[task].place + slot(self.table + task, feature))

    cdef inline Py_ssize_t ask_pair(self, long long task, Py_ssize_t feature) noexcept nogil:
        """Ask for the pair's numbers, and tell which it is, as ``find``."""
        cdef Py_ssize_t pair = -1 if self.dense else self.find(task, feature)
        if pair >= 0:
            ahead(self.value + pair * self.width)
            ahead(self.value + pair * self.width + self.width - 1)  # it may lie in two lines
        return pair

    cdef inline double* dense_row(self, long long task) noexcept nogil:
        """A task's numbers, feature by feature; NULL where only pairs that occurred are kept."""
        return self.value + task * self.n_features * self.width if self.dense else NULL

    cdef inline const double* look(self, long long task, Py_ssize_t feature) noexcept nogil:
        """The pair's numbers, to read."""
        cdef Py_ssize_t pair
        if self.dense:
            return self.value + (task * self.n_features + feature) * self.width
        pair = self.find(task, feature)
        return self.value + pair * self.width if pair >= 0 else self.nothing

    cdef inline double* touch(self, long long task, Py_ssize_t feature) noexcept nogil:
        """The pair's numbers, to change; call ``reserve`` first."""
        if self.dense:
            return self.value + (task * self.n_features + feature) * self.width
        return self.value + self.found(task, feature) * self.width

    cdef inline Py_ssize_t count(self) noexcept nogil:
        """How many pairs there are to visit."""
        return self.n_tasks * self.n_features if self.dense else self.used

    cdef inline double* visit(
        self, Py_ssize_t pair, Py_ssize_t* task, Py_ssize_t* feature
    ) noexcept nogil:
        """The numbers of one pair in turn, and whose they are."""
        if self.dense:
            task[0] = pair // self.n_features
            feature[0] = pair - task[0] * self.n_features
        else:
            task[0] = <Py_ssize_t> (self.key[pair] >> 32)
            feature[0] = <Py_ssize_t> <unsigned int> self.key[pair]
        return self.value + pair * self.width


cdef inline Py_ssize_t slot(const Table* table, Py_ssize_t feature) noexcept nogil:
    """Where a table is looked into first.

    Fibonacci hashing: the upper bits of a product with 2^64 / golden ratio are well mixed.
    """
    return <Py_ssize_t> (<unsigned long long> feature * 0x9E3779B97F4A7C15ULL >> (64 - table.bits))


cdef inline size_t size_of(const Table* table) noexcept nogil:
    """Bytes of a table's places."""
    return (<size_t> 1 << table.bits) * sizeof(Place)


cdef inline Place* place_of(const Table* table, Py_ssize_t feature) noexcept nogil:
    """Where a table tells of a feature, or would tell if it had occurred."""
    cdef Py_ssize_t last = ((<Py_ssize_t> 1) << table.bits) - 1
    cdef Py_ssize_t at = slot(table, feature)
    cdef unsigned int name = <unsigned int> (feature + 1)
    while table.place[at].name and table.place[at].name != name:
        at = (at + 1) & last
    return table.place + at
