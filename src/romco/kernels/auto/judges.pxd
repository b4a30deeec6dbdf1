"""Bayesian logistic regressions on what several learners say of an event."""

cdef enum:
    MOST = 10                      # voices a judge may hear


cdef struct Verdict:
    double Sz[MOST]                # the judge's covariance times what was heard
    double mean, variance          # of its log-odds
    double margin                  # log-odds averaged over that


cdef class Judge:
    cdef double[::1] weight, renewal
    cdef double[:, ::1] covariance

    cdef void hear(self, const double* z, Verdict* said) noexcept nogil
    cdef void correct(self, double y, double h, double share, const Verdict* said) noexcept nogil
