"""Conditional logits on what several voices say of each class, as compiled code sees them."""

cdef enum:
    MOST = 8                       # voices a judge may hear


cdef class Judge:
    cdef double prior, renewal
    cdef double[::1] weight
    cdef double[:, ::1] covariance

    cdef void say(self, const double* z, Py_ssize_t classes, double* scores) noexcept nogil
    cdef void learn(
        self, const double* z, Py_ssize_t classes, const double* scores, Py_ssize_t label, double h
    ) noexcept nogil
