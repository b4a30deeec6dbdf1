"""Class means and common scatter of few features: an online linear discriminant.

Each class has a centre c_k, the mean of its n_k events, and all classes have the same scatter. R is
the inverse of the scatter matrix of N events, d the number of features. An event x of class k follows
Student's t about c_k:

    D_k = N (x - c_k)' R (x - c_k),   s_k = 1 + 1 / (n_k + CENTRE_PRIOR_EVENTS)
    log p(x | k) = -(N + d) / 2 log(1 + D_k / (N s_k)) - d / 2 log s_k + constant

One event is enough for a centre, where weights need many, so this input is the first to predict a new
class. An event costs O(n^2 + K n), since R changes by a matrix of rank one.
"""

import numpy as np
cimport numpy as cnp
from libc.math cimport log, log1p
from romco.kernels.auto.scales cimport Scaled
from romco.kernels.core.dense cimport dot_product

cnp.import_array()

cdef double SCATTER_PRIOR_EVENTS = 5.0  # prior of the scatter: events of variance 1
cdef double CENTRE_PRIOR_EVENTS = 0.1   # prior of a centre: as many events at the origin
cdef double MIN_LOG_ODDS = -15.0        # log-odds against the best class at which scores are cut


cdef class Centres:
    """Views of ``centre`` (K, n), ``length`` (K,), ``spent`` (n, n) and ``count`` (1,)."""

    def __init__(self, centre, length, spent, count):
        self.centre, self.length, self.spent, self.count = centre, length, spent, count
        self.buffers = np.zeros((2, len(spent)))
        self.x = <double*> cnp.PyArray_DATA(<cnp.ndarray> self.buffers)
        self.Rx = self.x + self.spent.shape[0]

    cdef Py_ssize_t room(self) noexcept nogil:
        """Return the number of features."""
        return self.spent.shape[0]

    cdef void multiply(self) noexcept nogil:
        """Rx = R x."""
        cdef Py_ssize_t i
        for i in range(self.room()):
            self.Rx[i] = self.x[i] / SCATTER_PRIOR_EVENTS \
                - dot_product(self.room(), &self.spent[i, 0], self.x)

    cdef void score(
        self, Scaled x, double width, const double* seen, double* z
    ) noexcept nogil:
        """Log-likelihoods (K,) of a row of so many features, 0 for the best."""
        cdef Py_ssize_t k, n = self.room()
        cdef double square, far, spread, best = -1e300, events = SCATTER_PRIOR_EVENTS + self.count[0]
        for k in range(n):
            self.x[k] = 0.0
        for k in range(x.n):
            self.x[x.index[k]] = x.value[k]
        self.multiply()
        square = dot_product(n, self.x, self.Rx)
        for k in range(self.centre.shape[0]):
            far = square - 2.0 * dot_product(n, &self.centre[k, 0], self.Rx) + self.length[k]
            spread = 1.0 + 1.0 / (seen[k] + CENTRE_PRIOR_EVENTS)
            z[k] = -0.5 * (events + width) * log1p(max(far, 0.0) / spread) - 0.5 * width * log(spread)
            best = max(best, z[k])
        for k in range(self.centre.shape[0]):
            z[k] = max(z[k] - best, MIN_LOG_ODDS)

    cdef void learn(self, Scaled x, Py_ssize_t label, double seen, double h) noexcept nogil:
        """Learn a row of a class that has ``seen`` events; it counts as h of them."""
        cdef Py_ssize_t i, j, k, n = self.room()
        cdef double share = h * seen / (seen + h), c, far
        cdef double* own = &self.centre[label, 0]
        for k in range(n):
            self.x[k] = -own[k]
        for k in range(x.n):
            self.x[x.index[k]] += x.value[k]
        for k in range(n):
            own[k] += h / (seen + CENTRE_PRIOR_EVENTS + h) * self.x[k]
        if share > 0.0:
            self.multiply()
            c = share / (1.0 + share * dot_product(n, self.x, self.Rx))
            for i in range(n):
                for j in range(n):
                    self.spent[i, j] += c * self.Rx[i] * self.Rx[j]
            for k in range(self.centre.shape[0]):
                far = dot_product(n, &self.centre[k, 0], self.Rx)
                self.length[k] -= c * far * far
            self.count[0] += h
        for k in range(n):
            self.x[k] = own[k]
        self.multiply()
        self.length[label] = dot_product(n, self.x, self.Rx)
