"""Rows of a tall matrix that exist only once they are needed.

A feature's row is found by its slot; slots are given out in the order in which features are
first seen. Rows lie side by side in chunks, so that a row never moves but when its chunk
gets wider.
"""

import numpy as np
cimport cython
from libc.string cimport memcpy
from romco.kernels.core.memory cimport release, reserve, resize


@cython.final
cdef class RowStore:
    """B (size, width), rows on demand. Whoever writes one says in which epoch's basis it is."""

    def __init__(self, Py_ssize_t size):
        self.size = size
        self.slots = np.zeros(size, dtype=np.int32)

    def __dealloc__(self):
        cdef Py_ssize_t i
        for i in range(self.n_chunks):
            release(self.chunks[i].data)
        release(self.chunks)
        release(self.owners)

    cdef int widen_chunk(self, Py_ssize_t at) except -1 nogil:
        """Room for `width` numbers in each row."""
        cdef Chunk* chunk = &self.chunks[at]
        cdef Py_ssize_t i, stride = 1 + self.width
        cdef double* wide = <double*> resize(NULL, ROWS * stride, sizeof(double))
        for i in range(min(<Py_ssize_t> ROWS, self.n_rows - at * ROWS)):
            memcpy(wide + i * stride, chunk.data + i * chunk.stride, chunk.stride * sizeof(double))
        release(chunk.data)
        chunk.data, chunk.stride = wide, stride
        return 0

    cdef Py_ssize_t new_slot(self, Py_ssize_t feature, Py_ssize_t epoch) except -1 nogil:
        cdef Py_ssize_t slot = self.n_rows
        cdef Head* head
        reserve(<void**> &self.owners, &self.rooms[1], slot + 1, sizeof(int))
        if slot == self.n_chunks * ROWS:
            reserve(<void**> &self.chunks, &self.rooms[0], self.n_chunks + 1, sizeof(Chunk))
            self.chunks[self.n_chunks].data = NULL
            self.chunks[self.n_chunks].stride = 0
            self.n_chunks += 1
        head = <Head*> self.row_to_write(slot)
        head.epoch, head.count = <int> epoch, 0
        self.owners[slot] = <int> feature
        self.slots[feature] = <int> slot + 1
        self.n_rows += 1
        return slot
