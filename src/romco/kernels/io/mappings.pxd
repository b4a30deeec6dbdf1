"""Rows read from mappings, entry by entry."""


cdef struct Entry:
    int column
    int place  # in its row, so that sorting is stable
    double value


cdef class Mappings:
    cdef Entry* entries
    cdef int* ends  # of each row, among the entries
    cdef Py_ssize_t n, room, rows, room_ends
    cdef object cells  # encoder of values that are no plain numbers; None: there are only numbers
    cdef bint learning  # columns that are not known yet are added, not reported

    # Begin anew; then entries of a row, where `place` counts them; then the end of the row, whose
    # entries are sorted, those of the same column added.
    cdef void clear(self) noexcept
    cdef int put(self, name, double value, int place) except -1
    # The same of a name in ASCII, for which no text need be made.
    cdef int put_ascii(self, const char* name, Py_ssize_t n, double value, int place) except -1
    cdef int end_row(self) except -1
    # All entries of a mapping.
    cdef int read_row(self, row, Py_ssize_t i) except -1

    cdef names_known(self)
    cdef int push(self, int column, double value, int place) except -1
    cdef int tidy(self, Py_ssize_t begin) except -1
