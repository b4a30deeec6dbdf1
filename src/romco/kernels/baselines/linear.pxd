"""One weight vector per task, or one for all: what most kernels score with."""

from romco.kernels.contract cimport Kernel
from romco.kernels.events cimport Events


cdef class LinearKernel(Kernel):
    cdef double[:, ::1] w  # (k, d), a row per task or a single row that all tasks use

    cdef inline Py_ssize_t at(self, Events events, Py_ssize_t e) noexcept nogil:
        return events.tasks[e] if self.w.shape[0] > 1 else 0


cdef class Scratch:
    cdef double* data
    cdef Py_ssize_t size
    # Room for n doubles, valid until the next call; what it holds is left over from before.
    cdef double* take(self, Py_ssize_t n) except NULL nogil
