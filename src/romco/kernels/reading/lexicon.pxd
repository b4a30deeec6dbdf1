cdef class Lexicon:
    cdef readonly list names  # by number
    cdef unsigned long long* hashes  # by slot
    cdef int* slots  # number + 1 of the name there, or 0
    cdef const char** texts  # UTF-8 by number; owned by the names
    cdef Py_ssize_t* lengths
    cdef Py_ssize_t mask, room

    cdef int find(
        self, const char* head, Py_ssize_t n_head, unsigned long long begun,
        const char* tail, Py_ssize_t n_tail
    ) except -1
    cdef int add(
        self, unsigned long long h, Py_ssize_t slot,
        const char* head, Py_ssize_t n_head, const char* tail, Py_ssize_t n_tail
    ) except -1
    cdef int grow(self) except -1


cdef unsigned long long begin_hash(const char* text, Py_ssize_t n) noexcept nogil
