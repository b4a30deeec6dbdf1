"""Covariances of the weights of few features, as compiled code sees them."""

from romco.kernels.auto.gaussians cimport Step
from romco.kernels.auto.scales cimport Scaled


cdef class Covariances:
    cdef double[:, ::1] spent      # (n, n) of the prior covariance, the identity
    cdef double[:] mean            # (n,) the weights, a column of a wider array,
    cdef double[:] variance        # (n,) and what is spent of their variances, another one
    cdef bint trusted              # that nobody else has changed these is known without a look
    cdef object products
    cdef double* Sx                # (n,) covariance times the row that was last looked at

    cdef Py_ssize_t room(self) noexcept nogil
    cdef bint are_true(self) noexcept nogil
    cdef void settle(self) noexcept nogil
    cdef void doubt(self) noexcept nogil
    cdef double look(self, Scaled x, double unit) noexcept nogil
    cdef void multiply(self, Scaled x, double unit) noexcept nogil
    cdef void move(self, Step step) noexcept nogil
    cdef void forget(self, Scaled x, double rate) noexcept nogil
