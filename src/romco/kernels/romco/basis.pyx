"""An orthonormal set of long vectors of which only the rows an event needs are ever touched.

L (size, rank) has orthonormal columns and is kept as a product, L = B P. Three things
happen to it, and none touches more rows than an event has non-zeros:

* *reach*: an event's x gets coordinates, x = L c. Where x leaves the span of L, x itself
  becomes one more column of B, written into the rows of its non-zeros only, and L gets one
  more vector, the direction in which x left.
* *turn*: the SVD mixes the vectors, L <- L Y. That is P <- P Y, a small product. Where the
  rank did not grow, x need not stay a column: it is *folded* into the others, B <- B + x f'.
* *settle*: after enough new columns the basis is rebased, B <- B P and P <- I: an *epoch*
  ends. Each row does so only when it is next needed, by the small transform kept of each
  epoch; a row that is many epochs old needs three products (see `changes`).

So that no transform is kept for ever, a cursor walks over all rows, a few at every
rebase, and brings them up to date. It also counts B'B afresh as it goes, which
rids L of rounding errors: the Gram matrix that is kept up event by event drifts itself.
"""

cimport cython
from libc.math cimport INFINITY, fabs, fmax, sqrt
from libc.string cimport memcpy, memset
from romco.kernels.core.dense cimport add_gram, axpy, dot_product, multiply
from romco.kernels.romco.changes cimport EPOCHS, Transform
from romco.kernels.core.events cimport Row, column, square as square_of
from romco.kernels.core.memory cimport release, reserve
from romco.kernels.romco.reading cimport TOGETHER, ReadableBasis, widen
from romco.kernels.romco.rows cimport ROWS, Chunk, Head
from romco.kernels.core.triangles cimport cholesky

cdef enum:
    APPEND = 16           # new columns in an epoch, or as many as there are, if that is more
    TURNS = 64            # turns in an epoch; each leaves a little rounding in P
    FEW_NUMBERS = 65536   # in B, to be able to form a residual entry by entry
    COUNTS = 8            # epochs after which B'B is counted anew, where a pass takes only one
    FOLD_RANK = 16        # up to which folding is tried
# A new direction is what is left of x, made long: where rest of |x|^2 is left, whatever L lacks in
# orthonormality comes back sqrt(1 / rest) times larger, with every direction anew. So, where less
# than HALF is left, c is sharpened by the Gram matrix first; under CLOSE the rest is formed entry by
# entry, if that is not much more than what the event costs anyway, else |x|^2 - |c|^2 is trusted
# until there is nothing left but rounding. A direction STRAINED by long columns ends the epoch.
cdef double HALF = 0.5
cdef double CLOSE = 1e-2
cdef double INSIDE = 1e-13
cdef double NOTHING = 1e-13
cdef double NO_LENGTH = 1e-10      # squared, of a vector of L
cdef double STRAINED = 64.0
# Folding divides by P: only while P is small and far from singular.
cdef double FOLD_PIVOT = 1e-2
cdef double FOLD_LENGTH = 16.0


@cython.final
cdef class LazyBasis(ReadableBasis):
    """L (size, rank) with orthonormal columns, empty at first."""

    def __init__(self, Py_ssize_t size, bint folds=False):
        ReadableBasis.__init__(self, size)
        self.folds, self.held_event = folds, -1
        self.changes.make_ring(64 if size < 1 << 17 else 128 if size < 1 << 19 else 256)
        self.fit(APPEND + 4)
        self.store.width = APPEND + 4

    def __dealloc__(self):
        release(self.gram)
        release(self.counted)
        release(self.triangle)
        release(self.long_vector)

    # Reaching

    cdef int reach(self, Row x, Py_ssize_t event, double square, double* c) except -1 nogil:
        """Coordinates c (rank,) with x = L c, where need be after giving L one more vector.

        `event` counts the events that were looked at since `start_round`; `square` is |x|^2.
        """
        cdef double rest, length = 0.0
        cdef Py_ssize_t j
        cdef double* direction
        if self.held_event >= 0:
            self.write(NULL)
        self.recall(x, event)
        self.coordinates(self.total, c)
        rest = square - dot_product(self.rank, c, c)
        if rest <= HALF * square:
            rest = square - self.sharpen(c)
        if rest <= CLOSE * square and (
            2 * x.n >= self.store.n_rows
            or (self.store.n_rows + x.n) * self.columns <= max(
                <Py_ssize_t> FEW_NUMBERS, 16 * self.rank * self.rank  # the SVD looks at more
            )
        ):
            self.write_panel()
            return self.append_rest(x, square, c)
        if rest <= INSIDE * square:
            return 0
        rest = sqrt(rest)
        self.fit(self.columns + 1)
        # (x - L c) / rest in terms of B, whose last column will be x
        direction = self.turned + self.rank * self.ld
        memset(direction, 0, self.columns * sizeof(double))
        for j in range(self.rank):
            self.turned[j * self.ld + self.columns] = 0.0
            axpy(self.columns, -c[j] / rest, self.turned + j * self.ld, direction)
        direction[self.columns] = 1.0 / rest
        for j in range(self.columns):
            length += direction[j] * direction[j] * self.gram[j * self.ld + j]
        self.strained = self.strained or length > STRAINED
        c[self.rank] = rest
        self.rank += 1
        if self.met > 0:
            self.panel[self.n_panel] = event
            self.n_panel += 1
            self.record(0.0, square)
            return 0
        self.held, self.held_event = x, event
        return 0 if self.folds else self.write(NULL)

    cdef double sharpen(self, double* c) noexcept nogil:
        """c <- 2 c - L'L c for c = L'x, and the squared length of x's part in the span.

        That is x's part in the span to second order in L'L - I, which is known from the Gram matrix.
        """
        cdef Py_ssize_t i, k = self.columns, r = self.rank
        cdef double length = 0.0, more
        cdef double* inside = self.work             # P c
        cdef double* outside = self.work + self.ld  # B'(x - L c)
        memset(inside, 0, k * sizeof(double))
        for i in range(r):
            axpy(k, c[i], self.turned + i * self.ld, inside)
        memcpy(outside, self.total, k * sizeof(double))
        for i in range(k):
            outside[i] -= dot_product(i + 1, self.gram + i * self.ld, inside)
            axpy(i, -inside[i], self.gram + i * self.ld, outside)
        for i in range(r):
            more = dot_product(k, self.turned + i * self.ld, outside)
            length += c[i] * (c[i] + more)
            c[i] += more
        return length

    cdef int write(self, const double* fold) except -1 nogil:
        """B <- [B, x], or B + x fold', for the x that is held; brings its rows up to date."""
        cdef Py_ssize_t i, slot, stale = 0, last = 0, k = self.columns, event = self.held_event
        cdef double square_behind = 0.0, square = 0.0
        cdef double* row
        cdef Head* head
        cdef Row x = self.held
        if event < self.n_notes:
            stale, last = self.notes[event].first_stale, self.notes[event].last_stale
        for i in range(x.n):
            if x.value[i] == 0.0:
                continue
            slot = self.store.slot_of(column(x, i), self.changes.epoch)
            row = self.store.row_to_write(slot)
            head = <Head*> row
            if head.epoch != self.changes.epoch:
                if stale < last and self.stale_at[stale] == i:
                    memcpy(row + 1, self.stale_rows + stale * self.changes.base, self.changes.base * sizeof(double))
                    head.epoch, head.count = <int> self.changes.epoch, <int> self.changes.base
                else:
                    self.refresh_row(slot)
            if stale < last and self.stale_at[stale] == i:
                stale += 1
            if head.count < k:
                memset(row + 1 + head.count, 0, (k - head.count) * sizeof(double))
                head.count = <int> k
            if fold == NULL:
                row[1 + k] = x.value[i]
                head.count = <int> k + 1
            else:
                axpy(k, x.value[i], fold, row + 1)
            square += x.value[i] * x.value[i]
            if slot < self.cursor:
                square_behind += x.value[i] * x.value[i]
        self.held_event = -1
        if fold == NULL:
            self.record(square_behind, square)
        else:
            fold_in(self.gram, self.ld, k, self.total, square, fold)
            fold_in(self.counted, self.ld, k, self.behind, square_behind, fold)
        return 0

    cdef int write_panel(self) except -1 nogil:
        """B <- [B, the events that wait], row by row."""
        cdef Py_ssize_t j, p, slot, k = self.columns - self.n_panel, n = self.n_panel
        cdef const double* values
        cdef double* row
        cdef Head* head
        for j in range(self.panel_length if n > 0 else 0):
            values = self.across + j * self.n_across
            if n < self.n_across:  # some rows were not needed
                for p in range(n):
                    self.pack[p] = values[self.panel[p]]
                values = self.pack
            p = 0
            while p < n and values[p] == 0.0:
                p += 1
            if p == n:
                continue
            slot = self.store.slot_of(j, self.changes.epoch)
            self.refresh_row(slot)
            row = self.store.row_to_write(slot)
            head = <Head*> row
            if head.count < k:
                memset(row + 1 + head.count, 0, (k - head.count) * sizeof(double))
            memcpy(row + 1 + k, values, n * sizeof(double))
            head.count = <int> self.columns
        self.n_panel = self.met = 0
        return 0

    cdef int append_rest(self, Row x, double square, double* c) except -1 nogil:
        """As `reach`, for an x so close to the span that what is left must be formed to be known.

        All rows are touched. The residual is orthogonalised until nothing more goes, at least
        twice, and becomes the new column itself unless it is rounding only.
        """
        cdef Py_ssize_t i, k = self.columns
        cdef double rest, before, square_behind = 0.0
        cdef double* z
        cdef double* row
        cdef Head* head
        self.fit(k + 1)
        for i in range(x.n):
            if x.value[i] != 0.0:
                self.store.slot_of(column(x, i), self.changes.epoch)
        if self.rank == self.store.n_rows:  # L is square
            return 0
        reserve(<void**> &self.long_vector, &self.long_room, self.store.n_rows, sizeof(double))
        z = self.long_vector
        memset(z, 0, self.store.n_rows * sizeof(double))
        for i in range(x.n):
            if x.value[i] != 0.0:
                z[self.store.slots[column(x, i)] - 1] = x.value[i]
        for i in range(self.store.n_rows):
            self.refresh_row(i)
        memcpy(self.fresh, c, self.rank * sizeof(double))
        rest, before = self.remove(z, self.fresh), 0.0
        while before < INFINITY and (rest <= 0.5 * before or before == 0.0):  # where much has gone
            if rest <= NOTHING * sqrt(square):
                return 0
            self.coordinates(self.total, self.fresh)
            axpy(self.rank, 1.0, self.fresh, c)
            before, rest = rest, self.remove(z, self.fresh)
        memset(self.behind, 0, k * sizeof(double))
        memset(self.total, 0, k * sizeof(double))
        for i in range(self.store.n_rows):
            row = self.store.row_to_write(i)
            head = <Head*> row
            z[i] /= rest
            axpy(head.count, z[i], row + 1, self.behind if i < self.cursor else self.total)
            if i < self.cursor:
                square_behind += z[i] * z[i]
            memset(row + 1 + head.count, 0, (k - head.count) * sizeof(double))
            row[1 + k] = z[i]
            head.count = <int> k + 1
        axpy(k, 1.0, self.behind, self.total)
        self.record(square_behind, dot_product(self.store.n_rows, z, z))
        for i in range(self.rank):
            self.turned[i * self.ld + k] = 0.0
        memset(self.turned + self.rank * self.ld, 0, k * sizeof(double))
        self.turned[self.rank * self.ld + k] = 1.0
        c[self.rank] = rest
        self.rank += 1
        return 0

    cdef double remove(self, double* z, const double* c) noexcept nogil:
        """z -= L c, where z has an entry for every row; total <- B'z, and the length of z."""
        cdef Py_ssize_t i, k = self.columns
        cdef double* row
        multiply(1, self.rank, k, c, self.rank, self.turned, self.ld, self.behind, k)
        memset(self.total, 0, k * sizeof(double))
        for i in range(self.store.n_rows):
            row = self.store.row(i)
            z[i] -= dot_product((<Head*> row).count, row + 1, self.behind)
            axpy((<Head*> row).count, z[i], row + 1, self.total)
        return sqrt(dot_product(self.store.n_rows, z, z))

    cdef void record(self, double square_behind, double square) noexcept nogil:
        """Both Gram matrices get a row for the column that was added."""
        cdef Py_ssize_t k = self.columns
        memcpy(self.gram + k * self.ld, self.total, k * sizeof(double))
        memcpy(self.counted + k * self.ld, self.behind, k * sizeof(double))
        self.gram[k * self.ld + k] = square
        self.counted[k * self.ld + k] = square_behind
        self.columns += 1

    # Turning

    cdef int turn(self, const double* vectors, Py_ssize_t count) except -1 nogil:
        """L <- L Y, where row j of vectors (count, rank) is column j of Y."""
        cdef Py_ssize_t columns = self.columns + (self.held_event >= 0)
        cdef double* fold = self.triangle
        self.write_panel()
        multiply(count, self.rank, columns, vectors, self.rank, self.turned, self.ld,
                 self.work, self.ld)
        self.turned, self.work = self.work, self.turned
        self.rank = count
        self.turns += 1
        if self.held_event >= 0:
            self.write(fold if self.foldable(count, fold) else NULL)
        return 0

    cdef bint foldable(self, Py_ssize_t count, double* fold) noexcept nogil:
        """Whether B + x fold' can do what [B, x] does, and the fold (columns,).

        L = B P + x l, with l the last row of P', is (B + x f') P where f'P = l: the shortest such f
        is P z with P'P z = l, by Cholesky: along rows, for it ends at the first small pivot, and most
        attempts do.
        """
        cdef Py_ssize_t i, j, k = self.columns, ld = self.ld
        cdef double* M = self.work       # lower half of P'P, then its Cholesky factor
        cdef double* z = self.fresh
        if count > k or k > FOLD_RANK:
            return False
        for i in range(count):
            z[i] = self.turned[i * ld + k]
            for j in range(i + 1):
                M[i * ld + j] = dot_product(k, self.turned + i * ld, self.turned + j * ld)
        for i in range(count):
            for j in range(i):
                M[i * ld + j] = (M[i * ld + j] - dot_product(j, M + i * ld, M + j * ld)) / M[j * ld + j]
            M[i * ld + i] -= dot_product(i, M + i * ld, M + i * ld)
            if M[i * ld + i] < FOLD_PIVOT:
                return False
            M[i * ld + i] = sqrt(M[i * ld + i])
            z[i] = (z[i] - dot_product(i, M + i * ld, z)) / M[i * ld + i]
        for i in range(count - 1, -1, -1):
            z[i] /= M[i * ld + i]
            axpy(i, -z[i], M + i * ld, z)
        memset(fold, 0, k * sizeof(double))
        for i in range(count):
            axpy(k, z[i], self.turned + i * ld, fold)
        return dot_product(k, fold, fold) * square_of(self.held) <= FOLD_LENGTH

    # Settling

    cdef bint settle(self, Py_ssize_t touched) except -1 nogil:
        """End the epoch if it is time, and say so: then L is L R^-1, R in `triangle`.

        `touched` is how many rows the round touched; the cursor goes on by no less, so that
        a stream of dense events finds every row up to date.
        """
        if (
            self.columns < self.changes.base + appended(self.changes.base)
            and self.turns < TURNS and not self.strained
        ):
            return False
        self.fit(self.rank + appended(self.rank))
        self.correct()
        self.rebase()
        self.refresh(touched)
        self.strained = False
        return True

    cdef void correct(self) noexcept nogil:
        """L <- L R^-1 with R'R = L'L by Cholesky, so that L is orthonormal again."""
        cdef Py_ssize_t i, j, r = self.rank, ld = self.ld
        cdef double* R = self.triangle
        cdef double* roots = self.fresh
        self.congruence(self.gram)
        memset(R, 0, r * r * sizeof(double))
        for i in range(r):
            for j in range(i + 1):
                self.deviation = fmax(self.deviation, fabs(self.gram[i * ld + j] - (i == j)))
        cholesky(r, self.gram, ld, R, r, NO_LENGTH, roots)
        for i in range(r):
            if roots[i] == 0.0:  # no length left: forget the vector
                memset(self.turned + i * ld, 0, self.columns * sizeof(double))
                continue
            for j in range(i):
                axpy(self.columns, -R[j * r + i], self.turned + j * ld, self.turned + i * ld)
            for j in range(self.columns):
                self.turned[i * ld + j] /= roots[i]

    cdef void congruence(self, double* a) noexcept nogil:
        """a <- P'a P, for a symmetric matrix kept by its lower half."""
        cdef Py_ssize_t i, j, k = self.columns, ld = self.ld
        for i in range(k):
            for j in range(i):
                a[j * ld + i] = a[i * ld + j]
        multiply(self.rank, k, k, self.turned, ld, a, ld, self.work, ld)
        for i in range(self.rank):
            for j in range(i + 1):
                a[i * ld + j] = dot_product(k, self.work + i * ld, self.turned + j * ld)

    cdef int rebase(self) except -1 nogil:
        """B <- B P, P <- I; the next epoch begins."""
        cdef Py_ssize_t r = self.rank, ld = self.ld, i
        self.congruence(self.counted)
        self.changes.end_epoch(self.turned, ld, self.columns, r)
        self.columns = r
        memset(self.gram, 0, r * ld * sizeof(double))
        memset(self.turned, 0, r * ld * sizeof(double))
        for i in range(r):
            self.gram[i * ld + i] = self.turned[i * ld + i] = 1.0
        self.turns = 0
        return 0

    cdef int refresh(self, Py_ssize_t touched) except -1 nogil:
        """The cursor brings some rows up to date and counts them into the Gram matrix.

        Fast enough to pass all rows in half a ring of epochs; then no row's transform is lost.
        """
        cdef Py_ssize_t deadline = self.started + (self.changes.blocks // 2 - 1) * EPOCHS
        cdef Py_ssize_t slot = self.cursor, left = max(1, deadline - self.changes.epoch), end
        cdef bint counting
        end = slot + max(touched, (self.store.n_rows - slot + left - 1) // left)
        end = min(end, self.store.n_rows)
        counting = end - slot < self.store.n_rows or self.strained or self.changes.epoch % COUNTS == 0
        while slot < end:
            slot += self.refresh_run(slot, end - slot, counting)
        self.cursor = end
        if self.cursor == self.store.n_rows:
            if counting:
                memcpy(self.gram, self.counted, self.changes.base * self.ld * sizeof(double))
            memset(self.counted, 0, self.changes.base * self.ld * sizeof(double))
            self.cursor = 0
            self.changes.started_before, self.started = self.started, self.changes.epoch
        return 0

    cdef Py_ssize_t refresh_run(
        self, Py_ssize_t slot, Py_ssize_t most, bint counting
    ) except -1 nogil:
        """Bring the row up to date, or several at once; gives how many.

        Rows side by side that have every column of the epoch before need one product of matrices.
        """
        cdef Transform step = self.changes.steps[(self.changes.epoch - 1) % (self.changes.blocks * EPOCHS)]
        cdef Chunk chunk = self.store.chunks[slot // ROWS]
        cdef double* first = self.store.row(slot)
        cdef Head* head
        cdef Py_ssize_t i, j, n = 0
        most = min(most, ROWS - slot % ROWS)
        while n < most and step.cols < chunk.stride and step.data != NULL:
            head = <Head*> (first + n * chunk.stride)
            if head.epoch != self.changes.epoch - 1 or head.count != step.rows:
                break
            n += 1
        if n < TOGETHER:
            self.refresh_row(slot)
            first = self.store.row(slot) + 1
            counting = counting and (<Head*> (first - 1)).count > 0
            for j in range(self.changes.base if counting else 0):
                axpy(j + 1, first[j], first, self.counted + j * self.ld)
            return 1
        self.fit_pack(self.changes.base)
        multiply(n, step.rows, self.changes.base, first + 1, chunk.stride, step.data, self.changes.base,
                 self.pack, self.changes.base)
        if counting:
            add_gram(n, self.changes.base, self.pack, self.changes.base, self.counted, self.ld)
        for i in range(n):
            head = <Head*> (first + i * chunk.stride)
            head.epoch, head.count = <int> self.changes.epoch, <int> self.changes.base
            memcpy(<double*> head + 1, self.pack + i * self.changes.base, self.changes.base * sizeof(double))
        return n

    cdef int fit(self, Py_ssize_t columns) except -1 nogil:
        """Room for that many columns in the small matrices and in rows written from now on."""
        cdef Py_ssize_t ld = (columns + columns // 4 + 3) // 4 * 4
        if columns > self.store.width:
            self.store.width = (columns + 3) // 4 * 4
        return self.fit_exactly(ld) if columns > self.ld else 0

    cdef int fit_exactly(self, Py_ssize_t ld) except -1 nogil:
        """Small matrices of that leading dimension, unless theirs is larger."""
        if ld <= self.ld:
            return 0
        self.fit_reading(ld)
        widen(&self.gram, self.columns, self.ld, ld)
        widen(&self.counted, self.columns, self.ld, ld)
        widen(&self.triangle, 0, self.ld, ld)
        self.ld = ld
        return 0


cdef inline Py_ssize_t appended(Py_ssize_t base) noexcept nogil:
    """New columns in an epoch that begins with `base` of them.

    The more, the fewer changes of basis there are to make up for, and the longer all products
    within the epoch; measured: 8 to 16 are best for few, twice as many columns for many.
    """
    return max(<Py_ssize_t> APPEND, base)


cdef void fold_in(
    double* gram, Py_ssize_t ld, Py_ssize_t k, const double* b, double square, const double* f
) noexcept nogil:
    """B'B, lower half, after B <- B + x f', where b = B'x and square = |x|^2."""
    cdef Py_ssize_t i
    for i in range(k):
        axpy(i + 1, b[i] + square * f[i], f, gram + i * ld)
        axpy(i + 1, f[i], b, gram + i * ld)
