"""Class means and common scatter, as compiled code sees them."""

from romco.kernels.auto.scales cimport Scaled


cdef class Centres:
    cdef double[:, ::1] centre     # (K, n)
    cdef double[::1] length        # (K,) centre' R centre
    cdef double[:, ::1] spent      # (n, n) of R, the inverse scatter, whose prior is I / SCATTER_PRIOR_EVENTS
    cdef double[::1] count         # (1,) events in the scatter
    cdef object buffers
    cdef double* x                 # (n,) a row,
    cdef double* Rx                # (n,) and R times it

    cdef Py_ssize_t room(self) noexcept nogil
    cdef void multiply(self) noexcept nogil
    cdef void score(
        self, Scaled x, double width, const double* seen, double* z
    ) noexcept nogil
    cdef void learn(self, Scaled x, Py_ssize_t label, double seen, double h) noexcept nogil
