"""Rows read from mappings, entry by entry."""


cdef struct Entry:
    int column
    int place  # in its row, so that sorting is stable
    double value


cdef class Mappings:
    cdef Entry* entries
    cdef Py_ssize_t n, room

    # An entry of the row that is being read: `place` counts them.
    cdef int put(self, name, double value, int place) except -1
    cdef int push(self, int column, double value, int place) except -1
    # Entries of one more row, and these sorted, those of the same column added.
    cdef int read_row(self, row, Py_ssize_t i) except -1
    cdef int tidy(self, Py_ssize_t begin) except -1
