"""Rows of a tall matrix that exist only once they are needed."""

cimport cython

cdef enum:                # known to the compiler, so that dividing by it costs nothing
    ROWS = 256            # rows in a chunk

cdef struct Head:         # in front of each row's numbers
    int epoch             # the epoch whose basis the row is written in
    int count             # columns that are there; all later ones are 0

cdef struct Chunk:        # ROWS rows side by side
    double* data
    Py_ssize_t stride


@cython.final
cdef class RowStore:
    cdef readonly Py_ssize_t size         # rows there could be: features, or tasks
    cdef int[::1] slots                   # (size,) 1 + slot of the row, 0 where there is none
    cdef int* owners                      # (n_rows,) the inverse of `slots`
    cdef Chunk* chunks
    cdef Py_ssize_t n_rows, n_chunks, width
    cdef Py_ssize_t rooms[2]

    cdef inline double* row(self, Py_ssize_t slot) noexcept nogil:
        cdef Chunk chunk = self.chunks[slot // ROWS]
        return chunk.data + (slot % ROWS) * chunk.stride

    cdef inline double* row_to_write(self, Py_ssize_t slot) except NULL nogil:
        """The row, with room for `width` numbers."""
        if self.chunks[slot // ROWS].stride <= self.width:
            self.widen_chunk(slot // ROWS)
        return self.row(slot)

    cdef inline Py_ssize_t slot_of(self, Py_ssize_t feature, Py_ssize_t epoch) except -1 nogil:
        """The slot of a feature's row, which is made where there is none, in that epoch's basis."""
        cdef Py_ssize_t slot = self.slots[feature] - 1
        return slot if slot >= 0 else self.new_slot(feature, epoch)

    cdef int widen_chunk(self, Py_ssize_t at) except -1 nogil
    cdef Py_ssize_t new_slot(self, Py_ssize_t feature, Py_ssize_t epoch) except -1 nogil
