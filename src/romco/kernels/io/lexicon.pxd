from romco.kernels.core.prefetch cimport ahead

cdef enum:
    PRIME = 1099511628211


cdef struct Slot:
    unsigned long long hash
    int number  # + 1; 0 where the slot is free
    int length  # of the name, in bytes


cdef inline unsigned long long mixed(unsigned long long h) noexcept nogil:
    """The hash whose low bits tell where a name is looked for."""
    h = (h ^ (h >> 33)) * 0xff51afd7ed558ccdULL
    return h ^ (h >> 33)


cdef class Lexicon:
    cdef readonly list names  # by number, as far as they are told
    cdef Slot* slots
    cdef Py_ssize_t mask
    cdef char* fresh  # names that are found but not told yet, one after the other
    cdef Py_ssize_t* ends  # of these
    cdef Py_ssize_t n_names, n_ends, room_fresh, room_ends

    cdef inline void prefetch(self, unsigned long long begun) noexcept nogil:
        """Ask for the memory that :meth:`find` looks into."""
        ahead(&self.slots[mixed(begun) & self.mask])

    cdef int find(
        self, const char* head, Py_ssize_t n_head, unsigned long long begun,
        const char* tail, Py_ssize_t n_tail
    ) except -1 nogil
    cdef int add(
        self, unsigned long long h, const char* head, Py_ssize_t n_head,
        const char* tail, Py_ssize_t n_tail
    ) except -1 nogil
    cdef int grow(self) except -1 nogil
    cdef int tell(self) except -1


cdef unsigned long long begin_hash(const char* text, Py_ssize_t n) noexcept nogil
cdef unsigned long long go_on(unsigned long long h, const char* text, Py_ssize_t n) noexcept nogil
