"""Events to predict that come as JSON, for compiled code that asks of one at a time."""

from romco.kernels.io.mappings cimport Mappings


cdef struct Key:
    const char* text
    Py_ssize_t n
    bint special  # its value makes no entry of the key's own: text or null


cdef class Questions:
    cdef readonly Mappings reader
    cdef Py_ssize_t events, features, name
    cdef double value
    cdef readonly bint many  # whether what was read last was a list
    cdef readonly list waiting  # place, id and row of the events with an id
    cdef const char* at  # the next character; the text ends with a 0, which nothing here accepts
    cdef Key* keys  # of the row that is read
    cdef Py_ssize_t n_keys, room_keys, n_special

    cdef begin(self, const char* text)
    cdef bint ends(self, const char* end) noexcept
    cdef event(self, Py_ssize_t place)
    cdef named(self)
    cdef task(self)
    cdef bint row(self) except -1
    cdef bint feature(self, const char* key, Py_ssize_t n, Py_ssize_t* put) except -1
    cdef bint repeats(self) noexcept
    cdef inline void skip(self) noexcept
    cdef inline bint next(self, char expected) noexcept
    cdef bint word(self, const char* expected, Py_ssize_t n) noexcept
    cdef bint truth(self, double* value) noexcept
    cdef bint string(self, const char** text, Py_ssize_t* n) noexcept
    cdef bint number(self, double* value) except -1
