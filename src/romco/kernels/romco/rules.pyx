"""The numbers of a ROMCO learner, and the vectors that stand for its tasks.

A task's vector is e_i, the paper's method. With a *coupling* A = F F' between tasks it
is row i of F: the paper's method in the variable U~ with U = U~ F', which is gradient descent
in the metric of A. Singular values do not depend on which F is taken. For A = I + b 11' it
is e_i plus sqrt(b) times the vector of one more task that all others share.
"""

import numpy as np
cimport cython
from libc.math cimport exp, fmax, sqrt
from romco.kernels.events cimport Events, Row
from romco.kernels.romco.spectral cimport shrink_logdet, shrink_nuclear


cdef double pull_hinge(double margin, double y) noexcept nogil:
    return y if 1.0 - y * margin > 0.0 else 0.0


cdef double pull_squared_hinge(double margin, double y) noexcept nogil:
    return 2.0 * y * fmax(0.0, 1.0 - y * margin)


cdef double pull_logistic(double margin, double y) noexcept nogil:
    return y / (1.0 + exp(y * margin))


@cython.final
cdef class Rules:
    """The numbers of a ROMCO learner: what to learn from, how far to go, how much to shrink."""

    def __init__(
        self, *, bint logdet, str loss, double eta1, double eta2, double lambda1, double lambda2, double C,
        bint on_mistake, bint always_prox, bint step_decays, double rho_power, Py_ssize_t max_rank,
    ):
        self.eta1, self.eta2, self.lambda1, self.lambda2, self.C = eta1, eta2, lambda1, lambda2, C
        self.on_mistake, self.always_prox, self.step_decays = on_mistake, always_prox, step_decays
        self.rho_power, self.max_rank = rho_power, max_rank
        self.shrink = shrink_logdet if logdet else shrink_nuclear
        if loss == "hinge":
            self.loss = pull_hinge
        elif loss == "squared-hinge":
            self.loss = pull_squared_hinge
        elif loss == "logistic":
            self.loss = pull_logistic
        else:
            raise ValueError(f"no such loss: {loss!r}")


cdef class TaskVectors:
    """Row i of F (m, w) for a coupling A = F F' of tasks: what stands for task i in U~.

    As it is here the coupling is given and stays; `relations` has one that is learned.
    """

    def __init__(self, Py_ssize_t n_tasks, double b, factor=None):
        self.width = n_tasks + (b > 0.0)
        self.entries = 1 if b == 0.0 else 2
        self.value[0], self.value[1] = (sqrt(b), 1.0) if b > 0.0 else (1.0, 0.0)
        self.factor = np.ascontiguousarray(factor, dtype=np.float64) if factor is not None else None

    cdef bint learn(self, Events events, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
        return False

    def dense(self, n_tasks):
        """F (m, w)."""
        cdef Py_ssize_t i, k
        cdef Row f
        cdef double[:, ::1] out = np.zeros((n_tasks, self.width))
        for i in range(n_tasks):
            f = self.row(i)
            for k in range(f.n):
                out[i, k if f.index == NULL else f.index[k]] = f.value[k]
        return np.asarray(out)
