"""Margins of single events: a mapping in, a number out, and no array is made on the way."""

from libc.math cimport isfinite
from romco.kernels.io.mappings cimport Mappings
from romco.kernels.core.contract cimport Kernel
from romco.kernels.core.events cimport Events
from romco.kernels.core.history cimport Scale
from romco.kernels.core.memory cimport release, reserve


cdef class Single:
    """Rows that ``reader`` reads, one at a time and by one thread at a time.

    A round of one event costs ten times its margin in arrays. Here its row lies where the row before
    it lay. ``predict`` is the method by which a learner says what its kernel says.
    """

    cdef Mappings reader
    cdef object predict, kind
    cdef bint compiled
    cdef object target, side, below, above  # labels, put in order anew when one was added
    cdef Py_ssize_t n_labels
    cdef double turn
    cdef Events events  # always one, whose numbers lie here:
    cdef long long task
    cdef int[2] start
    cdef double* values
    cdef int* columns
    cdef Py_ssize_t room_values, room_columns

    def __init__(self, Mappings reader not None, predict=None):
        self.reader, self.events, self.predict = reader, Events.__new__(Events), predict
        self.events.n = 1
        self.events.tasks, self.events.start = &self.task, self.start

    def __dealloc__(self):
        release(self.values)
        release(self.columns)

    def margin(
        self, Kernel kernel not None, Py_ssize_t n_features, Py_ssize_t n_tasks, Py_ssize_t task,
        row not None,
    ):
        """The margin of a row, which :meth:`Kernel.predict` of it would give; changes nothing.

        The row is a dictionary, or a reader that has read it. None where the margin is not
        known here: the kernel has no room for the task or for a feature, it gives more than
        one number, or the margin is none. Raises ValueError for a bad row.
        """
        cdef Mappings read = self.reader
        if isinstance(row, Mappings):
            read = row
        else:
            read.clear()
            read.read_row(row, 0)
            read.end_row()
        return self.score(kernel, n_features, n_tasks, task, read)

    def answer(self, lock, dict numbers not None, inside, target, Scale scale, Mappings read, task):
        """Label, probability and margin of a row that was read, of two classes; None as above.

        All of it in one call, since to call is most of what it costs. ``numbers`` are those of
        the tasks, ``inside`` is a ``GrowingLearner``, ``target`` tells which side is positive.
        """
        lock.acquire()  # compiled: nothing can come between this and the end
        try:
            number = numbers.get(task)
            if number is None:
                return None
            learner = inside.body.learner
            if not self.is_compiled(learner):
                return None
            found = self.score(learner.kernel, learner.n_features, learner.n_tasks, number, read)
            if found is None:
                return None
            self.put_in_order(target)
            margin = self.turn * <double> found
            label = self.above if margin >= 0.0 else self.below
            return label, scale.probability_of_one(margin), margin
        finally:
            lock.release()

    cdef put_in_order(self, target):
        """The labels below and above 0; the only one for both, None before any is known."""
        cdef double turn = target.turn
        side = target.known
        if target is self.target and side is self.side and len(side) == self.n_labels \
                and turn == self.turn:
            return
        labels = target.classes
        self.below, self.above = (labels[0], labels[len(labels) - 1]) if labels else (None, None)
        self.target, self.side, self.n_labels, self.turn = target, side, len(side), turn

    cpdef bint is_compiled(self, learner) except -1:
        """Whether its kernel says all that it says; asked anew only of another kind."""
        kind = type(learner)
        if kind is not self.kind:
            self.compiled = kind.predict is self.predict
            self.kind = kind
        return self.compiled

    cdef score(
        self, Kernel kernel, Py_ssize_t n_features, Py_ssize_t n_tasks, Py_ssize_t task,
        Mappings read,
    ):
        cdef double found = 0.0
        if read.rows != 1:
            raise ValueError(f"expected one row, got {read.rows}")
        if kernel.width != 1 or not 0 <= task < n_tasks or not self.take(read, n_features):
            return None
        self.task, self.events.n_features, self.events.n_tasks = task, n_features, n_tasks
        kernel.check_idle()
        kernel.drop_notes()
        kernel.followed = False
        kernel.score(self.events, 0, 1, &found)
        return found if isfinite(found) else None

    cdef bint take(self, Mappings read, Py_ssize_t n_features) except -1:
        """Take over the row that was read, if all of it is known to the kernel."""
        cdef Py_ssize_t k, n = read.n
        if n and read.entries[n - 1].column >= n_features:  # sorted: the last is largest
            return False
        reserve(<void**> &self.values, &self.room_values, n + 1, sizeof(double))
        reserve(<void**> &self.columns, &self.room_columns, n + 1, sizeof(int))
        for k in range(n):
            self.values[k] = read.entries[k].value
            self.columns[k] = read.entries[k].column
        self.start[0], self.start[1] = 0, <int> n
        self.events.value, self.events.index = self.values, self.columns
        return True
