"""Learning and counting what was learned, as one step that nothing can come between.

Ctrl-C and other exceptions of signals and tracers are raised between two bytecodes. Compiled code
has none: what is done here one after the other is done together. Where Python must be
called on the way it is called so that it may be called again: see :func:`retry_idempotent`.
"""

import numpy as np
from libc.math cimport exp, tanh
from romco.kernels.core.contract cimport Kernel
from romco.kernels.core.events cimport Events

MEMORY = 0.999  # weight of an event decays by this much per event
cdef double kept = MEMORY
cdef double LARGEST_STEP = 0.5
cdef double FAR = 500.0  # log-odds beyond which nothing changes


cdef class Scale:
    """P(positive) = 1 / (1 + exp(-a p)) of a margin p, with a > 0 learned online.

    Platt's scaling without its offset, so that a probability of one half is a margin of 0
    and probabilities never contradict predictions. log a takes a Newton step on the
    logistic loss of each margin that was predicted before its label was learned.

    >>> scale = Scale()
    >>> for _ in range(200):
    ...     scale.add(0.1, 1.0)
    >>> bool(scale.probability(np.array([0.1]))[0] > 0.6)
    True
    """

    def __init__(self, double log_a=0.0, double curvature=1.0):
        if not (-30.0 <= log_a <= 30.0 and 1.0 <= curvature < 1e300):
            raise ValueError(f"no scale has log a = {log_a} and curvature {curvature}")
        self.log_a, self.curvature = log_a, curvature

    cpdef add(self, double margin, double y, double weight=1.0):
        """Learn from one margin and its label, -1 or +1."""
        cdef double z = min(max(y * exp(self.log_a) * margin, -FAR), FAR)
        cdef double miss = 1.0 / (1.0 + exp(z))
        self.curvature = max(1.0, kept * self.curvature + weight * z * z * miss * (1.0 - miss))
        cdef double step = weight * z * miss / self.curvature
        self.log_a += min(max(step, -LARGEST_STEP), LARGEST_STEP)
        self.log_a = min(max(self.log_a, -30.0), 30.0)

    @classmethod
    def from_json(cls, found):
        """What was written of it: log a and the curvature, as learning leaves them."""
        log_a, curvature = found
        if not all(type(value) in (int, float) for value in (log_a, curvature)):
            raise ValueError(f"expected two numbers, got {found!r}")
        return cls(float(log_a), float(curvature))

    def probability(self, margins):
        """P(positive) of each margin."""
        given = np.asarray(margins, dtype=np.float64)
        found = given.flatten()  # a copy
        cdef double[::1] each = found
        cdef Py_ssize_t k
        for k in range(each.shape[0]):
            each[k] = self.probability_of_one(each[k])
        return found.reshape(given.shape)

    cpdef double probability_of_one(self, double margin) noexcept:
        """P(positive) of a margin, the same to the last bit."""
        cdef double z = exp(self.log_a) * margin
        return 0.5 * (1.0 + tanh(0.5 * z))  # the logistic function, without overflow

    def __reduce__(self):
        return Scale, (self.log_a, self.curvature)


cdef class History:
    """How many events each task has had, and since when it is personal.

    ``seen`` (m,) counts events by task, ``since`` (m,) is the event after which a task was found
    personal, or -1, ``started`` (m,) tells which tasks have events.
    """

    cdef public long long events
    cdef readonly object seen, since, started
    cdef readonly Py_ssize_t n_started
    cdef long long[::1] seen_
    cdef unsigned char[::1] started_

    def __init__(self, seen, since, long long events):
        self.seen, self.since, self.events = seen, since, events
        self.started = seen > 0
        self.n_started = np.count_nonzero(self.started)
        self.seen_, self.started_ = self.seen, self.started.view(np.uint8)

    def grown(self, Py_ssize_t n_tasks):
        """A copy with room for ``n_tasks``."""
        more = n_tasks - len(self.seen)
        seen = np.concatenate([self.seen, np.zeros(more, dtype=np.int64)])
        since = np.concatenate([self.since, np.full(more, -1, dtype=np.int64)])
        return History(seen, since, self.events)

    def forget(self, Py_ssize_t task):
        """Make a task as if it had never been."""
        self.n_started -= self.started[task]
        self.seen[task], self.since[task], self.started[task] = 0, -1, False

    cdef count(self, Events events, Py_ssize_t n):
        """Count the first n events."""
        cdef Py_ssize_t e, task
        for e in range(n):
            task = events.tasks[e]
            self.seen_[task] += 1
            if not self.started_[task]:
                self.started_[task] = True
                self.n_started += 1
        self.events += n


cdef class ChunkStep:
    """A chunk of rows that is learned, counted and named in one transaction.

    Parameters
    ----------
    history:
        What counts the events.
    scale, scales:
        What learns from their margins, and an array (n,) for log a before each of them; both
        None where margins are not those of two classes.
    events, starts:
        The events, and where each round begins, as :meth:`Kernel.replay` takes them.
    commit:
        Returns for a number of events the actions that commit them, pairs of a function and its
        argument; None if there are none. It changes nothing, the actions do: each must be a
        compiled function, such as a dictionary's ``update``.
    starts_of_tasks, undo:
        Functions that start new tasks, each compiled or idempotent; and one that rolls back what
        they and the learner changed, None if there is nothing to roll back.
    watch, every:
        Function that runs whenever the number of events passes a multiple of ``every``; idempotent.
    """

    cdef History history
    cdef Scale scale
    cdef Events events
    cdef object starts, commit, starts_of_tasks, undo, watch
    cdef double[::1] scales
    cdef long long every
    cdef object interrupt

    def __init__(
        self, History history, Scale scale, double[::1] scales, Events events, starts,
        commit, starts_of_tasks, undo, watch, every,
    ):
        self.history, self.scale, self.scales = history, scale, scales
        self.events, self.starts, self.commit = events, starts, commit
        self.starts_of_tasks, self.undo = starts_of_tasks, undo
        self.watch, self.every = watch, every

    def compiled(self, Kernel kernel not None):
        """Learn by a kernel; gives the margins.

        Where the kernel fails, the rounds before it stay learned, and are counted.
        """
        cdef const long long[::1] starts = self.starts
        error = self.begin()
        if error is not None:
            raise error
        margins = kernel.room(self.events)
        try:
            kernel.replay(self.events, self.starts, margins=margins)
        except BaseException as failed:
            error = failed
        self.end(starts[kernel.done], margins)
        if error is not None:
            raise error
        return self.finish(margins)

    def plain(self, attempt):
        """The same by a learner without a kernel, whose rows are one round.

        ``attempt()`` gives margins and what makes the learner take over what it learned, a
        compiled function, or None if it has done so. Where it fails, ``undo`` rolls it back.
        """
        error = self.begin()
        if error is not None:
            raise error
        try:
            margins, adopt = attempt()
            margins = np.ascontiguousarray(margins, dtype=np.float64)
        except BaseException:
            self.rollback()
            raise
        if adopt is not None:
            adopt()
        self.end(self.events.n, margins)
        return self.finish(margins)

    cdef begin(self):
        """Do what comes first; gives the error if it cannot be done."""
        try:
            for start in self.starts_of_tasks:
                self.retry(start, ())
        except BaseException as failed:
            self.rollback()
            return failed

    cdef end(self, Py_ssize_t n, margins):
        """The first n events were learned: count them, and let what follows from them follow."""
        cdef long long before = self.history.events
        if n == 0:
            self.rollback()
            return
        actions = () if self.commit is None else self.retry(self.commit, (n,))
        self.history.count(self.events, n)
        if self.scale is not None:
            self.calibrate(n, margins)
        for act, argument in actions:
            act(argument)
        if self.history.events // self.every > before // self.every:
            self.retry(self.watch, ())

    cdef calibrate(self, Py_ssize_t n, const double[::1] margins):
        cdef Py_ssize_t e
        for e in range(n):
            self.scales[e] = self.scale.log_a
            self.scale.add(margins[e], self.events.labels[e], self.events.count(e))

    cdef rollback(self):
        if self.undo is not None:
            try:
                self.retry(self.undo, ())
            except Exception:  # what cannot be rolled back is the start of a task without a name
                pass

    cdef retry(self, act, tuple given):
        """Run what is idempotent; after an interrupt run it again, and raise in the end."""
        try:
            return act(*given)
        except BaseException as first:
            value = act(*given)  # raises again if it was no interrupt
            self.interrupt = first
            return value

    cdef finish(self, margins):
        if self.interrupt is not None:
            raise self.interrupt
        return margins


def retry_idempotent(act, *given):
    """Run what is idempotent; after an interrupt run it again, then raise.

    >>> retry_idempotent(max, 1, 2)
    2
    """
    try:
        return act(*given)
    except BaseException:
        act(*given)
        raise
