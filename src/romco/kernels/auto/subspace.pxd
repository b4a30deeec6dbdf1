"""A low-rank part of the tasks' own vectors, as compiled code sees it."""

from romco.kernels.core.pairs cimport Pairs

cdef enum:
    RANK = 4
    IDLE = 0                       # phases of a recomputation
    START, GATHER, MULTIPLY, ORTHOGONALISE, PROJECT, CLEAR, PHASES


cdef struct Progress:              # of a recomputation
    double phase
    double at                      # rows or stored pairs that are done; where dense, tasks,
    double feature                 # and features of the next task
    double side                    # 0 or 1: which half of B and F is in use
    double known[RANK]             # whether a column of B in use is not zero
    double products[RANK * RANK]   # of the columns of the next B


cdef class Subspace:
    cdef public Py_ssize_t slice   # pairs or rows that one event processes
    cdef double[:, ::1] B          # (d, 2 RANK)
    cdef double[:, ::1] F          # (m, 2 RANK)
    cdef Py_ssize_t n              # d
    cdef Pairs pairs               # whose first number is the entry of W
    cdef object arrays
    cdef Progress* progress
    cdef unsigned char* filled     # (d,) bit s: the row on side s may not be zero,
    cdef bint tracked[2]           # where that is known of a side

    cdef inline int side(self) noexcept nogil:
        """Return the side that is in use."""
        return self.progress.side == 1.0

    cdef void lose_track(self) noexcept nogil
    cdef int phase(self) noexcept nogil
    cdef bint keep_up(self, double events, double* due, Py_ssize_t n) noexcept nogil
    cdef bint advance(self, Py_ssize_t budget) noexcept nogil
    cdef Py_ssize_t work(self, int phase, int side, Py_ssize_t budget) noexcept nogil
    cdef Py_ssize_t sweep(self, int phase, int side, Py_ssize_t budget) noexcept nogil
    cdef Py_ssize_t pass_rows(self, int phase, int side, Py_ssize_t budget) noexcept nogil
    cdef bint all_known(self) noexcept nogil
    cdef Py_ssize_t run(self, int phase, int side) noexcept nogil
    cdef void restart(self) noexcept nogil
    cdef gather(self, const int[::1] rows)
    cdef put(self, const int[::1] rows, const double[:, ::1] values)
    cdef check(self, const int[::1] rows, const double[:, ::1] values)

    cdef inline double* row(self, Py_ssize_t j, int side) noexcept nogil:
        return &self.B[j, side * RANK]

    cdef inline void follow(
        self, Py_ssize_t task, Py_ssize_t feature, Py_ssize_t pair, double change
    ) noexcept nogil:
        """Update the next F when an entry of W changes that was projected already."""
        cdef int c, side
        cdef const double* b
        cdef Progress* p = self.progress
        if self.pairs.dense:
            if task > p.at or (task == p.at and feature >= p.feature):
                return
        elif not 0 <= pair < p.at:
            return
        side = 1 - self.side()
        b = self.row(feature, side)
        for c in range(RANK):
            self.F[task, side * RANK + c] += change * b[c]


cdef void make_orthonormal(double[:, ::1] values) noexcept nogil
