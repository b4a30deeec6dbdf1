"""One weight vector per task, or one for all: what most kernels score with."""

from romco.kernels.core.contract cimport Kernel
from romco.kernels.core.events cimport Events, Row


cdef class LinearKernel(Kernel):
    cdef double[:, ::1] w  # (k, d), a row per task or a single row that all tasks use

    cdef inline Py_ssize_t at(self, Events events, Py_ssize_t e) noexcept nogil:
        return events.tasks[e] if self.w.shape[0] > 1 else 0

    # Learn an event of model i that counts h times, predicted with ``margin``.
    cdef int step(
        self, Row x, Py_ssize_t i, double y, double margin, double h
    ) except -1 nogil
