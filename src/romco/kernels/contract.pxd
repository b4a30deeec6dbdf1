"""The two verbs of a learner, in C."""

from romco.kernels.events cimport Events


cdef class Kernel:
    cdef bint busy    # a replay is under way
    cdef public Py_ssize_t done    # rounds that the last replay has learned
    # Margins of events begin to end; changes nothing.
    cdef int score(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, double* margins
    ) except -1 nogil
    # Learn events begin to end. `margins` are what `score` gave for them in the present state.
    cdef int learn(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, const double* margins
    ) except -1 nogil
