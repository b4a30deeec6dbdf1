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
  epoch; a row that is many epochs old needs three products (see `catch_up`).

So that no transform is kept for ever, a cursor walks over all rows, a few at every
rebase, and brings them up to date. It also counts B'B afresh as it goes, which
rids L of rounding errors: the Gram matrix that is kept up event by event drifts itself.
"""

import numpy as np
cimport cython
from libc.math cimport fabs, fmax, sqrt
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset
from romco.kernels.dense cimport (
    add_gram, add_products, axpy, dot_product, multiply, prefetch, reserve, row_times,
)
from romco.kernels.events cimport Row, column, square as square_of

cdef enum:  # known to the compiler, so that dividing by them costs nothing
    APPEND = 16          # new columns in an epoch; measured: 8 to 16 best
    TURNS = 64           # turns in an epoch; each leaves a little rounding in P
    EPOCHS = 16          # epochs in a block
    ROWS = 256           # rows in a chunk
    AHEAD = 6            # how far to prefetch
    MOST_NOTES = 1024    # events of a round whose notes are kept
    TOGETHER = 4         # dense events of a round, or rows, worth taking together
    MOST_STALE = 16384   # rows of a round
    FEW_NUMBERS = 65536
    FOLD_RANK = 16
# |x|^2 - |c|^2 is known to about 1e-16 |x|^2. Under CLOSE the direction left over would be
# known to fewer than ten digits: with few rows, form it entry by entry; with many, call x inside
# the span when there is nothing left but rounding.
cdef double CLOSE = 1e-6
cdef double INSIDE = 1e-13
cdef double NOTHING = 1e-13
# Folding divides by P: only while P is small and far from singular.
cdef double FOLD_PIVOT = 1e-2
cdef double FOLD_LENGTH = 16.0


@cython.final
cdef class LazyBasis:
    """L (size, rank) with orthonormal columns, empty at first."""

    def __init__(self, Py_ssize_t size, bint folds=False):
        self.size, self.folds, self.held_event = size, folds, -1
        self.slots = np.zeros(size, dtype=np.int32)
        self.blocks = 64 if size < 1 << 17 else 128
        self.steps = <Transform*> calloc(self.blocks * EPOCHS, sizeof(Transform))
        self.leaps = <Transform*> calloc(self.blocks, sizeof(Transform))
        if self.steps == NULL or self.leaps == NULL:
            raise MemoryError("no room for a basis")
        self.fit(APPEND + 4)
        self.width = APPEND + 4

    def __dealloc__(self):
        cdef Py_ssize_t i
        for i in range(self.n_chunks):
            free(self.chunks[i].data)
        if self.steps != NULL:
            for i in range(self.blocks * EPOCHS):
                free(self.steps[i].data)
        if self.leaps != NULL:
            for i in range(self.blocks):
                free(self.leaps[i].data)
        free(self.steps)
        free(self.leaps)
        free(self.chunks)
        free(self.owners)
        free(self.turned)
        free(self.gram)
        free(self.counted)
        free(self.work)
        free(self.triangle)
        free(self.behind)
        free(self.total)
        free(self.fresh)
        free(self.long_vector)
        free(self.notes)
        free(self.stale_at)
        free(self.stale_rows)
        free(self.gathered)
        free(self.panel)
        free(self.inner)
        free(self.pack)

    # ---------------------------------------------------------------- rows

    cdef inline double* row(self, Py_ssize_t slot) noexcept nogil:
        cdef Chunk chunk = self.chunks[slot // ROWS]
        return chunk.data + (slot % ROWS) * chunk.stride

    cdef double* row_to_write(self, Py_ssize_t slot) except NULL nogil:
        """The row, with room for `width` numbers."""
        cdef Chunk* chunk = &self.chunks[slot // ROWS]
        cdef double* wide
        cdef Py_ssize_t i, stride = 1 + self.width
        if chunk.stride < stride:
            wide = <double*> malloc(ROWS * stride * sizeof(double))
            if wide == NULL:
                with gil:
                    raise MemoryError("no room for more rows")
            for i in range(min(ROWS, self.n_rows - (slot // ROWS) * ROWS)):
                memcpy(wide + i * stride, chunk.data + i * chunk.stride, chunk.stride * sizeof(double))
            free(chunk.data)
            chunk.data, chunk.stride = wide, stride
        return chunk.data + (slot % ROWS) * chunk.stride

    cdef Py_ssize_t slot_of(self, Py_ssize_t feature) except -1 nogil:
        """The slot of a feature's row, which is made where there is none."""
        cdef Py_ssize_t slot = self.slots[feature] - 1
        cdef Head* head
        if slot >= 0:
            return slot
        slot = self.n_rows
        if slot % ROWS == 0:
            reserve(<void**> &self.chunks, &self.rooms[0], self.n_chunks + 1, sizeof(Chunk))
            self.chunks[self.n_chunks].data = NULL
            self.chunks[self.n_chunks].stride = 0
            self.n_chunks += 1
        reserve(<void**> &self.owners, &self.rooms[1], slot + 1, sizeof(int))
        head = <Head*> self.row_to_write(slot)
        head.epoch, head.count = <int> self.epoch, 0
        self.owners[slot] = <int> feature
        self.slots[feature] = <int> slot + 1
        self.n_rows += 1
        return slot

    cdef void catch_up(self, const double* row, double* out) noexcept nogil:
        """The row in today's basis, out (base,). At most three products, however old it is."""
        cdef const Head* head = <const Head*> row
        cdef Py_ssize_t block = head.epoch // EPOCHS, open_block = self.epoch // EPOCHS
        cdef Py_ssize_t n = head.count
        cdef Transform step = self.steps[head.epoch % (self.blocks * EPOCHS)]
        cdef double* other = self.work
        cdef const double* now = row + 1
        if block < open_block:
            if block + 1 < open_block:
                apply(&now, &n, step, &other, out)
                step = self.leaps[block % self.blocks]
            if self.epoch % EPOCHS:
                apply(&now, &n, step, &other, out)
                step = self.steps[(open_block * EPOCHS) % (self.blocks * EPOCHS)]
        apply(&now, &n, step, &other, out)
        if now != out:
            memcpy(out, now, n * sizeof(double))

    # ---------------------------------------------------------------- looking

    cdef void start_round(self) noexcept nogil:
        """Forget the notes on the round before."""
        self.n_notes = self.n_stale = self.n_gathered = self.met = 0

    cdef int look(self, Row x, double* c) except -1 nogil:
        """c (rank,) <- L'x; notes down what `reach` would have to find out again."""
        cdef Py_ssize_t k = self.columns
        cdef bint noting = self.n_notes < MOST_NOTES
        cdef Note* note
        if not noting:
            self.gather(x, 0, self.behind, self.total, False)
            self.coordinates(self.total, c)
            return 0
        reserve(<void**> &self.notes, &self.rooms[2], self.n_notes + 1, sizeof(Note))
        reserve(<void**> &self.gathered, &self.rooms[3], self.n_gathered + 2 * k, sizeof(double))
        note = &self.notes[self.n_notes]
        note.columns, note.at, note.first_stale = k, self.n_gathered, self.n_stale
        reserve(<void**> &self.stale_at, &self.rooms[4],
                min(self.n_stale + x.n, MOST_STALE), sizeof(int))
        reserve(<void**> &self.stale_rows, &self.rooms[5],
                min(self.n_stale + x.n, MOST_STALE) * self.base, sizeof(double))
        self.gather(x, 0, self.gathered + note.at, self.gathered + note.at + k, True)
        self.coordinates(self.gathered + note.at + k, c)
        note.last_stale = self.n_stale
        self.n_gathered += 2 * k
        self.n_notes += 1
        return 0

    cdef void gather(
        self, Row x, Py_ssize_t first, double* behind, double* total, bint noting
    ) noexcept nogil:
        """Columns from `first` on of B'x; `behind` over the rows behind the cursor only."""
        cdef Py_ssize_t i, slot, n = self.columns - first
        cdef double* row
        cdef double* target
        cdef double* fresh
        cdef Head* head
        memset(behind + first, 0, n * sizeof(double))
        memset(total + first, 0, n * sizeof(double))
        for i in range(x.n):
            if i + AHEAD < x.n:
                slot = self.slots[column(x, i + AHEAD)] - 1
                if slot >= 0:
                    prefetch(self.row(slot))
            slot = self.slots[column(x, i)] - 1
            if slot < 0 or x.value[i] == 0.0:
                continue
            row = self.row(slot)
            head = <Head*> row
            target = behind if slot < self.cursor else total
            if head.epoch == self.epoch:
                if head.count > first:
                    axpy(head.count - first, x.value[i], row + 1 + first, target + first)
            elif first == 0:  # an old row has none of the new columns
                fresh = self.fresh
                if noting and self.n_stale < MOST_STALE:
                    fresh = self.stale_rows + self.n_stale * self.base
                    self.stale_at[self.n_stale] = <int> i
                    self.n_stale += 1
                self.catch_up(row, fresh)
                axpy(self.base, x.value[i], fresh, target)
        axpy(n, 1.0, behind + first, total + first)

    cdef bint look_at_all(self, Row first, Py_ssize_t n) except -1 nogil:
        """As `look`, for n dense rows that lie end to end; False where that cannot be.

        One product of matrices for each chunk of B, which must be up to date.
        """
        cdef Py_ssize_t at, e, i, slot, rows, k = self.columns
        cdef Chunk chunk
        if n < TOGETHER or n > MOST_NOTES or not self.level():
            return False
        reserve(<void**> &self.notes, &self.rooms[2], n, sizeof(Note))
        reserve(<void**> &self.gathered, &self.rooms[3], 2 * n * k, sizeof(double))
        reserve(<void**> &self.pack, &self.rooms[7], ROWS * n, sizeof(double))
        memset(self.gathered, 0, 2 * n * k * sizeof(double))
        for at in range(self.n_chunks):
            chunk, slot = self.chunks[at], at * ROWS
            rows = min(<Py_ssize_t> ROWS, self.n_rows - slot)
            for e in range(n):
                for i in range(rows):
                    self.pack[i * n + e] = first.value[e * first.n + self.owners[slot + i]]
            add_products(rows, n, k, self.pack, n, chunk.data + 1, chunk.stride,
                         self.gathered + k, 2 * k)
        for e in range(n):
            self.notes[e].columns, self.notes[e].at = k, 2 * k * e
            self.notes[e].first_stale = self.notes[e].last_stale = 0
        self.n_notes, self.n_gathered = n, 2 * n * k
        return True

    cdef bint level(self) noexcept nogil:
        """Whether every row has every column, and none has been counted yet."""
        cdef Py_ssize_t slot
        cdef Head* head
        if self.cursor > 0 or self.n_rows == 0 or self.columns == 0:
            return False
        for slot in range(self.n_rows):
            head = <Head*> self.row(slot)
            if head.epoch != self.epoch or head.count != self.columns:
                return False
        return True

    cdef void recollect(self, Py_ssize_t event, double* c) noexcept nogil:
        """c (rank,) <- L'x for an event that was looked at."""
        cdef Note note = self.notes[event]
        self.coordinates(self.gathered + note.at + note.columns, c)

    cdef void coordinates(self, const double* b, double* c) noexcept nogil:
        """c <- P'b."""
        cdef Py_ssize_t j
        for j in range(self.rank):
            c[j] = dot_product(self.columns, self.turned + j * self.ld, b)

    # ---------------------------------------------------------------- reaching

    cdef int meet_all(self, Row first, Py_ssize_t n) except -1 nogil:
        """Inner products of the round's n dense rows, so that `reach` need not look for them.

        Their columns of B are then written together, when the basis turns.
        """
        cdef Py_ssize_t e, i, j, rows
        if n < TOGETHER or n > self.n_notes or self.cursor > 0:
            return 0
        reserve(<void**> &self.pack, &self.rooms[7], ROWS * n, sizeof(double))
        reserve(<void**> &self.inner, &self.rooms[8], n * n, sizeof(double))
        reserve(<void**> &self.panel, &self.rooms[9], n, sizeof(Py_ssize_t))
        memset(self.inner, 0, n * n * sizeof(double))
        for j in range((first.n + ROWS - 1) // ROWS):
            rows = min(<Py_ssize_t> ROWS, first.n - j * ROWS)
            for e in range(n):
                for i in range(rows):
                    self.pack[i * n + e] = first.value[e * first.n + j * ROWS + i]
            add_gram(rows, n, self.pack, n, self.inner, n)
        self.met, self.n_panel = n, 0
        self.panel_rows, self.panel_length = first.value, first.n
        return 0

    cdef int reach(self, Row x, Py_ssize_t event, double square, double* c) except -1 nogil:
        """Coordinates c (rank,) with x = L c, where need be after giving L one more vector.

        `event` counts the events that were looked at since `start_round`; `square` is |x|^2.
        """
        cdef double rest
        cdef Py_ssize_t j
        cdef double* direction
        if self.held_event >= 0:
            self.write(NULL)
        self.recall(x, event)
        self.coordinates(self.total, c)
        rest = square - dot_product(self.rank, c, c)
        if rest <= CLOSE * square:
            if (self.n_rows + x.n) * self.columns <= FEW_NUMBERS:
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
        c[self.rank] = rest
        self.rank += 1
        if self.met > 0:
            self.panel[self.n_panel] = event
            self.n_panel += 1
            self.record(0.0, square)
            return 0
        self.held, self.held_event = x, event
        return 0 if self.folds else self.write(NULL)

    cdef void recall(self, Row x, Py_ssize_t event) noexcept nogil:
        """`behind` and `total` for x, from the notes as far as they go."""
        cdef Note note
        cdef Py_ssize_t i, other
        if event >= self.n_notes:
            self.gather(x, 0, self.behind, self.total, False)
            return
        note = self.notes[event]
        memcpy(self.behind, self.gathered + note.at, note.columns * sizeof(double))
        memcpy(self.total, self.gathered + note.at + note.columns, note.columns * sizeof(double))
        if self.met > 0:
            for i in range(self.n_panel):
                other = self.panel[i]
                self.behind[note.columns + i] = 0.0
                self.total[note.columns + i] = \
                    self.inner[max(event, other) * self.met + min(event, other)]
        elif note.columns < self.columns:
            self.gather(x, note.columns, self.behind, self.total, False)

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
            slot = self.slot_of(column(x, i))
            row = self.row_to_write(slot)
            head = <Head*> row
            if head.epoch != self.epoch:
                if stale < last and self.stale_at[stale] == i:
                    memcpy(row + 1, self.stale_rows + stale * self.base, self.base * sizeof(double))
                else:
                    self.catch_up(row, self.fresh)
                    memcpy(row + 1, self.fresh, self.base * sizeof(double))
                head.epoch, head.count = <int> self.epoch, <int> self.base
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
        cdef Py_ssize_t j, p, slot, k = self.columns - self.n_panel
        cdef bint some
        cdef double* row
        cdef Head* head
        for j in range(self.panel_length if self.n_panel > 0 else 0):
            some = False
            for p in range(self.n_panel):
                self.pack[p] = self.panel_rows[self.panel[p] * self.panel_length + j]
                some = some or self.pack[p] != 0.0
            if not some:
                continue
            slot = self.slot_of(j)
            self.refresh_row(slot)
            row = self.row_to_write(slot)
            head = <Head*> row
            if head.count < k:
                memset(row + 1 + head.count, 0, (k - head.count) * sizeof(double))
            memcpy(row + 1 + k, self.pack, self.n_panel * sizeof(double))
            head.count = <int> self.columns
        self.n_panel = self.met = 0
        return 0

    cdef int append_rest(self, Row x, double square, double* c) except -1 nogil:
        """As `reach`, for an x so close to the span that what is left must be formed to be known.

        All rows are touched. The residual is orthogonalised twice and, unless it is rounding
        only, becomes the new column itself.
        """
        cdef Py_ssize_t i, turn, k = self.columns
        cdef double rest, square_behind = 0.0
        cdef double* z
        cdef double* row
        cdef Head* head
        self.fit(k + 1)
        for i in range(x.n):
            if x.value[i] != 0.0:
                self.slot_of(column(x, i))
        reserve(<void**> &self.long_vector, &self.rooms[6], self.n_rows, sizeof(double))
        z = self.long_vector
        memset(z, 0, self.n_rows * sizeof(double))
        for i in range(x.n):
            if x.value[i] != 0.0:
                z[self.slots[column(x, i)] - 1] = x.value[i]
        for i in range(self.n_rows):
            self.refresh_row(i)
        for turn in range(3):  # z -= L (L'z): first with the c that is known
            if turn > 0:
                self.coordinates(self.total, self.fresh)
                axpy(self.rank, 1.0, self.fresh, c)
            else:
                memcpy(self.fresh, c, self.rank * sizeof(double))
            if turn < 2:
                multiply(1, self.rank, k, self.fresh, self.rank, self.turned, self.ld, self.behind, k)
                for i in range(self.n_rows):
                    row = self.row(i)
                    z[i] -= dot_product((<Head*> row).count, row + 1, self.behind)
                memset(self.total, 0, k * sizeof(double))
                for i in range(self.n_rows):
                    row = self.row(i)
                    axpy((<Head*> row).count, z[i], row + 1, self.total)
        rest = sqrt(dot_product(self.n_rows, z, z))
        if rest <= NOTHING * sqrt(square):
            return 0
        memset(self.behind, 0, k * sizeof(double))
        memset(self.total, 0, k * sizeof(double))
        for i in range(self.n_rows):
            row = self.row_to_write(i)
            head = <Head*> row
            z[i] /= rest
            axpy(head.count, z[i], row + 1, self.behind if i < self.cursor else self.total)
            if i < self.cursor:
                square_behind += z[i] * z[i]
            memset(row + 1 + head.count, 0, (k - head.count) * sizeof(double))
            row[1 + k] = z[i]
            head.count = <int> k + 1
        axpy(k, 1.0, self.behind, self.total)
        self.record(square_behind, dot_product(self.n_rows, z, z))
        for i in range(self.rank):
            self.turned[i * self.ld + k] = 0.0
        memset(self.turned + self.rank * self.ld, 0, k * sizeof(double))
        self.turned[self.rank * self.ld + k] = 1.0
        c[self.rank] = rest
        self.rank += 1
        return 0

    cdef void record(self, double square_behind, double square) noexcept nogil:
        """Both Gram matrices get a row for the column that was added."""
        cdef Py_ssize_t k = self.columns
        memcpy(self.gram + k * self.ld, self.total, k * sizeof(double))
        memcpy(self.counted + k * self.ld, self.behind, k * sizeof(double))
        self.gram[k * self.ld + k] = square
        self.counted[k * self.ld + k] = square_behind
        self.columns += 1

    # ---------------------------------------------------------------- turning

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
        is P z with P'P z = l, by Cholesky.
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

    cdef bint settle(self, Py_ssize_t touched) except -1 nogil:
        """End the epoch if it is time, and say so: then L is L R^-1, R in `triangle`.

        `touched` is how many rows the round touched; the cursor goes on by no less, so that
        a stream of dense events finds every row up to date.
        """
        if self.columns < self.base + APPEND and self.turns < TURNS:
            return False
        self.fit(self.rank + APPEND)
        self.correct()
        self.rebase()
        self.refresh(touched)
        return True

    cdef void correct(self) noexcept nogil:
        """L <- L R^-1 with R'R = L'L by Cholesky, so that L is orthonormal again."""
        cdef Py_ssize_t i, j, r = self.rank, ld = self.ld
        cdef double* R = self.triangle
        cdef double pivot
        self.congruence(self.gram)
        memset(R, 0, r * r * sizeof(double))
        for i in range(r):
            for j in range(i + 1):
                self.deviation = fmax(self.deviation, fabs(self.gram[i * ld + j] - (i == j)))
        for i in range(r):  # row i of R, from row i of the Schur complement
            for j in range(i, r):
                R[i * r + j] = self.gram[j * ld + i]
            for j in range(i):
                axpy(r - i, -R[j * r + i], R + j * r + i, R + i * r + i)
            pivot = R[i * r + i]
            if pivot < 1e-10:  # no length left: forget the vector
                memset(R + i * r, 0, r * sizeof(double))
                memset(self.turned + i * ld, 0, self.columns * sizeof(double))
                continue
            pivot = sqrt(pivot)
            for j in range(i, r):
                R[i * r + j] /= pivot
            for j in range(i):
                axpy(self.columns, -R[j * r + i], self.turned + j * ld, self.turned + i * ld)
            for j in range(self.columns):
                self.turned[i * ld + j] /= pivot

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

    # ---------------------------------------------------------------- epochs

    cdef int rebase(self) except -1 nogil:
        """B <- B P for every row, by taking note of P; the next epoch begins."""
        cdef Py_ssize_t ring = self.blocks * EPOCHS, r = self.rank, ld = self.ld, i, j, e
        cdef Transform* step = &self.steps[self.epoch % ring]
        allocate(step, self.columns, r)
        for i in range(self.columns):
            for j in range(r):
                step.data[i * r + j] = self.turned[j * ld + i]
        for e in range(max(self.started_before, self.epoch - self.epoch % EPOCHS), self.epoch):
            follow(&self.steps[e % ring], step[0])
        self.congruence(self.counted)
        memset(self.gram, 0, r * ld * sizeof(double))
        memset(self.turned, 0, r * ld * sizeof(double))
        for i in range(r):
            self.gram[i * ld + i] = self.turned[i * ld + i] = 1.0
        self.epoch += 1
        if self.epoch % EPOCHS == 0:
            self.close_block()
        self.base, self.columns, self.turns = r, r, 0
        return 0

    cdef int close_block(self) except -1 nogil:
        """The open block ends: older blocks now lead to its end, not to its start."""
        cdef Py_ssize_t ring = self.blocks * EPOCHS, closed = self.epoch // EPOCHS - 1, block
        cdef Transform whole
        if self.started_before < closed * EPOCHS:  # else no row is older than this block
            whole = self.steps[(closed * EPOCHS) % ring]
            for block in range(self.started_before // EPOCHS, closed):
                follow(&self.leaps[block % self.blocks], whole)
        allocate(&self.leaps[closed % self.blocks], self.rank, self.rank)
        identity(self.leaps[closed % self.blocks])
        return 0

    cdef int refresh(self, Py_ssize_t touched) except -1 nogil:
        """The cursor brings some rows up to date and counts them into the Gram matrix.

        Fast enough to pass all rows in half a ring of epochs; then no row's transform is lost.
        """
        cdef Py_ssize_t deadline = self.started + (self.blocks // 2 - 1) * EPOCHS
        cdef Py_ssize_t j, end, left = max(1, deadline - self.epoch)
        cdef double* row
        end = self.cursor + max(touched, (self.n_rows - self.cursor + left - 1) // left)
        end = min(end, self.n_rows)
        while self.cursor < end:
            if self.refresh_run(end - self.cursor) > 0:
                continue
            self.refresh_row(self.cursor)
            row = self.row(self.cursor) + 1
            for j in range(self.base):
                axpy(j + 1, row[j], row, self.counted + j * self.ld)
            self.cursor += 1
        if self.cursor == self.n_rows:
            memcpy(self.gram, self.counted, self.base * self.ld * sizeof(double))
            memset(self.counted, 0, self.base * self.ld * sizeof(double))
            self.cursor = 0
            self.started_before, self.started = self.started, self.epoch
        return 0

    cdef Py_ssize_t refresh_run(self, Py_ssize_t most) except -1 nogil:
        """The same for rows side by side that have every column of the epoch before, if there are some.

        Then one product of matrices does for all of them; gives their number.
        """
        cdef Transform step = self.steps[(self.epoch - 1) % (self.blocks * EPOCHS)]
        cdef Chunk chunk = self.chunks[self.cursor // ROWS]
        cdef double* first = self.row(self.cursor)
        cdef Head* head
        cdef Py_ssize_t i, n = 0
        most = min(most, ROWS - self.cursor % ROWS)
        while n < most:
            head = <Head*> (first + n * chunk.stride)
            if head.epoch != self.epoch - 1 or head.count != step.rows:
                break
            n += 1
        if n < TOGETHER or step.cols > chunk.stride - 1:
            return 0
        reserve(<void**> &self.pack, &self.rooms[7], ROWS * self.base, sizeof(double))
        multiply(n, step.rows, self.base, first + 1, chunk.stride, step.data, self.base,
                 self.pack, self.base)
        add_gram(n, self.base, self.pack, self.base, self.counted, self.ld)
        for i in range(n):
            memcpy(first + 1 + i * chunk.stride, self.pack + i * self.base,
                   self.base * sizeof(double))
            head = <Head*> (first + i * chunk.stride)
            head.epoch, head.count = <int> self.epoch, <int> self.base
        self.cursor += n
        return n

    cdef int refresh_row(self, Py_ssize_t slot) except -1 nogil:
        cdef double* row = self.row_to_write(slot)
        cdef Head* head = <Head*> row
        if head.epoch != self.epoch:
            self.catch_up(row, self.fresh)
            memcpy(row + 1, self.fresh, self.base * sizeof(double))
            head.epoch, head.count = <int> self.epoch, <int> self.base
        elif head.count < self.base:
            memset(row + 1 + head.count, 0, (self.base - head.count) * sizeof(double))
            head.count = <int> self.base
        return 0

    cdef int fit(self, Py_ssize_t columns) except -1 nogil:
        """Room for that many columns in the small matrices and in rows written from now on."""
        cdef Py_ssize_t ld = (columns + columns // 4 + 3) // 4 * 4
        if columns > self.width:
            self.width = (columns + 3) // 4 * 4
        if columns <= self.ld:
            return 0
        widen(&self.turned, self.rank, self.ld, ld)
        widen(&self.gram, self.columns, self.ld, ld)
        widen(&self.counted, self.columns, self.ld, ld)
        widen(&self.work, 0, self.ld, ld)
        widen(&self.triangle, 0, self.ld, ld)
        widen(&self.behind, 1, self.ld, ld)
        widen(&self.total, 1, self.ld, ld)
        widen(&self.fresh, 1, self.ld, ld)
        self.ld = ld
        return 0

    # ---------------------------------------------------------------- as data

    def vectors(self):
        """L (size, rank) as a dense copy."""
        cdef double[:, ::1] L = np.zeros((self.size, self.rank))
        cdef Py_ssize_t slot, j, n
        cdef const double* row
        if self.rank == 0:
            return np.asarray(L)
        for slot in range(self.n_rows):
            row = self.row(slot)
            n = (<const Head*> row).count
            if (<const Head*> row).epoch != self.epoch:
                self.catch_up(row, self.fresh)
                row, n = self.fresh, self.base
            else:
                row += 1
            for j in range(self.rank):
                L[self.owners[slot], j] = dot_product(n, self.turned + j * self.ld, row)
        return np.asarray(L)

    def arrays(self):
        """All that changes, by name, as copies."""
        rows = np.zeros((self.n_rows, self.width))
        heads = np.zeros((self.n_rows, 3), dtype=np.int32)  # owner, epoch, count
        cdef double[:, ::1] values = rows
        cdef int[:, ::1] head = heads
        cdef Py_ssize_t slot, j
        cdef double* row
        for slot in range(self.n_rows):
            row = self.row(slot)
            head[slot, 0] = self.owners[slot]
            head[slot, 1], head[slot, 2] = (<Head*> row).epoch, (<Head*> row).count
            for j in range(head[slot, 2]):
                values[slot, j] = row[1 + j]
        counts = [self.rank, self.base, self.columns, self.epoch, self.cursor, self.started,
                  self.started_before, self.ld, self.blocks, self.turns]
        shapes, numbers = self._transforms()
        return {
            "rows": rows, "heads": heads, "counts": np.array(counts, dtype=np.int64),
            "turned": copied(self.turned, self.rank, self.columns, self.ld),
            "gram": copied(self.gram, self.columns, self.columns, self.ld),
            "counted": copied(self.counted, self.columns, self.columns, self.ld),
            "shapes": shapes, "transforms": numbers,
            "deviation": np.array([self.deviation]),
        }

    def _transforms(self):
        """Shapes (n, 2) and numbers, end to end, of the steps and leaps that rows may need."""
        cdef Py_ssize_t i, first = self.started_before
        shapes, numbers = [], []
        for i in range(first, self.epoch):
            keep(self.steps[i % (self.blocks * EPOCHS)], shapes, numbers)
        for i in range(first // EPOCHS, self.epoch // EPOCHS):
            keep(self.leaps[i % self.blocks], shapes, numbers)
        size = sum(len(part) for part in numbers)
        padded = np.zeros(max(4096, 1 << int(size).bit_length()))  # sizes that seldom change
        padded[:size] = np.concatenate(numbers) if numbers else []
        table = np.zeros((max(64, 1 << len(shapes).bit_length()), 2), dtype=np.int64)
        table[: len(shapes)] = np.array(shapes).reshape(-1, 2)
        return table, padded

    def load(self, arrays):
        """Take over the arrays of a basis of this size or smaller; this one must be new."""
        cdef Py_ssize_t slot, j, first, i, at = 0
        check(arrays, self.size, EPOCHS)
        cdef const double[:, :] values = arrays["rows"]
        cdef const int[:, :] head = arrays["heads"]
        cdef double* row
        (self.rank, self.base, self.columns, self.epoch, self.cursor, self.started,
         self.started_before, j, self.blocks, self.turns) = map(int, arrays["counts"])
        free(self.steps)
        free(self.leaps)
        self.steps = <Transform*> calloc(self.blocks * EPOCHS, sizeof(Transform))
        self.leaps = <Transform*> calloc(self.blocks, sizeof(Transform))
        self.deviation = arrays["deviation"][0]
        self.width = max(self.width, values.shape[1])
        self.fit(max(self.columns, self.width))
        paste(arrays["turned"], self.turned, self.ld)
        paste(arrays["gram"], self.gram, self.ld)
        paste(arrays["counted"], self.counted, self.ld)
        for slot in range(values.shape[0]):
            self.slot_of(head[slot, 0])
            row = self.row(slot)
            (<Head*> row).epoch, (<Head*> row).count = head[slot, 1], head[slot, 2]
            for j in range(head[slot, 2]):
                row[1 + j] = values[slot, j]
        shapes, numbers = arrays["shapes"], arrays["transforms"]
        first = self.started_before
        for i in range(first, self.epoch):
            at += fill(&self.steps[i % (self.blocks * EPOCHS)], shapes[i - first], numbers[at:])
        shapes = shapes[self.epoch - first :]
        first //= EPOCHS
        for i in range(first, self.epoch // EPOCHS):
            at += fill(&self.leaps[i % self.blocks], shapes[i - first], numbers[at:])

    def take(self, const double[:, :] vectors):
        """Become the given vectors (n, rank), n up to `size`; this basis must be new."""
        cdef Py_ssize_t i, j, slot, r = vectors.shape[1]
        self.fit(r + APPEND)
        self.rank = self.base = self.columns = r
        memset(self.turned, 0, r * self.ld * sizeof(double))
        memset(self.gram, 0, r * self.ld * sizeof(double))
        memset(self.counted, 0, r * self.ld * sizeof(double))
        for j in range(r):
            self.turned[j * self.ld + j] = self.gram[j * self.ld + j] = 1.0
        for i in range(vectors.shape[0]):
            if not np.any(vectors[i]):
                continue
            slot = self.slot_of(i)
            for j in range(r):
                self.row(slot)[1 + j] = vectors[i, j]
            (<Head*> self.row(slot)).count = <int> r


cdef inline void apply(
    const double** now, Py_ssize_t* n, Transform step, double** other, double* out
) noexcept nogil:
    """now (n,) <- now step, in whichever of `out` and `other` is free."""
    cdef double* target = out if now[0] != out else other[0]
    row_times(n[0], step.cols, now[0], step.data, step.cols, target)
    now[0], n[0] = target, step.cols


cdef void fold_in(
    double* gram, Py_ssize_t ld, Py_ssize_t k, const double* b, double square, const double* f
) noexcept nogil:
    """B'B, lower half, after B <- B + x f', where b = B'x and square = |x|^2."""
    cdef Py_ssize_t i
    for i in range(k):
        axpy(i + 1, b[i] + square * f[i], f, gram + i * ld)
        axpy(i + 1, f[i], b, gram + i * ld)


cdef int allocate(Transform* a, Py_ssize_t rows, Py_ssize_t cols) except -1 nogil:
    free(a.data)
    a.data = <double*> malloc(max(1, rows * cols) * sizeof(double))
    if a.data == NULL:
        with gil:
            raise MemoryError("no room for a transform")
    a.rows, a.cols = rows, cols
    return 0


cdef void identity(Transform a) noexcept nogil:
    cdef Py_ssize_t i
    memset(a.data, 0, a.rows * a.cols * sizeof(double))
    for i in range(a.rows):
        a.data[i * a.cols + i] = 1.0


cdef int follow(Transform* a, Transform b) except -1 nogil:
    """a <- a b, with as many rows of b as fit."""
    cdef Transform product
    product.data = NULL
    allocate(&product, a.rows, b.cols)
    multiply(a.rows, a.cols, b.cols, a.data, a.cols, b.data, b.cols, product.data, b.cols)
    free(a.data)
    a[0] = product
    return 0


cdef int widen(double** a, Py_ssize_t rows, Py_ssize_t old, Py_ssize_t new) except -1 nogil:
    """A square matrix with the same leading rows and a larger leading dimension."""
    cdef double* wide = <double*> calloc(new * new, sizeof(double))
    cdef Py_ssize_t i
    if wide == NULL:
        with gil:
            raise MemoryError("no room for a larger rank")
    for i in range(rows):
        memcpy(wide + i * new, a[0] + i * old, old * sizeof(double))
    free(a[0])
    a[0] = wide
    return 0


cdef copied(const double* a, Py_ssize_t rows, Py_ssize_t cols, Py_ssize_t ld):
    """The matrix in an array of size (ld, ld), so that its size seldom changes."""
    out = np.zeros((ld, ld))
    cdef double[:, ::1] view = out
    cdef Py_ssize_t i, j
    for i in range(rows):
        for j in range(cols):
            view[i, j] = a[i * ld + j]
    return out


cdef paste(const double[:, :] a, double* out, Py_ssize_t ld):
    cdef Py_ssize_t i, j
    for i in range(min(ld, a.shape[0])):
        for j in range(min(ld, a.shape[1])):
            out[i * ld + j] = a[i, j]


cdef keep(Transform a, list shapes, list numbers):
    shapes.append((a.rows, a.cols))
    if a.rows * a.cols:
        numbers.append(np.asarray(<double[:a.rows * a.cols]> a.data).copy())


cdef Py_ssize_t fill(Transform* a, shape, const double[:] numbers) except -1:
    cdef Py_ssize_t i
    allocate(a, shape[0], shape[1])
    for i in range(a.rows * a.cols):
        a.data[i] = numbers[i]
    return a.rows * a.cols


def check(arrays, size, epochs):
    """Refuse arrays that no basis of this size can have given."""
    rank, base, columns, epoch, cursor, started, before, ld, blocks, turns = map(int, arrays["counts"])
    heads, rows, shapes = arrays["heads"], arrays["rows"], arrays["shapes"]
    n_steps, n_leaps = epoch - before, epoch // epochs - before // epochs
    live = shapes[: n_steps + n_leaps]
    fine = (
        0 <= rank <= columns <= ld and 0 <= base <= columns and 0 <= before <= started <= epoch
        and 0 <= cursor <= len(rows) == len(heads) and 2 <= blocks <= 1 << 16
        and 0 <= turns <= TURNS and n_leaps < blocks and n_steps + n_leaps <= len(shapes) and (shapes >= 0).all()
        and live.prod(axis=1).sum() <= len(arrays["transforms"])
        and all(arrays[name].shape == (ld, ld) for name in ("turned", "gram", "counted"))
    )
    if fine and len(heads):
        owner, age, count = heads.T
        limit = np.full(n_steps + 1, columns)
        limit[:n_steps] = shapes[:n_steps, 0]
        fine = (
            0 <= owner.min() and owner.max() < size and len(np.unique(owner)) == len(owner)
            and before <= age.min() and age.max() <= epoch and count.min() >= 0
            and (count <= limit[age - before]).all() and count.max() <= rows.shape[1]
        )
    if not fine:
        raise ValueError("the state of the shared part does not fit together; was the file damaged?")
