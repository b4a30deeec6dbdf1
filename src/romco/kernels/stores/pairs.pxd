"""A few numbers for each pair of a task and a feature, as compiled code sees them."""

from romco.kernels.ahead cimport ahead


cdef struct Place:                               # of the hash table
    unsigned int tag                             # a part of the key's hash: most other keys differ
    int pair                                     # or -1


cdef class Pairs:
    cdef readonly Py_ssize_t n_tasks, n_features, width
    cdef readonly Py_ssize_t used                # pairs that occurred; not counted where dense
    cdef public Py_ssize_t most                  # pairs that it may hold
    cdef readonly bint dense
    cdef object keys, values, places             # the arrays behind the pointers
    cdef long long* key                          # of each pair in turn: task << 32 | feature
    cdef double* value                           # its numbers
    cdef Place* place                            # the hash table
    cdef int bits                                # of the table's size
    cdef double nothing[16]                      # what an untouched pair holds

    cdef hold(self, keys, values)
    cdef index(self, int bits)
    cdef grow(self, Py_ssize_t needed)
    cdef int reserve(self, Py_ssize_t more) except -1 nogil

    cdef inline Py_ssize_t slot(self, unsigned long long mixed) noexcept nogil:
        """Where the table is looked into first."""
        return <Py_ssize_t> (mixed >> (64 - self.bits))

    cdef inline Place* find(self, long long wanted) noexcept nogil:
        """Where the table tells of the pair, or would tell if it had occurred."""
        cdef Py_ssize_t last = ((<Py_ssize_t> 1) << self.bits) - 1
        cdef unsigned long long mixed = mix(wanted)
        cdef Py_ssize_t at = self.slot(mixed)
        while self.place[at].pair >= 0 and (
            self.place[at].tag != <unsigned int> mixed or self.key[self.place[at].pair] != wanted
        ):
            at = (at + 1) & last
        return self.place + at

    cdef inline void ask_table(self, long long task, Py_ssize_t feature) noexcept nogil:
        """Ask for what tells where the pair is; a while later ``ask_pair`` for the pair itself."""
        if not self.dense:
            ahead(self.place + self.slot(mix((task << 32) | feature)))

    cdef inline void ask_pair(self, long long task, Py_ssize_t feature) noexcept nogil:
        cdef Py_ssize_t at, last = ((<Py_ssize_t> 1) << self.bits) - 1
        cdef unsigned long long mixed
        cdef int pair
        if self.dense:
            return
        mixed = mix((task << 32) | feature)
        at = self.slot(mixed)
        while self.place[at].pair >= 0 and self.place[at].tag != <unsigned int> mixed:
            at = (at + 1) & last
        pair = self.place[at].pair
        if pair >= 0:
            ahead(self.key + pair)
            ahead(self.value + pair * self.width)
            ahead(self.value + pair * self.width + self.width - 1)  # it may lie in two lines

    cdef inline double* dense_row(self, long long task) noexcept nogil:
        """A task's numbers, feature by feature; NULL where only pairs that occurred are kept."""
        return self.value + task * self.n_features * self.width if self.dense else NULL

    cdef inline const double* look(self, long long task, Py_ssize_t feature) noexcept nogil:
        """The pair's numbers, to read."""
        cdef int pair
        if self.dense:
            return self.value + (task * self.n_features + feature) * self.width
        pair = self.find((task << 32) | feature).pair
        return self.value + pair * self.width if pair >= 0 else self.nothing

    cdef inline double* touch(self, long long task, Py_ssize_t feature) noexcept nogil:
        """The pair's numbers, to change; call ``reserve`` first."""
        cdef Place* place
        if self.dense:
            return self.value + (task * self.n_features + feature) * self.width
        place = self.find((task << 32) | feature)
        if place.pair < 0:
            place.tag, place.pair = <unsigned int> mix((task << 32) | feature), <int> self.used
            self.key[self.used] = (task << 32) | feature
            self.used += 1
        return self.value + place.pair * self.width

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


cdef inline unsigned long long mix(long long key) noexcept nogil:
    """Fibonacci hashing: the upper bits of a product with 2^64 / golden ratio are well mixed.

    The lower ones tell keys apart that share them.
    """
    return <unsigned long long> key * 0x9E3779B97F4A7C15ULL
