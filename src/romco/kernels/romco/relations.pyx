"""A coupling of tasks that is learned: what the tasks' sums of events have in common.

Of each task the sum T_i of (y - mean y) x is kept, and the products G of these sums. From
time to time a coupling is made of G; until the next time it is fixed, and every step is
that of ROMCO with a given coupling.
"""

import numpy as np
cimport cython
from romco.kernels.core.dense cimport axpy
from romco.kernels.core.events cimport Events, Row, column, square
from romco.kernels.core.memory cimport release, reserve
from romco.kernels.romco.rules cimport TaskVectors

cdef double FIRST = 32.0           # events before the coupling is first made,
cdef double GROWTH = 1.25          # then whenever there are so many times as many


@cython.final
cdef class Relations(TaskVectors):
    """Views of what is known of the tasks.

    ``factor`` (m, m) is F; ``sums`` (d, m) is T, ``products`` (m, m) is T'T, ``tally``
    (m, 3) has of each task its events, the sum of their labels, and the sum of
    (y - mean y)^2 |x|^2; ``clock`` counts events, in all and when F was made.
    """

    cdef double[:, ::1] sums, products, tally
    cdef double[::1] clock
    cdef double* g
    cdef Py_ssize_t g_room

    def __init__(self, factor, sums, products, tally, clock):
        TaskVectors.__init__(self, len(factor), 0.0, factor)
        self.sums, self.products, self.tally, self.clock = sums, products, tally, clock
        reserve(<void**> &self.g, &self.g_room, len(factor), sizeof(double))

    def __dealloc__(self):
        release(self.g)

    cdef bint learn(self, Events events, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
        cdef Py_ssize_t e
        for e in range(begin, end):
            self.note(events.row(e), events.tasks[e], events.labels[e])
        self.clock[0] += end - begin
        if self.clock[0] < FIRST or self.clock[0] < GROWTH * self.clock[1]:
            return False
        self.clock[1] = self.clock[0]
        return True

    cdef void note(self, Row x, Py_ssize_t task, double y) noexcept nogil:
        """T_i += c x, and G = T'T stays true."""
        cdef double c = y - self.tally[task, 1] / (self.tally[task, 0] + 1.0)
        cdef double own = c * c * square(x)
        cdef Py_ssize_t h, k, m = self.products.shape[0]
        for h in range(m):
            self.g[h] = 0.0
        for k in range(x.n):
            axpy(m, x.value[k], &self.sums[column(x, k), 0], self.g)
        for h in range(m):
            self.products[task, h] += c * self.g[h]
            self.products[h, task] += c * self.g[h]
        self.products[task, task] += own
        for k in range(x.n):
            self.sums[column(x, k), task] += c * x.value[k]
        self.tally[task, 0] += 1.0
        self.tally[task, 1] += y
        self.tally[task, 2] += own

    def couple(self):
        """Make F of what is known now; gives F as it was, and which tasks have events."""
        before = np.array(self.factor)
        seen = np.flatnonzero(np.asarray(self.tally)[:, 0])
        np.asarray(self.factor)[:] = factor(np.asarray(self.products), np.asarray(self.tally), seen)
        return before, seen


def factor(products, tally, seen, noise=0.2, ridge=0.01):
    """F (m, m) of A = F F', the noise-corrected cosines of the tasks' sums T.

    A sum of n independent terms of length c has a square of about n c^2 by chance
    alone; all but a share ``noise`` of that is taken off the squares. Tasks too short to
    tell are taken to be like all others, and a task without events is the mean of the
    others. ``ridge`` keeps A from being singular where tasks are alike.
    """
    G, z = products[np.ix_(seen, seen)], tally[seen, 2]
    left = np.diag(G) - (1.0 - noise) * z  # what is left of the squares
    known = left > 0.0
    e = np.sqrt(np.where(known, left, 1.0))
    A = np.clip((G + noise * np.sqrt(np.outer(z, z))) / np.outer(e, e), 0.0, 1.0)
    A[~np.outer(known, known)] = 1.0
    np.fill_diagonal(A, 1.0)
    values, vectors = np.linalg.eigh(A)
    F = vectors * np.sqrt(np.maximum(values, 0.0))
    F /= np.linalg.norm(F, axis=1, keepdims=True)
    values, vectors = np.linalg.eigh((1.0 - ridge) * F @ F.T + ridge * np.eye(len(seen)))
    out = np.zeros_like(products)
    out[np.ix_(seen, seen)] = vectors * np.sqrt(values)
    return unseen_as_mean(out, seen)


def unseen_as_mean(factor, seen):
    """Rows of tasks without events become the mean of the others; before any, all are one task."""
    unseen = np.setdiff1d(np.arange(len(factor)), seen)
    factor[unseen] = factor[seen].mean(axis=0) if len(seen) else np.eye(1, len(factor))
    return factor
