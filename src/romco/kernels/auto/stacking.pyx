"""A conditional logit on several scores of each class: one weight per score.

With z_jk the j-th score of class k, p = softmax(sum_j w_j z_jk). The weights are the same for all
classes and tasks, so that few events teach them and a new class needs none of its own. They are
believed in with a Gaussian; an event of class y moves it by one Newton step,

    g = z_y - sum_k p_k z_k,   q = (p + 1_y) / 2
    H = sum_k q_k z_k z_k' - (sum_k q_k z_k)(sum_k q_k z_k)'
    S <- (I + S H)^-1 S,       w <- w + S g

whose curvature is that half-way to the answer: where the model was sure and wrong, it is near
zero at p, and a step by that would go much too far.
"""

from libc.math cimport exp, fabs, log


cdef class ConditionalLogit:
    """Views of ``weight`` (n,) and ``covariance`` (n, n).

    Each event adds ``renewal`` to a variance below ``prior``: which input is best may change.
    """

    def __init__(self, weight, covariance, double prior, double renewal):
        if len(weight) > MAX_INPUTS:
            raise ValueError(f"at most {MAX_INPUTS} inputs; got {len(weight)}")
        self.weight, self.covariance = weight, covariance
        self.prior, self.renewal = prior, renewal

    cdef void score(self, const double* z, Py_ssize_t classes, double* scores) noexcept nogil:
        """Log-probabilities (K,) from scores (n, K)."""
        cdef Py_ssize_t j, k
        cdef double best, total = 0.0
        for k in range(classes):
            scores[k] = 0.0
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
        cdef double[MAX_INPUTS] mean, middle, slope
        cdef double[MAX_INPUTS][MAX_INPUTS] H, A, S
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
            slope[i] = z[i * classes + label] - mean[i]
            for j in range(i + 1):
                H[i][j] = h * (H[i][j] - middle[i] * middle[j])
                H[j][i] = H[i][j]
        for i in range(n):
            for j in range(n):
                S[i][j] = self.covariance[i, j]
                A[i][j] = 1.0 if i == j else 0.0
                for k in range(n):
                    A[i][j] += self.covariance[i, k] * H[k][j]
        solve(A, S, n)
        for i in range(n):
            for j in range(n):
                self.covariance[i, j] = 0.5 * (S[i][j] + S[j][i])
        for i in range(n):
            for j in range(n):
                self.weight[i] += h * self.covariance[i, j] * slope[j]
        for i in range(n):
            if self.covariance[i, i] < self.prior:
                self.covariance[i, i] = min(self.prior, self.covariance[i, i] + h * self.renewal)


cdef void solve(double[MAX_INPUTS][MAX_INPUTS] A, double[MAX_INPUTS][MAX_INPUTS] B, Py_ssize_t n) noexcept nogil:
    """B <- A^-1 B by elimination, the largest entry of a column first; A is spoiled."""
    cdef Py_ssize_t c, i, j, pivot
    cdef double swap, factor
    for c in range(n):
        pivot = c
        for i in range(c + 1, n):
            if fabs(A[i][c]) > fabs(A[pivot][c]):
                pivot = i
        for j in range(n):
            swap = A[c][j]
            A[c][j] = A[pivot][j]
            A[pivot][j] = swap
            swap = B[c][j]
            B[c][j] = B[pivot][j]
            B[pivot][j] = swap
        for i in range(n):
            if i == c:
                continue
            factor = A[i][c] / A[c][c]
            for j in range(c, n):
                A[i][j] -= factor * A[c][j]
            for j in range(n):
                B[i][j] -= factor * B[c][j]
    for c in range(n):
        for j in range(n):
            B[c][j] /= A[c][c]
