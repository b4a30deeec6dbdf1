"""The parts and numbers of a ROMCO learner."""

cimport cython
from libc.math cimport sqrt
from romco.kernels.romco.spectral cimport Shrink, shrink_nuclear

ctypedef double (*Pull)(double margin, double y) noexcept nogil
ctypedef double (*Decay)(double t) noexcept nogil


@cython.final
cdef class Rules:
    cdef readonly double eta1, eta2, lambda1, lambda2, C
    cdef readonly bint on_mistake, always_prox, by_share
    cdef readonly Py_ssize_t max_rank
    cdef double rho_power            # rho_t = t ** -power; negative: eta1 lambda1
    cdef object loss, penalty, decay # the parts themselves
    cdef Pull pull                   # their compiled twins, NULL where there is none
    cdef Shrink shrink
    cdef Decay decays

    cdef inline double step(self, double t) except? -1e300 nogil:
        """By what both steps are multiplied in round t."""
        return self.decays(t) if self.decays != NULL else self.called_decay(t)

    cdef inline double rho(self, double t, double step, double share) noexcept nogil:
        """The threshold of singular values in round t."""
        if self.rho_power < 0.0:
            return self.eta1 * step * self.lambda1 * share
        return (1.0 / sqrt(t) if self.rho_power == 0.5 else 1.0 / t) * share

    cdef inline double least(self, double rho) noexcept nogil:
        """Up to where the penalty makes nothing of a singular value."""
        return rho if self.shrink == shrink_nuclear else 0.0

    cdef Py_ssize_t pulls(
        self, const double* margins, const double* labels, Py_ssize_t n, double* out
    ) except -1 nogil
    cdef Py_ssize_t shrink_all(
        self, double* s, Py_ssize_t n, double rho, double step
    ) except -1 nogil
    cdef double called_decay(self, double t) except? -1e300 nogil
    cdef int call_loss(
        self, const double* margins, const double* labels, Py_ssize_t n, double* out
    ) except -1
    cdef int call_penalty(self, double* s, Py_ssize_t n, double step) except -1

