"""Covariances of the weights of few features: what one of them tells of another.

A learner whose variances are diagonal takes correlated features for so many independent
witnesses. Where there are few, the whole covariance S of its weights can be kept: a step moves
all weights by a S x, and S falls by b (Sx)(Sx)'. That costs n^2 per event.

Kept is what is spent of the prior covariance, which is the identity, so that zeros are the
prior. The variances are also kept where those of other learners are. Whoever changes them there
(shards that meet, or a state of before there were covariances) makes the covariances untrue:
they are then forgotten, and only the variances count.
"""

import numpy as np
cimport numpy as cnp
from romco.kernels.auto.gaussians cimport Step, forget
from romco.kernels.auto.scales cimport Scaled

cnp.import_array()


cdef class Covariances:
    """Views of ``spent`` (n, n), and of ``mean`` and ``variance`` of the same n features."""

    def __init__(self, spent, mean, variance):
        n = len(spent)
        self.spent, self.mean, self.variance = spent, mean[:n], variance[:n]
        self.products = np.zeros(n)
        self.trusted = False
        self.Sx = <double*> cnp.PyArray_DATA(<cnp.ndarray> self.products)

    cdef Py_ssize_t room(self) noexcept nogil:
        """Of how many features."""
        return self.spent.shape[0]

    cdef bint are_true(self) noexcept nogil:
        """Whether nobody else has changed the variances."""
        cdef Py_ssize_t k
        if self.trusted:
            return True
        for k in range(self.room()):
            if self.spent[k, k] != self.variance[k]:
                return False
        return True

    cdef void settle(self) noexcept nogil:
        """Forget covariances that are not true."""
        cdef Py_ssize_t k
        if not self.are_true():
            self.spent[:, :] = 0.0
            for k in range(self.room()):
                self.spent[k, k] = self.variance[k]
        self.trusted = True

    cdef void doubt(self) noexcept nogil:
        """Others may have changed the variances."""
        self.trusted = False

    cdef double look(self, Scaled x, double unit) noexcept nogil:
        """Variance x'Sx of what is said of a row, for whose features there must be room."""
        cdef Py_ssize_t k
        cdef double total = 0.0
        for k in range(self.room()):
            self.Sx[k] = 0.0
        if self.are_true():
            self.multiply(x, unit)
        else:
            for k in range(x.n):
                self.Sx[x.index[k]] = x.value[k] * unit * (1.0 - self.variance[x.index[k]])
        for k in range(x.n):
            total += x.value[k] * unit * self.Sx[x.index[k]]
        return max(0.0, total)  # it may be rounding

    cdef void multiply(self, Scaled x, double unit) noexcept nogil:
        cdef Py_ssize_t k, j, n = self.room()
        cdef double value
        cdef double* Sx = self.Sx
        cdef const double* row
        for k in range(x.n):
            value = x.value[k] * unit
            row = &self.spent[x.index[k], 0]
            for j in range(n):
                Sx[j] -= value * row[j]
        for k in range(x.n):
            Sx[x.index[k]] += x.value[k] * unit

    cdef void move(self, Step step) noexcept nogil:
        """A step along the row that was last looked at."""
        cdef Py_ssize_t k, j, n = self.room()
        cdef double change
        cdef const double* Sx = self.Sx
        cdef double* row
        for k in range(n if step.b > 0.0 else 0):
            if Sx[k] != 0.0:
                self.mean[k] += step.a * Sx[k]
                change = step.b * Sx[k]
                row = &self.spent[k, 0]
                for j in range(n):
                    row[j] += change * Sx[j]
                self.variance[k] = row[k]

    cdef void forget(self, Scaled x, double rate) noexcept nogil:
        """Let the variances of a row's features grow, up to the prior."""
        cdef Py_ssize_t k, j
        for k in range(x.n):
            j = x.index[k]
            if rate > 0.0 and x.value[k] != 0.0:
                forget(&self.spent[j, j], 1.0, rate)
                self.variance[j] = self.spent[j, j]
