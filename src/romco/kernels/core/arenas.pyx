"""Blocks of memory that are looked up here and there, side by side.

A store of many small blocks, such as the table of each task, is spread over many pages if each
block is asked for by itself, and then most lookups miss the processor's table of pages, too. Here
they come out of slabs. A block that is given back serves the next request of its size; all memory
goes back with the arena. Pages of 2 MB are not asked for: that of an event which is the first to
touch one would be cleared at once, which takes fifty times as long as the event.
"""

from romco.kernels.core.memory cimport release, reserve, resize

cdef size_t LINE = 64              # bytes that come from memory at once
cdef size_t FIRST = 1 << 14        # bytes of the first slab; the next are twice as large,
cdef size_t LARGEST = 1 << 25      # up to this


cdef class Arena:
    """Memory of one store; its owner sees to it that not two threads ask at once."""

    def __dealloc__(self):
        cdef Py_ssize_t i
        for i in range(self.n_slabs):
            release(self.slabs[i])
        release(self.slabs)

    cdef void* take(self, size_t bytes) except NULL nogil:
        cdef int which = 0
        cdef size_t whole = rounded(bytes, &which)
        cdef void* block = self.given[which]
        if block != NULL:
            self.given[which] = (<void**> block)[0]
            return block
        if whole > self.left:
            self.add_slab(whole)
        block = self.at
        self.at, self.left = self.at + whole, self.left - whole
        return block

    cdef void give(self, void* block, size_t bytes) noexcept nogil:
        cdef int which = 0
        if block != NULL:
            rounded(bytes, &which)
            (<void**> block)[0] = self.given[which]
            self.given[which] = block

    cdef int add_slab(self, size_t bytes) except -1 nogil:
        """Room for so many bytes; what was left of the last slab is not used."""
        cdef size_t size = max(bytes, min(LARGEST, max(FIRST, 2 * self.last)))
        cdef char* slab
        reserve(<void**> &self.slabs, &self.slabs_room, self.n_slabs + 1, sizeof(void*))
        slab = <char*> resize(NULL, <Py_ssize_t> (size + LINE), 1)
        self.slabs[self.n_slabs] = slab
        self.n_slabs += 1
        self.at, self.left, self.last = slab + (-<size_t> slab) % LINE, size, size
        return 0


cdef inline size_t rounded(size_t bytes, int* which) noexcept nogil:
    """A size that is not much larger, and which of the sizes it is: four to each doubling."""
    cdef size_t lines = max(<size_t> 1, (bytes + LINE - 1) // LINE) * LINE
    cdef int bits = 5
    while (lines - 1) >> (bits + 1):
        bits += 1
    which[0] = 4 * (bits - 5) + <int> (((lines - 1) >> (bits - 2)) & 3)
    return (((lines - 1) >> (bits - 2)) + 1) << (bits - 2)


def blocks_taken(sizes):
    """Addresses of blocks of some sizes, each of which is written full; for tests.

    Every second one is given back, and asked for again with the last.
    """
    cdef Arena arena = Arena()
    cdef size_t size, i
    cdef char* block
    found = []
    for turn in range(2):
        for at, size in enumerate(sizes):
            if turn and at % 2:
                continue
            block = <char*> arena.take(size)
            for i in range(size):
                block[i] = <char> (at & 127)
            found.append((<size_t> block, size))
        for at, size in enumerate(sizes):
            if not turn and at % 2 == 0:
                arena.give(<void*> <size_t> found[at][0], size)
    return found
