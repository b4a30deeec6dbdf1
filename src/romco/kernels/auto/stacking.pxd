"""Stacking models, as compiled code sees them."""

from romco.kernels.auto.gaussians cimport Step

cdef enum:
    MAX_INPUTS = 12                # of a stacking model


cdef struct StackedPrediction:
    double Sz[MAX_INPUTS]          # covariance of the weights times the inputs
    double mean, variance          # of the prediction


cdef class StackingModel:
    cdef double[::1] weight
    cdef double[:, ::1] covariance

    cdef void predict(self, double offset, const double* z, StackedPrediction* out) noexcept nogil
    cdef void update(self, Step step, const StackedPrediction* out) noexcept nogil


cdef class ConditionalLogit:
    cdef double forgetting
    cdef double[::1] weight, prior
    cdef double[:, ::1] covariance

    cdef void score(
        self, const double* z, Py_ssize_t classes, double* scores, const double* offset=*
    ) noexcept nogil
    cdef void learn(
        self, const double* z, Py_ssize_t classes, const double* scores, Py_ssize_t label, double h
    ) noexcept nogil
    cdef void forget(self, double h) noexcept nogil
    cdef void spend(self, const double* r, Py_ssize_t first) noexcept nogil
