"""All C memory of the kernels: asked for, counted and given back in one place."""

# `n` items of `size` bytes that hold what `old` held; `old` may be NULL. MemoryError leaves it.
cdef void* resize(void* old, Py_ssize_t n, size_t size) except NULL nogil
# `n` items of `size` bytes, all zero.
cdef void* zeros(Py_ssize_t n, size_t size) except NULL nogil
# Give back what either of them gave; NULL is fine.
cdef void release(void* pointer) noexcept nogil

# At least `need` items of `size` bytes behind `pointer`, `room` of which are there already;
# what was there stays, what is new is undefined.
cdef int reserve(void** pointer, Py_ssize_t* room, Py_ssize_t need, size_t size) except -1 nogil


cdef class Scratch:
    cdef double* data
    cdef Py_ssize_t size
    # Room for n doubles, valid until the next call; what it holds is left over from before.
    cdef double* take(self, Py_ssize_t n) except NULL nogil
