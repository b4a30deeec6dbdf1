"""Bayesian regressions on what several learners say of an event, and which of them suits a task."""

from romco.kernels.auto.gaussians cimport Step

cdef enum:
    MAX_INPUTS = 10                # inputs a combiner may have
    KINDS = 3                      # of tasks: related, like all others, on their own
    LIKE_ALL = 1


cdef struct Combination:
    double Sz[MAX_INPUTS]          # the combiner's covariance times the inputs
    double mean, variance          # of what it says


cdef class Combiner:
    cdef double prior              # variance of a weight before any event
    cdef double[::1] weight, renewal
    cdef double[:, ::1] covariance

    cdef void combine(self, double offset, const double* z, Combination* said) noexcept nogil
    cdef void move(self, Step step, const Combination* said) noexcept nogil
    cdef void renew(self, double h) noexcept nogil
    cdef void doubt(self, Py_ssize_t first) noexcept nogil


cdef class Kinds:
    cdef double[:, ::1] evidence   # (m, 3) log-likelihood of each kind, 0 for the best
    cdef double[:, ::1] belief     # (m, 3) chance of each kind; 0 before the first event
    cdef double[::1] count         # (3,) of tasks

    cdef void find_odds(self, long long task, double* odds) noexcept nogil
    cdef void find_chances(
        self, double share, const double* odds, double* chance
    ) noexcept nogil
    cdef void learn(self, long long task, const double* loss) noexcept nogil
