"""What every compiled learner shares: predict a round, learn a round, run a stream.

A learner's kernel is a ``cdef class`` that derives from :class:`Kernel`, holds
views of the learner's arrays, and writes the two verbs ``score`` and ``learn``.
The loop over a stream is written once, here.
"""

cimport numpy as cnp
from libc.math cimport isfinite
from romco.kernels.events cimport Events

cnp.import_array()

cdef extern from *:
    """
    /* What was written before is seen before what is written after, by other threads, too. */
    #if defined(__GNUC__) || defined(__clang__)
    #define romco_fence() __atomic_thread_fence(__ATOMIC_SEQ_CST)
    #else
    #include <intrin.h>
    static volatile long romco_fenced;
    #define romco_fence() _InterlockedExchange(&romco_fenced, 0)
    #endif
    """
    void fence "romco_fence" () noexcept nogil


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

    # `predict` and `update` keep the GIL: to other threads a step has happened or has not. `replay`
    # does not; what another thread asks of the kernel meanwhile is refused, not answered from
    # arrays that are half-made or about to move.

    def check_idle(self):
        """Raise RuntimeError while a replay is under way in another thread."""
        if self.busy:
            raise RuntimeError(
                "this learner is replaying a stream in another thread; wait for it under a lock, "
                "or read from a snapshot taken before: romco.restore(learner.state())"
            )
        fence()

    def predict(self, Events events not None):
        """Margins (n,) of one round."""
        self.check_idle()
        cdef cnp.ndarray margins = room(events.n)
        cdef double* p = <double*> cnp.PyArray_DATA(margins)
        self.score(events, 0, events.n, p)
        check(p, 0, events.n)
        return margins

    def update(self, Events events not None):
        """Learn one round."""
        cdef cnp.ndarray margins = self.predict(events)
        self.learn(events, 0, events.n, <const double*> cnp.PyArray_DATA(margins))

    def replay(
        self, Events events not None, const long long[::1] starts not None, double[::1] into=None
    ):
        """Margins (n,) of a stream: each round is predicted, then learned. Releases the GIL.

        ``into`` (n,) is filled with them, if given; ``done`` counts the rounds that were learned.
        """
        cdef cnp.ndarray margins = room(events.n)
        cdef double* p = <double*> cnp.PyArray_DATA(margins)
        cdef Py_ssize_t i
        if into is not None:
            p = &into[0]
        self.check_idle()
        self.done = 0
        self.busy = True
        try:
            with nogil:
                for i in range(starts.shape[0] - 1):
                    self.score(events, starts[i], starts[i + 1], p)
                    check(p, starts[i], starts[i + 1])
                    self.learn(events, starts[i], starts[i + 1], p)
                    self.done = i + 1
                # Here, not with the GIL: to get it back may take long, and until then a replay
                # that has done its work would turn others away.
                fence()
                self.busy = False
        except BaseException:
            self.busy = False
            raise
        return margins


cdef cnp.ndarray room(Py_ssize_t n):
    cdef cnp.npy_intp shape = n
    return cnp.PyArray_EMPTY(1, &shape, cnp.NPY_FLOAT64, 0)


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
