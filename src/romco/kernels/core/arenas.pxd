"""Blocks of memory that are looked up here and there, side by side."""

cdef enum:
    SIZES = 256           # four to each doubling


cdef class Arena:
    cdef void** slabs
    cdef Py_ssize_t n_slabs, slabs_room
    cdef char* at                  # what is left of the last slab
    cdef size_t left, last
    cdef void* given[SIZES]        # blocks that were given back, by size: each holds the next

    # A block of so many bytes, which begins a line of the cache; what it holds is undefined.
    cdef void* take(self, size_t bytes) except NULL nogil
    # Give back a block of so many bytes; NULL is fine.
    cdef void give(self, void* block, size_t bytes) noexcept nogil
    cdef int add_slab(self, size_t bytes) except -1 nogil
