"""Functions of columns: what a column does need not be a line, and two may act together.

A feature whose values are numbers may have up to four waves besides its line,

    cos(pi k r) / k,   k = 1 to 4,

where r is the rank of a value among the past ones. They are bounded, the same in all units, nearly
orthogonal, and constant beyond the past range, where only the line goes on. A zero that a sparse row
stores is a value. All waves of what is absent are 0, as they are on average; a zero of a dense row is
absent. Ranks come from 64 knots: at first 32 values, each twice, then 64. As many values are kept,
evenly spaced, until the number of values has doubled. Then the knots are made anew from the old ones
and these, in equal parts: whatever has moved since is followed.

Waves, and products of waves of two features or of indicators that features are there, are tested on the
way: the sum over events of residual times function, and of its square, tells how far it is from chance.
Products far from chance join whenever the events have grown by some share. Of numbers so do waves; waves
of two classes always join.

All functions are weights of the shared logistic learners, with full covariances (`covariances`).
"""

import numpy as np
cimport numpy as cnp
from libc.math cimport M_PI, M_SQRT2, cos, fabs, sqrt
from romco.kernels.core.dense cimport axpy
from romco.kernels.core.events cimport Row, column

cnp.import_array()

cdef double MAX_RESIDUAL = 10.0    # that is counted

DEFINITION_FIELDS = ("used", "feature", "order", "second", "second_order")
SKETCH_FIELDS = (
    *("count", "wait", "pace", "kept", "is_number", "known"),
    *(f"sum_{k}" for k in range(1, WAVES + 1)), *(f"square_{k}" for k in range(1, WAVES + 1)),
    *(f"knot_{k}" for k in range(KNOTS)), *(f"kept_{k}" for k in range(KNOTS)),
)
MOST_FUNCTIONS = FUNCTIONS
BASES = CROSSED * WAVES


cdef class Functions:
    """Views of sketches, definitions of functions, and sums that tell which products to take."""

    def __init__(
        self, places, definitions, scores, double wave_prior, double cross_prior, double prior
    ):
        self.places, self.definitions, self.scores = places, definitions, scores
        self.at = places.shape[1] - len(SKETCH_FIELDS)
        cdef Py_ssize_t n = len(places)
        self.room = np.zeros((n, WAVES)), np.zeros(n, np.uint8), np.zeros(n, np.int32)
        self.wave = <double*> cnp.PyArray_DATA(<cnp.ndarray> self.room[0])
        self.there = <unsigned char*> cnp.PyArray_DATA(<cnp.ndarray> self.room[1])
        self.listed = <int*> cnp.PyArray_DATA(<cnp.ndarray> self.room[2])
        self.n_listed = self.n_active = 0
        self.wave_scale, self.cross_scale = sqrt(wave_prior / prior), sqrt(cross_prior / prior)
        self.lose_track()

    cdef void lose_track(self) noexcept nogil:
        """Others may have changed which functions there are."""
        self.n_used = -1

    cdef Py_ssize_t used(self) noexcept nogil:
        """One more than the number of the last function in use."""
        cdef Py_ssize_t f
        if self.n_used < 0:
            self.n_used = 0
            for f in range(self.definitions.shape[0]):
                if self.definition(f).used != 0.0:
                    self.n_used = f + 1
        return self.n_used

    cdef void read(self, Row x) noexcept nogil:
        """Values of all functions of a row."""
        cdef Py_ssize_t e, k, f
        cdef const Definition* d
        cdef double value
        for e in range(self.n_listed):
            self.there[self.listed[e]] = False
        self.n_listed = self.n_active = 0
        self.used()
        for e in range(x.n):
            k = self.place_of(x, e)
            if k:
                self.see(k, x.value[e])
        for f in range(self.n_used):
            d = self.definition(f)
            if d.used == 0.0:
                continue
            value = self.factor(d.feature, d.order) / d.order
            if d.second >= 0.0:
                value *= self.cross_scale * self.factor(d.second, d.second_order) / d.second_order
            else:
                value *= self.wave_scale
            if value != 0.0:
                self.active[self.n_active], self.value[self.n_active] = <int> f, value
                self.n_active += 1

    cdef Py_ssize_t place_of(self, Row x, Py_ssize_t e) noexcept nogil:
        """Place of the e-th entry of a row; 0 where it has none, or is a zero of a dense row."""
        if x.index == NULL and x.value[e] == 0.0:
            return 0
        return self.place[column(x, e)]

    cdef void see(self, Py_ssize_t k, double value) noexcept nogil:
        """Waves of the value of a place, or whether it is there."""
        cdef const Sketch* s = self.sketch(k)
        cdef double* wave = self.wave + k * WAVES
        cdef double c
        if s.is_number != 0.0:
            c = cos(M_PI * rank(s.knots, value))
            wave[0] = M_SQRT2 * c
            wave[1] = M_SQRT2 * (2.0 * c * c - 1.0)
            wave[2] = 2.0 * c * wave[1] - wave[0]
            wave[3] = 2.0 * c * wave[2] - wave[1]
        elif value != 0.0:
            wave[0] = 1.0
            wave[1] = wave[2] = wave[3] = 0.0
        else:
            return
        self.there[k] = True
        self.listed[self.n_listed] = <int> k
        self.n_listed += 1

    cdef double factor(self, double feature, double order) noexcept nogil:
        """The value of one factor of a function."""
        cdef Py_ssize_t k
        if not (0.0 <= feature < self.n_features and 1.0 <= order <= WAVES):  # a file may lie
            return 0.0
        k = self.place[<Py_ssize_t> feature]
        if not k or not self.there[k]:
            return 0.0
        return self.wave[k * WAVES + <Py_ssize_t> order - 1]

    cdef void count(self, Row x) noexcept nogil:
        """Count the values of a row."""
        cdef Py_ssize_t e, k
        for e in range(x.n):
            k = self.place_of(x, e)
            if not k:
                continue
            count_value(self.sketch(k), x.value[e], self.held)

    cdef void score(self, double residual) noexcept nogil:
        """Add the residual of the row that was last read to the sums of all waves and products."""
        cdef double[CROSSED * WAVES] value
        cdef double[CROSSED * WAVES] square
        cdef Py_ssize_t e, k, o, i, n = 0
        cdef double term
        cdef double* wave
        cdef Sketch* s
        if self.scores.shape[0] == 0:
            return
        residual = max(-MAX_RESIDUAL, min(MAX_RESIDUAL, residual))
        for i in range(CROSSED * WAVES):
            value[i] = square[i] = 0.0
        for e in range(self.n_listed):
            k = self.listed[e]
            s, wave = self.sketch(k), self.wave + k * WAVES
            for o in range(WAVES if s.is_number != 0.0 else 0):
                term = residual * wave[o]
                s.sums[o] += term
                s.squares[o] += term * term
            for o in range(WAVES if k <= CROSSED else 0):
                i = (k - 1) * WAVES + o
                value[i], square[i] = wave[o], wave[o] * wave[o]
                n = max(n, i + 1)
        for i in range(n):  # each with those before it
            if value[i] != 0.0:
                term = residual * value[i]
                axpy(i, term, value, &self.scores[i, 0])
                axpy(i, term * term, square, &self.scores[i, CROSSED * WAVES])

    cdef Py_ssize_t free(self) noexcept nogil:
        """A function that is not in use, or -1."""
        cdef Py_ssize_t f
        for f in range(self.definitions.shape[0]):
            if self.definition(f).used == 0.0:
                return f
        return -1

    cdef bint is_known(self, const Definition* d) noexcept nogil:
        """Whether there is such a product, in either order."""
        cdef Py_ssize_t f
        cdef const Definition* o
        for f in range(self.definitions.shape[0]):
            o = self.definition(f)
            if o.used == 0.0:
                continue
            if o.feature == d.feature and o.order == d.order and o.second == d.second \
                    and o.second_order == d.second_order:
                return True
            if o.feature == d.second and o.order == d.second_order and o.second == d.feature \
                    and o.second_order == d.order:
                return True
        return False

    cdef bint best_product(self, double threshold, Definition* best) noexcept nogil:
        """Find the product farthest from chance that was not yet found; features are given by place."""
        cdef Py_ssize_t i, j, top = -1, other = -1
        cdef double z, most = threshold
        for i in range(CROSSED * WAVES):
            for j in range(i // WAVES * WAVES):
                z = surprise(self.scores[i, j], self.scores[i, CROSSED * WAVES + j])
                if z > most:
                    most, top, other = z, i, j
        if top < 0:
            return False
        self.scores[top, other] = self.scores[top, CROSSED * WAVES + other] = 0.0  # begin anew
        best.used = 1.0
        best.feature, best.order = top // WAVES + 1, top % WAVES + 1
        best.second, best.second_order = other // WAVES + 1, other % WAVES + 1
        return True


cdef double rank(const double* knots, double value) noexcept nogil:
    """Rank of a value among the knots, from 0 to 1."""
    cdef Py_ssize_t low = 0, high = KNOTS, middle, first
    while low < high:  # how many are smaller
        middle = (low + high) // 2
        if knots[middle] < value:
            low = middle + 1
        else:
            high = middle
    first = low
    while low < KNOTS and knots[low] == value:
        low += 1
    if low > first:
        return 0.5 * (first + low) / KNOTS
    if first == 0:
        return 0.0
    if first == KNOTS:
        return 1.0
    return (first - 0.5 + (value - knots[first - 1]) / (knots[first] - knots[first - 1])) / KNOTS


cdef void count_value(Sketch* s, double value, bint held) noexcept nogil:
    """Count a value of a feature; while ``held`` knots stay as they are."""
    s.count += 1.0
    if s.wait > 1.0:
        s.wait -= 1.0
        return
    if held and s.kept >= KNOTS:
        return
    if not 0.0 <= s.kept < KNOTS:  # a file may lie
        s.kept = 0.0
    s.buffer[<Py_ssize_t> s.kept] = value
    s.kept += 1.0
    s.wait = s.pace
    if held:
        return
    if s.kept >= KNOTS:
        make_knots(s, s.buffer)
    elif s.known == 0.0 and s.kept == FIRST_KNOTS:
        make_first_knots(s)


def merge_sketches(double[:, ::1] start not None, list shards not None, Py_ssize_t first):
    """Merge sketches of shards, in order, into the one that they began with.

    Rows hold a sketch from their column ``first`` on. Values that shards have kept are joined. Once
    they are enough for knots, these are made anew; the values are the evenly spaced ones of them.
    """
    cdef Py_ssize_t i, j, k, n, kept, own_kept
    cdef double[::1] values = np.empty((1 + len(shards)) * KNOTS)
    cdef double[KNOTS] spaced
    cdef const double[:, ::1] rows
    cdef double before
    cdef Sketch* s
    cdef const Sketch* own
    if start.shape[1] < first + <Py_ssize_t> (sizeof(Sketch) // sizeof(double)):
        raise ValueError("rows are too short for a sketch")
    for k in range(start.shape[0]):
        s = <Sketch*> &start[k, first]
        before, kept = s.count, kept_values(s)
        n = kept
        for i in range(kept):
            values[i] = s.buffer[i]
        for rows in shards:
            if rows.shape[0] != start.shape[0] or rows.shape[1] != start.shape[1]:
                raise ValueError("sketches of different sizes")
            own = <const Sketch*> &rows[k, first]
            s.count += own.count - before
            s.wait = own.wait
            own_kept = kept_values(own)
            for i in range(kept, own_kept):
                values[n] = own.buffer[i]
                n += 1
        if n < KNOTS:
            for i in range(kept, n):
                s.buffer[i] = values[i]
            s.kept = n
            continue
        np.asarray(values)[:n].sort()
        for i in range(KNOTS):
            j = (2 * i + 1) * n // (2 * KNOTS)
            spaced[i] = values[j]
        make_knots(s, spaced)


cdef Py_ssize_t kept_values(const Sketch* s) noexcept nogil:
    """Number of values in the buffer."""
    return <Py_ssize_t> max(0.0, min(<double> KNOTS, s.kept))


cdef void make_first_knots(Sketch* s) noexcept nogil:
    """Make knots from the few values that are kept, each several times."""
    cdef double[KNOTS] repeated
    cdef Py_ssize_t i
    for i in range(KNOTS):
        repeated[i] = s.buffer[i * FIRST_KNOTS // KNOTS]
    make_knots(s, repeated)
    s.kept = FIRST_KNOTS


cdef void make_knots(Sketch* s, const double* values) noexcept nogil:
    """Make the knots anew from as many values, and from the old ones if these are of others."""
    cdef double[2 * KNOTS] all_
    cdef Py_ssize_t n = KNOTS, i, k
    cdef double value
    for i in range(KNOTS):
        all_[i] = values[i]
    if s.known != 0.0 and s.count > KNOTS:
        for i in range(KNOTS):
            all_[KNOTS + i] = s.knots[i]
        n = 2 * KNOTS
    for i in range(1, n):  # insertion sort
        value = all_[i]
        k = i
        while k > 0 and all_[k - 1] > value:
            all_[k] = all_[k - 1]
            k -= 1
        all_[k] = value
    for i in range(KNOTS):
        s.knots[i] = all_[i] if n == KNOTS else all_[2 * i + (i & 1)]
    s.known = 1.0
    s.is_number = n_values(s) > 2
    s.kept = 0.0
    s.pace = s.wait = max(1.0, s.count / KNOTS)


cdef Py_ssize_t n_values(const Sketch* s) noexcept nogil:
    """Number of different knots."""
    cdef Py_ssize_t k, n = 1
    for k in range(1, KNOTS):
        n += s.knots[k] > s.knots[k - 1]
    return n


cdef double surprise(double sum_, double square) noexcept nogil:
    """How many standard deviations a sum is from chance."""
    return fabs(sum_) / sqrt(square) if square > 0.0 else 0.0
