"""Calibration of margins, and counts of events by task."""

import numpy as np
from libc.math cimport exp, tanh
from romco.kernels.core.events cimport Events, Row, column

cdef enum:
    NO_TASK = -1
    SEVERAL_TASKS = -2

NOBODY, SEVERAL = NO_TASK, SEVERAL_TASKS  # owners of a feature or class that are not one task
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


cdef class EventCounts:
    """How many events each task has had, since when it is personal, and what it alone has had.

    ``seen`` (m,) counts events by task, ``since`` (m,) is the event after which a task was found
    personal, or -1, ``started`` (m,) tells which tasks have events. ``feature_owners`` (d,) and
    ``class_owners`` (K,) are the only task that has had a feature or a class, NOBODY or SEVERAL;
    they are empty where nobody asks.
    """

    def __init__(self, seen, since, long long events, feature_owners=(), class_owners=()):
        self.seen, self.since, self.events = seen, since, events
        self.feature_owners = np.array(feature_owners, dtype=np.int64)
        self.class_owners = np.array(class_owners, dtype=np.int64)
        self.feature_owners_, self.class_owners_ = self.feature_owners, self.class_owners
        self.started = seen > 0
        self.n_started = np.count_nonzero(self.started)
        self.seen_, self.started_ = self.seen, self.started.view(np.uint8)

    def grown(self, Py_ssize_t n_tasks, Py_ssize_t n_features, Py_ssize_t n_classes):
        """A copy with room for so many."""
        owners = [
            _extended(old, size, NOBODY) if len(old) else old
            for old, size in ((self.feature_owners, n_features), (self.class_owners, n_classes))
        ]
        seen, since = _extended(self.seen, n_tasks, 0), _extended(self.since, n_tasks, -1)
        return EventCounts(seen, since, self.events, *owners)

    def forget(self, Py_ssize_t task):
        """Make a task as if it had never been."""
        for owners in (self.feature_owners, self.class_owners):
            owners[owners == task] = SEVERAL  # their names are gone
        self.n_started -= self.started[task]
        self.seen[task], self.since[task], self.started[task] = 0, -1, False

    def own_features(self, tasks, starts, columns):
        """Let tasks own what they alone have: row i of CSR rows is of task i, -1 is unknown."""
        cdef const long long[::1] task = tasks
        cdef const int[::1] start = starts, column = columns
        cdef Py_ssize_t i, k
        for i in range(task.shape[0] if self.feature_owners_.shape[0] else 0):
            for k in range(start[i], start[i + 1]):
                claim(&self.feature_owners_[column[k]], task[i])

    cdef count(self, Events events, Py_ssize_t n):
        """Count the first n events."""
        cdef Py_ssize_t e, k, label, task
        cdef Row x
        for e in range(n):
            task = events.tasks[e]
            if self.feature_owners_.shape[0]:
                x = events.row(e)
                for k in range(x.n):
                    claim(&self.feature_owners_[column(x, k)], task)
            label = <Py_ssize_t> events.labels[e] if self.class_owners_.shape[0] else -1
            if 0 <= label < self.class_owners_.shape[0]:
                claim(&self.class_owners_[label], task)
            self.seen_[task] += 1
            if not self.started_[task]:
                self.started_[task] = True
                self.n_started += 1
        self.events += n


cdef inline void claim(long long* owner, long long task) noexcept nogil:
    """Note that a task has what has this owner."""
    if owner[0] == NO_TASK and task >= 0:
        owner[0] = task
    elif owner[0] != task:
        owner[0] = SEVERAL_TASKS


def _extended(numbers, Py_ssize_t size, long long value):
    """Numbers, filled up to a size with a value."""
    more = np.full(max(0, size - len(numbers)), value, dtype=np.int64)
    return np.concatenate([numbers, more])
