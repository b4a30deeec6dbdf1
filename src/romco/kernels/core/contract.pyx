"""What every compiled learner shares: predict a round, learn a round, run a stream.

A learner's kernel is a ``cdef class`` that derives from :class:`Kernel`, holds
views of the learner's arrays, and writes the two verbs ``score`` and ``learn``.
The loop over a stream is written once, here.
"""

cimport numpy as cnp
from libc.math cimport isfinite
from romco.kernels.core.events cimport Events

cnp.import_array()

cdef extern from *:
    """
    /* What was written before is seen before what is written after, by other threads, too. */
    #if defined(_MSC_VER)
    #include <intrin.h>
    static volatile long romco_fenced;
    #define romco_fence() _InterlockedExchange(&romco_fenced, 0)
    #else
    #include <stdatomic.h>
    #define romco_fence() atomic_thread_fence(memory_order_seq_cst)
    #endif
    """
    void fence "romco_fence" () noexcept nogil


cdef class Kernel:
    """Compiled half of a learner (abstract)."""

    def __cinit__(self):
        self.width = 1

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

    cdef int notice(self, Events events, Py_ssize_t begin, Py_ssize_t end) except -1 nogil:
        return 0

    cdef int take_step(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, double* margins
    ) except -1 nogil:
        """Score a round, then learn it."""
        self.drop_notes()
        self.followed, self.frozen_predictions = True, False
        self.score(events, begin, end, margins)
        check(margins, self.width, begin, end)
        self.learn(events, begin, end, margins)
        events.restore_shift(begin, end, margins)
        self.drop_notes()
        return 0

    # `predict` and `update` keep the GIL: to other threads a step has happened or has not. `replay`
    # does not; what another thread asks of the kernel meanwhile is refused, not answered from
    # arrays that are half-made or about to move.

    def check_idle(self):
        """Raise RuntimeError while a replay is under way in another thread, or after a torn step."""
        if self.busy:
            raise RuntimeError(
                "this learner is replaying a stream in another thread; wait for it under a lock, "
                "or read from a snapshot taken before: romco.restore(learner.state())"
            )
        if self.torn:
            raise RuntimeError(
                "an error broke off a step of this learner, and what it holds is half-made; "
                "go on from a state taken before: romco.restore(state), or romco.load of a saved model"
            )
        fence()

    # Each of all events, or of some of a stream's by their places, so that no loop need cut it.

    def predict(
        self, Events events not None, Py_ssize_t begin=0, Py_ssize_t end=-1, bint frozen=False
    ):
        """Margins (n,) of one round, or (n, width); ``frozen`` where no labels will follow."""
        end = events.n if end < 0 else end
        self.check_between(events, begin, end)
        cdef cnp.ndarray margins = room(end - begin, self.width)
        cdef double* p = <double*> cnp.PyArray_DATA(margins) - begin * self.width
        self.drop_notes()
        self.followed, self.frozen_predictions = False, frozen
        self.score(events, begin, end, p)
        check(p, self.width, begin, end)
        events.restore_shift(begin, end, p)
        return margins

    def update(self, Events events not None, Py_ssize_t begin=0, Py_ssize_t end=-1):
        """Learn one round of events with labels."""
        end = events.n if end < 0 else end
        self.check_between(events, begin, end)
        if events.labels == NULL:
            raise ValueError("these events were taken without labels")
        cdef cnp.ndarray margins = room(end - begin, self.width)
        cdef double* p = <double*> cnp.PyArray_DATA(margins) - begin * self.width
        self.take_step(events, begin, end, p)

    def look_at(self, Events events not None, Py_ssize_t begin=0, Py_ssize_t end=-1):
        """Learn of events without labels what needs none."""
        end = events.n if end < 0 else end
        self.check_between(events, begin, end)
        self.drop_notes()
        self.notice(events, begin, end)

    cdef check_between(self, Events events, Py_ssize_t begin, Py_ssize_t end):
        self.check_idle()
        if not 0 <= begin <= end <= events.n:
            raise ValueError(f"events {begin} to {end} of {events.n}")

    def room(self, Events events not None):
        """An array for the margins of events."""
        return room(events.n, self.width)

    def replay(
        self, Events events not None, const long long[::1] starts not None,
        Events known=None, const long long[::1] known_starts=None, cnp.ndarray margins=None,
        Events others=None, const long long[::1] other_starts=None,
    ):
        """Margins of a stream: each round is predicted, then learned. Releases the GIL.

        Where labels are missing, `known` are the events that have one, and of each round only
        they are learned; `others`, if given, are the rest, which are looked at before. ``margins``,
        if given, is the array that :meth:`room` returned. Where a round fails, ``done`` is the
        number of rounds that were learned before it.
        """
        self.done = 0
        if margins is None:
            margins = room(events.n, self.width)
        cdef double* p = <double*> cnp.PyArray_DATA(margins)
        # Margins of the known events, predicted once more within their step.
        cdef cnp.ndarray again = room(0 if known is None else known.n, self.width)
        cdef double* q = <double*> cnp.PyArray_DATA(again)
        cdef Py_ssize_t i
        self.check_idle()
        self.busy = True
        try:
            with nogil:
                for i in range(starts.shape[0] - 1):
                    if known is None:
                        self.take_step(events, starts[i], starts[i + 1], p)
                        self.done = i + 1
                        continue
                    self.drop_notes()
                    self.followed = self.frozen_predictions = False
                    self.score(events, starts[i], starts[i + 1], p)
                    check(p, self.width, starts[i], starts[i + 1])
                    events.restore_shift(starts[i], starts[i + 1], p)
                    if others is not None and other_starts[i] < other_starts[i + 1]:
                        self.drop_notes()
                        self.notice(others, other_starts[i], other_starts[i + 1])
                    if known_starts[i] < known_starts[i + 1]:
                        self.take_step(known, known_starts[i], known_starts[i + 1], q)
                    self.done = i + 1
                # Here, not with the GIL: to get it back may take long, and until then a replay
                # that has done its work would turn others away.
                fence()
                self.busy = False
        except BaseException:
            self.busy = False
            raise
        return margins


cdef cnp.ndarray room(Py_ssize_t n, Py_ssize_t width):
    cdef cnp.npy_intp[2] shape
    shape[0], shape[1] = n, width
    return cnp.PyArray_EMPTY(1 if width == 1 else 2, shape, cnp.NPY_FLOAT64, 0)


cdef int check(
    const double* margins, Py_ssize_t width, Py_ssize_t begin, Py_ssize_t end
) except -1 nogil:
    """Refuse to answer with something that is not a number."""
    cdef Py_ssize_t e
    for e in range(begin * width, end * width):
        if not isfinite(margins[e]):
            with gil:
                raise FloatingPointError(
                    f"event {e // width}: the margin is {margins[e]}; the weights have overflowed, "
                    "so use smaller steps or scale the features"
                )
    return 0
