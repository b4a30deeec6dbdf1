"""An orthonormal set of long vectors of which only the rows an event needs are ever touched."""

cimport cython
from romco.kernels.events cimport Row


cdef struct Head:         # in front of each row's numbers
    int epoch             # the epoch whose basis the row is written in
    int count             # columns that are there; all later ones are 0

cdef struct Chunk:        # ROWS rows side by side
    double* data
    Py_ssize_t stride

cdef struct Transform:    # (rows, cols), row-major; data is NULL for the identity
    Py_ssize_t rows, cols
    double* data

cdef struct Note:         # what scoring an event found out
    Py_ssize_t columns, at, first_stale, last_stale


@cython.final
cdef class LazyBasis:
    cdef readonly Py_ssize_t size         # length of the vectors: features, or tasks
    cdef readonly Py_ssize_t rank         # how many vectors: columns of L = B P
    cdef readonly double deviation        # largest correction to orthonormality so far
    cdef Py_ssize_t base, columns         # columns of B at the epoch's start, and now
    cdef bint folds                       # whether to try folding events into B (few tasks)
    cdef Py_ssize_t turns                 # in this epoch
    cdef Row held                         # the event that reached out last, not yet written to B
    cdef Py_ssize_t held_event            # its number in the round, -1 if there is none
    # Small matrices of leading dimension `ld`
    cdef Py_ssize_t ld
    cdef double* turned                   # P'   (rank, columns)
    cdef double* gram                     # B'B  (columns, columns), lower half
    cdef double* counted                  # B'B over the rows behind the cursor, lower half
    cdef double* work
    cdef double* triangle                 # R (rank, rank): the last correction of `settle`
    # Rows of B
    cdef int[::1] slots                   # (size,) 1 + slot of the row, 0 where there is none
    cdef int* owners                      # (n_rows,) the inverse of `slots`
    cdef Chunk* chunks
    cdef Py_ssize_t n_rows, n_chunks, width
    # The ring of transforms
    cdef Py_ssize_t epoch, blocks
    cdef Transform* steps                 # (blocks * EPOCHS,) from an epoch to the end of its block
    cdef Transform* leaps                 # (blocks,) from a block's end to the open block's start
    # The cursor
    cdef Py_ssize_t cursor, started, started_before
    # Notes that scoring leaves for learning
    cdef Note* notes
    cdef int* stale_at
    cdef double* stale_rows
    cdef double* gathered
    cdef Py_ssize_t n_notes, n_stale, n_gathered
    # A round of dense rows, taken together
    cdef const double* panel_rows         # the round's rows, end to end
    cdef Py_ssize_t panel_length          # of each
    cdef Py_ssize_t met                   # how many rows have their inner products in `inner`
    cdef Py_ssize_t n_panel               # columns of B that are not yet written
    cdef Py_ssize_t* panel                # which event each of them is
    cdef double* inner                    # (met, met), lower half
    cdef double* pack
    cdef double* behind                   # vectors of length ld
    cdef double* total
    cdef double* fresh
    cdef double* long_vector
    cdef Py_ssize_t rooms[12]

    # Used by scoring: changes nothing but the notes.
    cdef void start_round(self) noexcept nogil
    cdef int look(self, Row x, double* c) except -1 nogil
    cdef bint look_at_all(self, Row first, Py_ssize_t n) except -1 nogil
    cdef void recollect(self, Py_ssize_t event, double* c) noexcept nogil
    # Used by learning.
    cdef int meet_all(self, Row first, Py_ssize_t n) except -1 nogil
    cdef int reach(self, Row x, Py_ssize_t event, double square, double* c) except -1 nogil
    cdef int turn(self, const double* vectors, Py_ssize_t count) except -1 nogil
    cdef bint settle(self, Py_ssize_t touched) except -1 nogil

    cdef double* row(self, Py_ssize_t slot) noexcept nogil
    cdef double* row_to_write(self, Py_ssize_t slot) except NULL nogil
    cdef Py_ssize_t slot_of(self, Py_ssize_t feature) except -1 nogil
    cdef void catch_up(self, const double* row, double* out) noexcept nogil
    cdef void gather(
        self, Row x, Py_ssize_t first, double* behind, double* total, bint noting
    ) noexcept nogil
    cdef void recall(self, Row x, Py_ssize_t event) noexcept nogil
    cdef void coordinates(self, const double* b, double* c) noexcept nogil
    cdef int write(self, const double* fold) except -1 nogil
    cdef bint level(self) noexcept nogil
    cdef int write_panel(self) except -1 nogil
    cdef Py_ssize_t refresh_run(self, Py_ssize_t most) except -1 nogil
    cdef bint foldable(self, Py_ssize_t count, double* fold) noexcept nogil
    cdef int append_rest(self, Row x, double square, double* c) except -1 nogil
    cdef void record(self, double square_behind, double square) noexcept nogil
    cdef int fit(self, Py_ssize_t columns) except -1 nogil
    cdef void correct(self) noexcept nogil
    cdef int rebase(self) except -1 nogil
    cdef int close_block(self) except -1 nogil
    cdef int refresh(self, Py_ssize_t touched) except -1 nogil
    cdef int refresh_row(self, Py_ssize_t slot) except -1 nogil
    cdef void congruence(self, double* a) noexcept nogil
