"""Stacking models: Bayesian regressions on the predictions of base learners.

A stacking model of two classes or numbers is a linear or logistic regression on its inputs. One of many
classes is a conditional logit, with one weight for each of several scores of every class.
With z_jk the j-th score of class k, p = softmax(sum_j w_j z_jk). The weights are the same for all
classes and tasks, so that few events teach them and a new class needs none of its own. They have a
Gaussian posterior; an event of class y moves it by one Newton step,

    g = z_y - sum_k p_k z_k,   q = (p + 1_y) / 2
    H = sum_k q_k z_k z_k' - (sum_k q_k z_k)(sum_k q_k z_k)'
    S <- (I + S H)^-1 S,       w <- w + S g

whose curvature is that half-way to the answer: where the model was sure and wrong, it is near
zero at p, and a step by that would go much too far.
"""

from libc.math cimport exp, log, sqrt
from romco.kernels.auto.gaussians cimport Step
from romco.kernels.core.triangles cimport cholesky


cdef class StackingModel:
    """Views of the ``weight`` (n,) and its ``covariance`` (n, n), which is symmetric."""

    def __init__(self, weight, covariance):
        self.weight, self.covariance = weight, covariance

    cdef void predict(self, double offset, const double* z, StackedPrediction* out) noexcept nogil:
        """Compute the mean offset + w . z, and its variance."""
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
            out.Sz[c] = Sz[c]
        out.mean, out.variance = mean, max(variance, 0.0)

    cdef void update(self, Step step, const StackedPrediction* out) noexcept nogil:
        """Take a step along the inputs of a prediction."""
        cdef Py_ssize_t c, k, n = self.weight.shape[0]
        cdef double* row
        cdef double change
        for c in range(n):
            self.weight[c] += step.a * out.Sz[c]
            row, change = &self.covariance[c, 0], step.b * out.Sz[c]
            for k in range(n):
                row[k] -= change * out.Sz[k]
            row[c] = max(row[c], 0.0)


cdef class ConditionalLogit:
    """Views of ``weight`` (n,) and ``covariance`` (n, n).

    Each event lets the covariance grow by a share ``forgetting``, up to variances ``prior`` (n,): which
    input is best changes as more is learned.
    """

    def __init__(self, weight, covariance, prior, double forgetting):
        if len(weight) > MAX_INPUTS:
            raise ValueError(f"at most {MAX_INPUTS} inputs; got {len(weight)}")
        self.weight, self.covariance = weight, covariance
        self.prior, self.forgetting = prior, forgetting

    cdef void score(
        self, const double* z, Py_ssize_t classes, double* scores, const double* offset=NULL
    ) noexcept nogil:
        """Log-probabilities (K,) from scores (n, K), and from an offset (K,) if there is one."""
        cdef Py_ssize_t j, k
        cdef double best, total = 0.0
        for k in range(classes):
            scores[k] = 0.0 if offset == NULL else offset[k]
        for j in range(self.weight.shape[0]):
            for k in range(classes):
                scores[k] += self.weight[j] * z[j * classes + k]
        best = scores[0]
        for k in range(1, classes):
            best = max(best, scores[k])
        for k in range(classes):
            total += exp(scores[k] - best)
        total = best + log(total)
        for k in range(classes):
            scores[k] -= total

    cdef void learn(
        self, const double* z, Py_ssize_t classes, const double* scores, Py_ssize_t label, double h
    ) noexcept nogil:
        """Learn a class of which ``score`` gave these scores; the event counts as h."""
        cdef double[MAX_INPUTS] mean, middle, roots
        cdef double[MAX_INPUTS][MAX_INPUTS] H, R
        cdef Py_ssize_t i, j, k, n = self.weight.shape[0]
        cdef double p, q
        for i in range(n):
            mean[i] = middle[i] = 0.0
            for j in range(n):
                H[i][j] = 0.0
        for k in range(classes):
            p = exp(scores[k])
            q = 0.5 * (p + 1.0) if k == label else 0.5 * p
            for i in range(n):
                mean[i] += p * z[i * classes + k]
                middle[i] += q * z[i * classes + k]
                for j in range(i + 1):
                    H[i][j] += q * z[i * classes + k] * z[j * classes + k]
        for i in range(n):
            for j in range(i + 1):
                H[i][j] = h * (H[i][j] - middle[i] * middle[j])
        cholesky(n, &H[0][0], MAX_INPUTS, &R[0][0], MAX_INPUTS, 0.0, roots)
        for i in range(n):
            self.spend(&R[i][0], i)
        for i in range(n):
            for j in range(n):
                self.weight[i] += h * self.covariance[i, j] * (z[j * classes + label] - mean[j])
        self.forget(h)

    cdef void forget(self, double h) noexcept nogil:
        """Let the covariance grow as h events do; correlations stay."""
        cdef double[MAX_INPUTS] roots
        cdef double growth
        cdef Py_ssize_t i, j, n = self.weight.shape[0]
        for i in range(n):
            growth = 1.0 + h * self.forgetting
            if growth * self.covariance[i, i] > self.prior[i]:
                growth = max(1.0, self.prior[i] / self.covariance[i, i])
            roots[i] = sqrt(growth)
        for i in range(n):
            for j in range(n):
                self.covariance[i, j] *= roots[i] * roots[j]

    cdef void spend(self, const double* r, Py_ssize_t first) noexcept nogil:
        """S <- (S^-1 + r r')^-1, for r that is 0 before its number ``first``."""
        cdef double[MAX_INPUTS] Sr
        cdef Py_ssize_t i, j, n = self.weight.shape[0]
        cdef double v = 1.0
        for i in range(n):
            Sr[i] = 0.0
            for j in range(first, n):
                Sr[i] += self.covariance[i, j] * r[j]
        for j in range(first, n):
            v += r[j] * Sr[j]
        for i in range(n):
            for j in range(n):
                self.covariance[i, j] -= Sr[i] * Sr[j] / v
