"""One weight vector per task, or one for all: what most kernels score with."""

from romco.kernels.contract cimport Kernel
from romco.kernels.events cimport Events, dot
from romco.kernels.memory cimport release, reserve


cdef class LinearKernel(Kernel):
    """margin = w_i . x (abstract: how to learn is left open)."""

    cdef int score(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, double* margins
    ) except -1 nogil:
        cdef Py_ssize_t e
        for e in range(begin, end):
            margins[e] = dot(events.row(e), &self.w[self.at(events, e), 0])
        return 0


cdef class Scratch:
    """Memory that grows to the largest round seen and is used again for the next."""

    cdef double* take(self, Py_ssize_t n) except NULL nogil:
        reserve(<void**> &self.data, &self.size, max(n, 1), sizeof(double))
        return self.data

    def __dealloc__(self):
        release(self.data)
