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
from romco.kernels.core.prefetch cimport ahead
from romco.kernels.core.bits cimport Word, lowest, mark

cnp.import_array()

cdef double SURELY = 1.0 - 1e-6        # a precision below this share of another is no rounding

cdef enum:
    BLOCK = 1024                       # features merged by one rule before the next: they stay in the cache
    WORDS = 16                         # of 64 bits, for as many features
    FADES = 256                        # touches up to which it is kept what they leave
    AHEAD = 12                         # rows: by then one that is asked for is there


cdef class Touches:
    """What shards touched: for each of them the features, in order, and how often.

    A range of them, from 0 to ``size`` at most, is one of features: cut where the shard that touched
    most has so many. Ranges that are disjoint share no row, and those that are all have every row.
    """

    cdef readonly Py_ssize_t size, n, total
    cdef readonly int n_features
    cdef object kept                   # the arrays behind the pointers
    cdef const int** row               # of each shard, what it touched
    cdef const int** often             # and how often
    cdef Py_ssize_t* length
    cdef Py_ssize_t longest            # the shard that touched most

    def __init__(self, rows, seen, int n_features):
        cdef Py_ssize_t k
        self.n, self.n_features = len(rows), n_features
        places = np.empty((2, self.n), dtype=np.uintp)
        lengths = np.array([len(own) for own in rows], dtype=np.intp)
        self.kept = (list(rows), list(seen), places, lengths)
        self.row = <const int**> cnp.PyArray_DATA(<cnp.ndarray> places)
        self.often = self.row + self.n
        self.length = <Py_ssize_t*> cnp.PyArray_DATA(<cnp.ndarray> lengths)
        for k in range(self.n):
            if len(rows[k]) != len(seen[k]):
                raise ValueError(f"{len(rows[k])} rows were touched, but {len(seen[k])} are counted")
            self.row[k], self.often[k] = whole_numbers(rows[k]), whole_numbers(seen[k])
            self.check(k)
        self.longest = int(lengths.argmax()) if self.n else 0
        self.size, self.total = lengths.max(initial=0), lengths.sum()

    cdef check(self, Py_ssize_t k):
        """Features are there, and in order."""
        cdef Py_ssize_t i
        cdef int before = -1, j = 0
        for i in range(self.length[k]):
            j = self.row[k][i]
            if j <= before or j >= self.n_features:
                break
            before = j
        else:
            return
        if 0 <= j < self.n_features:
            raise ValueError(f"feature {j} comes after feature {before}: they must be in order")
        raise ValueError(f"feature {j} was touched, but there are {self.n_features}")

    cdef int feature(self, Py_ssize_t at) except -1:
        """Where a range that begins or ends at ``at`` is cut."""
        if not 0 <= at <= self.size:
            raise ValueError(f"there are no rows up to {at} among {self.size}")
        if at == self.size:
            return self.n_features
        return self.row[self.longest][at] if at else 0

    cdef Py_ssize_t find(self, Py_ssize_t k, int feature) noexcept nogil:
        """The first place of a shard whose feature is not below."""
        cdef Py_ssize_t begin = 0, end = self.length[k], middle
        while begin < end:
            middle = (begin + end) // 2
            if self.row[k][middle] < feature:
                begin = middle + 1
            else:
                end = middle
        return begin


cdef const int* whole_numbers(cnp.ndarray column) except? NULL:
    if cnp.PyArray_TYPE(column) != cnp.NPY_INT32 or not cnp.PyArray_IS_C_CONTIGUOUS(column):
        raise TypeError(f"expected whole numbers side by side, got {column.dtype}")
    return <const int*> cnp.PyArray_DATA(column)


cdef class Entries:
    """The entries of some rows: those of features that are less than BLOCK apart.

    Those of the r-th row are ``start[r]`` to ``start[r + 1] - 1``, by shard: ``whose`` tells which,
    ``at`` at which row of that shard's arrays it lies; where these are ``live``, they have a
    row for every feature, else only for those that were touched. ``single`` are the rows of one
    entry, ``several`` the others.
    """

    cdef Touches touches
    cdef bint live
    cdef object kept                   # the arrays behind the pointers
    cdef Py_ssize_t* next              # of each shard, where it goes on
    cdef int* whose
    cdef int* at
    cdef int* often
    cdef int row[BLOCK]
    cdef int start[BLOCK + 1]
    cdef int single[BLOCK]
    cdef int several[BLOCK]
    cdef int slot[BLOCK]               # of each feature, first how many entries, then where they begin
    cdef Word marked[WORDS]            # features that have any
    cdef int n_rows, n_single, n_several

    def __init__(self, Touches touches not None, bint live):
        cdef Py_ssize_t room = min(touches.total, BLOCK * touches.n), i
        self.touches, self.live = touches, live
        nexts, entries = np.zeros(touches.n, dtype=np.intp), np.empty((3, room), dtype=np.int32)
        self.kept = (nexts, entries)
        self.next = <Py_ssize_t*> cnp.PyArray_DATA(<cnp.ndarray> nexts)
        self.whose = <int*> cnp.PyArray_DATA(<cnp.ndarray> entries)
        self.at, self.often = self.whose + room, self.whose + 2 * room
        for i in range(BLOCK):
            self.slot[i] = 0
        for i in range(WORDS):
            self.marked[i] = 0

    cdef void begin(self, int feature) noexcept nogil:
        """Go on from a feature."""
        cdef Py_ssize_t k
        for k in range(self.touches.n):
            self.next[k] = self.touches.find(k, feature)

    cdef bint fill(self, int last) noexcept nogil:
        """The entries of the next rows, up to a last feature; false where there are none."""
        cdef int first = last, end
        cdef Py_ssize_t k
        for k in range(self.touches.n):
            if self.next[k] < self.touches.length[k]:
                first = min(first, self.touches.row[k][self.next[k]])
        if first == last:
            return False
        end = last if last - first < BLOCK else first + BLOCK
        for k in range(self.touches.n):
            self.count(k, first, end)
        self.number(first)
        for k in range(self.touches.n):
            self.enter(k, first, end)
        for k in range(self.n_rows):
            self.slot[self.row[k] - first] = 0
        return True

    cdef void count(self, Py_ssize_t k, int first, int end) noexcept nogil:
        cdef const int* row = self.touches.row[k]
        cdef Py_ssize_t i = self.next[k]
        while i < self.touches.length[k] and row[i] < end:
            mark(self.marked, row[i] - first)
            self.slot[row[i] - first] += 1
            i += 1

    cdef void number(self, int first) noexcept nogil:
        """The rows, in order, and where the entries of each begin."""
        cdef int at = 0, w, j, n
        cdef Word left
        self.n_rows = self.n_single = self.n_several = 0
        for w in range(WORDS):
            left, self.marked[w] = self.marked[w], 0
            while left:
                j = 64 * w + lowest(left)
                left &= left - 1
                n, self.slot[j] = self.slot[j], at
                self.row[self.n_rows], self.start[self.n_rows] = first + j, at
                if n == 1:
                    self.single[self.n_single] = self.n_rows
                    self.n_single += 1
                else:
                    self.several[self.n_several] = self.n_rows
                    self.n_several += 1
                self.n_rows += 1
                at += n
        self.start[self.n_rows] = at

    cdef void enter(self, Py_ssize_t k, int first, int end) noexcept nogil:
        cdef const int* row = self.touches.row[k]
        cdef Py_ssize_t i = self.next[k]
        cdef int e
        while i < self.touches.length[k] and row[i] < end:
            e = self.slot[row[i] - first]
            self.slot[row[i] - first] = e + 1
            self.whose[e] = <int> k
            self.at[e] = row[i] if self.live else <int> i
            self.often[e] = self.touches.often[k][i]
            i += 1
        self.next[k] = i


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

    cdef inline void ask(self, Entries entries, int r, Py_ssize_t width) noexcept nogil:
        """Ask for what all hold of a row that is merged soon, so many columns from this one on."""
        cdef Py_ssize_t row = entries.row[r], k
        ahead(self.common + row * self.common_step)
        ahead(self.common + row * self.common_step + width - 1)  # it may lie in two lines
        if self.live:
            for k in range(self.n):
                ahead(self.own[k] + row * self.step[k])
                ahead(self.own[k] + row * self.step[k] + width - 1)

    cdef inline void ask_next(
        self, Entries entries, const int* rows, int i, int n, Py_ssize_t width
    ) noexcept nogil:
        """Before the i-th of n rows: ask for one that comes a while later, at first for all up to it."""
        cdef int k
        for k in range(0 if i == 0 else i + AHEAD, min(n, i + AHEAD + 1)):
            self.ask(entries, rows[k], width)

    cdef inline double of(self, Entries entries, Py_ssize_t e, Py_ssize_t c = 0) noexcept nogil:
        """What the shard of an entry holds, c columns further on."""
        cdef int k = entries.whose[e]
        return self.own[k][entries.at[e] * self.step[k] + c]

    cdef inline void put(self, Py_ssize_t row, double value, Py_ssize_t c = 0) noexcept nogil:
        """What all hold from now on, c columns further on."""
        cdef Py_ssize_t k
        self.common[row * self.common_step + c] = value
        if self.live:
            for k in range(self.n):
                self.own[k][row * self.step[k] + c] = value

    cdef inline void take(self, Entries entries, Py_ssize_t e, Py_ssize_t row, Py_ssize_t width) noexcept nogil:
        """What the shard of an entry holds becomes what all do, so many columns from this one on."""
        cdef int k, whose = entries.whose[e]
        cdef const double* found = self.own[whose] + entries.at[e] * self.step[whose]
        copy(self.common + row * self.common_step, found, width)
        if self.live:
            for k in range(self.n):
                if k != whose:
                    copy(self.own[k] + row * self.step[k], found, width)

    cdef bint follows(self, Column other, Py_ssize_t by):
        """Whether this lies, everywhere, so many numbers after another column."""
        cdef Py_ssize_t k
        cdef bint found = self.common == other.common + by and self.common_step == other.common_step
        for k in range(self.n):
            found = found and self.own[k] == other.own[k] + by and self.step[k] == other.step[k]
        return found


cdef double* first(cnp.ndarray column) except NULL:
    if cnp.PyArray_TYPE(column) != cnp.NPY_FLOAT64 or cnp.PyArray_NDIM(column) != 1:
        raise TypeError(f"expected a column of float64, got {column.dtype} with {column.ndim} axes")
    return <double*> cnp.PyArray_DATA(column)


cdef Py_ssize_t step(cnp.ndarray column) noexcept:
    return cnp.PyArray_STRIDE(column, 0) // <Py_ssize_t> sizeof(double)


cdef class Rule:
    """How entries of some columns become one (abstract)."""

    cdef Rule after                          # the rule that comes next

    cdef void look(self, Entries entries) noexcept nogil:
        """Before any row is merged: all rows, in order."""

    cdef void merge(self, Entries entries) noexcept nogil:
        """Some rows."""

    cdef void look_all(self, Entries entries) noexcept nogil:
        """This rule, and those that come after."""
        self.look(entries)
        if self.after is not None:
            self.after.look_all(entries)

    cdef void merge_all(self, Entries entries) noexcept nogil:
        """This rule, and those that come after."""
        self.merge(entries)
        if self.after is not None:
            self.after.merge_all(entries)


cdef class Copies(Rule):
    """Rows that one shard alone touched are taken as they are: ``width`` columns side by side."""

    cdef Column head                         # the first of them
    cdef Py_ssize_t width

    def __init__(self, Column head not None, Py_ssize_t width):
        self.head, self.width = head, width

    cdef void merge(self, Entries entries) noexcept nogil:
        cdef int i, r
        for i in range(entries.n_single):
            r = entries.single[i]
            self.head.ask_next(entries, entries.single, i, entries.n_single, self.width)
            self.head.take(entries, entries.start[r], entries.row[r], self.width)


cdef inline void copy(double* place, const double* found, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        place[i] = found[i]


def side_by_side(list columns not None):
    """Columns as the first ones of those that lie side by side, in the order given, and how many do."""
    cdef Column column, head = None
    cdef Py_ssize_t width = 0
    found = []
    for column in columns:
        if head is not None and column.follows(head, width):
            width += 1
            continue
        if head is not None:
            found.append((head, width))
        head, width = column, 1
    return found if head is None else [*found, (head, width)]


cdef class Beliefs(Rule):
    """Gaussian beliefs about single weights: changes of precision and of precision x mean add up.

    Column ``mean`` is the mean; ``spread`` what is spent of the ``prior`` variance, or with
    ``spent`` false the variance itself. Each touch let the variance grow by 1 + ``forgetting``,
    up to the prior. Where a shard forgot more than that, what it learned cannot be told from
    what it forgot: such rows become the mean of the shards' beliefs, weighted by precision.
    """

    cdef Column mean, spread
    cdef double prior, fading, least
    cdef bint spent
    cdef double fade[FADES]                  # what so many touches leave of one

    def __init__(
        self, Column mean not None, Column spread not None, double prior, bint spent, double forgetting
    ):
        cdef int k
        self.mean, self.spread = mean, spread
        self.prior, self.spent, self.fading = prior, spent, log1p(forgetting)
        self.least = 1.0 / prior
        for k in range(FADES):
            self.fade[k] = exp(-self.fading * k)

    cdef void merge(self, Entries entries) noexcept nogil:
        cdef int i, r
        for i in range(entries.n_several):
            r = entries.several[i]
            self.mean.ask_next(entries, entries.several, i, entries.n_several, 1)
            self.spread.ask_next(entries, entries.several, i, entries.n_several, 1)
            self.merge_row(entries, entries.row[r], entries.start[r], entries.start[r + 1])

    cdef void merge_row(
        self, Entries entries, Py_ssize_t row, Py_ssize_t begin, Py_ssize_t end
    ) noexcept nogil:
        cdef double start, mu, total, precision, kept
        cdef double gain = 0.0, step = 0.0, weight = 0.0, least = self.least
        cdef long long touches = 0
        cdef bint forgot = False
        cdef Py_ssize_t e
        mu = self.mean.common[row * self.mean.common_step]
        start = 1.0 / variance(self.spread.common[row * self.spread.common_step], self.prior, self.spent)
        for e in range(begin, end):
            precision = 1.0 / variance(self.spread.of(entries, e), self.prior, self.spent)
            kept = self.left(start, entries.often[e], least)
            forgot = forgot or precision < SURELY * kept
            gain += precision - kept
            weight += precision
            step += precision * (self.mean.of(entries, e) - mu)
            touches += entries.often[e]
        total = max(least, self.left(start, touches, least) + gain)
        mu = mu + step / (weight if forgot else total)
        if forgot:
            total = weight / (end - begin)
        self.mean.put(row, mu)
        self.spread.put(row, self.prior - 1.0 / total if self.spent else 1.0 / total)

    cdef inline double left(self, double precision, long long touches, double least) noexcept nogil:
        """What so many touches leave of a precision."""
        if self.fading == 0.0:
            return precision
        if touches < FADES:
            return max(least, precision * self.fade[touches])
        return max(least, precision * exp(-self.fading * touches))


cdef class Sums(Rule):
    """Sums, in ``width`` columns: what the shards added is added up, and is never below ``least``."""

    cdef Column head                         # the first of them
    cdef Py_ssize_t width
    cdef double least

    def __init__(self, Column head not None, Py_ssize_t width, double least):
        self.head, self.width, self.least = head, width, least

    cdef void merge(self, Entries entries) noexcept nogil:
        cdef Py_ssize_t row, e, c
        cdef int i, r
        cdef double start, total
        for i in range(entries.n_several):
            r = entries.several[i]
            row = entries.row[r]
            self.head.ask_next(entries, entries.several, i, entries.n_several, self.width)
            for c in range(self.width):
                start = total = self.head.common[row * self.head.common_step + c]
                for e in range(entries.start[r], entries.start[r + 1]):
                    total += self.head.of(entries, e, c) - start
                self.head.put(row, max(self.least, total), c)


cdef class Steps(Rule):
    """Weights without a variance: steps add up as far as they are steps in different directions.

    The sum of the shards' changes d is shortened by |d_1|^2 + |d_2|^2 + ... over |d_1 + d_2 + ...|^2
    where that is below 1: shards that all learned the same have learned it once.
    """

    cdef Column column
    cdef double apart, joint                 # the two squares

    def __init__(self, Column column not None):
        self.column, self.apart, self.joint = column, 0.0, 0.0

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
        cdef double total
        cdef Py_ssize_t r
        for r in range(entries.n_rows):
            total = self.change(entries, r, &self.apart)
            self.joint += total * total

    cdef void merge(self, Entries entries) noexcept nogil:
        cdef Py_ssize_t r, row, e
        cdef double start, apart = 0.0
        cdef double share = self.apart / self.joint if self.joint > self.apart else 1.0
        for r in range(entries.n_rows):
            row, e = entries.row[r], entries.start[r]
            start = self.column.common[row * self.column.common_step]
            if entries.start[r + 1] - e == 1 and share == 1.0:
                self.column.put(row, self.column.of(entries, e))
            else:
                self.column.put(row, start + share * self.change(entries, r, &apart))


cdef class Latest(Rule):
    """What cannot be added, in ``width`` columns: that of the shard which touched the row most.

    Of equals, the first.
    """

    cdef Column head                         # the first of them
    cdef Py_ssize_t width

    def __init__(self, Column head not None, Py_ssize_t width):
        self.head, self.width = head, width

    cdef void merge(self, Entries entries) noexcept nogil:
        cdef int i, r, e, most
        for i in range(entries.n_several):
            r = entries.several[i]
            most = entries.start[r]
            for e in range(most + 1, entries.start[r + 1]):
                if entries.often[e] > entries.often[most]:
                    most = e
            self.head.take(entries, most, entries.row[r], self.width)


cdef class Merge:
    """Rules, one after the other, for what shards touched, of arrays that may be ``live``.

    First :meth:`look`, then :meth:`rows`, in ranges that several threads may do at a time.
    """

    cdef readonly Touches touches
    cdef Rule first
    cdef bint live, looks

    def __init__(self, Touches touches not None, list rules not None, bint live):
        cdef Rule rule
        self.touches, self.live = touches, live
        for rule in reversed(rules):
            rule.after, self.first = self.first, rule
            self.looks = self.looks or isinstance(rule, Steps)

    def look(self):
        """What rules must know of all rows before any is merged."""
        if not self.looks:
            return
        cdef Entries entries = Entries(self.touches, self.live)
        with nogil:
            entries.begin(0)
            while entries.fill(self.touches.n_features):
                self.first.look_all(entries)

    def rows(self, Py_ssize_t begin, Py_ssize_t end):
        """Merge a range of what was touched; releases the GIL."""
        cdef Entries entries = Entries(self.touches, self.live)
        cdef int feature = self.touches.feature(begin), last = self.touches.feature(end)
        if self.first is None:
            return
        with nogil:
            entries.begin(feature)
            while entries.fill(last):
                self.first.merge_all(entries)


cdef inline double variance(double spread, double prior, bint spent) noexcept nogil:
    """Never 0, whatever rounding made of it."""
    return max(prior - spread if spent else spread, prior * DBL_EPSILON)
