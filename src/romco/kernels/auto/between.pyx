"""Features measured once for all pairs of classes; each pair centres them by itself.

The size of a feature, and with it its divisor (see `scales`), is that of the events of all classes.
A pair that took the centre of all classes, too, would have to learn by how much its own two lie off
it. So of each class is kept how often a feature was there and the sum of its values, and

    m = f * mean                           of the events of the two classes, and the one at hand,
                                           f as in `scales`, of the same events

where the feature has more than one value other than zero. A feature that has one is there or not:
taken off where the two classes nearly always have it, it would say nothing of when they do not. It is
centred as in `scales`, by the events of all classes.
"""

import numpy as np
cimport numpy as cnp
from libc.math cimport INFINITY, fabs
from libc.string cimport memcpy
from romco.kernels.auto.columns cimport (
    FAR, LARGEST, SELDOM, SMALLEST, Column, scaled_from, share_centred, spreads, within,
)
from romco.kernels.auto.scales cimport Scaled, Scales, Units, found
from romco.kernels.events cimport Row

cnp.import_array()


cdef class Measured:
    """A row that is looked at once for all pairs, and counted once.

    ``sums`` (d, K, 2) holds of each feature and class how many values were not zero, and their sum;
    ``seen`` (K,) the events of each class.
    """

    def __init__(self, Scales scales not None, sums, seen):
        self.scales, self.held, self.n_moving, self.turn = scales, False, 0, 0
        self.room = np.empty(scales.columns.shape[0] * sizeof(Moving), np.uint8)
        self.moving = <Moving*> cnp.PyArray_DATA(<cnp.ndarray> self.room)
        self.values = np.empty(scales.columns.shape[0])
        self.counted = <double*> cnp.PyArray_DATA(<cnp.ndarray> self.values)
        self.know(sums, seen)

    def know(self, sums, seen):
        """Take other arrays, of more classes."""
        self.sums, self.seen, self.nearness = sums, seen, np.empty(2 * len(seen))

    cdef void hold(self, Row x) noexcept nogil:
        """Look at a row; until it is let go, pairs look at nothing else."""
        self.held = False
        self.scales.look(x)
        self.part(x)
        self.held = True

    cdef void hold_again(self) noexcept nogil:
        """Hold the row that was held last; nothing has been counted since."""
        self.held = True

    cdef void let_go(self) noexcept nogil:
        self.held = False

    cdef bint count(self, Row x) noexcept nogil:
        """Count the row that is held; true where its units are others now."""
        cdef double common = self.scales.common()
        self.scales.count_seen(x)
        if self.scales.common() == common:
            return False
        self.scales.n_fresh = 0  # they are in their places
        self.part(x)
        return True

    cdef void count_class(self, Py_ssize_t label) noexcept nogil:
        """Count the row that is held for its class; only then, so that all pairs see the same."""
        cdef Py_ssize_t n
        cdef double* own
        self.seen[label] += 1.0
        for n in range(self.scales.n_seen):
            own = &self.sums[self.scales.index[n], label, 0]
            own[0] += 1.0
            own[1] += self.counted[n]

    cdef void part(self, Row x) noexcept nogil:
        """Part the entries of a row into those that pairs may centre, and the others."""
        cdef const Column* c
        cdef Py_ssize_t k, n = 0, at = 0
        self.n_moving, self.still, self.turn = 0, 0.0, self.turn + 1
        for k in range(x.n):
            if fabs(x.value[k]) < SMALLEST:
                continue
            if fabs(x.value[k]) > LARGEST:
                self.still = INFINITY
                continue
            c = <const Column*> &self.scales.columns[self.scales.index[n], 0]
            if not self.held:
                self.counted[n] = within(c, x.value[k])
            if at < self.scales.n_fresh and self.scales.fresh_at[at] == n:
                c, at = self.scales.fresh + at, at + 1
            self.put(c, n, x.value[k])
            n += 1

    cdef inline void put(self, const Column* c, Py_ssize_t n, double value) noexcept nogil:
        """The n-th entry, whose column is c, among those that pairs may centre or the others."""
        cdef Moving* one = self.moving + self.n_moving
        if not spreads(c):  # as the scales have it
            self.still += self.scales.value[n] * self.scales.value[n]
            return
        one.plain = scaled_from(c, value, 0.0)
        if self.may_move(self.scales.index[n]):
            one.place, one.raw, one.factor, one.limit = <int> n, value, c.factor, FAR * c.size
            self.n_moving += 1
        else:
            self.scales.value[n] = one.plain
            self.still += one.plain * one.plain

    cdef inline bint may_move(self, Py_ssize_t j) noexcept nogil:
        """Whether some class has a feature so often that a pair may centre it.

        Where none has, with this event, no two of them have together.
        """
        cdef const double* count = &self.sums[j, 0, 0]
        cdef Py_ssize_t label
        for label in range(self.seen.shape[0]):
            if count[2 * label] + 1.0 >= SELDOM * (self.seen[label] + 1.0):
                return True
        return False

    cdef Py_ssize_t nearest(self) noexcept nogil:
        """The class whose mean is nearest to the row that is held: a guess, worth nothing else."""
        cdef Py_ssize_t n, j, label, best = 0, K = self.seen.shape[0]
        cdef const double* sums
        cdef double* near = &self.nearness[0]
        cdef double* share = near + K
        cdef double factor, mean
        for label in range(K):
            near[label], share[label] = 0.0, 1.0 / (self.seen[label] + 1.0)
        for n in range(self.scales.n_seen):
            j = self.scales.index[n]
            factor = (<const Column*> &self.scales.columns[j, 0]).factor
            sums = &self.sums[j, 0, 0]
            for label in range(K):
                mean = factor * share[label] * sums[2 * label + 1]
                near[label] += mean * (factor * self.counted[n] - 0.5 * mean)
        for label in range(1, K):
            if near[label] > near[best]:
                best = label
        return best


cdef class Between(Units):
    """Units of the features for the pair of classes ``low`` and ``high``."""

    def __init__(self, Measured measured not None, Py_ssize_t low, Py_ssize_t high):
        self.measured, self.low, self.high = measured, low, high
        self.columns, self.typical = measured.scales.columns, measured.scales.typical
        self.room, self.turn = np.empty(self.columns.shape[0]), -1
        self.value = <double*> cnp.PyArray_DATA(<cnp.ndarray> self.room)

    cdef Scaled look(self, Row x) noexcept nogil:
        return self.centred() if self.measured.held else self.look_alone(x)

    # Who holds a row counts it; a pair by itself counts nothing.

    cdef Scaled count(self, Row x) noexcept nogil:
        return self.look(x)

    cdef Scaled count_seen(self, Row x) noexcept nogil:
        return self.look(x)

    cdef void take_note(self, const int[::1] rows) noexcept nogil:
        self.measured.scales.take_note(rows)

    cdef void lose_track(self) noexcept nogil:
        self.measured.scales.lose_track()

    cdef Scaled look_alone(self, Row x) noexcept nogil:
        """A row that nobody holds."""
        cdef Scaled row
        self.measured.hold(x)
        row = self.centred()
        self.measured.let_go()
        return row

    cdef Scaled centred(self) noexcept nogil:
        """The row that is held, centred by these two classes."""
        cdef const double* value = self.measured.scales.value
        cdef double x2 = self.measured.still
        if self.measured.n_moving > 0:
            if self.turn != self.measured.turn:
                self.centre()
            value, x2 = self.value, self.x2
        return found(self.measured.scales.n_seen, self.measured.scales.index, value, x2)

    cdef void centre(self) noexcept nogil:
        cdef double events = self.measured.seen[self.low] + self.measured.seen[self.high] + 1.0
        cdef double count, mean, value
        cdef const double* sums
        cdef const double* low
        cdef const double* high
        cdef const Moving* one
        cdef Py_ssize_t k
        memcpy(self.value, self.measured.scales.value, self.measured.scales.n_seen * sizeof(double))
        self.x2, self.turn = self.measured.still, self.measured.turn
        for k in range(self.measured.n_moving):
            one = self.measured.moving + k
            sums = &self.measured.sums[self.measured.scales.index[one.place], 0, 0]
            low, high = sums + 2 * self.low, sums + 2 * self.high
            count, value = low[0] + high[0] + 1.0, one.plain
            if count >= SELDOM * events:
                mean = (low[1] + high[1] + self.measured.counted[one.place]) / count
                value = one.raw - mean * share_centred(count, events)
                value = one.factor * max(-one.limit, min(one.limit, value))
            self.value[one.place] = value
            self.x2 += value * value
