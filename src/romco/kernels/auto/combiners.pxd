"""Bayesian logistic regressions on what several learners say of an event."""

cdef enum:
    MAX_INPUTS = 10                      # inputs a combiner may have


cdef struct Combination:
    double Sz[MAX_INPUTS]                # the combiner's covariance times the inputs
    double mean, variance          # of its log-odds
    double margin                  # log-odds averaged over that


cdef class Combiner:
    cdef double prior              # variance of a weight before any event
    cdef double[::1] weight, renewal
    cdef double[:, ::1] covariance

    cdef void combine(self, const double* z, Combination* said) noexcept nogil
    cdef void learn(
        self, double y, double share, double renewed, const Combination* said
    ) noexcept nogil
