"""Bayesian regressions on what several learners say of an event, and which of them suits a task."""

from libc.math cimport exp
from romco.kernels.auto.gaussians cimport Step

cdef double EVIDENCE_RANGE = 20.0              # evidence is kept within this: a task may change
cdef double MIN_KIND_COUNT = 1e-300            # least number of tasks of a kind, for rounding


cdef class Combiner:
    """Views of a combiner's ``weight`` (n,) and its ``covariance`` (n, n), which is symmetric.

    ``renewal`` (n,), if given, is the variance that every event adds while there is less than
    ``prior``, so that a combiner never stops learning: which learner is best may
    change as they learn.
    """

    def __init__(self, weight, covariance, double prior, renewal=None):
        self.weight, self.covariance, self.prior, self.renewal = weight, covariance, prior, renewal

    cdef void combine(self, double offset, const double* z, Combination* said) noexcept nogil:
        """Mean offset + w . z, and its variance."""
        cdef Py_ssize_t c, k, n = self.weight.shape[0]
        cdef double[MAX_INPUTS] Sz
        cdef double mean = offset, variance = 0.0
        cdef const double* row
        for c in range(n):
            Sz[c] = 0.0
        for k in range(n):
            row = &self.covariance[k, 0]
            for c in range(n):
                Sz[c] += row[c] * z[k]
        for c in range(n):
            mean += self.weight[c] * z[c]
            variance += z[c] * Sz[c]
            said.Sz[c] = Sz[c]
        said.mean, said.variance = mean, max(variance, 0.0)

    cdef void move(self, Step step, const Combination* said) noexcept nogil:
        """Step by a, spend by b."""
        cdef Py_ssize_t c, k, n = self.weight.shape[0]
        cdef double* row
        cdef double change
        for c in range(n):
            self.weight[c] += step.a * said.Sz[c]
            row, change = &self.covariance[c, 0], step.b * said.Sz[c]
            for k in range(n):
                row[k] -= change * said.Sz[k]
            row[c] = max(row[c], 0.0)

    cdef void renew(self, double h) noexcept nogil:
        """Let variance come back, as much as h events add."""
        cdef Py_ssize_t c
        for c in range(self.weight.shape[0]):
            if self.covariance[c, c] < self.prior:
                self.covariance[c, c] += h * self.renewal[c]

    cdef void doubt(self, Py_ssize_t first) noexcept nogil:
        """Raise the variances of weights from the first on to the prior: their inputs are new."""
        cdef Py_ssize_t c
        for c in range(first, self.weight.shape[0]):
            self.covariance[c, c] = self.prior


cdef class Kinds:
    """Views of what is known of the tasks' kinds, one for each combiner."""

    def __init__(self, evidence, belief, count):
        self.evidence, self.belief, self.count = evidence, belief, count

    cdef void find_odds(self, long long task, double* odds) noexcept nogil:
        """How likely a kind is by the evidence alone."""
        cdef int k
        for k in range(KINDS):
            odds[k] = exp(self.evidence[task, k])

    cdef void find_chances(self, double share, const double* odds, double* chance) noexcept nogil:
        """Bayes' rule: a kind is likely if many tasks are of it and if it explains this one.

        In a share of the prior the task is a newcomer, who is like all.
        """
        cdef double total = 0.0
        cdef int k
        for k in range(KINDS):
            chance[k] = self.count[k]
            total += chance[k]
        if share > 0.0:
            for k in range(KINDS):
                chance[k] *= (1.0 - share) / total
            chance[LIKE_ALL] += share
        total = 0.0
        for k in range(KINDS):
            chance[k] = max(MIN_KIND_COUNT, chance[k]) * odds[k]
            total += chance[k]
        for k in range(KINDS):
            chance[k] /= total

    cdef void learn(self, long long task, const double* loss) noexcept nogil:
        """Learn a task's kind, and how common kinds are, from the loss of each combiner."""
        cdef double[KINDS] odds, chance
        cdef double best = -1e300
        cdef double* evidence = &self.evidence[task, 0]
        cdef int k
        for k in range(KINDS):
            evidence[k] -= loss[k]
            best = max(best, evidence[k])
        for k in range(KINDS):
            evidence[k] = max(-EVIDENCE_RANGE, evidence[k] - best)
        self.find_odds(task, odds)
        self.find_chances(0.0, odds, chance)
        for k in range(KINDS):
            self.count[k] = max(MIN_KIND_COUNT, self.count[k] + (chance[k] - self.belief[task, k]))
            self.belief[task, k] = chance[k]
