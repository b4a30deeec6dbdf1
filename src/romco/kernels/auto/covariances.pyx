"""Covariances of the weights of frequent features.

A learner with diagonal covariance counts correlated features as independent evidence. The intercept
and the features that are present in a tenth of the events have a full covariance block S: a step moves
their weights by a S x, and S falls by b (Sx)(Sx)'. That costs O(n^2) per event for n such features.
All other features are independent of them.

A feature joins with the variance that it has and no covariance. It leaves when it is present in less
than a twentieth of the events, checked whenever these have doubled. In text all leave for good: a few
of so many would not help. From then on the prior variance of a weight is 1 and no longer ``prior``;
what is left of that is multiplied by ``scale`` = 1 / prior.

Stored is how much of the prior covariance, which is diagonal, is spent, so that zeros are the prior.
The variances are also stored in the rows of the other learners; whoever changes one changes both.
Shards merge the block as one Gaussian, and choose features together.
"""

import numpy as np
cimport numpy as cnp
from libc.string cimport memset
from romco.kernels.auto.gaussians cimport Step
from romco.kernels.auto.scales cimport Scaled, Scales
from romco.kernels.core.dense cimport add_products, row_times
from romco.kernels.core.triangles cimport cholesky, solve

cnp.import_array()

cdef double LEAVE_SHARE = 0.05     # and below which it leaves
cdef double FREE, CLOSED           # places that nothing has joined yet, or that nothing may join
FREE, CLOSED = -1.0, -2.0


cdef class Covariances:
    """Views of ``spent`` (n, n) and ``frequent`` (n,), and of where weights and variances are.

    ``a`` are the learner's arrays; means are in column ``mean_at`` of rows.
    """

    def __init__(self, a, spent, frequent, int mean_at, double prior, extra=None):
        cdef Py_ssize_t n = len(spent), d = len(a["features"]), f = len(a["functions"])
        self.spent, self.frequent, self.most_columns = spent, frequent, n - f
        self.shared, self.functions, self.intercept = a["features"], a["functions"], a["intercept"]
        self.mean_at, self.spent_at, self.prior = mean_at, mean_at + 1, prior
        self.extra = np.zeros((n, 1)) if extra is None else extra
        self.rooms = np.zeros((3, n)), np.zeros(d + n + f, np.uint8)
        self.Sx = <double*> cnp.PyArray_DATA(<cnp.ndarray> self.rooms[0])
        self.value = self.Sx + n
        self.row = self.value + n
        self.place = <unsigned char*> cnp.PyArray_DATA(<cnp.ndarray> self.rooms[1])
        self.active = self.place + d
        self.function_place = self.active + n
        self.matrices = Scratch()
        self.lose_track()

    cdef void find_places(self) noexcept nogil:
        """Find which features have a place."""
        cdef Py_ssize_t k = 1
        memset(self.place, 0, self.shared.shape[0])
        memset(self.function_place, 0, self.functions.shape[0])
        self.n_columns = 1
        while k < self.frequent.shape[0] and self.set_place(k):
            k += 1
        self.count = k
        self.scale = 1.0
        if k < self.frequent.shape[0] and self.frequent[k] == CLOSED:
            self.scale = 1.0 / self.prior

    cdef bint set_place(self, Py_ssize_t k) noexcept nogil:
        """Note whose the place is; false if it is nobody's."""
        cdef Py_ssize_t j = <Py_ssize_t> self.frequent[k]
        if 0 <= j < self.shared.shape[0] and not self.place[j]:
            self.place[j] = <unsigned char> k
            self.n_columns += 1
            return True
        j -= FIRST_FUNCTION
        if 0 <= j < self.functions.shape[0] and not self.function_place[j]:
            self.function_place[j] = <unsigned char> k
            return True
        return False

    cdef inline bint has_column(self, Py_ssize_t k) noexcept nogil:
        """Whether a place is that of a feature."""
        return 0 < k and self.frequent[k] < FIRST_FUNCTION

    cdef inline double* row_of(self, Py_ssize_t k) noexcept nogil:
        """The numbers of a place's weight."""
        cdef Py_ssize_t j = <Py_ssize_t> self.frequent[k]
        if k == 0:
            return &self.intercept[0, 0]
        return &self.functions[j - FIRST_FUNCTION, 0] if j >= FIRST_FUNCTION else &self.shared[j, 0]

    cdef inline double* mean_of(self, Py_ssize_t k) noexcept nogil:
        """The weight of a place."""
        return self.row_of(k) + self.mean_at

    cdef inline double* spent_of(self, Py_ssize_t k) noexcept nogil:
        """What is spent of the variance of a place."""
        return self.row_of(k) + self.spent_at

    cdef void settle(self) noexcept nogil:
        """Find the places if they are not known."""
        if self.count == 0:
            self.find_places()

    cdef void lose_track(self) noexcept nogil:
        """Others may have changed which features have a place."""
        self.count = 0

    cdef bint choose(
        self, const int* counted, Py_ssize_t n, Scales units, bint leave
    ) noexcept nogil:
        """Let those of n counted features join that are frequent, and rare ones leave; true if any did.

        Rare ones leave whenever the events have doubled, or if ``leave``.
        """
        cdef double events = units.events()
        cdef Py_ssize_t k, whole = <Py_ssize_t> events
        cdef bint changed = False
        if leave or whole & (whole - 1) == 0:
            k = self.count - 1
            while k > 0:
                if self.has_column(k) \
                        and units.count_of(<Py_ssize_t> self.frequent[k]) < LEAVE_SHARE * events:
                    self.remove(k)
                    changed = True
                k -= 1
        if self.closed():
            return changed
        for k in range(n):
            if self.n_columns == self.most_columns or self.count == self.frequent.shape[0]:
                break
            if not self.place[counted[k]] and units.count_of(counted[k]) >= JOIN_SHARE * events:
                self.add(counted[k])
                changed = True
        return changed

    cdef void close(self) noexcept nogil:
        """Let all features leave for good; then `close_weight` is due for each of them."""
        while self.count > 1:
            self.remove(self.count - 1)
        self.frequent[1:] = CLOSED
        self.scale = 1.0 / self.prior

    cdef void add(self, Py_ssize_t j) noexcept nogil:
        """Give a feature, or a function, the next place."""
        cdef Py_ssize_t k = self.count
        self.spent[k, :] = 0.0
        self.spent[:, k] = 0.0
        self.frequent[k] = <double> j
        self.set_place(k)
        self.spent[k, k] = self.spent_of(k)[0]
        self.extra[k, :] = 0.0
        self.count += 1

    cdef void rebase(self, Py_ssize_t j, double ratio, double shift) noexcept nogil:
        """Express a feature's weight in a new unit and around a new centre; it has the new unit's prior.

        In the old prior the weight times ``ratio`` and the intercept plus ``shift`` times the weight
        make the same predictions. A ``ratio`` of 0 forgets the weight.
        """
        cdef Py_ssize_t i, h, k = self.place[j] if self.count else 0
        cdef double* mean = &self.shared[j, self.mean_at]
        cdef double* spent = &self.shared[j, self.spent_at]
        cdef double* first = &self.spent[0, 0]
        cdef double* row = &self.spent[k, 0]
        cdef double variance = self.prior - spent[0], excess, share
        if spent[0] == 0.0:  # never learned
            return
        self.mean_of(0)[0] += shift * mean[0]
        first[0] -= shift * shift * variance
        if k:
            first[0] += 2.0 * shift * row[0]
            for i in range(1, self.count):
                if i != k:
                    first[i] += shift * row[i]
                    self.spent[i, 0] = first[i]
                row[i] *= ratio
            row[0] = ratio * (row[0] - shift * variance)
        self.spent_of(0)[0] = first[0]
        variance *= ratio * ratio
        excess = (1.0 - 1.0 / (ratio * ratio)) / self.prior if ratio > 0.0 else 0.0
        share = excess / (1.0 + excess * variance)
        mean[0] *= ratio
        if k:
            for i in range(self.count):
                if i != k:
                    self.mean_of(i)[0] += share * mean[0] * row[i]
                    for h in range(self.count):
                        if h != k:
                            self.spent[i, h] += share * row[i] * row[h]
                    self.spent_of(i)[0] = self.spent[i, i]
            for i in range(self.count):
                row[i] *= 1.0 - share * variance
                self.spent[i, k] = row[i]
        mean[0] *= 1.0 - share * variance
        spent[0] = self.prior - variance * (1.0 - share * variance) if ratio > 0.0 else 0.0
        if k:
            row[k] = spent[0]

    cdef void remove(self, Py_ssize_t k) noexcept nogil:
        """Take the place from a feature; the last one gets it."""
        cdef Py_ssize_t i, last = self.count - 1
        self.moved = True
        self.clear_place(k)
        if k != last:
            self.clear_place(last)
            self.frequent[k] = self.frequent[last]
            self.extra[k, :] = self.extra[last, :]
            self.set_place(k)
            for i in range(last):
                if i != k:
                    self.spent[k, i] = self.spent[last, i]
                    self.spent[i, k] = self.spent[last, i]
            self.spent[k, k] = self.spent[last, last]
        self.frequent[last] = FREE
        self.extra[last, :] = 0.0
        self.spent[last, :] = 0.0
        self.spent[:, last] = 0.0
        self.count -= 1

    cdef void clear_place(self, Py_ssize_t k) noexcept nogil:
        """Let a place be nobody's."""
        cdef Py_ssize_t j = <Py_ssize_t> self.frequent[k]
        if j >= FIRST_FUNCTION:
            self.function_place[j - FIRST_FUNCTION] = 0
        else:
            self.place[j] = 0
            self.n_columns -= 1

    def read_block(self):
        """Return means, and below them what is spent of the covariances (1 + n, n)."""
        self.settle()
        cdef Py_ssize_t k, n = self.count
        cdef double[:, ::1] block = np.empty((1 + n, n))
        block[1:] = self.spent[:n, :n]
        for k in range(n):
            block[0, k] = self.mean_of(k)[0]
        return np.asarray(block)

    def put_block(self, const double[:, ::1] block not None):
        """Replace what `read_block` returned."""
        self.settle()
        cdef Py_ssize_t k, n = self.count
        if block.shape[0] != n + 1 or block.shape[1] != n:
            raise ValueError(f"expected covariances of {n} weights, got {block.shape[1]}")
        self.spent[:n, :n] = block[1:]
        for k in range(n):
            self.mean_of(k)[0], self.spent_of(k)[0] = block[0, k], block[k + 1, k]

    cdef double read(
        self, Scaled x, double unit, const int* functions, const double* values, Py_ssize_t n_functions
    ) noexcept nogil:
        """Variance of a row's margin, intercept included, beyond the features' own variances.

        What functions add to the margin is in `margin`; all of their variance is in the result.
        """
        cdef Py_ssize_t i, j, k, n, a = 1
        cdef double value, total
        cdef double* Sx = self.Sx
        self.settle()
        n = self.count
        self.active[0], self.value[0] = 0, 1.0
        if n > 1:
            for k in range(x.n):
                i = self.place[x.index[k]]
                if i:
                    self.active[a], self.value[a] = <unsigned char> i, x.value[k] * unit
                    a += 1
        self.n_active_columns = a
        self.margin = 0.0
        for k in range(n_functions):
            i = self.function_place[functions[k]]
            if i:
                self.active[a], self.value[a] = <unsigned char> i, values[k]
                self.margin += values[k] * self.mean_of(i)[0]
                a += 1
        self.n_active = a
        for k in range(a):
            self.row[self.active[k]] = -self.value[k]
        row_times(n, n, self.row, &self.spent[0, 0], self.spent.shape[1], Sx)
        total = 0.0
        for k in range(a):
            Sx[self.active[k]] += self.value[k] * (self.prior if k else 1.0)
            self.row[self.active[k]] = 0.0
        for k in range(a):
            i, value = self.active[k], self.value[k]
            total += value * Sx[i]
            if self.has_column(i):
                total -= value * value * (self.prior - self.spent[i, i])
        return total

    cdef double move(self, Step step) noexcept nogil:
        """A step along the row that was last read; return how much larger the weights are.

        Their size is the square sum by their priors.
        """
        cdef Py_ssize_t k, n = self.count
        cdef const double* Sx = self.Sx
        cdef double change, grown = 0.0
        if not step.b > 0.0:
            return 0.0
        for k in range(n):
            self.value[k] = step.b * Sx[k]
        add_products(1, n, n, self.value, n, Sx, n, &self.spent[0, 0], self.spent.shape[1])
        for k in range(n):
            if Sx[k] != 0.0:
                change = step.a * Sx[k]
                grown += (2.0 * self.mean_of(k)[0] + change) * change / (self.prior if k else 1.0)
                self.mean_of(k)[0] += change
                self.spent_of(k)[0] = self.spent[k, k]
        return grown

    cdef int reserve(self) except -1 nogil:
        """Ask for the memory that `reweigh` needs."""
        cdef Py_ssize_t n = self.frequent.shape[0]
        self.matrices.take(2 * n * (n + 1))
        return 0

    cdef double known(self) noexcept nogil:
        """How many weights are known, a prior variance that is half spent counting as one half."""
        cdef Py_ssize_t k
        cdef double total = 0.0
        self.settle()
        for k in range(self.count):
            total += self.spent[k, k] / (self.prior if k else 1.0)
        return total

    cdef bint reweigh(self, double ratio, double* change) noexcept nogil:
        """Let past events count ``ratio`` times as much; false if variances exceed those of the prior.

        They may where a feature has got a new centre. ``change`` is what is added to the squared
        errors that the weights leave, by the new noise.

        With the prior covariance D and what is spent of it, C,

            A = D + (ratio - 1) C,   C <- ratio C A^-1 D,   w <- ratio D A^-1 w

        The least eigenvalue of A tells, so that the order of columns does not matter.
        """
        cdef Py_ssize_t k, i, n = self.count, width = n + 1
        cdef double* A = self.matrices.data
        cdef double* X = A + n * n     # C, and w in the last column
        cdef double* roots = X + n * width
        cdef double prior, old, new, least = 0.999 * min(1.0, ratio) * min(1.0, self.prior)
        for k in range(n):
            for i in range(n):
                A[k * n + i] = X[k * n + i] = (ratio - 1.0) * self.spent[k, i]
            A[k * n + k] += self.prior if k else 1.0
            X[k * n + k] = A[k * n + k] - least
        if cholesky(n, X, n, X, n, 0.0, roots) < n:
            return False
        cholesky(n, A, n, A, n, 0.0, roots)
        for k in range(n):
            for i in range(n):
                X[k * width + i] = self.spent[k, i]
            X[k * width + n] = self.mean_of(k)[0]
        solve(n, A, roots, width, X)
        for k in range(n):
            prior = self.prior if k else 1.0
            for i in range(n):
                self.spent[k, i] = ratio * prior * X[k * width + i]
            old, new = self.mean_of(k)[0], ratio * prior * X[k * width + n]
            change[0] += (ratio * old + new) * (old - new) / prior
            self.mean_of(k)[0] = new
            self.spent_of(k)[0] = self.spent[k, k]
        return True
