"""Small dense arrays in C memory: room for them, and the few products the core needs."""

from libc.stdlib cimport realloc


cdef int reserve(void** pointer, Py_ssize_t* room, Py_ssize_t need, size_t size) except -1 nogil:
    cdef Py_ssize_t more
    cdef void* grown
    if need <= room[0]:
        return 0
    more = max(need, room[0] + room[0] // 2)
    grown = realloc(pointer[0], more * size)
    if grown == NULL:
        with gil:
            raise MemoryError(f"no room for {more} items of {size} bytes")
    pointer[0] = grown
    room[0] = more
    return 0


cdef void multiply(
    Py_ssize_t n, Py_ssize_t k, Py_ssize_t w,
    const double* a, Py_ssize_t lda, const double* b, Py_ssize_t ldb, double* out, Py_ssize_t ldo,
) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        row_times(k, w, a + i * lda, b, ldb, out + i * ldo)
