"""Bayesian logistic regressions on what several learners say of an event."""

from romco.kernels.auto.beliefs cimport Step, logistic, moderate

cdef double DOUBT = 3.0            # prior variance of a weight, to which renewal may lead back


cdef class Judge:
    """Views of a judge's ``weight`` (n,) and its ``covariance`` (n, n).

    ``renewal`` (n,) is the variance that every event adds, so that a judge never
    stops learning: which learner is best may change as they learn.
    """

    def __init__(self, weight, covariance, renewal):
        self.weight, self.covariance, self.renewal = weight, covariance, renewal

    cdef void hear(self, const double* z, Verdict* said) noexcept nogil:
        """Log-odds of what was heard."""
        cdef Py_ssize_t c, k, n = self.weight.shape[0]
        said.mean = said.variance = 0.0
        for c in range(n):
            said.Sz[c] = 0.0
            for k in range(n):
                said.Sz[c] += self.covariance[c, k] * z[k]
            said.mean += self.weight[c] * z[c]
            said.variance += z[c] * said.Sz[c]
        said.margin = moderate(said.mean, said.variance)

    cdef void correct(self, double y, double h, double share, const Verdict* said) noexcept nogil:
        """Learn the answer of an event that counts as h, of which a share is the judge's business.

        ``share`` is out of h.
        """
        cdef Step step = logistic(y, said.mean, said.variance, share)
        cdef Py_ssize_t c, k, n = self.weight.shape[0]
        for c in range(n):
            self.weight[c] += step.a * said.Sz[c]
            for k in range(n):
                self.covariance[c, k] -= step.b * said.Sz[c] * said.Sz[k]
            if self.covariance[c, c] < DOUBT:
                self.covariance[c, c] += h * self.renewal[c]
