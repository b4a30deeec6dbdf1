"""Coordinates of events in a basis, without changing it."""

from romco.kernels.core.events cimport Row
from romco.kernels.romco.changes cimport BasisChanges
from romco.kernels.romco.rows cimport RowStore

cdef enum:
    TOGETHER = 4          # dense events of a round, or rows, worth taking together

cdef struct Note:         # what scoring an event found out
    Py_ssize_t columns, at, first_stale, last_stale


cdef class ReadableBasis:
    cdef RowStore store                   # the rows of B
    cdef BasisChanges changes             # what rows that are not up to date have missed
    cdef readonly Py_ssize_t rank         # how many vectors: columns of L = B P
    cdef Py_ssize_t columns               # of B
    cdef Py_ssize_t ld                    # leading dimension of the small matrices
    cdef double* turned                   # P'   (rank, columns)
    cdef double* work                     # room for a matrix of all columns
    cdef double* fresh                    # and for a row
    cdef Py_ssize_t cursor                # rows before it are summed up on their own, see `gather`
    # Notes that scoring leaves for learning
    cdef Note* notes
    cdef int* stale_at
    cdef double* stale_rows
    cdef double* gathered
    cdef bint noting                      # whether to leave any
    cdef Py_ssize_t n_notes, n_stale, n_gathered
    cdef double* behind                   # vectors of length ld
    cdef double* total
    # A round of dense rows, taken together
    cdef Py_ssize_t panel_length          # of each row
    cdef Py_ssize_t met                   # how many rows have their inner products in `inner`
    cdef Py_ssize_t n_panel               # columns of B that are not yet written
    cdef Py_ssize_t* panel                # which event each of them is
    cdef double* inner                    # (met, met), lower half
    cdef double* across                   # (panel_length, n_across) the same rows, by feature
    cdef Py_ssize_t n_across
    cdef double* pack
    cdef Py_ssize_t rooms[8]

    # Used by scoring: changes nothing but the notes.
    cdef void start_round(self, bint noting) noexcept nogil
    cdef int look(self, Row x, double* c) except -1 nogil
    cdef bint look_at_all(self, Row first, Py_ssize_t n) except -1 nogil
    cdef void recollect(self, Py_ssize_t event, double* c) noexcept nogil
    # Used by learning.
    cdef int meet_all(self, Row first, Py_ssize_t n) except -1 nogil
    cdef void recall(self, Row x, Py_ssize_t event) noexcept nogil

    cdef void gather(
        self, Row x, Py_ssize_t first, double* behind, double* total, bint noting
    ) noexcept nogil
    cdef double* room_for_row(self, Py_ssize_t entry, bint noting) noexcept nogil
    cdef void coordinates(self, const double* b, double* c) noexcept nogil
    cdef bint level(self) noexcept nogil
    cdef int refresh_row(self, Py_ssize_t slot) except -1 nogil
    cdef int fit_reading(self, Py_ssize_t ld) except -1 nogil
    cdef int turn_across(self, Row first, Py_ssize_t n) except -1 nogil
    cdef int fit_pack(self, Py_ssize_t columns) except -1 nogil


cdef int widen(double** a, Py_ssize_t rows, Py_ssize_t old, Py_ssize_t new) except -1 nogil
