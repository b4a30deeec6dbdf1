"""Each feature in units of its own, found as events come in; O(nnz) per event.

Of the values of a feature that are not zero the count c, the mean and the sum of squared deviations
are kept, and N is the number of events. Then

    f = clip((c / N - 0.7) / 0.15, 0, 1)      only what is nearly always there is centred,
    k = t^2 / (t^2 + 1)                       shrinks the mean, with
                                              t^2 = (c - 1) * mean^2 / variance
    m = f * k * mean;   s^2 = variance + (mean - m)^2
    r = log s - g                             g: the median of log s over the features seen that
                                              are not constant
    divisor = exp(g + r * r^4 / (r^4 + 1.4^4))

so a feature near the common size keeps what its size says (as words do, whose rarity it
tells), and one far from it is brought there. A value becomes (x - m) / divisor, kept within 10 s
of the centre. A zero is no value, but for one that is stored of a feature which is centred, and binary
or there in 85 % of the events: it becomes -m / divisor. m, s and the divisor are found anew when c has
grown by a tenth, or N has where m is not zero; g when that has happened a tenth more often.
"""

import numpy as np
cimport numpy as cnp
from libc.math cimport INFINITY, exp, fabs, isfinite, log, sqrt
from romco.kernels.auto.columns cimport (
    FAR, GROWTH, LARGEST, NEAR, SMALLEST, Column, add, due, factor_of, has_zeros, mean_square, measure, scaled,
    set_factor, spreads, varies,
)
from romco.kernels.core.dense cimport dot_product
from romco.kernels.core.events cimport Row, column

from romco.kernels.core.memory import mapped_zeros

cnp.import_array()

cdef enum:
    EVENTS, COMMON, FOUND, DUE, WIDTH
    SIZE = 4                       # place in a Column

cdef Py_ssize_t LARGE = 1 << 19    # numbers that take long to clear
cdef double EMPTY = 1e-12          # |x|^2 of a row that says nothing


cdef void set_factors(Column* c, Py_ssize_t n, double common) noexcept nogil:
    """`set_factor` of many: first all logarithms, then all exponentials, so that none waits for another."""
    cdef Py_ssize_t k
    cdef double r, r4
    for k in range(n):
        c[k].factor = log(c[k].size)
    for k in range(n):
        r = c[k].factor - common
        r4 = r * r * r * r
        c[k].factor = -common - r * r4 / (r4 + NEAR * NEAR * NEAR * NEAR)
    for k in range(n):
        c[k].factor = exp(c[k].factor)


cdef class Scales:
    """Views of ``columns`` (d, 8), a Column of each feature, and ``typical`` (5,)."""

    def __init__(self, columns, typical):
        self.columns, self.typical = columns, typical
        cdef Py_ssize_t d = len(columns)
        self.indices, self.values = np.empty(d, np.int32), np.empty((3, d))
        self.index = <int*> cnp.PyArray_DATA(<cnp.ndarray> self.indices)
        self.value = <double*> cnp.PyArray_DATA(<cnp.ndarray> self.values)
        self.given, self.sizes = self.value + d, self.value + 2 * d
        self.renewed = np.empty((d, 8)), np.empty(d, np.int32)
        self.fresh = <Column*> cnp.PyArray_DATA(<cnp.ndarray> self.renewed[0])
        self.fresh_at = <int*> cnp.PyArray_DATA(<cnp.ndarray> self.renewed[1])
        self.listed = np.empty(d, np.int32)
        self.met = <int*> cnp.PyArray_DATA(<cnp.ndarray> self.listed)
        self.n_met, self.counted, self.ahead = -1, 0.0, 1.0

    cdef Scaled look(self, Row x, bint frozen) noexcept nogil:
        """A row as it would be if it were counted; in the units in use if ``frozen``.

        Columns that the row would make anew are kept for `count_seen`.
        """
        cdef Column* c
        cdef const Column* columns = <const Column*> &self.columns[0, 0]
        cdef const Column* kept
        cdef int* index = self.index
        cdef double* scaled_value = self.value
        cdef double* given = self.given
        cdef Py_ssize_t k, j, n = 0, n_fresh = 0
        cdef double value, x2 = 0.0, events = self.typical[EVENTS] + self.ahead
        for k in range(x.n):
            value = x.value[k]
            if fabs(value) > LARGEST:
                x2 = INFINITY
                continue
            j = column(x, k)
            kept = columns + j
            index[n], given[n] = <int> j, value
            if fabs(value) < SMALLEST:
                if not has_zeros(kept, events):
                    continue
                scaled_value[n] = scaled(kept, 0.0)
            elif not frozen and due(kept, kept.count + 1.0, events):
                c = self.fresh + n_fresh
                c[0] = kept[0]
                add(c, value)
                measure(c, events)
                self.fresh_at[n_fresh] = <int> n
                n_fresh += 1
            else:
                scaled_value[n] = scaled(kept, value)
            n += 1
        set_factors(self.fresh, n_fresh, self.typical[COMMON])
        for k in range(n_fresh):
            j = self.fresh_at[k]
            scaled_value[j] = scaled(self.fresh + k, given[j])
        x2 += dot_product(n, scaled_value, scaled_value)
        self.n_seen, self.seen_x2, self.n_fresh = n, x2, n_fresh
        cdef Scaled row = found(n, index, scaled_value, x2)
        if frozen:
            row.n, row.x2 = n, x2
        return row

    cdef Scaled count(self, Row x) noexcept nogil:
        """Count a row; gives it in the units that are then known."""
        self.look(x, False)
        return self.count_seen(x)

    cdef Scaled count_seen(self, Row x) noexcept nogil:
        """`count` of the row that was last looked at, in the same state: less is left to do."""
        cdef Column* columns = <Column*> &self.columns[0, 0]
        cdef const int* index = self.index
        cdef const double* given = self.given
        cdef Py_ssize_t k, n = self.n_seen, at = 0
        cdef Py_ssize_t next_fresh = self.fresh_at[0] if self.n_fresh else -1
        cdef double x2 = 0.0, common = self.typical[COMMON]
        self.begin_count()
        for k in range(n):
            if k == next_fresh:
                at += 1
                next_fresh = self.fresh_at[at] if at < self.n_fresh else -1
            elif fabs(given[k]) >= SMALLEST:
                add(columns + index[k], given[k])
        self.put_fresh()
        if not self.find_common() or self.typical[COMMON] == common:
            return found(n, self.index, self.value, self.seen_x2)
        for k in range(self.n_fresh):
            set_factor(columns + index[self.fresh_at[k]], self.typical[COMMON])
        for k in range(n):
            self.value[k] = scaled(columns + index[k], given[k])
            x2 += self.value[k] * self.value[k]
        return found(n, self.index, self.value, x2)

    cdef void begin_count(self) noexcept nogil:
        """One more event."""
        if self.counted != self.typical[EVENTS]:  # others have changed the columns
            self.n_met = -1
        self.typical[EVENTS] += 1.0
        self.counted = self.typical[EVENTS]

    cdef inline void meet(self, int j) noexcept nogil:
        """List a feature that had no size; list all anew if that cannot be."""
        if self.n_met == self.columns.shape[0]:
            self.n_met = -1
        if self.n_met >= 0:
            self.met[self.n_met] = j
            self.n_met += 1

    cdef void lose_track(self) noexcept nogil:
        """Others have changed the columns."""
        self.n_met = -1

    cdef void put_fresh(self) noexcept nogil:
        """The columns that the row that was last looked at makes anew, where they belong."""
        cdef Column* c
        cdef Py_ssize_t k
        cdef int j
        if self.n_seen > 0:  # features of a row rise
            self.typical[WIDTH] = max(self.typical[WIDTH], self.index[self.n_seen - 1] + 1.0)
        for k in range(self.n_fresh):
            j = self.index[self.fresh_at[k]]
            c = <Column*> &self.columns[j, 0]
            if c.size == 0.0:
                self.meet(j)
            c[0] = self.fresh[k]
        self.typical[FOUND] += <double> self.n_fresh

    cdef bint find_common(self) noexcept nogil:
        """Find the common size anew if it is time, and say so."""
        if self.held or not (self.typical[FOUND] >= self.typical[DUE] and self.typical[FOUND] > 0.0):
            return False
        self.typical[COMMON] = self.median()
        self.typical[DUE] = GROWTH * self.typical[FOUND]
        return True

    cdef double median(self) noexcept nogil:
        """Return the median log size of the features seen, the upper one of two.

        One odd unit does not move it.
        """
        cdef Py_ssize_t k, n = 0
        cdef const Column* c
        if self.n_met < 0:
            self.list_met()
        for k in range(self.n_met):
            c = <const Column*> &self.columns[self.met[k], 0]
            if varies(c):
                self.sizes[n] = c.size
                n += 1
        if n == 0:
            return 0.0
        return log(select(self.sizes, n, n // 2))  # logarithms keep the order

    cdef void list_met(self) noexcept nogil:
        """List the features that have a size."""
        cdef Py_ssize_t j
        self.n_met = 0
        for j in range(self.columns.shape[0]):
            if self.columns[j, SIZE] > 0.0:
                self.meet(<int> j)


cdef class SettledScales(Scales):
    """Scales whose units are replaced only where they are far off.

    Answers that are numbers may be nearly exact, so that weights must follow each change of a unit.
    Changes of the last row that was counted are listed. A constant or an indicator is not centred.
    Shards keep the units that they have until they meet; a new feature is of the common size until then.
    """

    def __init__(self, columns, typical):
        super().__init__(columns, typical)
        cdef Py_ssize_t d = len(columns)
        self.changes = np.empty((d, 8)), np.empty(d, np.int32), np.empty((2, d))
        self.before = <Column*> cnp.PyArray_DATA(<cnp.ndarray> self.changes[0])
        self.changed = <int*> cnp.PyArray_DATA(<cnp.ndarray> self.changes[1])
        self.ratio = <double*> cnp.PyArray_DATA(<cnp.ndarray> self.changes[2])
        self.moved = self.ratio + d

    cdef Scaled look(self, Row x, bint frozen) noexcept nogil:
        """A row in the units in use; a new feature gets its unit from this row."""
        cdef Scaled row = Scales.look(self, x, frozen)
        cdef const Column* c
        cdef Py_ssize_t k, n
        cdef double value, x2 = 0.0, size = exp(self.common())
        if self.n_fresh == 0 or not isfinite(row.x2):
            return row
        for k in range(self.n_fresh):
            n = self.fresh_at[k]
            c = <const Column*> &self.columns[self.index[n], 0]
            value = self.given[n]
            if c.size > 0.0:
                self.value[n] = scaled(c, value)
            elif self.held:
                self.value[n] = exp(-self.common()) * max(-FAR * size, min(FAR * size, value))
            else:
                self.value[n] = value * factor_of(fabs(value), self.common())
        for n in range(self.n_seen):
            x2 += self.value[n] * self.value[n]
        return found(self.n_seen, self.index, self.value, x2)

    cdef Scaled count_seen(self, Row x) noexcept nogil:
        cdef Py_ssize_t k, n = self.n_fresh
        cdef Scaled row
        cdef int j
        self.n_changes = 0
        for k in range(n):
            self.before[k] = (<Column*> &self.columns[self.index[self.fresh_at[k]], 0])[0]
        Scales.count_seen(self, x)
        for k in range(n):
            j = self.index[self.fresh_at[k]]
            self.settle(<Column*> &self.columns[j, 0], self.before + k, j)
        self.ahead = 0.0  # the row is counted
        row = self.look(x, False)
        self.ahead = 1.0
        return row

    cdef void settle(self, Column* c, const Column* old, int j) noexcept nogil:
        """Keep the old unit of a feature unless the new one is far off, which is listed."""
        cdef Py_ssize_t k = self.n_changes
        if self.held:
            c.centre, c.size, c.factor = old.centre, old.size, old.factor
            if old.size == 0.0:
                c.size, c.factor = exp(self.common()), exp(-self.common())
            return
        if not spreads(c):
            c.centre, c.size = 0.0, sqrt(mean_square(c))
            c.factor = factor_of(c.size, self.common())
        if old.size == 0.0:
            return
        if fabs(c.centre - old.centre) <= SETTLED_SHIFT * old.size and alike(c.factor, old.factor):
            c.centre, c.size, c.factor = old.centre, old.size, old.factor
            return
        self.changed[k], self.ratio[k] = j, old.factor / c.factor
        self.moved[k] = old.factor * (c.centre - old.centre)
        if c.centre != 0.0 and not spreads(old):  # constant so far: its weight is part of the intercept
            self.ratio[k], self.moved[k] = 0.0, old.factor * old.mean
        self.n_changes += 1

    cdef void agree(self, const int[::1] rows) noexcept nogil:
        """Find the units of some features anew, and the common size; changes are listed."""
        cdef Py_ssize_t i
        cdef Column* columns = <Column*> &self.columns[0, 0]
        cdef Column* c
        self.n_changes, self.held = 0, False
        self.lose_track()
        for i in range(rows.shape[0]):
            c = columns + rows[i]
            self.before[i] = c[0]
            if c.count > 0.0:
                measure(c, self.typical[EVENTS])
                self.typical[FOUND] += 1.0
        self.find_common()
        for i in range(rows.shape[0]):
            c = columns + rows[i]
            if c.count > 0.0:
                set_factor(c, self.common())
                self.settle(c, self.before + i, rows[i])


def aligned_zeros(Py_ssize_t n, Py_ssize_t width):
    """Zeros (n, width) that begin at a line of the cache; large ones take memory as it is touched."""
    room = mapped_zeros(n * width, np.float64, True) if n * width >= LARGE else None
    if room is None:
        room = np.zeros(n * width + 7)
    first = -(room.ctypes.data // 8) % 8
    return room[first : first + n * width].reshape(n, width)


cdef Scaled found(Py_ssize_t n, const int* index, const double* value, double x2) noexcept nogil:
    cdef Scaled row
    row.n = n if x2 >= EMPTY else 0
    row.x2 = x2 if x2 >= EMPTY else 0.0
    row.index, row.value = index, value
    return row


cdef double select(double* a, Py_ssize_t n, Py_ssize_t k) noexcept nogil:
    """The k-th smallest of n numbers, which are put into another order (Hoare's quickselect)."""
    cdef Py_ssize_t low = 0, high = n - 1, i, j
    cdef double pivot, swap
    while low < high:
        pivot = a[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while a[i] < pivot:
                i += 1
            while a[j] > pivot:
                j -= 1
            if i <= j:
                swap = a[i]
                a[i] = a[j]
                a[j] = swap
                i += 1
                j -= 1
        if k <= j:
            high = j
        elif k >= i:
            low = i
        else:
            break
    return a[k]
