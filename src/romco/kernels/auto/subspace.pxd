"""A low-rank part of the tasks' own vectors, as compiled code sees it."""

from romco.kernels.core.pairs cimport Pairs

cdef enum:
    RANK = 4


cdef class Subspace:
    cdef double[:, :] B            # (d, RANK), columns of a wider array
    cdef double[:, ::1] F          # (m, RANK)
    cdef Pairs pairs
    cdef int lane                  # which number of a pair is the entry of W
    cdef object marks
    cdef unsigned char* marked     # (d,) rows of B that may not be zero,
    cdef bint unmarked             # unless any may be
    cdef double expected           # when B was last drawn here, the time set for the next drawing

    cdef void draw(self) noexcept nogil
    cdef void draw_at(self, double due) noexcept nogil
    cdef void begin(self) noexcept nogil
    cdef bint empty(self, int c) noexcept nogil
    cdef Py_ssize_t next_marked(self, Py_ssize_t j) noexcept nogil
    cdef void project(self) noexcept nogil
    cdef void project_from(self, const bint* fresh) noexcept nogil
    cdef void ask(self, Py_ssize_t pair) noexcept nogil
    cdef void gather(self) noexcept nogil
    cdef void clear(self) noexcept nogil
    cdef check(self, const int[::1] rows, const double[:, ::1] values)
    cdef void put(self, const int[::1] rows, const double[:, ::1] values) noexcept nogil
    cdef void orthogonalise(self) noexcept nogil
    cdef void products(self, double* G) noexcept nogil
