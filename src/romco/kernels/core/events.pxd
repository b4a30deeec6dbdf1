"""Checked events as compiled code sees them, and the few things one does with a row."""


cdef struct Row:
    Py_ssize_t n           # stored entries
    const int* index       # NULL where the row is dense
    const double* value


cdef class Events:
    cdef readonly Py_ssize_t n, n_features, n_tasks
    cdef readonly object task, x, y, weight, offset  # checked arrays; also what keeps the pointers alive
    cdef object values, indices, indptr, rows
    cdef const long long* order                 # row of x of each event; NULL where they are in order
    cdef const long long* tasks
    cdef const double* labels
    cdef const double* weights                  # NULL where every event counts as one
    cdef const double* offsets                  # NULL where there are none
    cdef bint shifted                           # numbers: labels are less their offsets
    cdef const double* value
    cdef const int* index                       # NULL where x is dense
    cdef const int* start

    cdef check_tasks(self)
    cdef take_dense(self, x)
    cdef take_sparse(self, x)
    cdef take_labels(self, y)
    cdef check_labels(self, Py_ssize_t answers)
    cdef take_weights(self, weight)
    cdef take_offsets(self, offset, bint numbers)
    cdef hold(self, x)
    cdef check_shape(self, shape)
    cdef bint check_sparse(self) except -1
    cdef refuse(self, Py_ssize_t e, Py_ssize_t j, double value)

    cdef inline double count(self, Py_ssize_t e) noexcept nogil:
        """How much an event counts."""
        return 1.0 if self.weights == NULL else self.weights[e]

    cdef inline double shift(self, Py_ssize_t e) noexcept nogil:
        """Return the known part of an event's margin."""
        return 0.0 if self.offsets == NULL else self.offsets[e]

    cdef inline void restore_shift(
        self, Py_ssize_t begin, Py_ssize_t end, double* margins
    ) noexcept nogil:
        """Add the offsets of numbers to predictions of what is left of them."""
        cdef Py_ssize_t e
        if self.shifted:
            for e in range(begin, end):
                margins[e] += self.offsets[e]

    cdef inline bint adjacent(self) noexcept nogil:
        """Whether rows are dense and lie one after the other."""
        return self.index == NULL and self.order == NULL

    cdef inline Row row(self, Py_ssize_t e) noexcept nogil:
        cdef Row x
        if self.order != NULL:
            e = self.order[e]
        if self.index == NULL:
            x.n = self.n_features
            x.index = NULL
            x.value = self.value + e * self.n_features
        else:
            x.n = self.start[e + 1] - self.start[e]
            x.index = self.index + self.start[e]
            x.value = self.value + self.start[e]
        return x


cdef inline double dot(Row x, const double* w) noexcept nogil:
    """x . w, with four partial sums so that the processor need not wait for each addition."""
    cdef double a = 0.0, b = 0.0, c = 0.0, d = 0.0
    cdef Py_ssize_t k = 0, whole = x.n - x.n % 4
    if x.index == NULL:
        while k < whole:
            a += x.value[k] * w[k]
            b += x.value[k + 1] * w[k + 1]
            c += x.value[k + 2] * w[k + 2]
            d += x.value[k + 3] * w[k + 3]
            k += 4
        while k < x.n:
            a += x.value[k] * w[k]
            k += 1
    else:
        while k < whole:
            a += x.value[k] * w[x.index[k]]
            b += x.value[k + 1] * w[x.index[k + 1]]
            c += x.value[k + 2] * w[x.index[k + 2]]
            d += x.value[k + 3] * w[x.index[k + 3]]
            k += 4
        while k < x.n:
            a += x.value[k] * w[x.index[k]]
            k += 1
    return (a + b) + (c + d)


cdef inline void add(Row x, double scale, double* w) noexcept nogil:
    """w += scale * x."""
    cdef Py_ssize_t k
    if x.index == NULL:
        for k in range(x.n):
            w[k] += scale * x.value[k]
    else:
        for k in range(x.n):
            w[x.index[k]] += scale * x.value[k]


cdef inline double square(Row x) noexcept nogil:
    """|x|^2."""
    cdef double a = 0.0
    cdef Py_ssize_t k
    for k in range(x.n):
        a += x.value[k] * x.value[k]
    return a


cdef inline Py_ssize_t column(Row x, Py_ssize_t k) noexcept nogil:
    """Which feature the k-th stored entry of x belongs to."""
    return k if x.index == NULL else x.index[k]
