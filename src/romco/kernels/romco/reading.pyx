"""Coordinates of events in a basis (L'x), without changing it.

Scoring an event asks for c = L'x, and learning it a moment later asks again. So `look` leaves
notes: B'x, and rows of B brought up to date, which are too good to throw away but
must not be written while nothing may change.

A round of dense rows is taken together where all of B is up to date: one product of matrices
for the coordinates of all of them, one for their inner products.
"""

from libc.string cimport memcpy, memset
from romco.kernels.core.dense cimport add_gram, add_products, axpy, dot_product
from romco.kernels.core.prefetch cimport ahead
from romco.kernels.core.events cimport Row, column
from romco.kernels.core.memory cimport release, reserve, zeros
from romco.kernels.romco.changes cimport BasisChanges
from romco.kernels.romco.rows cimport ROWS, Chunk, Head, RowStore

cdef enum:
    BLOCK = 32            # entries of x whose rows are prefetched together
    LINE = 8              # numbers that come from memory at once
    MOST_NOTES = 1024     # events of a round whose notes are kept
    MOST_STALE = 16384    # rows of a round


cdef class ReadableBasis:
    """L = B P (abstract: how it changes is left open)."""

    def __init__(self, Py_ssize_t size):
        self.store, self.changes = RowStore(size), BasisChanges()

    def __dealloc__(self):
        release(self.turned)
        release(self.work)
        release(self.fresh)
        release(self.behind)
        release(self.total)
        release(self.notes)
        release(self.stale_at)
        release(self.stale_rows)
        release(self.gathered)
        release(self.panel)
        release(self.inner)
        release(self.across)
        release(self.pack)

    cdef void start_round(self, bint noting) noexcept nogil:
        """Forget the notes on the round before; whether to take notes on this one."""
        self.noting = noting
        self.n_notes = self.n_stale = self.n_gathered = self.met = self.n_across = 0

    cdef int look(self, Row x, double* c) except -1 nogil:
        """c (rank,) <- L'x; notes down what `reach` would have to find out again."""
        cdef Py_ssize_t k = self.columns
        cdef bint noting = self.noting and self.n_notes < MOST_NOTES
        cdef Note* note
        if not noting:
            self.gather(x, 0, self.behind, self.total, False)
            self.coordinates(self.total, c)
            return 0
        reserve(<void**> &self.notes, &self.rooms[0], self.n_notes + 1, sizeof(Note))
        reserve(<void**> &self.gathered, &self.rooms[1], self.n_gathered + 2 * k, sizeof(double))
        note = &self.notes[self.n_notes]
        note.columns, note.at, note.first_stale = k, self.n_gathered, self.n_stale
        reserve(<void**> &self.stale_at, &self.rooms[2],
                min(self.n_stale + x.n, MOST_STALE), sizeof(int))
        reserve(<void**> &self.stale_rows, &self.rooms[3],
                min(self.n_stale + x.n, MOST_STALE) * self.changes.base, sizeof(double))
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
        cdef Py_ssize_t i, at = 0, m, slot, n = self.columns - first
        cdef Py_ssize_t slots[BLOCK]
        cdef const double* rows[BLOCK]
        cdef double* today
        cdef double* target
        cdef Head* head
        memset(behind + first, 0, n * sizeof(double))
        memset(total + first, 0, n * sizeof(double))
        while at < x.n:
            m = min(<Py_ssize_t> BLOCK, x.n - at)
            for i in range(m):  # rows are far apart in memory: ask for all before any is needed
                slot = slots[i] = self.store.slots[column(x, at + i)] - 1
                if slot >= 0:
                    rows[i] = self.store.row(slot)
                    ahead(rows[i])
                    ahead(rows[i] + 8)
                    ahead(rows[i] + 16)
            for i in range(m):
                if slots[i] >= 0 and (<Head*> rows[i]).epoch != self.changes.epoch:
                    if self.changes.forgotten(rows[i]):
                        slots[i] = -1
                    else:
                        self.changes.ask_for_step((<Head*> rows[i]).epoch)
            for i in range(m):
                if slots[i] < 0 or x.value[at + i] == 0.0:
                    continue
                head = <Head*> rows[i]
                target = behind if slots[i] < self.cursor else total
                if head.epoch == self.changes.epoch:
                    if head.count > first:
                        axpy(head.count - first, x.value[at + i], rows[i] + 1 + first, target + first)
                elif first == 0:  # an old row has none of the new columns
                    today = self.room_for_row(at + i, noting)
                    self.changes.catch_up(rows[i], today)
                    axpy(self.changes.base, x.value[at + i], today, target)
            at += m
        axpy(n, 1.0, behind + first, total + first)

    cdef inline double* room_for_row(self, Py_ssize_t entry, bint noting) noexcept nogil:
        """Return where an updated row goes: into the notes while they have room, else into `fresh`."""
        if not noting or self.n_stale >= MOST_STALE:
            return self.fresh
        self.stale_at[self.n_stale] = <int> entry
        self.n_stale += 1
        return self.stale_rows + (self.n_stale - 1) * self.changes.base

    cdef void coordinates(self, const double* b, double* c) noexcept nogil:
        """c <- P'b."""
        cdef Py_ssize_t j
        for j in range(self.rank):
            c[j] = dot_product(self.columns, self.turned + j * self.ld, b)

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

    cdef bint look_at_all(self, Row first, Py_ssize_t n) except -1 nogil:
        """As `look`, for n dense rows that lie end to end; False where that cannot be.

        One product of matrices for each chunk of B, which must be up to date.
        """
        cdef Py_ssize_t at, e, i, slot, rows, k = self.columns
        cdef const int* owners
        cdef const double* x
        cdef Chunk chunk
        if n < TOGETHER or n > MOST_NOTES or not self.level():
            return False
        reserve(<void**> &self.notes, &self.rooms[0], n, sizeof(Note))
        reserve(<void**> &self.gathered, &self.rooms[1], 2 * n * k, sizeof(double))
        self.fit_pack(n)
        self.turn_across(first, n)
        memset(self.gathered, 0, 2 * n * k * sizeof(double))
        for at in range(self.store.n_chunks):
            chunk, slot = self.store.chunks[at], at * ROWS
            rows, owners = min(<Py_ssize_t> ROWS, self.store.n_rows - slot), self.store.owners + slot
            x, i = self.across + owners[0] * n, 1
            while i < rows and owners[i] == owners[i - 1] + 1:
                i += 1
            if i < rows:  # features were not met in their order
                x = self.pack
                for i in range(rows):
                    memcpy(self.pack + i * n, self.across + owners[i] * n, n * sizeof(double))
            add_products(rows, n, k, x, n, chunk.data + 1, chunk.stride, self.gathered + k, 2 * k)
        for e in range(n):
            self.notes[e].columns, self.notes[e].at = k, 2 * k * e
            self.notes[e].first_stale = self.notes[e].last_stale = 0
        self.n_notes, self.n_gathered = n, 2 * n * k
        return True

    cdef bint level(self) noexcept nogil:
        """Whether every row has every column, and none has been counted yet."""
        cdef Py_ssize_t slot
        cdef Head* head
        if self.cursor > 0 or self.store.n_rows == 0 or self.columns == 0:
            return False
        for slot in range(self.store.n_rows):
            head = <Head*> self.store.row(slot)
            if head.epoch != self.changes.epoch or head.count != self.columns:
                return False
        return True

    cdef void recollect(self, Py_ssize_t event, double* c) noexcept nogil:
        """c (rank,) <- L'x for an event that was looked at."""
        cdef Note note = self.notes[event]
        self.coordinates(self.gathered + note.at + note.columns, c)

    cdef int meet_all(self, Row first, Py_ssize_t n) except -1 nogil:
        """Inner products of the round's n dense rows, so that `reach` need not look for them.

        Their columns of B are then written together, when the basis turns.
        """
        if n < TOGETHER or n > self.n_notes or self.cursor > 0:
            return 0
        reserve(<void**> &self.inner, &self.rooms[4], n * n, sizeof(double))
        reserve(<void**> &self.panel, &self.rooms[5], n, sizeof(Py_ssize_t))
        self.fit_pack(n)
        if self.n_across != n:
            self.turn_across(first, n)
        memset(self.inner, 0, n * n * sizeof(double))
        add_gram(first.n, n, self.across, n, self.inner, n)
        self.met, self.n_panel = n, 0
        return 0

    cdef int turn_across(self, Row first, Py_ssize_t n) except -1 nogil:
        """n dense rows that lie end to end, feature by feature: a line of each row at a time."""
        cdef Py_ssize_t e, j, at = 0, length = first.n
        cdef const double* x
        cdef double* out
        reserve(<void**> &self.across, &self.rooms[7], n * length, sizeof(double))
        while at < length:
            for e in range(n):
                x, out = first.value + e * length + at, self.across + at * n + e
                ahead(x + 2 * LINE)
                for j in range(min(<Py_ssize_t> LINE, length - at)):
                    out[j * n] = x[j]
            at += LINE
        self.n_across, self.panel_length = n, length
        return 0

    cdef int fit_pack(self, Py_ssize_t columns) except -1 nogil:
        """Room for a chunk of rows."""
        return reserve(<void**> &self.pack, &self.rooms[6], ROWS * columns, sizeof(double))

    cdef int refresh_row(self, Py_ssize_t slot) except -1 nogil:
        cdef double* row = self.store.row_to_write(slot)
        cdef Head* head = <Head*> row
        if head.epoch != self.changes.epoch and not self.changes.forgotten(row):
            self.changes.catch_up(row, self.fresh)
            memcpy(row + 1, self.fresh, self.changes.base * sizeof(double))
            head.epoch, head.count = <int> self.changes.epoch, <int> self.changes.base
        elif head.epoch != self.changes.epoch:
            head.epoch, head.count = <int> self.changes.epoch, 0
        elif head.count < self.changes.base:
            memset(row + 1 + head.count, 0, (self.changes.base - head.count) * sizeof(double))
            head.count = <int> self.changes.base
        return 0

    cdef int fit_reading(self, Py_ssize_t ld) except -1 nogil:
        """Small matrices of that leading dimension; the caller sets `ld` when all have it."""
        self.changes.fit(ld)
        widen(&self.turned, self.rank, self.ld, ld)
        widen(&self.work, 0, self.ld, ld)
        widen(&self.behind, 1, self.ld, ld)
        widen(&self.total, 1, self.ld, ld)
        return widen(&self.fresh, 1, self.ld, ld)


cdef int widen(double** a, Py_ssize_t rows, Py_ssize_t old, Py_ssize_t new) except -1 nogil:
    """A square matrix with the same leading rows and a larger leading dimension."""
    cdef double* wide = <double*> zeros(new * new, sizeof(double))
    cdef Py_ssize_t i
    for i in range(rows):
        memcpy(wide + i * new, a[0] + i * old, old * sizeof(double))
    release(a[0])
    a[0] = wide
    return 0
