"""V: what is personal to single tasks."""

from romco.kernels.core.events cimport Row


cdef class Personal:
    cdef readonly Py_ssize_t n_tasks, n_features
    cdef double cost              # by how much a column gets shorter per tick
    cdef double clock             # ticks so far
    cdef double[::1] scale        # (m,) column i is scale[i] times what is stored
    cdef double[::1] square       # (m,) its squared length at time since[i]
    cdef double[::1] since        # (m,)
    cdef double scored            # stored_dot of the event that was scored last
    cdef int[::1] touches         # (m,) additions since the length was last computed from scratch

    cdef double margin(self, Py_ssize_t task, Row x) noexcept nogil
    cdef int add(
        self, Py_ssize_t task, Row x, double g, double square, double tick, bint alone
    ) except -1 nogil
    cdef int prune(self, Py_ssize_t task, double tick) except -1 nogil
    cdef double shrinkage(self, Py_ssize_t task) noexcept nogil
    cdef int forget(self, Py_ssize_t task) except -1 nogil

    # What a way of storing columns must define.
    cdef double stored_dot(self, Py_ssize_t task, Row x) noexcept nogil
    cdef int stored_add(self, Py_ssize_t task, Row x, double g) except -1 nogil
    cdef double stored_square(self, Py_ssize_t task) noexcept nogil
    cdef void stored_scale(self, Py_ssize_t task, double factor) noexcept nogil
    cdef int stored_clear(self, Py_ssize_t task) except -1 nogil
