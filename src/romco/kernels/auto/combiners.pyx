"""Bayesian logistic regressions on what several learners say of an event."""

from romco.kernels.auto.gaussians cimport Step, logistic, moderate


cdef class Combiner:
    """Views of a combiner's ``weight`` (n,) and its ``covariance`` (n, n).

    ``renewal`` (n,) is the variance that every event adds while there is less than
    ``prior``, so that a combiner never stops learning: which learner is best may
    change as they learn.
    """

    def __init__(self, weight, covariance, renewal, double prior):
        self.prior = prior
        self.weight, self.covariance, self.renewal = weight, covariance, renewal

    cdef void combine(self, const double* z, Combination* said) noexcept nogil:
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

    cdef void learn(
        self, double y, double share, double renewed, const Combination* said
    ) noexcept nogil:
        """Learn the answer; an event that is its business in part counts by its share.

        ``renewed`` is what comes back of the variance, times ``renewal``.
        """
        cdef Step step = logistic(y, said.margin, said.variance, share)
        cdef Py_ssize_t c, k, n = self.weight.shape[0]
        for c in range(n):
            self.weight[c] += step.a * said.Sz[c]
            for k in range(n):
                self.covariance[c, k] -= step.b * said.Sz[c] * said.Sz[k]
            if self.covariance[c, c] < self.prior:
                self.covariance[c, c] += renewed * self.renewal[c]
