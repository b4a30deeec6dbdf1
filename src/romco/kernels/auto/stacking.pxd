"""Conditional logits on scores of each class, as compiled code sees them."""

cdef enum:
    MAX_INPUTS = 8                       # inputs of a stacking model


cdef class ConditionalLogit:
    cdef double prior, renewal
    cdef double[::1] weight
    cdef double[:, ::1] covariance

    cdef void score(
        self, const double* z, Py_ssize_t classes, double* scores, const double* offset=*
    ) noexcept nogil
    cdef void learn(
        self, const double* z, Py_ssize_t classes, const double* scores, Py_ssize_t label, double h
    ) noexcept nogil
    cdef void spend(self, const double* r, Py_ssize_t first) noexcept nogil
