"""Merge of arrays whose rows are features.

Shards start from the same arrays and change some rows. A change of a row by a shard is an *entry*.
Entries are listed row by row and merged where they are: in the arrays of the shards, or in blocks
that were sent. A row that only one shard changed is copied, so it costs no rounding.
"""

import numpy as np
cimport numpy as cnp
from libc.float cimport DBL_EPSILON
from romco.kernels.core.bits cimport Word, lowest, mark
from romco.kernels.core.events cimport Events, Row

cnp.import_array()


cdef class FeatureCounts:
    """Number of non-zero entries of each feature since the last barrier.

    A set of bits lists the features that occurred in order, and clears them, without a scan of all.
    A stored zero may be a value, and so may any zero of a dense row: it occurs, but is not counted.
    """

    cdef object counts, bits, known         # the arrays behind the pointers
    cdef int* count                         # (d,) occurrences
    cdef Word* word                         # the set of features that occurred
    cdef Word* ever                         # the set of those of earlier periods
    cdef Py_ssize_t n_features, n_words

    def __init__(self, Py_ssize_t n_features):
        self.n_features = self.n_words = 0
        self.grow(n_features)

    def grow(self, Py_ssize_t n_features):
        """Make room for more features."""
        if n_features <= self.n_features:
            return
        counts = np.zeros(n_features, dtype=np.int32)
        bits, known = (np.zeros((n_features + 63) // 64, dtype=np.uint64) for _ in range(2))
        if self.n_features:
            counts[: self.n_features] = self.counts
            bits[: self.n_words], known[: self.n_words] = self.bits, self.known
        self.counts, self.bits, self.known = counts, bits, known
        self.n_features, self.n_words = n_features, len(bits)
        self.count = <int*> cnp.PyArray_DATA(<cnp.ndarray> counts)
        self.word = <Word*> cnp.PyArray_DATA(<cnp.ndarray> bits)
        self.ever = <Word*> cnp.PyArray_DATA(<cnp.ndarray> known)

    def add(self, Events events not None):
        """Count the entries of events; releases the GIL."""
        cdef Py_ssize_t e, k
        cdef Row x
        self.grow(events.n_features)
        with nogil:
            for e in range(events.n):
                x = events.row(e)
                if x.index == NULL:
                    for k in range(x.n):  # without a branch: several at a time
                        self.count[k] += x.value[k] != 0.0
                    continue
                for k in range(x.n):
                    mark(self.word, x.index[k])
                    self.count[x.index[k]] += x.value[k] != 0.0
            if events.n and x.index == NULL:
                for k in range(x.n):
                    mark(self.word, k)

    def rows(self):
        """Return the features that occurred, sorted, and the count of each; releases the GIL."""
        cdef int[::1] rows = listed(self.word, self.n_words)
        cdef int[::1] seen = np.empty(rows.shape[0], dtype=np.int32)
        cdef Py_ssize_t i
        with nogil:
            for i in range(rows.shape[0]):
                seen[i] = self.count[rows[i]]
        return np.asarray(rows), np.asarray(seen)

    def load(self, const int[::1] rows not None, seen):
        """Restore the result of :meth:`rows`."""
        if len(np.unique(rows)) < len(rows):
            raise ValueError("a feature is listed twice")
        self.check(rows)
        self.clear()
        self.counts[np.asarray(rows)] = seen
        mark_all(self.word, rows)

    cdef check(self, features):
        if len(features) and not 0 <= np.min(features) <= np.max(features) < self.n_features:
            raise ValueError(f"a feature is out of range; there are {self.n_features}")

    def clear(self):
        """Start a new period; costs what was touched; releases the GIL."""
        cdef Py_ssize_t w
        cdef Word left
        with nogil:
            for w in range(self.n_words):
                left = self.word[w]
                self.ever[w] |= left
                while left:
                    self.count[64 * w + lowest(left)] = 0
                    left &= left - 1
                self.word[w] = 0

    def add_earlier(self, features):
        """Mark features (k,) of earlier periods."""
        self.check(features)
        mark_all(self.ever, np.asarray(features, dtype=np.int32))

    def earlier(self):
        """Return the features of earlier periods, sorted."""
        return listed(self.ever, self.n_words)


cdef listed(const Word* word, Py_ssize_t n_words):
    """Return the members of a set, sorted."""
    cdef Py_ssize_t w, n = 0
    cdef Word left
    with nogil:
        for w in range(n_words):
            left = word[w]
            while left:
                left &= left - 1
                n += 1
    cdef int[::1] members = np.empty(n, dtype=np.int32)
    n = 0
    with nogil:
        for w in range(n_words):
            left = word[w]
            while left:
                members[n] = <int> (64 * w) + lowest(left)
                left &= left - 1
                n += 1
    return np.asarray(members)


cdef mark_all(Word* word, const int[::1] features):
    cdef Py_ssize_t i
    for i in range(features.shape[0]):
        mark(word, features[i])


def add_rows(
    double[:, ::1] total not None, const int[::1] rows not None, const int[::1] own not None,
    const double[:, ::1] values not None,
):
    """Add values of ``own`` rows, sorted, to a total of ``rows``, which has them; releases the GIL."""
    cdef Py_ssize_t i, c, at = 0, n = rows.shape[0], width = total.shape[1]
    cdef bint fits = total.shape[0] == n and values.shape[0] == own.shape[0]
    fits = fits and values.shape[1] == width
    with nogil:
        for i in range(own.shape[0] if fits else 0):
            while at < n and rows[at] < own[i]:
                at += 1
            if at == n or rows[at] != own[i]:
                fits = False
                break
            for c in range(width):
                total[at, c] += values[i, c]
    if not fits:
        raise ValueError("expected values of sorted rows, all of them among those of the total")


cdef class TouchedRows:
    """Features that each shard touched, sorted, with counts.

    ``rows(begin, end)`` of a merge takes ranges of 0 to ``size``: they are cut by the features of the
    shard that touched most. Disjoint ranges share no row.
    """

    cdef readonly Py_ssize_t size, n
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
        self.size = lengths.max(initial=0)

    cdef check(self, Py_ssize_t k):
        """Check that features exist and are sorted."""
        cdef Py_ssize_t i
        cdef int before = -1, j = 0
        cdef bint fits = True
        with nogil:
            for i in range(self.length[k]):
                j = self.row[k][i]
                if j <= before or j >= self.n_features:
                    fits = False
                    break
                before = j
        if fits:
            return
        if 0 <= j < self.n_features:
            raise ValueError(f"feature {j} comes after feature {before}: they must be in order")
        raise ValueError(f"feature {j} was touched, but there are {self.n_features}")

    def union(self):
        """Return the features that any shard touched, sorted; releases the GIL."""
        cdef Word[::1] bits = np.zeros(self.n_features // 64 + 1, dtype=np.uint64)
        cdef Py_ssize_t k, i
        with nogil:
            for k in range(self.n):
                for i in range(self.length[k]):
                    mark(&bits[0], self.row[k][i])
        return listed(&bits[0], bits.shape[0])

    cdef int feature(self, Py_ssize_t at) except -1:
        """Return the feature at which a range is cut."""
        if not 0 <= at <= self.size:
            raise ValueError(f"there are no rows up to {at} among {self.size}")
        if at == self.size:
            return self.n_features
        return self.row[self.longest][at] if at else 0

    cdef Py_ssize_t find(self, Py_ssize_t k, int feature) noexcept nogil:
        """Return the first place of a shard whose feature is not below."""
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
    """Entries of one row after the other.

    The e-th of the ``n`` entries of ``row`` is of the shard ``whose[e]``, row ``at[e]`` of its arrays,
    and counts ``often[e]``. Arrays that are ``live`` have a row for every feature, blocks that were
    sent only for touched ones.
    """

    cdef TouchedRows touches
    cdef bint live
    cdef object kept                   # the arrays behind the pointers
    cdef Py_ssize_t* next              # of each shard, where it goes on
    cdef int* whose
    cdef int* at
    cdef int* often
    cdef int row, n

    def __init__(self, TouchedRows touches not None, bint live):
        self.touches, self.live = touches, live
        nexts, entries = np.zeros(touches.n, np.intp), np.empty((3, touches.n), np.int32)
        self.kept = (nexts, entries)
        self.next = <Py_ssize_t*> cnp.PyArray_DATA(<cnp.ndarray> nexts)
        self.whose = <int*> cnp.PyArray_DATA(<cnp.ndarray> entries)
        self.at, self.often = self.whose + touches.n, self.whose + 2 * touches.n

    cdef void begin(self, int feature) noexcept nogil:
        """Start at a feature."""
        cdef Py_ssize_t k
        for k in range(self.touches.n):
            self.next[k] = self.touches.find(k, feature)

    cdef bint advance(self, int last) noexcept nogil:
        """List the entries of the next row before a last feature; false at the end."""
        cdef Py_ssize_t k, i
        cdef int row, first = last, n = 0
        for k in range(self.touches.n):
            i = self.next[k]
            if i == self.touches.length[k]:
                continue
            row = self.touches.row[k][i]
            if row < first:
                first, n = row, 0
            if row == first and row < last:
                self.whose[n] = <int> k
                self.at[n] = row if self.live else <int> i
                n += 1
        for k in range(n):
            i = self.next[self.whose[k]]
            self.often[k] = self.touches.often[self.whose[k]][i]
            self.next[self.whose[k]] = i + 1
        self.row, self.n = first, n
        return n > 0


cdef class Column:
    """A column of the common array, and of each shard's (``own``); ``live`` ones get the result, too.
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

    cdef inline double start(self, Entries entries, Py_ssize_t c = 0) noexcept nogil:
        """Return the common value of the row, c columns further on."""
        return self.common[entries.row * self.common_step + c]

    cdef inline double of(self, Entries entries, Py_ssize_t e, Py_ssize_t c = 0) noexcept nogil:
        """Return the value of an entry, c columns further on."""
        cdef int k = entries.whose[e]
        return self.own[k][entries.at[e] * self.step[k] + c]

    cdef inline void put(self, Entries entries, double value, Py_ssize_t c = 0) noexcept nogil:
        """Set the merged value, c columns further on."""
        cdef Py_ssize_t k, row = entries.row
        self.common[row * self.common_step + c] = value
        if self.live:
            for k in range(self.n):
                self.own[k][row * self.step[k] + c] = value

    cdef inline void take(self, Entries entries, Py_ssize_t e, Py_ssize_t width) noexcept nogil:
        """Set the merged values to those of an entry, ``width`` columns from this one on."""
        cdef Py_ssize_t row = entries.row
        cdef int k, whose = entries.whose[e]
        cdef const double* found = self.own[whose] + entries.at[e] * self.step[whose]
        copy(self.common + row * self.common_step, found, width)
        if self.live:
            for k in range(self.n):
                if k != whose:
                    copy(self.own[k] + row * self.step[k], found, width)

    cdef bint follows(self, Column other, Py_ssize_t by):
        """Return whether this lies ``by`` numbers after another column in every array."""
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
    """Rule to merge entries of some columns (abstract)."""

    cdef Rule after                          # the rule that comes next

    cdef void reset(self) noexcept:
        """Start a new merge."""

    cdef void look(self, Entries entries) noexcept nogil:
        """Look at a row; at all of them in order, before any is merged."""

    cdef void merge(self, Entries entries) noexcept nogil:
        """Merge a row."""

    cdef void look_all(self, Entries entries) noexcept nogil:
        """Apply this rule, then those after it."""
        self.look(entries)
        if self.after is not None:
            self.after.look_all(entries)

    cdef void merge_all(self, Entries entries) noexcept nogil:
        """Apply this rule, then those after it."""
        self.merge(entries)
        if self.after is not None:
            self.after.merge_all(entries)


cdef class SpanRule(Rule):
    """Rule for ``width`` columns side by side (abstract); ``head`` is the first of them."""

    cdef Column head
    cdef Py_ssize_t width

    def __init__(self, Column head not None, Py_ssize_t width):
        self.head, self.width = head, width


cdef class CopyRule(SpanRule):
    """Copy rows that only one shard touched."""

    cdef void merge(self, Entries entries) noexcept nogil:
        if entries.n == 1:
            self.head.take(entries, 0, self.width)


cdef inline void copy(double* place, const double* found, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        place[i] = found[i]


def side_by_side(list columns not None):
    """Return groups of columns that lie side by side: the first one, and the number of columns."""
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


cdef class GaussianRule(Rule):
    """Gaussians of single weights: changes of precision and of precision x mean are added.

    ``spread`` is the ``prior`` variance less the variance, or with ``spent`` false the variance
    itself.
    """

    cdef Column mean, spread
    cdef double prior
    cdef bint spent

    def __init__(self, Column mean not None, Column spread not None, double prior, bint spent):
        self.mean, self.spread = mean, spread
        self.prior, self.spent = prior, spent

    cdef void merge(self, Entries entries) noexcept nogil:
        cdef double start, mean, total, step = 0.0, precision
        cdef Py_ssize_t e
        if entries.n == 1:
            return
        start = total = 1.0 / variance(self.spread.start(entries), self.prior, self.spent)
        mean = self.mean.start(entries)
        for e in range(entries.n):
            precision = 1.0 / variance(self.spread.of(entries, e), self.prior, self.spent)
            total += precision - start
            step += precision * (self.mean.of(entries, e) - mean)
        total = max(1.0 / self.prior, total)
        self.mean.put(entries, mean + step / total)
        self.spread.put(entries, self.prior - 1.0 / total if self.spent else 1.0 / total)


cdef class SumRule(SpanRule):
    """Sums: changes are added."""

    cdef void merge(self, Entries entries) noexcept nogil:
        cdef Py_ssize_t e, c
        cdef double start, total
        for c in range(self.width if entries.n > 1 else 0):
            start = total = self.head.start(entries, c)
            for e in range(entries.n):
                total += self.head.of(entries, e, c) - start
            self.head.put(entries, total, c)


cdef class PooledRule(Rule):
    """Count, mean and sum of squared deviations: those of the changes are pooled (Chan, 1979)."""

    cdef Column count, mean, deviations

    def __init__(self, Column count not None, Column mean not None, Column deviations not None):
        self.count, self.mean, self.deviations = count, mean, deviations

    cdef void merge(self, Entries entries) noexcept nogil:
        cdef Pool start, pool, change
        cdef Py_ssize_t e
        if entries.n == 1:
            return
        start.count, start.mean = self.count.start(entries), self.mean.start(entries)
        start.deviations = self.deviations.start(entries)
        pool = start
        for e in range(entries.n):
            change.count, change.mean = self.count.of(entries, e), self.mean.of(entries, e)
            change.deviations = self.deviations.of(entries, e)
            change = without(change, start)
            pool = joined(pool, change)
        self.count.put(entries, pool.count)
        self.mean.put(entries, pool.mean)
        self.deviations.put(entries, pool.deviations)


cdef struct Pool:                            # of numbers
    double count, mean, deviations           # from the mean, squared and summed


cdef Pool joined(Pool a, Pool b) noexcept nogil:
    """Return the pool of the numbers of both."""
    cdef Pool both
    cdef double share, apart = b.mean - a.mean
    both.count = a.count + b.count
    share = b.count / both.count if both.count > 0.0 else 0.0
    both.mean = a.mean + share * apart
    both.deviations = a.deviations + b.deviations + a.count * share * apart * apart
    return both


cdef Pool without(Pool both, Pool a) noexcept nogil:
    """Return the pool that joined with ``a`` is ``both``."""
    cdef Pool b
    cdef double apart = both.mean - a.mean
    b.count, b.mean, b.deviations = both.count - a.count, both.mean, 0.0
    if b.count > 0.0:
        apart *= both.count / b.count
        b.mean = a.mean + apart
        b.deviations = both.deviations - a.deviations - a.count * b.count / both.count * apart * apart
        b.deviations = max(0.0, b.deviations)
    return b


cdef class StepRule(Rule):
    """Weights without a variance: changes are added, less what they have in common.

    The sum of the changes d is multiplied by (|d_1|^2 + |d_2|^2 + ...) / |d_1 + d_2 + ...|^2 where
    that is below 1: equal changes count once.
    """

    cdef Column column
    cdef double apart, joint                 # the two squares

    def __init__(self, Column column not None):
        self.column, self.apart, self.joint = column, 0.0, 0.0

    cdef void reset(self) noexcept:
        self.apart = self.joint = 0.0

    cdef double change(self, Entries entries, double* apart) noexcept nogil:
        """Return the summed change of a row; add the squares of the changes to ``apart``."""
        cdef double start = self.column.start(entries)
        cdef double change, total = 0.0
        cdef Py_ssize_t e
        for e in range(entries.n):
            change = self.column.of(entries, e) - start
            apart[0] += change * change
            total += change
        return total

    cdef void look(self, Entries entries) noexcept nogil:
        cdef double total = self.change(entries, &self.apart)
        self.joint += total * total

    cdef void merge(self, Entries entries) noexcept nogil:
        cdef double apart = 0.0
        cdef double share = self.apart / self.joint if self.joint > self.apart else 1.0
        if entries.n == 1 and share == 1.0:
            self.column.put(entries, self.column.of(entries, 0))
        else:
            self.column.put(entries, self.column.start(entries) + share * self.change(entries, &apart))


cdef class LatestRule(SpanRule):
    """Values that cannot be added: of the shard that touched the row most, of equals the first.

    With ``count``, of the shard in which that column has grown most.
    """

    cdef Column count

    def __init__(self, Column head not None, Py_ssize_t width, Column count=None):
        super().__init__(head, width)
        self.count = count

    cdef void merge(self, Entries entries) noexcept nogil:
        cdef int e, most = 0
        for e in range(1, entries.n):
            if self.events(entries, e) > self.events(entries, most):
                most = e
        if entries.n > 1:
            self.head.take(entries, most, self.width)

    cdef double events(self, Entries entries, int e) noexcept nogil:
        if self.count is None:
            return entries.often[e]
        return self.count.of(entries, e)


cdef class RowMerge:
    """A merge of touched rows by a list of rules.

    Call :meth:`look`, then :meth:`rows` for ranges, which threads may do at the same time.
    """

    cdef readonly TouchedRows touches
    cdef Rule first
    cdef bint live, looks

    def __init__(self, TouchedRows touches not None, list rules not None, bint live):
        cdef Rule rule
        self.touches, self.live = touches, live
        for rule in reversed(rules):
            rule.reset()
            rule.after, self.first = self.first, rule
            self.looks = self.looks or isinstance(rule, StepRule)

    def look(self):
        """Let the rules look at all rows before any is merged."""
        if not self.looks:
            return
        cdef Entries entries = Entries(self.touches, self.live)
        with nogil:
            entries.begin(0)
            while entries.advance(self.touches.n_features):
                self.first.look_all(entries)

    def rows(self, Py_ssize_t begin, Py_ssize_t end):
        """Merge a range of the touched rows; releases the GIL."""
        cdef Entries entries = Entries(self.touches, self.live)
        cdef int feature = self.touches.feature(begin), last = self.touches.feature(end)
        if self.first is None:
            return
        with nogil:
            entries.begin(feature)
            while entries.advance(last):
                self.first.merge_all(entries)


cdef inline double variance(double spread, double prior, bint spent) noexcept nogil:
    """Return a variance that is not 0 by rounding."""
    return max(prior - spread if spent else spread, prior * DBL_EPSILON)
