"""Shards that learned apart become one again: which rows they touched, and what is made of them.

What a shard changed in a row of a shared array since all agreed is an *entry*. Entries are listed
row by row, and merged where they lie: in the arrays of the shards themselves, or in blocks that
were sent. A row that one shard alone changed is taken as it is, so what is not
shared in fact costs no rounding.
"""

import numpy as np
cimport numpy as cnp
from libc.float cimport DBL_EPSILON
from libc.math cimport exp, log1p

cnp.import_array()

cdef double SURELY = 1.0 - 1e-6        # a precision below this share of another is no rounding


cdef int BLOCK = 2048                  # rows merged by one rule before the next: they stay in the cache


cdef class Entries:
    """Rows that shards changed: ``rows`` (u,), sorted, and of each row the shards, in their order.

    ``rows`` and ``seen`` list, for each shard, the features that it touched and how often. Those of
    the r-th row are the entries ``starts[r]`` to ``starts[r + 1] - 1``: ``shard`` tells whose
    one is, ``place`` at which row of that shard's arrays it lies; ``live`` tells that these
    have a row for every feature, not only for those that were touched.
    """

    cdef readonly object rows, starts, shard, place, seen
    cdef const int* row
    cdef const long long* start
    cdef int* whose
    cdef int* at
    cdef int* often
    cdef readonly Py_ssize_t n_rows

    def __init__(self, rows, seen, Py_ssize_t n_features, bint live):
        cdef Py_ssize_t total = sum(map(len, rows)), used = 0, k
        slots = np.zeros(n_features, dtype=np.int32)  # first how many entries, then where they begin
        cdef int[::1] slot = slots
        listed = np.empty(total, dtype=np.int32)
        for own, often in zip(rows, seen, strict=True):
            if len(own) != len(often):
                raise ValueError(f"{len(own)} rows were touched, but {len(often)} are counted")
            used = self.count(own, slot, listed, used)
        self.rows = np.sort(listed[:used])
        self.starts = np.empty(used + 1, dtype=np.int64)
        self.shard, self.place, self.seen = (np.empty(total, dtype=np.int32) for _ in range(3))
        self.n_rows = used
        self.row = <int*> cnp.PyArray_DATA(<cnp.ndarray> self.rows)
        self.start = <long long*> cnp.PyArray_DATA(<cnp.ndarray> self.starts)
        self.whose = <int*> cnp.PyArray_DATA(<cnp.ndarray> self.shard)
        self.at = <int*> cnp.PyArray_DATA(<cnp.ndarray> self.place)
        self.often = <int*> cnp.PyArray_DATA(<cnp.ndarray> self.seen)
        self.begin(slot, <long long*> self.start)
        for k in range(len(rows)):
            self.enter(<int> k, rows[k], seen[k], slot, live)

    cdef Py_ssize_t count(self, const int[::1] own, int[::1] slot, int[::1] listed, Py_ssize_t used) except -1:
        cdef Py_ssize_t i
        cdef int j
        with nogil:
            for i in range(own.shape[0]):
                j = own[i]
                if j < 0 or j >= slot.shape[0]:
                    with gil:
                        raise ValueError(f"feature {j} was touched, but there are {slot.shape[0]}")
                if slot[j] == 0:
                    listed[used] = j
                    used += 1
                slot[j] += 1
        return used

    cdef void begin(self, int[::1] slot, long long* start) noexcept nogil:
        cdef Py_ssize_t r
        cdef int at = 0, n
        for r in range(self.n_rows):
            start[r] = at
            n = slot[self.row[r]]
            slot[self.row[r]] = at
            at += n
        start[self.n_rows] = at

    cdef enter(self, int k, const int[::1] own, const int[::1] often, int[::1] slot, bint live):
        cdef Py_ssize_t i
        cdef int e
        with nogil:
            for i in range(own.shape[0]):
                e = slot[own[i]]
                slot[own[i]] += 1
                self.whose[e] = k
                self.at[e] = own[i] if live else <int> i
                self.often[e] = often[i]


cdef class Column:
    """A column of an array of which the common start has a row per feature, and each shard some.

    ``own`` are those of the shards; where they are ``live`` they get what is made of them, too.
    """

    cdef object kept                         # the arrays behind the pointers
    cdef double* common
    cdef double** own
    cdef Py_ssize_t* step                    # from row to row, of each
    cdef Py_ssize_t common_step, n
    cdef bint live

    def __init__(self, cnp.ndarray common not None, list own not None, bint live):
        cdef Py_ssize_t k
        self.n, self.live = len(own), live
        pointers, steps = np.empty(self.n, dtype=np.uintp), np.empty(self.n, dtype=np.intp)
        self.kept = (common, own, pointers, steps)
        self.own = <double**> cnp.PyArray_DATA(<cnp.ndarray> pointers)
        self.step = <Py_ssize_t*> cnp.PyArray_DATA(<cnp.ndarray> steps)
        self.common, self.common_step = first(common), step(common)
        for k in range(self.n):
            self.own[k], self.step[k] = first(own[k]), step(own[k])

    cdef inline double of(self, Entries entries, Py_ssize_t e) noexcept nogil:
        """What the shard of an entry holds."""
        cdef int k = entries.whose[e]
        return self.own[k][entries.at[e] * self.step[k]]

    cdef inline void put(self, Py_ssize_t row, double value) noexcept nogil:
        cdef Py_ssize_t k
        self.common[row * self.common_step] = value
        if self.live:
            for k in range(self.n):
                self.own[k][row * self.step[k]] = value


cdef double* first(cnp.ndarray column) except NULL:
    if cnp.PyArray_TYPE(column) != cnp.NPY_FLOAT64 or cnp.PyArray_NDIM(column) != 1:
        raise TypeError(f"expected a column of float64, got {column.dtype} with {column.ndim} axes")
    return <double*> cnp.PyArray_DATA(column)


cdef Py_ssize_t step(cnp.ndarray column) noexcept:
    return cnp.PyArray_STRIDE(column, 0) // <Py_ssize_t> sizeof(double)


cdef class Rule:
    """How entries of some columns become one (abstract)."""

    cdef void look(self, Entries entries) noexcept nogil:
        """Before any row is merged."""

    cdef void merge(self, Entries entries, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
        """The rows from begin to end."""


cdef class Beliefs(Rule):
    """Gaussian beliefs about single weights: changes of precision and of precision x mean add up.

    Column ``mean`` is the mean; ``spread`` what is spent of the ``prior`` variance, or with
    ``spent`` false the variance itself. Each touch let the variance grow by 1 + ``forgetting``,
    up to the prior. Where a shard forgot more than that, what it learned cannot be told from
    what it forgot: such rows become the mean of the shards' beliefs, weighted by precision.
    """

    cdef Column mean, spread
    cdef double prior, fading
    cdef bint spent

    def __init__(
        self, Column mean not None, Column spread not None, double prior, bint spent, double forgetting
    ):
        self.mean, self.spread = mean, spread
        self.prior, self.spent, self.fading = prior, spent, log1p(forgetting)

    cdef void merge(self, Entries entries, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
        cdef Py_ssize_t r, row, e
        for r in range(begin, end):
            row, e = entries.row[r], entries.start[r]
            if entries.start[r + 1] - e == 1:
                self.mean.put(row, self.mean.of(entries, e))
                self.spread.put(row, self.spread.of(entries, e))
            else:
                self.merge_row(entries, row, e, entries.start[r + 1])

    cdef void merge_row(
        self, Entries entries, Py_ssize_t row, Py_ssize_t begin, Py_ssize_t end
    ) noexcept nogil:
        cdef double start, mu, total, precision, kept
        cdef double gain = 0.0, step = 0.0, touches = 0.0, weight = 0.0, least = 1.0 / self.prior
        cdef bint forgot = False
        cdef Py_ssize_t e
        mu = self.mean.common[row * self.mean.common_step]
        start = 1.0 / variance(self.spread.common[row * self.spread.common_step], self.prior, self.spent)
        for e in range(begin, end):
            precision = 1.0 / variance(self.spread.of(entries, e), self.prior, self.spent)
            kept = left(start, self.fading, entries.often[e], least)
            forgot = forgot or precision < SURELY * kept
            gain += precision - kept
            weight += precision
            step += precision * (self.mean.of(entries, e) - mu)
            touches += entries.often[e]
        total = max(least, left(start, self.fading, touches, least) + gain)
        mu = mu + step / (weight if forgot else total)
        if forgot:
            total = weight / (end - begin)
        self.mean.put(row, mu)
        self.spread.put(row, self.prior - 1.0 / total if self.spent else 1.0 / total)


cdef class Sums(Rule):
    """Sums: what the shards added is added up, and is never below ``least``."""

    cdef Column column
    cdef double least

    def __init__(self, Column column not None, double least):
        self.column, self.least = column, least

    cdef void merge(self, Entries entries, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
        cdef Py_ssize_t r, row, e
        cdef double start, total
        for r in range(begin, end):
            row, e = entries.row[r], entries.start[r]
            if entries.start[r + 1] - e == 1:
                self.column.put(row, self.column.of(entries, e))
                continue
            start = total = self.column.common[row * self.column.common_step]
            for e in range(entries.start[r], entries.start[r + 1]):
                total += self.column.of(entries, e) - start
            self.column.put(row, max(self.least, total))


cdef class Steps(Rule):
    """Weights without a variance: steps add up as far as they are steps in different directions.

    The sum of the shards' changes d is shortened by |d_1|^2 + |d_2|^2 + ... over |d_1 + d_2 + ...|^2
    where that is below 1: shards that all learned the same have learned it once.
    """

    cdef Column column
    cdef double share

    def __init__(self, Column column not None):
        self.column, self.share = column, 1.0

    cdef double change(self, Entries entries, Py_ssize_t r, double* apart) noexcept nogil:
        """Of all shards together in a row; the squares of theirs are added to ``apart``."""
        cdef double start = self.column.common[entries.row[r] * self.column.common_step]
        cdef double change, total = 0.0
        cdef Py_ssize_t e
        for e in range(entries.start[r], entries.start[r + 1]):
            change = self.column.of(entries, e) - start
            apart[0] += change * change
            total += change
        return total

    cdef void look(self, Entries entries) noexcept nogil:
        cdef double apart = 0.0, joint = 0.0, total
        cdef Py_ssize_t r
        for r in range(entries.n_rows):
            total = self.change(entries, r, &apart)
            joint += total * total
        self.share = apart / joint if joint > apart else 1.0

    cdef void merge(self, Entries entries, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
        cdef Py_ssize_t r, row, e
        cdef double start, apart = 0.0
        for r in range(begin, end):
            row, e = entries.row[r], entries.start[r]
            start = self.column.common[row * self.column.common_step]
            if entries.start[r + 1] - e == 1 and self.share == 1.0:
                self.column.put(row, self.column.of(entries, e))
            else:
                self.column.put(row, start + self.share * self.change(entries, r, &apart))


cdef class Latest(Rule):
    """What cannot be added: that of the shard which touched the row most, the first of equals."""

    cdef Column column

    def __init__(self, Column column not None):
        self.column = column

    cdef void merge(self, Entries entries, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
        cdef Py_ssize_t r, e, most
        for r in range(begin, end):
            most = entries.start[r]
            for e in range(most + 1, entries.start[r + 1]):
                if entries.often[e] > entries.often[most]:
                    most = e
            self.column.put(entries.row[r], self.column.of(entries, most))


def look(Entries entries not None, list rules not None):
    """What rules must know of all rows before any is merged."""
    for rule in rules:
        (<Rule?> rule).look(entries)


def merge_rows(Entries entries not None, list rules not None, Py_ssize_t begin, Py_ssize_t end):
    """Merge the rows from begin to end, which several threads may do at a time; releases the GIL."""
    cdef Py_ssize_t at
    cdef Rule rule
    if not 0 <= begin <= end <= entries.n_rows:
        raise ValueError(f"there are no rows {begin} to {end} among {entries.n_rows}")
    for at in range(begin, end, BLOCK):
        for rule in rules:
            with nogil:
                rule.merge(entries, at, min(at + BLOCK, end))


cdef inline double variance(double spread, double prior, bint spent) noexcept nogil:
    """Never 0, whatever rounding made of it."""
    return max(prior - spread if spent else spread, prior * DBL_EPSILON)


cdef inline double left(double precision, double fading, double touches, double least) noexcept nogil:
    """What so many touches leave of a precision."""
    if fading == 0.0:
        return precision
    return max(least, precision * exp(-fading * touches))
