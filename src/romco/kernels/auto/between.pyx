"""Units of features for pairs of classes; each pair has its own for features that are often present.

A feature that is rarely present is scaled by the events of all classes (see `scales`), since a pair
has too few events. A feature that is present in most events of a pair's two classes is centred and
scaled by these two: the centre of all classes would be wrong for them, and a feature that varies
little between the two would get too small a weight. Each class keeps the count, the sum and the sum
of squares of each feature. Centre m and size s of a pair are those of its two classes:

    m = f * k * mean                       with the event at hand; f and k as in `scales`
    s^2 = mean square - 2 k mean^2 + k^2 mean^2    when a class last had a tenth more values
    divisor as in `scales`, by the common size of all classes

An indicator, which has only one value other than zero, is not centred by pairs: in a pair that nearly
always has it, the events without it would be lost. It is scaled by all classes.
"""

import numpy as np
cimport numpy as cnp
from libc.math cimport INFINITY, fabs, isfinite, sqrt
from libc.string cimport memcpy
from romco.kernels.auto.columns cimport (
    FAR, FEW, GROWTH, ROUNDING, SELDOM, SMALLEST, Column, factor_of, known, scaled_from,
    share_centred, spreads, within,
)
from romco.kernels.auto.scales cimport Scaled, Scales, Units, found
from romco.kernels.core.events cimport Row

cnp.import_array()


cdef class Measured:
    """Units for all pairs of classes: a row is scaled once and counted once.

    ``sums`` (d, K, 6) holds a ``Sums`` of each feature and class, ``seen`` (K,) the number of events of
    each class.
    """

    def __init__(self, Scales scales not None, sums, seen):
        self.scales, self.held, self.n_moving, self.turn = scales, False, 0, 0
        self.room = np.empty(scales.columns.shape[0] * sizeof(Moving), np.uint8)
        self.moving = <Moving*> cnp.PyArray_DATA(<cnp.ndarray> self.room)
        self.values = np.empty(scales.columns.shape[0])
        self.counted = <double*> cnp.PyArray_DATA(<cnp.ndarray> self.values)
        self.know(sums, seen)

    def know(self, sums, seen):
        """Replace the arrays by those of more classes."""
        self.sums, self.seen, self.nearness = sums, seen, np.empty(2 * len(seen))

    cdef void hold(self, Row x) noexcept nogil:
        """Scale a row, and use it for all pairs until ``let_go``."""
        self.held = False
        self.scales.look(x)
        self.part()
        self.held = True

    cdef void hold_again(self) noexcept nogil:
        """Use the last row again; nothing has been counted since."""
        self.held = True

    cdef void let_go(self) noexcept nogil:
        self.held = False

    cdef bint count(self, Row x) noexcept nogil:
        """Count the current row; return whether its units have changed."""
        cdef double common = self.scales.common()
        self.scales.count_seen(x)
        if self.scales.common() == common:
            return False
        self.scales.n_fresh = 0  # dense: entries are in order
        self.part()
        return True

    cdef void count_class(self, Py_ssize_t label) noexcept nogil:
        """Count the current row for its class, after all pairs have used it."""
        cdef Py_ssize_t n
        cdef Sums* own
        self.seen[label] += 1.0
        for n in range(self.scales.n_seen):
            if self.counted[n] == 0.0:
                continue
            own = <Sums*> &self.sums[self.scales.index[n], label, 0]
            own.count += 1.0
            own.total += self.counted[n]
            own.square += self.counted[n] * self.counted[n]
            if own.count >= GROWTH * own.known:
                own.known, own.known_total, own.known_square = own.count, own.total, own.square

    cdef void part(self) noexcept nogil:
        """Split the entries of a row into those that pairs may centre, and the others."""
        cdef const Column* c
        cdef Py_ssize_t n, at = 0
        cdef double value
        self.n_moving, self.turn = 0, self.turn + 1
        self.still = 0.0 if isfinite(self.scales.seen_x2) else INFINITY
        for n in range(self.scales.n_seen):
            c, value = <const Column*> &self.scales.columns[self.scales.index[n], 0], self.scales.given[n]
            if not self.held:
                self.counted[n] = within(c, value) if fabs(value) >= SMALLEST else 0.0
            if at < self.scales.n_fresh and self.scales.fresh_at[at] == n:
                c, at = self.scales.fresh + at, at + 1
            self.put(c, n, value)

    cdef inline void put(self, const Column* c, Py_ssize_t n, double value) noexcept nogil:
        """Add the n-th entry, whose column is c, to those that pairs may centre, or to the others."""
        cdef Moving* one = self.moving + self.n_moving
        if not spreads(c):  # as the scales have it
            self.still += self.scales.value[n] * self.scales.value[n]
            return
        one.plain = scaled_from(c, value, 0.0)
        if self.may_move(self.scales.index[n]):
            one.place, one.raw, one.factor, one.size = <int> n, value, c.factor, c.size
            self.n_moving += 1
        else:
            self.scales.value[n] = one.plain
            self.still += one.plain * one.plain

    cdef inline bint may_move(self, Py_ssize_t j) noexcept nogil:
        """Return whether a class has the feature so often that a pair may centre it.

        If no class has, counting this event, no pair has.
        """
        cdef const Sums* sums = <const Sums*> &self.sums[j, 0, 0]
        cdef Py_ssize_t label
        for label in range(self.seen.shape[0]):
            if sums[label].count + 1.0 >= SELDOM * (self.seen[label] + 1.0):
                return True
        return False

    cdef Py_ssize_t nearest(self) noexcept nogil:
        """Return the class whose mean is nearest to the current row: a first guess."""
        cdef Py_ssize_t n, j, label, best = 0, K = self.seen.shape[0]
        cdef const Sums* sums
        cdef double* near = &self.nearness[0]
        cdef double* share = near + K
        cdef double factor, mean
        for label in range(K):
            near[label], share[label] = 0.0, 1.0 / (self.seen[label] + 1.0)
        for n in range(self.scales.n_seen):
            j = self.scales.index[n]
            factor = (<const Column*> &self.scales.columns[j, 0]).factor
            sums = <const Sums*> &self.sums[j, 0, 0]
            for label in range(K):
                mean = factor * share[label] * sums[label].total
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
        self.found_before = np.zeros((self.columns.shape[0], 4))
        self.unit = <Unit*> cnp.PyArray_DATA(<cnp.ndarray> self.found_before)

    cdef Scaled look(self, Row x) noexcept nogil:
        return self.centred() if self.measured.held else self.look_alone(x)

    # The owner of a row counts it; a pair counts nothing.

    cdef Scaled count(self, Row x) noexcept nogil:
        return self.look(x)

    cdef Scaled count_seen(self, Row x) noexcept nogil:
        return self.look(x)

    cdef void invalidate_caches(self, const int[::1] rows) noexcept nogil:
        cdef Py_ssize_t i
        self.measured.scales.invalidate_caches(rows)
        for i in range(rows.shape[0]):
            self.unit[rows[i]].known = 0.0

    cdef void lose_track(self) noexcept nogil:
        self.measured.scales.lose_track()

    cdef Scaled look_alone(self, Row x) noexcept nogil:
        """Scale a row that is not the current one."""
        cdef Scaled row
        self.measured.hold(x)
        row = self.centred()
        self.measured.let_go()
        return row

    cdef Scaled centred(self) noexcept nogil:
        """Return the current row, centred by these two classes."""
        cdef const double* value = self.measured.scales.value
        cdef double x2 = self.measured.still
        if self.measured.n_moving > 0:
            if self.turn != self.measured.turn:
                self.centre()
            value, x2 = self.value, self.x2
        return found(self.measured.scales.n_seen, self.measured.scales.index, value, x2)

    cdef void centre(self) noexcept nogil:
        cdef double events = self.measured.seen[self.low] + self.measured.seen[self.high] + 1.0
        cdef double value
        cdef Py_ssize_t k
        memcpy(self.value, self.measured.scales.value, self.measured.scales.n_seen * sizeof(double))
        self.x2, self.turn = self.measured.still, self.measured.turn
        for k in range(self.measured.n_moving):
            value = self.value_of(self.measured.moving + k, events)
            self.value[self.measured.moving[k].place] = value
            self.x2 += value * value

    cdef inline double value_of(self, const Moving* one, double events) noexcept nogil:
        """Return an entry in the units of the two classes."""
        cdef Py_ssize_t j = self.measured.scales.index[one.place]
        cdef const Sums* sums = <const Sums*> &self.measured.sums[j, 0, 0]
        cdef const Sums* low = sums + self.low
        cdef const Sums* high = sums + self.high
        cdef double x = self.measured.counted[one.place], mean, square, centre
        cdef double count = low.count + high.count + (x != 0.0), factor = one.factor, size = one.size
        cdef Unit unit
        if count < SELDOM * events:
            return one.plain
        if low.known + high.known >= FEW:
            unit = self.unit_of(j, low, high)
            factor, size = unit.factor, unit.size
        mean = (low.total + high.total + x) / count
        square = (low.square + high.square + x * x) / count
        centre = mean * share_centred(count, events) * known(count, mean, square)
        return factor * max(-FAR * size, min(FAR * size, one.raw - centre))

    cdef inline Unit unit_of(self, Py_ssize_t j, const Sums* low, const Sums* high) noexcept nogil:
        """Return size and factor of a feature; they change when those of a class are computed again."""
        cdef double count = low.known + high.known, common = self.common()
        cdef double mean, square, centre, variance
        cdef Unit* unit = self.unit + j
        if unit.known == count and unit.common == common:
            return unit[0]
        mean = (low.known_total + high.known_total) / count
        square = (low.known_square + high.known_square) / count
        centre = mean * known(count, mean, square)
        variance = square - 2.0 * centre * mean + centre * centre
        unit.size = sqrt(variance if variance > ROUNDING * square else square)
        unit.factor = factor_of(unit.size, common)
        unit.known, unit.common = count, common
        return unit[0]
