"""Changes of basis that rows make up for when they are next needed.

When B <- B P, no row is touched: P is kept as the transform of the *epoch* that ends, and a row
remembers the epoch it is written in. Sixteen epochs make a *block*. Three kinds of
product are kept ready: from each epoch to the end of its block (`steps`; to now, in the open
block), and from each block's end to the start of the open block (`leaps`). So a row needs at most three small
products, however old it is. Transforms lie in a ring: their owner must see to it that
no row gets older than the ring is long.

Where the penalty ends directions soon, a product over many epochs is not only small but far below
rounding: what today's vectors have of those of long ago. Then it is *nothing*, it is not kept, and
a row of that time is forgotten: all zeros today, at no cost.
"""

cimport cython
from libc.string cimport memcpy, memset
from romco.kernels.core.dense cimport dot_product, multiply, row_times
from romco.kernels.core.memory cimport release, reserve, resize, zeros
from romco.kernels.romco.rows cimport Head

# Of vectors of length 1, each known to 1e-16: so small a part of one changes no digit of it.
cdef double NOTHING = 1e-20


@cython.final
cdef class BasisChanges:
    """The products that lead from the basis of any epoch to today's."""

    def __dealloc__(self):
        free_ring(self.steps, self.blocks * EPOCHS)
        free_ring(self.leaps, self.blocks)
        release(self.between)

    cdef int make_ring(self, Py_ssize_t blocks) except -1:
        """An empty ring of that many blocks, in place of the one there is."""
        free_ring(self.steps, self.blocks * EPOCHS)
        free_ring(self.leaps, self.blocks)
        self.steps = self.leaps = NULL
        self.blocks = blocks
        self.steps = <Transform*> zeros(blocks * EPOCHS, sizeof(Transform))
        self.leaps = <Transform*> zeros(blocks, sizeof(Transform))
        return 0

    cdef int fit(self, Py_ssize_t columns) except -1 nogil:
        """Room for rows of that many columns."""
        return reserve(<void**> &self.between, &self.between_room, columns, sizeof(double))

    cdef void catch_up(self, const double* row, double* out) noexcept nogil:
        """The row in today's basis, out (base,). At most three products, however old it is.

        The row must not be forgotten.
        """
        cdef const Head* head = <const Head*> row
        cdef Py_ssize_t block = head.epoch // EPOCHS, open_block = self.epoch // EPOCHS
        cdef Py_ssize_t n = head.count
        cdef Transform step = self.steps[head.epoch % (self.blocks * EPOCHS)]
        cdef double* other = self.between
        cdef const double* now = row + 1
        if block < open_block:
            if block + 1 < open_block:
                apply(&now, &n, step, &other, out)
                step = self.leaps[block % self.blocks]
            if self.epoch % EPOCHS:
                apply(&now, &n, step, &other, out)
                step = self.steps[(open_block * EPOCHS) % (self.blocks * EPOCHS)]
        apply(&now, &n, step, &other, out)
        if now != out:
            memcpy(out, now, n * sizeof(double))

    cdef int end_epoch(
        self, const double* turned, Py_ssize_t ld, Py_ssize_t columns, Py_ssize_t rank
    ) except -1 nogil:
        """B <- B P for every row, by taking note of P; turned (rank, columns) is P'."""
        cdef Py_ssize_t ring = self.blocks * EPOCHS, i, j, e
        cdef Transform* step = &self.steps[self.epoch % ring]
        allocate(step, columns, rank)
        for i in range(columns):
            for j in range(rank):
                step.data[i * rank + j] = turned[j * ld + i]
        for e in range(max(self.started_before, self.epoch - self.epoch % EPOCHS), self.epoch):
            follow(&self.steps[e % ring], step[0])
        # Whatever a row was before it came to the next epoch, there its length is 1 at most.
        for e in range(self.epoch - 2, max(self.started_before, self.epoch - self.epoch % EPOCHS) - 1, -1):
            if is_nothing(self.steps[(e + 1) % ring]):
                forget(&self.steps[e % ring])
        self.epoch += 1
        if self.epoch % EPOCHS == 0:
            self.close_block(rank)
        self.base = rank
        return 0

    cdef int close_block(self, Py_ssize_t rank) except -1 nogil:
        """The open block ends: older blocks now lead to its end, not to its start."""
        cdef Py_ssize_t ring = self.blocks * EPOCHS, closed = self.epoch // EPOCHS - 1, block
        cdef Transform whole
        if self.started_before < closed * EPOCHS:  # else no row is older than this block
            whole = self.steps[(closed * EPOCHS) % ring]
            for block in range(self.started_before // EPOCHS, closed):
                follow(&self.leaps[block % self.blocks], whole)
                if is_nothing(self.leaps[block % self.blocks]):
                    forget(&self.leaps[block % self.blocks])
        allocate(&self.leaps[closed % self.blocks], rank, rank)
        identity(self.leaps[closed % self.blocks])
        return 0


cdef void free_ring(Transform* ring, Py_ssize_t n) noexcept:
    cdef Py_ssize_t i
    if ring != NULL:
        for i in range(n):
            release(ring[i].data)
    release(ring)


cdef inline void apply(
    const double** now, Py_ssize_t* n, Transform step, double** other, double* out
) noexcept nogil:
    """now (n,) <- now step, in whichever of `out` and `other` is free."""
    cdef double* target = out if now[0] != out else other[0]
    row_times(n[0], step.cols, now[0], step.data, step.cols, target)
    now[0], n[0] = target, step.cols


cdef int allocate(Transform* a, Py_ssize_t rows, Py_ssize_t cols) except -1 nogil:
    a.data = <double*> resize(a.data, rows * cols, sizeof(double))
    a.rows, a.cols = rows, cols
    return 0


cdef void identity(Transform a) noexcept nogil:
    cdef Py_ssize_t i
    memset(a.data, 0, a.rows * a.cols * sizeof(double))
    for i in range(a.rows):
        a.data[i * a.cols + i] = 1.0


cdef int follow(Transform* a, Transform b) except -1 nogil:
    """a <- a b, with as many rows of b as fit."""
    cdef Transform product
    if a.data == NULL or b.data == NULL:
        forget(a)
        a.cols = b.cols
        return 0
    product.data = NULL
    allocate(&product, a.rows, b.cols)
    multiply(a.rows, a.cols, b.cols, a.data, a.cols, b.data, b.cols, product.data, b.cols)
    release(a.data)
    a[0] = product
    return 0


cdef bint is_nothing(Transform a) noexcept nogil:
    """Whether so little is left by it that nothing is."""
    return a.data == NULL or dot_product(a.rows * a.cols, a.data, a.data) <= NOTHING * NOTHING


cdef void forget(Transform* a) noexcept nogil:
    """Let it be nothing."""
    release(a.data)
    a.data = NULL
