"""ROMCO for many tasks: the right basis is lazy too, so that no cost knows their number."""

import numpy as np
cimport cython
from libc.string cimport memcpy, memset
from romco.kernels.romco.basis cimport LazyBasis
from romco.kernels.core.dense cimport axpy, dot_product, multiply
from romco.kernels.core.events cimport Row
from romco.kernels.core.memory cimport release, reserve, resize
from romco.kernels.romco.factored cimport Factored
from romco.kernels.romco.rules cimport Rules
from romco.kernels.core.triangles cimport solve_lower, times_lower

from romco.kernels.romco import basis_state
from romco.kernels.romco.factored import DAMAGED, check_names, checked_core, part


@cython.final
cdef class TwoSided(Factored):
    """R is lazy too: no step of a round looks at all tasks."""

    cdef LazyBasis right
    cdef double* q
    cdef double* ones                # R'1, kept up so that the sum of U's columns is always known
    cdef double* spare
    cdef Py_ssize_t q_room, ones_room, spare_room
    cdef int unit_index
    cdef double unit_value

    def __init__(self, Rules rules, Py_ssize_t n_features, Py_ssize_t n_tasks):
        Factored.__init__(self, rules, n_features, n_tasks, False)
        self.right = LazyBasis(n_tasks)
        self.unit_value = 1.0
        self.fit(1, 1)

    def __dealloc__(self):
        release(self.q)
        release(self.ones)
        release(self.spare)

    cdef inline Row unit(self, Py_ssize_t task) noexcept nogil:
        """Return e_task; valid until the next call."""
        cdef Row e
        self.unit_index = <int> task
        e.n, e.index, e.value = 1, &self.unit_index, &self.unit_value
        return e

    cdef void start_round(self, bint noting) noexcept nogil:
        self.left.start_round(noting)
        self.right.start_round(noting)

    cdef double shared_margin(self, Py_ssize_t task) except? -1.0 nogil:
        cdef Py_ssize_t j
        cdef double total = 0.0
        self.right.look(self.unit(task), self.q)
        for j in range(self.height):
            total += self.c[j] * dot_product(self.width, self.core + j * self.ld, self.q)
        return total

    cdef int step_along(self, Py_ssize_t task, Py_ssize_t event, double g) except -1 nogil:
        cdef Py_ssize_t j
        self.right.reach(self.unit(task), event, 1.0, self.q)
        self.svd.note_change(
            self.core, self.ld, self.height, self.width,
            self.c, self.left.rank, self.q, self.right.rank, g,
        )
        if self.left.rank > self.height:
            memset(self.core + self.height * self.ld, 0, self.width * sizeof(double))
            self.height += 1
        if self.right.rank > self.width:
            for j in range(self.height):
                self.core[j * self.ld + self.width] = 0.0
            # e_task = R q, so the new vector's entries add up to what makes both sides do so
            self.ones[self.width] = (
                1.0 - dot_product(self.width, self.q, self.ones)
            ) / self.q[self.width]
            self.width += 1
        for j in range(self.height):
            axpy(self.width, g * self.c[j], self.q, self.core + j * self.ld)
        return 0

    cdef int turn_right(self, Py_ssize_t kept) except -1 nogil:
        cdef Py_ssize_t j
        multiply(kept, self.width, 1, self.svd.right, self.width, self.ones, 1, self.spare, 1)
        self.ones, self.spare = self.spare, self.ones
        self.ones_room, self.spare_room = self.spare_room, self.ones_room
        self.right.turn(self.svd.right, kept)
        self.width = kept
        for j in range(kept):
            memset(self.core + j * self.ld, 0, kept * sizeof(double))
            self.core[j * self.ld + j] = self.svd.s[j]
        return 0

    cdef int settle_right(self, Py_ssize_t active) except -1 nogil:
        if self.right.settle(active):  # R <- R T^-1, so K <- K T'
            times_lower(self.core, self.right.triangle, self.height, self.width, self.ld)
            solve_lower(self.right.triangle, self.ones, self.width)
        return 0

    cdef int sum_columns(self, double* c) except -1:
        cdef Py_ssize_t j
        for j in range(self.height):
            c[j] = dot_product(self.width, self.core + j * self.ld, self.ones)
        return 0

    cdef int one_column(self, Py_ssize_t task, double* c) except -1:
        cdef Py_ssize_t j
        self.right.look(self.unit(task), self.q)
        self.start_round(False)
        for j in range(self.height):
            c[j] = dot_product(self.width, self.core + j * self.ld, self.q)
        return 0

    cdef int fit(self, Py_ssize_t height, Py_ssize_t width) except -1 nogil:
        """Rows and columns grow together; what is in K stays."""
        cdef Py_ssize_t j, ld = max(height, width)
        cdef double* wide
        if ld > self.ld:
            ld = ld + ld // 2 + 4
            wide = <double*> resize(NULL, ld * ld, sizeof(double))
            for j in range(self.height):
                memcpy(wide + j * ld, self.core + j * self.ld, self.width * sizeof(double))
            release(self.core)
            self.core, self.ld = wide, ld
        reserve(<void**> &self.q, &self.q_room, ld + 1, sizeof(double))
        reserve(<void**> &self.ones, &self.ones_room, ld + 1, sizeof(double))
        reserve(<void**> &self.spare, &self.spare_room, ld + 1, sizeof(double))
        return self.fit_coordinates(ld + 1)

    def right_vectors(self):
        """R (m, r)."""
        self.check_idle()
        return basis_state.vectors(self.right)

    def arrays(self):
        """All that changes, by name."""
        self.check_idle()
        right = {f"right_{name}": array for name, array in basis_state.arrays(self.right).items()}
        ones = np.zeros(self.left.ld)
        ones[: self.width] = [self.ones[j] for j in range(self.width)]
        return {**self.shared_arrays(), **right, "right_ones": ones}

    def load(self, arrays):
        """Take over the arrays of a kernel of either kind, of the same size or smaller."""
        own = self.arrays()
        two_sided = "right_counts" in arrays
        check_names(arrays, own, {name for name in own if name[:6] == "right_" and not two_sided})
        core = checked_core(arrays, self.right.store.size)
        if two_sided:
            right = part(arrays, "right_")
            ones = right.pop("ones")
            basis_state.load(self.right, right)
        else:  # few tasks have become many: K = (K Z) Z' with Z the directions of its rows
            values, vectors = np.linalg.svd(core, full_matrices=False)[1:]
            vectors = vectors[values > 0.0]
            basis_state.take(self.right, np.ascontiguousarray(vectors.T))
            core = core @ vectors.T
            ones = basis_state.vectors(self.right).sum(axis=0)
        if self.right.rank != core.shape[1] or len(ones) < core.shape[1]:
            raise ValueError(DAMAGED)
        self.load_shared(arrays, core)
        self.width = core.shape[1]
        for j in range(self.width):
            self.ones[j] = ones[j]
