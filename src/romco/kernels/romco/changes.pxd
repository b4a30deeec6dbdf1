"""Changes of basis that rows make up for when they are next needed."""

cimport cython
from romco.kernels.core.prefetch cimport ahead
from romco.kernels.romco.rows cimport Head

cdef enum:
    EPOCHS = 16           # epochs in a block

cdef struct Transform:    # (rows, cols), row-major
    Py_ssize_t rows, cols
    double* data          # NULL where all of it is nothing


@cython.final
cdef class BasisChanges:
    cdef Py_ssize_t epoch                 # how often the basis has changed
    cdef Py_ssize_t base                  # columns of B at the epoch's start
    cdef Py_ssize_t blocks                # in the ring of transforms
    cdef Transform* steps                 # (blocks * EPOCHS,) from an epoch to the end of its block
    cdef Transform* leaps                 # (blocks,) from a block's end to the open block's start
    cdef Py_ssize_t started_before        # no row is older than this epoch
    cdef double* between                  # room for a row on its way
    cdef Py_ssize_t between_room

    cdef int make_ring(self, Py_ssize_t blocks) except -1
    cdef int fit(self, Py_ssize_t columns) except -1 nogil
    cdef inline bint forgotten(self, const double* row) noexcept nogil:
        """Whether nothing is left today of a row of another epoch."""
        cdef const Head* head = <const Head*> row
        cdef Py_ssize_t block = head.epoch // EPOCHS, open_block = self.epoch // EPOCHS
        if head.count == 0 or self.steps[head.epoch % (self.blocks * EPOCHS)].data == NULL:
            return True
        if block == open_block:
            return False
        if block + 1 < open_block and self.leaps[block % self.blocks].data == NULL:
            return True
        return self.epoch % EPOCHS != 0 \
            and self.steps[(open_block * EPOCHS) % (self.blocks * EPOCHS)].data == NULL

    cdef inline void ask_for_step(self, Py_ssize_t epoch) noexcept nogil:
        """Have the transform of an epoch at hand soon."""
        cdef const double* data = self.steps[epoch % (self.blocks * EPOCHS)].data
        ahead(data)
        ahead(data + 8)
        ahead(data + 16)
        ahead(data + 24)

    cdef void catch_up(self, const double* row, double* out) noexcept nogil
    cdef int end_epoch(
        self, const double* turned, Py_ssize_t ld, Py_ssize_t columns, Py_ssize_t rank
    ) except -1 nogil
    cdef int close_block(self, Py_ssize_t rank) except -1 nogil


cdef int allocate(Transform* a, Py_ssize_t rows, Py_ssize_t cols) except -1 nogil
cdef void forget(Transform* a) noexcept nogil
