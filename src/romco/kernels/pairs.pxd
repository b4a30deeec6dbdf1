"""A few numbers for each pair of a task and a feature, as compiled code sees them."""


cdef class Pairs:
    cdef readonly Py_ssize_t n_tasks, n_features, width
    cdef readonly object keys, values            # the arrays; keys is None where values is dense
    cdef long long* key
    cdef double* value
    cdef Py_ssize_t used
    cdef int bits
    cdef double nothing[16]                      # what an untouched pair holds

    cdef hold(self, keys, values)
    cdef grow(self)
    cdef double* place(self, long long wanted) noexcept nogil
    cdef int reserve(self, Py_ssize_t more) except -1 nogil

    cdef inline Py_ssize_t slot(self, long long wanted) noexcept nogil:
        """Where the pair is in the table, or the empty slot where it would be."""
        cdef Py_ssize_t last = ((<Py_ssize_t> 1) << self.bits) - 1
        # Fibonacci hashing: the upper bits of a product with 2^64 / golden ratio are well mixed.
        cdef Py_ssize_t at = <Py_ssize_t> (
            (<unsigned long long> wanted * 0x9E3779B97F4A7C15ULL) >> (64 - self.bits)
        )
        while self.key[at] != wanted and self.key[at] >= 0:
            at = (at + 1) & last
        return at

    cdef inline const double* look(self, long long task, Py_ssize_t feature) noexcept nogil:
        """The pair's numbers, to read."""
        cdef Py_ssize_t at
        cdef long long wanted
        if self.key == NULL:
            return self.value + (task * self.n_features + feature) * self.width
        wanted = (task << 32) | feature
        at = self.slot(wanted)
        return self.value + at * self.width if self.key[at] == wanted else self.nothing

    cdef inline Py_ssize_t slots(self) noexcept nogil:
        """How many places there are to look at, to visit all pairs."""
        return self.n_tasks * self.n_features if self.key == NULL else (<Py_ssize_t> 1) << self.bits

    cdef inline const double* at(
        self, Py_ssize_t slot, Py_ssize_t* task, Py_ssize_t* feature
    ) noexcept nogil:
        """What is in a place: the numbers of a task and feature, or NULL."""
        if self.key == NULL:
            task[0] = slot // self.n_features
            feature[0] = slot - task[0] * self.n_features
        elif self.key[slot] < 0:
            return NULL
        else:
            task[0] = <Py_ssize_t> (self.key[slot] >> 32)
            feature[0] = <Py_ssize_t> <unsigned int> self.key[slot]
        return self.value + slot * self.width

    cdef inline double* touch(self, long long task, Py_ssize_t feature) noexcept nogil:
        """The pair's numbers, to change; call ``reserve`` first."""
        if self.key == NULL:
            return self.value + (task * self.n_features + feature) * self.width
        return self.place((task << 32) | feature)
