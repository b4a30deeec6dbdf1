"""One compiled call per event or chunk: read, look up, predict, learn, calibrate, count, commit.

Ctrl-C and other exceptions of signals and tracers are raised between two bytecodes. Compiled code
has none, so a step is not interrupted. Where it calls Python, the call is idempotent and repeated
after an interrupt: see :func:`retry_idempotent`.
"""

import numpy as np
cimport numpy as cnp
from cpython.dict cimport PyDict_GetItemWithError
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_Check
from cpython.long cimport PyLong_CheckExact
from cpython.object cimport PyObject
from libc.math cimport fabs, isfinite
from romco.kernels.core.contract cimport Kernel
from romco.kernels.core.events cimport Events
from romco.kernels.core.counts cimport EventCounts, Scale
from romco.kernels.core.memory cimport release, reserve
from romco.kernels.io.encoder cimport Encoder
from romco.kernels.io.mappings cimport Mappings

from romco.kernels.core.events import LARGEST_FEATURE, LARGEST_WEIGHT

PERSONAL_CHECK_EVENTS = 1000  # events between looks at which tasks are personal

cnp.import_array()
cdef long long CHECK_EVENTS = PERSONAL_CHECK_EVENTS
cdef double LARGEST = LARGEST_FEATURE
cdef double HEAVIEST = LARGEST_WEIGHT
cdef Py_ssize_t UNKNOWN = -1
cdef enum Part:  # of a prediction
    MARGIN, LABEL, ALL


cdef class Step:
    """Names, a compiled learner and its counts: base of :class:`romco.model.engine.Engine`.

    Its methods take single events, hold the locks, and make no array. They return NotImplemented
    where only the general way of rounds and chunks can do it: a label that is new or written in
    another form, a task that must be started, a learner without a kernel, the margins of many
    classes, an event that must be refused. Nothing has changed then.

    Parameters
    ----------
    features, reader:
        Features of the rows, and what reads mappings by them; None where rows are arrays.
    target, tasks:
        A ``romco.model.target.Target`` and a ``romco.model.names.TaskTable``.
    body:
        The ``romco.model.body.Body``: the learner and its :class:`EventCounts`.
    locks:
        ``writing`` and ``step``.
    base:
        The class of learners whose verbs are those of their kernel.
    """

    cdef public object features, target, tasks, body, locks
    cdef public object history     # a ``romco.model.history.TaskHistory``, or None
    cdef public Scale scale
    cdef public bint starts_tasks  # whether the learner must start a new task
    cdef public bint with_offset   # whether events have a known part of their margin
    cdef public bint live          # whether labels soon follow predictions, which are else frozen
    cdef Mappings reader
    cdef object read_by, base
    cdef dict numbers  # of tasks

    cdef object learner  # of which the following is known
    cdef bint compiled, learns_delayed
    cdef Py_ssize_t n_features, n_tasks, answers

    cdef object order_of, order_known, below, above  # labels below and above margin 0
    cdef tuple labels  # all of them, by number where they are many
    cdef Py_ssize_t n_labels
    cdef double sign

    cdef Events event  # always one, whose numbers lie here:
    cdef long long task
    cdef double y, weight, offset
    cdef int[2] start
    cdef double* values
    cdef int* columns
    cdef Py_ssize_t room_values, room_columns

    cdef long long* round_tasks  # of several events that are predicted together
    cdef int* round_starts
    cdef double* round_margins
    cdef Py_ssize_t room_tasks, room_starts, room_margins

    def __init__(self, features, Mappings reader, target, tasks, body, locks, base):
        self.features, self.reader, self.read_by = features, reader, features
        self.target, self.tasks, self.body, self.locks = target, tasks, body, locks
        self.scale, self.base = Scale(), base
        self.numbers = tasks.number
        self.renew_event()

    def replace_features(self, features, Mappings reader):
        """Read rows by features that have the same columns under other names."""
        self.features, self.reader, self.read_by = features, reader, features

    cdef renew_event(self):
        """Make the event anew: a kernel may keep the context of the one that it learned last."""
        self.event = Events.__new__(Events)
        self.event.n = 1
        self.event.tasks, self.event.labels = &self.task, &self.y

    def __dealloc__(self):
        release(self.values)
        release(self.columns)
        release(self.round_tasks)
        release(self.round_starts)
        release(self.round_margins)

    # One event

    def learn_event(self, x, y, task, double weight=1.0, offset=None, context=None):
        """Learn one event; return the margin, or scores (K,), predicted just before.

        ``context`` (1, k) is that of its prediction, where the label came late.
        """
        locks = self.locks
        writing, step = locks.writing, locks.step
        writing.acquire()
        try:
            step.acquire()
            try:
                return self.learn(x, y, task, weight, offset, context)
            finally:
                if self.history is not None:
                    self.history.kernel.rollback()  # what was not committed
                step.release()
        finally:
            writing.release()

    def margin_of_event(self, x, task, offset=None):
        """Return the margin of one event, a dictionary, an array or a reader that has read it."""
        return self.answer(x, task, offset, MARGIN)

    def margin_and_context_of_event(self, x, task, offset=None):
        """Return the margin of one event, and the context to learn it by if its label is late.

        The context is None where the learner has no use for it.
        """
        step = self.locks.step
        step.acquire()
        try:
            margin = NotImplemented if self.history is not None else self.margin(x, task, offset)
            if margin is NotImplemented:
                return margin
            context = None
            if self.learns_delayed:
                context = self.learner.kernel.prediction_context(self.event)
            return margin, context
        finally:
            step.release()

    def label_of_event(self, x, task, offset=None):
        """Return the label or the number that is predicted for one event."""
        return self.answer(x, task, offset, LABEL)

    def predict_events(self, rows, tasks, offsets=None):
        """Return label, probability, margin and number of features of each event of two classes.

        They are predicted as one round.
        """
        step = self.locks.step
        step.acquire()
        try:
            if len(rows) > 1:
                return self.predict_many(rows, tasks, offsets)
            one = self.predict(rows[0], tasks[0], None if offsets is None else offsets[0], ALL)
            return one if one is NotImplemented else [one]
        finally:
            self.event.n, self.event.tasks = 1, &self.task
            step.release()

    cdef predict_many(self, rows, tasks, offsets):
        cdef Py_ssize_t k, n = len(rows)
        cdef Kernel kernel
        cdef double margin
        if not self.look_at_learner() or self.answers != 1 or self.with_offset \
                or offsets is not None or self.history is not None or self.reader is None \
                or self.features is not self.read_by:
            return NotImplemented
        kernel = self.learner.kernel
        if kernel.width != 1:
            return NotImplemented
        reserve(<void**> &self.round_tasks, &self.room_tasks, n, sizeof(long long))
        reserve(<void**> &self.round_starts, &self.room_starts, n + 1, sizeof(int))
        reserve(<void**> &self.round_margins, &self.room_margins, n, sizeof(double))
        self.round_starts[0] = 0
        self.begin_reading(False)
        for k in range(n):
            number = self.find(tasks[k])
            self.round_tasks[k] = self.next_number(tasks[k]) if number < 0 else number
            if self.round_tasks[k] < 0 or type(rows[k]) is not dict:
                return NotImplemented
            self.reader.read_row(rows[k], k)
            if self.reader.unread:
                return NotImplemented
            self.reader.end_row()
            if self.reader.too_large:
                return NotImplemented
            self.round_starts[k + 1] = <int> self.reader.n
            if self.reader.n > self.round_starts[k] \
                    and self.reader.entries[self.reader.n - 1].column >= self.n_features:
                return NotImplemented
        self.take(self.reader)
        self.event.n, self.event.tasks, self.event.start = n, self.round_tasks, self.round_starts
        self.event.offsets, self.event.shifted = NULL, False
        self.start_prediction(kernel)
        kernel.score(self.event, 0, n, self.round_margins)
        self.put_in_order()
        found = []
        for k in range(n):
            margin = self.sign * self.round_margins[k]
            if not isfinite(margin):
                return NotImplemented
            label = self.above if margin >= 0.0 else self.below
            size = self.round_starts[k + 1] - self.round_starts[k]
            found.append((label, self.scale.probability_of_one(margin), margin, size))
        return found

    cdef answer(self, x, task, offset, Part part):
        """Return a part of the prediction."""
        step = self.locks.step
        step.acquire()
        try:
            return self.predict(x, task, offset, part)
        finally:
            step.release()

    cdef predict(self, x, task, offset, Part part):
        found = self.margin(x, task, offset)
        if found is NotImplemented or part == MARGIN:
            return found
        if self.answers != 1 and part == ALL:
            return NotImplemented
        if self.answers == 0:
            return found
        self.put_in_order()
        if self.answers > 1:
            return self.labels[largest(found)]
        label = self.above if <double> found >= 0.0 else self.below
        if part == LABEL:
            return label
        return label, self.scale.probability_of_one(found), found, self.start[1]

    cdef learn(self, x, y, task, double weight, offset, context):
        cdef Py_ssize_t number
        cdef double margin = 0.0
        cdef double* margins = &margin
        cdef Kernel kernel
        cdef Events event
        cdef Scale scale
        if not self.look_at_learner() or not (weight == 1.0 or 0.0 < weight <= HEAVIEST):
            return NotImplemented
        if context is not None and (self.history is not None or not self.usable_context(context)):
            return NotImplemented
        number, actions = self.find(task), ()
        if number < 0:
            number = self.next_number(task)
            actions = self.tasks.actions(self.tasks.offered((task,)) if number >= 0 else {})
        if number < 0 or not self.read_label(y) or not self.read(x, task, True):
            return NotImplemented
        if weight != 1.0 and not self.learner.supports_sample_weight:
            return NotImplemented
        if not self.read_offset(offset):
            return NotImplemented
        if self.event.shifted:
            self.y -= self.offset
        kernel = self.learner.kernel
        scores = self.make_scores(kernel, &margins)
        if scores is NotImplemented or (self.answers > 1 and self.y >= kernel.width):
            return NotImplemented
        body = self.body
        if number >= self.n_tasks or self.needed_width() > self.n_features:
            self.body = body.grown(self.needed_width(), number + 1)
            self.look_at_learner()
        kernel = self.learner.kernel
        self.task, self.weight = number, weight
        self.event.weights = NULL if weight == 1.0 else &self.weight
        self.event.n_features, self.event.n_tasks = self.n_features, self.n_tasks
        if kernel.busy or kernel.torn:
            kernel.check_idle()  # raises
        try:
            if context is not None:
                kernel.set_context(self.event, context)
            kernel.take_step(self.event, 0, 1, margins)  # fails as a whole, or not at all
        except BaseException:
            self.body = body
            self.renew_event()
            raise
        if self.reader is not None:
            self.reader.commit()
        if self.history is not None:
            self.history.kernel.commit(1)
        event, self.event.x = self.event, None
        if context is not None:
            self.renew_event()
        scale = self.scale if self.answers == 1 else None
        commit_events(self.body, scale, event, 1, margins, NULL, actions)
        if self.answers > 1:
            return scores
        return margin if self.answers == 0 else <double> self.target.sign * margin

    cdef bint usable_context(self, const double[:, ::1] context) except -1:
        """Return whether the kernel learns by this context, which has numbers only."""
        cdef Py_ssize_t k
        for k in range(context.shape[1]):
            if not isfinite(context[0, k]):
                return False
        return self.learns_delayed and context.shape[0] == 1

    cdef make_scores(self, Kernel kernel, double** margins):
        """Return an array for the scores of many classes, and let ``margins`` point at it.

        None where there is one margin; NotImplemented where a class has no score or no label.
        """
        cdef cnp.npy_intp width = kernel.width
        if self.answers <= 1:
            return None if width == 1 else NotImplemented
        if width != self.answers or width != len(self.target.known):
            return NotImplemented
        cdef cnp.ndarray scores = cnp.PyArray_EMPTY(1, &width, cnp.NPY_FLOAT64, 0)
        margins[0] = <double*> cnp.PyArray_DATA(scores)
        return scores

    cdef margin(self, x, task, offset):
        """Return the margin of one event, or scores (K,)."""
        cdef Py_ssize_t number
        cdef double margin = 0.0
        cdef double* margins = &margin
        cdef Kernel kernel
        if not self.look_at_learner():
            return NotImplemented
        number = self.find(task)
        if number < 0:
            number = self.next_number(task)
        if not 0 <= number < self.n_tasks or not self.read(x, task, False) \
                or not self.read_offset(offset) or self.needed_width() > self.n_features:
            return NotImplemented
        kernel = self.learner.kernel
        scores = self.make_scores(kernel, &margins)
        if scores is NotImplemented:
            return NotImplemented
        self.task = number
        self.start_prediction(kernel)
        kernel.score(self.event, 0, 1, margins)
        self.event.restore_shift(0, 1, margins)
        self.event.x = None
        for number in range(kernel.width):
            if not isfinite(margins[number]):
                return NotImplemented
        if self.answers > 1:
            return scores
        return margin if self.answers == 0 else <double> self.target.sign * margin

    cdef int start_prediction(self, Kernel kernel) except -1:
        self.event.n_features, self.event.n_tasks = self.n_features, self.n_tasks
        if kernel.busy or kernel.torn:
            kernel.check_idle()  # raises
        kernel.drop_notes()
        kernel.followed, kernel.frozen_predictions = False, not self.live
        return 0

    cdef bint look_at_learner(self) except -1:
        """Return whether the learner is its kernel alone; checked again for another learner."""
        learner = self.body.learner
        if learner is not self.learner:
            kind = type(learner)
            self.learner = None
            self.compiled = (
                isinstance(learner, self.base)
                and kind.replay is self.base.replay and kind.predict is self.base.predict
            )
            self.n_features, self.n_tasks = learner.n_features, learner.n_tasks
            self.answers = learner.answers
            self.learns_delayed = (
                self.compiled and hasattr(learner, "set_context")
                and hasattr(learner.kernel, "set_context")
            )
            self.learner = learner
        return self.compiled

    cdef Py_ssize_t find(self, task) except? -2:
        """Return the number of a task that is known in this form, else -1."""
        cdef PyObject* number
        try:
            number = PyDict_GetItemWithError(self.numbers, task)
        except TypeError:  # cannot be a name
            return UNKNOWN
        if number == NULL:
            return UNKNOWN
        found = <Py_ssize_t> (<object> number)
        return found if 0 <= found < self.n_tasks else UNKNOWN

    cdef Py_ssize_t next_number(self, task) except? -2:
        """Return the number that a task has by another form, or would get.

        -1 where it must be started, or its name must be checked.
        """
        if self.starts_tasks or type(task) is not str or not (<str> task).isascii():
            return UNKNOWN
        number = self.tasks.find(task)
        return number if number >= 0 else self.tasks.next

    cdef bint read_label(self, y) except -1:
        cdef PyObject* side
        if self.answers == 0:
            if not PyFloat_Check(y) and not PyLong_CheckExact(y):  # NumPy's double is a float
                return False
            try:
                self.y = y
            except OverflowError:
                return False
            return fabs(self.y) <= LARGEST
        try:
            side = PyDict_GetItemWithError(self.target.known, y)
        except TypeError:
            return False
        if side == NULL:
            return False
        self.y = PyFloat_AS_DOUBLE(<object> side)
        return True

    cdef bint read_offset(self, offset) except -1:
        """Read the offset; return False unless it is present exactly where the model has offsets."""
        self.event.offsets, self.event.shifted = NULL, False
        if offset is None:
            return not self.with_offset
        if not self.with_offset or not PyFloat_Check(offset) or self.answers > 1:
            return False
        self.offset = offset
        if not fabs(self.offset) <= LARGEST:  # nor NaN
            return False
        if self.answers == 1:
            self.offset *= <double> self.target.sign
        self.event.offsets, self.event.shifted = &self.offset, self.answers == 0
        return True

    # Rows

    cdef bint read(self, x, task, bint growing) except -1:
        """Read a row, if it can be read here; keep new names where the row is to be learned."""
        if self.features is not self.read_by:
            return False
        if self.reader is None:
            return self.read_array(x)
        if type(x) is not dict:
            return False
        found = self.begin_reading(growing)
        if self.history is not None:
            self.reader.unread = True
        self.reader.read_row(x, 0)
        if self.reader.unread:
            if found is None:
                return False
            self.reader.begin(growing)
            if not self.read_by_schema(x, task, growing, found[0], found[1]):
                return False
        self.reader.end_row()
        if self.reader.too_large:
            return False
        return self.take(self.reader) and (not growing or self.reader.adopts())

    cdef begin_reading(self, bint growing):
        """Reset the reader; return the encoder of cells that are not plain numbers, or None."""
        cells = self.features.cells
        found = cells.encoder_of_one()
        self.reader.begin(growing)
        self.reader.kinds = found and found[2]
        self.reader.unread = found is None and cells.schema is not None
        return found

    cdef bint read_by_schema(self, dict x, task, bint growing, Encoder encoder, schema) except -1:
        """Read a row of known columns, with its history; observe its label if ``growing``.

        A new sentence is not learned here, since it may need a warning.
        """
        cdef Py_ssize_t k, n_names
        past = self.history
        columns, roles, chosen = schema.columns, schema.roles, schema.features
        for name in x if chosen is None else ():
            if type(name) is not str or (name not in columns and name not in roles):
                return False
        encoder.n, n_names = 0, len(encoder.lexicon.names)
        try:
            encoder.add_row(x, roles, chosen)
        except ValueError:
            return False
        encoder.lexicon.tell()
        names = encoder.lexicon.names
        for k in range(encoder.n):
            if not fabs(encoder.values[k]) <= LARGEST:
                return False
            if growing and encoder.ids[k] >= n_names and names[encoder.ids[k]].count(" ") > 2:
                return False
            if past is None:
                self.reader.put(names[encoder.ids[k]], encoder.values[k])
        return past is None or self.read_history(encoder, task, growing)

    cdef bint read_history(self, Encoder encoder, task, bint growing) except -1:
        past, y = self.history, None
        number = past.tasks.number.get(task)
        if number is None:
            if growing:
                return False
            number = past.tasks.find(task)
        if growing:
            past.kernel.make_classes(len(self.target.known))
            y = 0.5 + 0.5 * self.y if self.answers == 1 else self.y
        return past.kernel.read_event(number, encoder, self.reader, y)

    cdef bint take(self, Mappings read) except -1:
        """Take over the row that was read."""
        cdef Py_ssize_t k, n = read.n
        reserve(<void**> &self.values, &self.room_values, n + 1, sizeof(double))
        reserve(<void**> &self.columns, &self.room_columns, n + 1, sizeof(int))
        for k in range(n):
            self.values[k] = read.entries[k].value
            self.columns[k] = read.entries[k].column
        self.start[0], self.start[1] = 0, <int> n
        self.event.value, self.event.index, self.event.start = self.values, self.columns, self.start
        return True

    cdef Py_ssize_t needed_width(self) noexcept:
        """Return how many columns the row needs; no more than there are where it is an array."""
        if self.reader is None or self.start[1] == 0:
            return 0
        return self.columns[self.start[1] - 1] + 1  # sorted: the last is largest

    cdef bint read_array(self, x) except -1:
        """Point at a row: an array (d,) or (1, d), or a CSR matrix of one row."""
        cdef Py_ssize_t n
        cdef cnp.ndarray values, columns, starts
        if cnp.PyArray_CheckExact(x):
            values = x
            n = cnp.PyArray_SIZE(values)
            if n != self.n_features or not plain(values, cnp.NPY_FLOAT64) or not (
                cnp.PyArray_NDIM(values) == 1
                or (cnp.PyArray_NDIM(values) == 2 and cnp.PyArray_DIM(values, 0) == 1)
            ):
                return False
            self.event.value, self.event.index = <double*> cnp.PyArray_DATA(values), NULL
            self.event.x = x
            return self.all_usable(n)
        try:
            if x.format != "csr" or x.shape != (1, self.n_features):
                return False
            values, columns, starts = x.data, x.indices, x.indptr
        except (AttributeError, TypeError):
            return False
        if not (
            plain(values, cnp.NPY_FLOAT64) and plain(columns, cnp.NPY_INT32)
            and plain(starts, cnp.NPY_INT32) and cnp.PyArray_SIZE(starts) == 2
        ):
            return False
        self.event.value = <double*> cnp.PyArray_DATA(values)
        self.event.index = <int*> cnp.PyArray_DATA(columns)
        self.event.start = <int*> cnp.PyArray_DATA(starts)
        self.event.x = (values, columns, starts)
        n = cnp.PyArray_SIZE(values)
        if n != cnp.PyArray_SIZE(columns) or self.event.start[0] != 0 or self.event.start[1] != n:
            return False
        return self.all_rising(n) and self.all_usable(n)

    cdef bint all_usable(self, Py_ssize_t n) noexcept:
        cdef Py_ssize_t k
        for k in range(n):
            if not fabs(self.event.value[k]) <= LARGEST:  # nor NaN
                return False
        return True

    cdef bint all_rising(self, Py_ssize_t n) noexcept:
        """Return whether columns rise, and are columns of the learner."""
        cdef Py_ssize_t k
        cdef int before = -1
        for k in range(n):
            if self.event.index[k] <= before:
                return False
            before = self.event.index[k]
        return before < self.n_features

    cdef put_in_order(self):
        """Find the labels below and above 0: the only one for both, None before any is known."""
        cdef double sign = self.target.sign
        known = self.target.known
        if self.target is self.order_of and known is self.order_known \
                and len(known) == self.n_labels and sign == self.sign:
            return
        self.labels = labels = self.target.classes
        self.below, self.above = (labels[0], labels[len(labels) - 1]) if labels else (None, None)
        self.order_of, self.order_known, self.n_labels, self.sign = \
            self.target, known, len(known), sign


cdef Py_ssize_t largest(const double[::1] scores):
    """Return the place of the largest score; of equal ones the last."""
    cdef Py_ssize_t k, best = 0
    for k in range(1, scores.shape[0]):
        if scores[k] >= scores[best]:
            best = k
    return best


cdef bint plain(cnp.ndarray array, int kind):
    """Return whether an array can be read in place."""
    return cnp.PyArray_TYPE(array) == kind and cnp.PyArray_IS_C_CONTIGUOUS(array)


cdef class ChunkStep:
    """A chunk of rows that is learned, counted and named in one transaction.

    Parameters
    ----------
    body:
        The learner and its counts, a ``romco.model.body.Body``.
    scale, scales:
        Calibration that learns from their margins, and an array (n,) for log a before each; both
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
    """

    cdef Scale scale
    cdef Events events
    cdef object body, starts, commit, starts_of_tasks, undo
    cdef double[::1] scales
    cdef object interrupt

    def __init__(
        self, body, Scale scale, double[::1] scales, Events events, starts,
        commit=None, starts_of_tasks=(), undo=None,
    ):
        self.body, self.scale, self.scales = body, scale, scales
        self.events, self.starts, self.commit = events, starts, commit
        self.starts_of_tasks, self.undo = starts_of_tasks, undo

    def compiled(self):
        """Learn by the kernel; return the margins.

        Where the kernel fails, the rounds before it stay learned, and are counted.
        """
        cdef const long long[::1] starts = self.starts
        cdef Kernel kernel = self.body.learner.kernel
        self.begin()
        margins, error = kernel.room(self.events), None
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
        self.begin()
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
        """Start new tasks, all or none."""
        try:
            for start in self.starts_of_tasks:
                self.retry(start, ())
        except BaseException:
            self.rollback()
            raise

    cdef end(self, Py_ssize_t n, margins):
        """Count the first n events, which were learned, and commit their names and calibration."""
        cdef const double[::1] each
        cdef const double* first = NULL
        if n == 0:
            self.rollback()
            return
        actions = () if self.commit is None else self.retry(self.commit, (n,))
        if self.scale is not None:
            each = margins
            first = &each[0]
        commit_events(self.body, self.scale, self.events, n, first, &self.scales[0], actions)

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


cdef commit_events(
    body, Scale scale, Events events, Py_ssize_t n, const double* margins, double* scales, actions
):
    """Count the first n events, which were learned; calibrate by their margins; commit names.

    ``scales``, unless NULL, gets log a before each event; ``scale`` is None unless there are two
    classes. Compiled, so that nothing interrupts it.
    """
    cdef EventCounts counts = body.counts
    cdef long long before = counts.events
    cdef Py_ssize_t e
    counts.count(events, n)
    if scale is not None:
        for e in range(n):
            if scales != NULL:
                scales[e] = scale.log_a
            if events.offsets == NULL:  # else margins are log-odds as they are
                scale.add(margins[e], events.labels[e], events.count(e))
    for act, argument in actions:
        act(argument)
    if counts.events // CHECK_EVENTS > before // CHECK_EVENTS:
        retry_idempotent(body.note_personal_tasks)


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
