"""The two verbs of a learner, in C."""

from romco.kernels.events cimport Events


cdef class Kernel:
    cdef bint busy    # a replay is under way
    cdef Py_ssize_t width  # numbers that `score` gives for each event: 1, or one for each class
    # Margins of events begin to end; changes nothing. Those of event e begin at e * width.
    cdef int score(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, double* margins
    ) except -1 nogil
    # Learn events begin to end. `margins` are what `score` gave for them in the present state.
    cdef int learn(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, const double* margins
    ) except -1 nogil
