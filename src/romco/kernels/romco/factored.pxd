"""The round of ROMCO on a factorised U."""

from romco.kernels.romco.basis cimport LazyBasis
from romco.kernels.core.contract cimport Kernel
from romco.kernels.core.events cimport Events
from romco.kernels.romco.personal cimport Personal
from romco.kernels.romco.rules cimport Rules
from romco.kernels.romco.spectral cimport SmallSVD


cdef class Factored(Kernel):
    cdef Rules rules
    cdef LazyBasis left
    cdef Personal personal
    cdef SmallSVD svd
    cdef readonly long long rounds, truncations
    cdef long long[::1] last_round   # (m,) when each task last took part, 0 if never
    cdef Py_ssize_t n_seen           # tasks that ever took part
    cdef double* pulls               # of a round's events
    cdef Py_ssize_t pulls_room
    cdef double* core                # K (height, width), row-major
    cdef Py_ssize_t height, width, ld, core_room
    cdef double* c                   # coordinates of an event on the left
    cdef Py_ssize_t c_room

    cdef int learn_weights(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, const double* margins
    ) except -1 nogil
    cdef double count_share(
        self, Events events, Py_ssize_t begin, Py_ssize_t end
    ) noexcept nogil
    cdef int shrink(
        self, double rho, double step, Py_ssize_t touched, Py_ssize_t active
    ) except -1 nogil
    cdef void start_round(self, bint noting) noexcept nogil
    cdef double shared_margin(self, Py_ssize_t task) except? -1.0 nogil
    cdef int step_along(self, Py_ssize_t task, Py_ssize_t event, double g) except -1 nogil
    cdef int turn_right(self, Py_ssize_t kept) except -1 nogil
    cdef int settle_right(self, Py_ssize_t active) except -1 nogil
    cdef int fit(self, Py_ssize_t height, Py_ssize_t width) except -1 nogil
    cdef int fit_coordinates(self, Py_ssize_t rank) except -1 nogil
    cdef int change_column(self, Py_ssize_t task, double g) except -1
    cdef int sum_columns(self, double* c) except -1
    cdef int one_column(self, Py_ssize_t task, double* c) except -1
    cdef load_shared(self, arrays, const double[:, :] core)
    cdef give(self)
    cdef take(self, const double[:, :] core)
