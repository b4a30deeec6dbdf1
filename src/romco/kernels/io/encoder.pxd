cimport cython
from romco.kernels.io.lexicon cimport Hash, Lexicon


cdef struct Column:
    int kind
    const char* name  # followed by = and by : in the two that come next
    const char* equals
    const char* colon
    Py_ssize_t n  # bytes of the name
    Hash name_hash
    Hash equals_hash
    Hash colon_hash


cdef struct Word:
    unsigned long long hash  # of the column's name with : and the word, mixed
    const char* text
    Py_ssize_t n


@cython.final
cdef class Encoder:
    cdef public Lexicon lexicon
    cdef readonly dict skipped  # names of columns that were not read, in order
    cdef object plain, numbers
    cdef list kept  # kind and name of each column, and the name followed by = and by :
    cdef dict place, known
    cdef Column* columns
    cdef int* ids
    cdef double* values
    cdef char* letters  # of a text, in lower case
    cdef Word* word  # of the text, one after the other
    cdef Py_ssize_t n_columns, room_columns, n, room, room_letters, room_word, row

    cpdef Py_ssize_t column(self, str name, str kind=*) except -1
    cdef int add(self, str name, value) except -1
    cpdef Py_ssize_t add_row(self, row, roles, features=*) except -1
    cdef bint knows(self, name) except -1
    cdef int cell(self, Py_ssize_t column, const char* text, Py_ssize_t n) except -1 nogil
    cdef int words(self, Column* column, const char* text, Py_ssize_t n) except -1 nogil
    cdef Py_ssize_t split_words(self, Column* column, const char* text, Py_ssize_t n) except -1 nogil
    cdef int plainly(self, Py_ssize_t column, value) except -1
    cdef int plain_text(self, Py_ssize_t column, const char* text, Py_ssize_t n) except -1 nogil
    cdef int push(self, int name, double value) except -1 nogil


cdef int strip(const char** text, Py_ssize_t* n) noexcept nogil
cdef bint is_ascii(const char* text, Py_ssize_t n) noexcept nogil
