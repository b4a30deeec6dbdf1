"""What every compiled learner shares: predict a round, learn a round, run a stream.

A learner's kernel is a ``cdef class`` that derives from :class:`Kernel`, holds
views of the learner's arrays, and writes the two verbs ``score`` and ``learn``.
The loop over a stream is written once, here.
"""

import numpy as np
from libc.math cimport isfinite
from romco.kernels.events cimport Events


cdef class Kernel:
    """Compiled half of a learner (abstract)."""

    cdef int score(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, double* margins
    ) except -1 nogil:
        with gil:
            raise NotImplementedError("a kernel must define score")

    cdef int learn(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, const double* margins
    ) except -1 nogil:
        with gil:
            raise NotImplementedError("a kernel must define learn")

    # `predict` and `update` keep the GIL: to other threads a step has happened or has not.

    def predict(self, Events events not None):
        """Margins (n,) of one round."""
        margins = np.empty(events.n)
        cdef double[::1] view = margins
        self.score(events, 0, events.n, &view[0])
        check(&view[0], 0, events.n)
        return margins

    def update(self, Events events not None):
        """Learn one round."""
        cdef double[::1] margins = np.empty(events.n)
        self.score(events, 0, events.n, &margins[0])
        check(&margins[0], 0, events.n)
        self.learn(events, 0, events.n, &margins[0])

    def replay(self, Events events not None, const long long[::1] starts not None):
        """Margins (n,) of a stream: each round is predicted, then learned. Releases the GIL."""
        margins = np.empty(events.n)
        cdef double[::1] view = margins
        cdef Py_ssize_t i
        with nogil:
            for i in range(starts.shape[0] - 1):
                self.score(events, starts[i], starts[i + 1], &view[0])
                check(&view[0], starts[i], starts[i + 1])
                self.learn(events, starts[i], starts[i + 1], &view[0])
        return margins


cdef int check(const double* margins, Py_ssize_t begin, Py_ssize_t end) except -1 nogil:
    """Refuse to answer with something that is not a number."""
    cdef Py_ssize_t e
    for e in range(begin, end):
        if not isfinite(margins[e]):
            with gil:
                raise FloatingPointError(
                    f"event {e}: the margin is {margins[e]}; the weights have overflowed, "
                    "so use smaller steps or scale the features"
                )
    return 0
