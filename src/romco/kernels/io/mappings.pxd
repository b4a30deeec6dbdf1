"""Rows read from mappings, entry by entry."""

from cpython.object cimport PyObject
from romco.kernels.core.memory cimport reserve


cdef struct Entry:
    int column
    double value


cdef class Mappings:
    cdef Entry* entries
    cdef Entry* spare  # to sort by
    cdef int* ends  # of each row, among the entries
    cdef Py_ssize_t n, room, rows, room_ends, room_spare
    cdef Py_ssize_t width  # columns that are final: those of known names
    cdef bint raw  # cells as users give them: NaN is absent, and what is no number is left unread
    cdef bint unread  # something was
    cdef bint too_large  # entries of one column were added up to more than a feature may be
    cdef dict kinds  # of one raw event: a tuple for each column, its kind first; None: all are numbers

    # Begin anew; then entries of a row; then its end, where they are sorted, those of the same
    # column added.
    cdef arrays(self)
    cdef void clear(self) noexcept
    cdef int put(self, name, double value) except -1
    cdef int end_row(self) except -1
    # All entries of a mapping.
    cdef int read_row(self, row, Py_ssize_t i) except -1
    cdef int prefetch_names(self, dict row) except -1
    cdef bint put_known(self, PyObject* name, PyObject* value) noexcept
    cdef int read_cell(self, name, value, Py_ssize_t i) except -1
    cdef bint takes_numbers(self, name) except -1

    # One event: begin anew, where `growing` keeps names that are not known; whether they are plain
    # text, which any file can hold; and make them known.
    cdef void begin(self, bint growing)
    cdef bint adopts(self) except -1
    cdef int commit(self) except -1

    cdef inline int push(self, int column, double value) except -1:
        if self.n == self.room:
            reserve(<void**> &self.entries, &self.room, max(64, 2 * self.room), sizeof(Entry))
        self.entries[self.n] = Entry(column, value)
        self.n += 1
        return 0

    cdef Entry look_up(self, name) except *
    cdef Py_ssize_t tidy(self, Py_ssize_t begin, Py_ssize_t end, Py_ssize_t to) except -1 nogil
