"""An orthonormal set of long vectors of which only the rows an event needs are ever touched."""

cimport cython
from romco.kernels.core.events cimport Row
from romco.kernels.romco.reading cimport ReadableBasis


@cython.final
cdef class LazyBasis(ReadableBasis):
    cdef readonly double deviation        # largest correction to orthonormality so far
    cdef bint folds                       # whether to try folding events into B (few tasks)
    cdef Py_ssize_t turns                 # in this epoch
    cdef bint strained                    # P has grown long in this round
    cdef Row held                         # the event that reached out last, not yet written to B
    cdef Py_ssize_t held_event            # its number in the round, -1 if there is none
    # Small matrices of leading dimension `ld`
    cdef double* gram                     # B'B  (columns, columns), lower half
    cdef double* counted                  # B'B over the rows behind the cursor, lower half
    cdef double* triangle                 # R (rank, rank): the last correction of `settle`
    cdef Py_ssize_t started               # the epoch in which the cursor was at the first row
    cdef double* long_vector
    cdef Py_ssize_t long_room

    cdef int reach(self, Row x, Py_ssize_t event, double square, double* c) except -1 nogil
    cdef int turn(self, const double* vectors, Py_ssize_t count) except -1 nogil
    cdef bint settle(self, Py_ssize_t touched) except -1 nogil

    cdef double sharpen(self, double* c) noexcept nogil
    cdef int write(self, const double* fold) except -1 nogil
    cdef int write_panel(self) except -1 nogil
    cdef bint foldable(self, Py_ssize_t count, double* fold) noexcept nogil
    cdef int append_rest(self, Row x, double square, double* c) except -1 nogil
    cdef double remove(self, double* z, const double* c) noexcept nogil
    cdef void record(self, double square_behind, double square) noexcept nogil
    cdef int fit(self, Py_ssize_t columns) except -1 nogil
    cdef int fit_exactly(self, Py_ssize_t ld) except -1 nogil
    cdef void correct(self) noexcept nogil
    cdef void congruence(self, double* a) noexcept nogil
    cdef int rebase(self) except -1 nogil
    cdef int refresh(self, Py_ssize_t touched) except -1 nogil
    cdef Py_ssize_t refresh_run(
        self, Py_ssize_t slot, Py_ssize_t most, bint counting
    ) except -1 nogil
