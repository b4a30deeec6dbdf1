"""One weight vector per task, or one for all: what most kernels score with."""

from romco.kernels.core.contract cimport Kernel
from romco.kernels.core.events cimport Events, dot


cdef class LinearKernel(Kernel):
    """margin = w_i . x (abstract: how to learn is left open)."""

    cdef int score(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, double* margins
    ) except -1 nogil:
        cdef Py_ssize_t e
        for e in range(begin, end):
            margins[e] = dot(events.row(e), &self.w[self.at(events, e), 0])
        return 0
