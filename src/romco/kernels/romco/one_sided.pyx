"""ROMCO with a one-sided factor: for few tasks the right basis is the identity, K has all columns."""

import numpy as np
cimport cython
from libc.string cimport memset
from romco.kernels.core.memory cimport reserve
from romco.kernels.romco.factored cimport Factored
from romco.kernels.romco.rules cimport Rules

from romco.kernels.romco.factored import check_names, checked_core


@cython.final
cdef class OneSided(Factored):
    """R is the identity: K (r, m) holds U in the left basis, a column for every task."""

    def __init__(self, Rules rules, Py_ssize_t n_features, Py_ssize_t n_tasks):
        Factored.__init__(self, rules, n_features, n_tasks, True)
        self.width = self.ld = n_tasks
        self.fit(1, self.width)

    cdef double shared_margin(self, Py_ssize_t task) except? -1.0 nogil:
        cdef Py_ssize_t j
        cdef double total = 0.0
        for j in range(self.height):
            total += self.c[j] * self.core[j * self.ld + task]
        return total

    cdef int step_along(self, Py_ssize_t task, Py_ssize_t event, double g) except -1 nogil:
        cdef Py_ssize_t j
        if self.left.rank > self.height:
            memset(self.core + self.height * self.ld, 0, self.width * sizeof(double))
            self.height += 1
        for j in range(self.height):
            self.core[j * self.ld + task] += g * self.c[j]
        return 0

    cdef int turn_right(self, Py_ssize_t kept) except -1 nogil:
        cdef Py_ssize_t i, j
        for j in range(kept):
            for i in range(self.width):
                self.core[j * self.ld + i] = self.svd.s[j] * self.svd.right[j * self.width + i]
        return 0

    cdef int fit(self, Py_ssize_t height, Py_ssize_t width) except -1 nogil:
        reserve(<void**> &self.core, &self.core_room, height * self.ld, sizeof(double))
        return self.fit_coordinates(height + 1)

    cdef int sum_columns(self, double* c) except -1:
        cdef Py_ssize_t i, j
        for j in range(self.height):
            c[j] = 0.0
            for i in range(self.width):
                c[j] += self.core[j * self.ld + i]
        return 0

    cdef int one_column(self, Py_ssize_t task, double* c) except -1:
        cdef Py_ssize_t j
        for j in range(self.height):
            c[j] = self.core[j * self.ld + task]
        return 0

    def right_vectors(self):
        """R (m, m)."""
        return np.eye(self.width)

    def arrays(self):
        """All that changes, by name."""
        return self.shared_arrays()

    def load(self, arrays):
        """Take over the arrays of a kernel of this kind, of the same size or smaller."""
        check_names(arrays, self.arrays(), set())
        found = checked_core(arrays, self.width)
        core = np.zeros((len(found), self.width))
        core[:, : found.shape[1]] = found
        self.load_shared(arrays, core)
