"""All C memory of the kernels: asked for, counted and given back in one place.

A size that no machine has is refused, never wrapped around. Two functions are for tests: a
request can be made to fail, and what is held can be counted. Kernels ask for memory when
something grows, not at every event, so that this costs nothing.
"""

import mmap
import sys

import numpy as np
from libc.stdlib cimport calloc, free, realloc

cdef extern from *:
    """
    /* Kernels work in several threads, so what is counted must be counted whole. */
    static Py_ssize_t romco_held = 0, romco_left = 0;
    #if defined(__GNUC__)
    #define romco_count(by) __atomic_add_fetch(&romco_held, by, __ATOMIC_RELAXED)
    #define romco_fails() (__atomic_load_n(&romco_left, __ATOMIC_RELAXED) > 0 \\
        && __atomic_sub_fetch(&romco_left, 1, __ATOMIC_RELAXED) == 0)
    #elif defined(_MSC_VER) && defined(_WIN64)
    #include <intrin.h>
    #define romco_count(by) _InterlockedExchangeAdd64(&romco_held, by)
    #define romco_fails() (romco_left > 0 && _InterlockedDecrement64(&romco_left) == 0)
    #else
    #define romco_count(by) (romco_held += (by))
    #define romco_fails() (romco_left > 0 && --romco_left == 0)
    #endif

    /* Lookups all over a large table miss the processor's translations of small pages. */
    #ifdef __linux__
    #include <sys/mman.h>
    static void romco_prefer_huge_pages(void* block, size_t bytes) {
        if (bytes >= ((size_t) 1 << 22)) {
            size_t begin = ((size_t) block + 4095) & ~(size_t) 4095;
            madvise((void*) begin, (size_t) block + bytes - begin, MADV_HUGEPAGE);
        }
    }
    #else
    #define romco_prefer_huge_pages(block, bytes) ((void) 0)
    #endif
    """
    Py_ssize_t blocks "romco_held"
    Py_ssize_t left "romco_left"
    void count "romco_count" (Py_ssize_t by) noexcept nogil
    bint fails "romco_fails" () noexcept nogil
    void prefer_huge_pages "romco_prefer_huge_pages" (void* block, size_t bytes) noexcept nogil
    Py_ssize_t MOST "PY_SSIZE_T_MAX"


def fail_at(Py_ssize_t k):
    """Refuse the k-th request from now on, once; none for 0. For tests.

    Gives how far off the request was that was to fail before.
    """
    global left
    before, left = left, k
    return before


def mapped_zeros(n, dtype, bint huge=False):
    """Zeros (n,) in pages of their own, ``huge`` or not, which take memory as they are touched.

    None where there are no such pages. NumPy clears memory that was used before at once.
    """
    if sys.platform == "win32":  # where untouched memory counts as taken
        return None
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    try:
        pages = mmap.mmap(-1, n * np.dtype(dtype).itemsize, flags=flags)
    except (ValueError, OSError, OverflowError):  # there may be a limit to addresses
        return None
    if huge and hasattr(mmap, "MADV_HUGEPAGE"):
        pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, dtype)


def held():
    """How many blocks of memory all kernels hold. For tests."""
    return blocks


cdef void* resize(void* old, Py_ssize_t n, size_t size) except NULL nogil:
    cdef void* new = NULL
    if fits(n, size):
        new = realloc(old, max(1, n) * size)
    if new == NULL:
        refuse(n, size)
    if old == NULL:
        count(1)
    return new


cdef void* zeros(Py_ssize_t n, size_t size) except NULL nogil:
    cdef void* new = NULL
    if fits(n, size):
        new = calloc(max(1, n), size)
    if new == NULL:
        refuse(n, size)
    prefer_huge_pages(new, n * size)
    count(1)
    return new


cdef void release(void* pointer) noexcept nogil:
    if pointer != NULL:
        count(-1)
        free(pointer)


cdef int reserve(void** pointer, Py_ssize_t* room, Py_ssize_t need, size_t size) except -1 nogil:
    cdef Py_ssize_t more
    if need <= room[0]:
        return 0
    more = max(need, room[0] + room[0] // 2)
    pointer[0] = resize(pointer[0], more, size)
    room[0] = more
    return 0


cdef bint fits(Py_ssize_t n, size_t size) noexcept nogil:
    return 0 <= n <= MOST // <Py_ssize_t> size and not fails()


cdef int refuse(Py_ssize_t n, size_t size) except -1 nogil:
    with gil:
        raise MemoryError(f"no room for {n} items of {size} bytes")


cdef class Scratch:
    """Memory that grows to the largest round seen and is used again for the next."""

    cdef double* take(self, Py_ssize_t n) except NULL nogil:
        reserve(<void**> &self.data, &self.size, max(n, 1), sizeof(double))
        return self.data

    def __dealloc__(self):
        release(self.data)
