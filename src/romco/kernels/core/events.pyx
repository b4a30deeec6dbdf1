"""Checks a round once and hands its numbers to compiled code."""

import numpy as np
cimport numpy as cnp
from libc.math cimport fabs

cnp.import_array()

LARGEST_FEATURE = 1e60  # so that squares of squares, and sums of them, are numbers
cdef double LARGEST = LARGEST_FEATURE
LARGEST_WEIGHT = 1e12  # an event that counts for more leaves no digits to all the others
cdef double HEAVIEST = LARGEST_WEIGHT


cdef bint ready(object array, int kind, int ndim):
    """Whether an array can be read in place."""
    return (
        cnp.PyArray_Check(array)
        and cnp.PyArray_TYPE(<cnp.ndarray> array) == kind
        and cnp.PyArray_NDIM(<cnp.ndarray> array) == ndim
        and cnp.PyArray_IS_C_CONTIGUOUS(<cnp.ndarray> array)
    )


cdef one_per_event(str name, values, Py_ssize_t n):
    """Return numbers (n,)."""
    values = values if ready(values, cnp.NPY_FLOAT64, 1) else _numbers(values)
    if cnp.PyArray_DIM(<cnp.ndarray> values, 0) != n:
        raise ValueError(f"{name} has {len(values)} entries but task has {n}; give one per event")
    return values


cdef class Events:
    """The events of one round or of many, checked: ``Events(round, n_features, n_tasks)``.

    Raises ValueError for anything a learner must not see. With ``labelled`` the
    answers must be there; without, they and the weights are not looked at. ``answers`` tells what
    an answer is: 1 for -1 or +1, k > 1 for a class from 0 to k - 1, 0 for a number. Offsets are
    refused unless ``takes_offset``; of classes there is one per event and class, (n, k). Those of
    numbers are subtracted from the labels, and a kernel's contract adds them to its predictions.
    ``rows`` (n,), if given, is the row of x of each event, which is then read in place; a CSR matrix
    must be sorted. Rows are checked without the GIL.
    """

    def __init__(
        self, round, Py_ssize_t n_features, Py_ssize_t n_tasks, bint labelled=True,
        Py_ssize_t answers=1, rows=None, bint takes_offset=False,
    ):
        task, x, y, weight, offset = (*round, None, None)[:5]
        self.n_features = n_features
        self.n_tasks = n_tasks
        self.task = task if ready(task, cnp.NPY_INT64, 1) else _tasks(task)
        self.n = cnp.PyArray_DIM(<cnp.ndarray> self.task, 0)
        self.tasks = <const long long*> cnp.PyArray_DATA(<cnp.ndarray> self.task)
        if self.n == 0:
            raise ValueError("the round is empty: a round needs at least one event")
        self.check_tasks()
        if rows is not None:
            self.rows = np.ascontiguousarray(rows, dtype=np.int64)
            self.order = <const long long*> cnp.PyArray_DATA(<cnp.ndarray> self.rows)
        if cnp.PyArray_Check(x) or not hasattr(x, "format"):
            self.take_dense(x)
        else:
            self.take_sparse(x)
        if labelled:
            self.take_labels(y)
            self.check_labels(answers)
            if weight is not None:
                self.take_weights(weight)
        if offset is not None:
            if not takes_offset:
                raise ValueError(
                    "this learner takes no offset: leave it out, or take romco-auto"
                )
            if answers > 1:
                self.offset = _class_offsets(offset, self.n, answers)
                self.offsets = <const double*> cnp.PyArray_DATA(<cnp.ndarray> self.offset)
            else:
                self.take_offsets(offset, answers == 0)

    cdef check_tasks(self):
        cdef Py_ssize_t e
        for e in range(self.n):
            if self.tasks[e] < 0 or self.tasks[e] >= self.n_tasks:
                raise ValueError(
                    f"event {e}: task {self.tasks[e]} is out of range; "
                    f"this learner has tasks 0 to {self.n_tasks - 1}"
                )

    cdef take_dense(self, x):
        if not ready(x, cnp.NPY_FLOAT64, 2):
            x = _dense(x)
        self.check_shape(x.shape)
        self.x = x
        self.value = <const double*> cnp.PyArray_DATA(<cnp.ndarray> x)
        self.index = NULL
        cdef Py_ssize_t e, k, bad = 0
        cdef const double* value
        with nogil:
            for e in range(self.n):
                value = self.row(e).value
                for k in range(self.n_features):  # without a branch: several at a time
                    bad += not fabs(value[k]) <= LARGEST  # nor NaN
                if bad:
                    break
        for k in range(self.n_features if bad else 0):
            if not fabs(value[k]) <= LARGEST:
                self.refuse(e, k, value[k])

    cdef take_sparse(self, x):
        if x.format != "csr":
            x = x.tocsr()
        self.check_shape(x.shape)
        self.hold(x)
        if not self.check_sparse():  # a copy, so that the caller's arrays stay as they are
            if self.order != NULL:
                raise ValueError("rows of a CSR matrix that are taken in place must be sorted")
            x = x.copy()
            x.sum_duplicates()
            self.hold(x)
            if not self.check_sparse():
                raise ValueError("x is not a valid CSR matrix: it says that its rows are sorted")
        self.x = x

    cdef hold(self, x):
        data, indices, indptr = x.data, x.indices, x.indptr
        self.values = data if ready(data, cnp.NPY_FLOAT64, 1) else _numbers(data)
        self.indices = indices if ready(indices, cnp.NPY_INT32, 1) else _int32(indices)
        self.indptr = indptr if ready(indptr, cnp.NPY_INT32, 1) else _int32(indptr)
        self.value = <const double*> cnp.PyArray_DATA(<cnp.ndarray> self.values)
        self.index = <const int*> cnp.PyArray_DATA(<cnp.ndarray> self.indices)
        self.start = <const int*> cnp.PyArray_DATA(<cnp.ndarray> self.indptr)

    cdef check_shape(self, shape):
        cdef Py_ssize_t e
        if self.order != NULL:
            for e in range(self.n if len(self.rows) == self.n else 0):
                if not 0 <= self.order[e] < shape[0]:
                    raise ValueError(f"event {e}: there is no row {self.order[e]} among {shape[0]}")
            if len(self.rows) != self.n:
                raise ValueError(f"rows has {len(self.rows)} entries but task has {self.n}")
        elif shape[0] != self.n:
            raise ValueError(f"x has {shape[0]} rows but task has {self.n} entries; give one row per event")
        if shape[1] != self.n_features:
            raise ValueError(
                f"x has {shape[1]} features but this learner has {self.n_features}; give rows of that width"
            )

    cdef bint check_sparse(self) except -1:
        """Whether every row is sorted and free of duplicates; raises where it is no valid row at all."""
        cdef Py_ssize_t e, k = 0, length = cnp.PyArray_DIM(<cnp.ndarray> self.values, 0)
        cdef Py_ssize_t n = cnp.PyArray_DIM(<cnp.ndarray> self.indptr, 0) - 1
        cdef unsigned int width = <unsigned int> self.n_features
        cdef Row x
        cdef bint valid = True
        cdef int bad = 0, unsorted = 0
        if self.order == NULL and n != self.n:
            raise ValueError("x is not a valid CSR matrix: indptr does not have a row per event")
        length = min(length, cnp.PyArray_DIM(<cnp.ndarray> self.indices, 0))
        if n < 0 or self.start[0] != 0 or self.start[n] > length:
            raise ValueError("x is not a valid CSR matrix: indptr does not fit indices and data")
        with nogil:
            for e in range(self.n):
                x = self.row(e)
                valid = 0 <= x.n and x.index >= self.index and x.index - self.index + x.n <= length
                if not valid:
                    break
                for k in range(x.n):  # without a branch: several at a time
                    bad |= <unsigned int> x.index[k] >= width
                for k in range(x.n):
                    bad |= not fabs(x.value[k]) <= LARGEST  # nor NaN
                for k in range(1, x.n):
                    unsorted |= x.index[k] <= x.index[k - 1]
                if bad:
                    break
        if valid and not bad:
            return not unsorted
        if not valid:
            raise ValueError(f"event {e}: x is not a valid CSR matrix: indptr decreases")
        k = 0
        while 0 <= x.index[k] < self.n_features and fabs(x.value[k]) <= LARGEST:
            k += 1
        if not 0 <= x.index[k] < self.n_features:
            raise ValueError(
                f"event {e}: feature {x.index[k]} is out of range; "
                f"this learner has features 0 to {self.n_features - 1}"
            )
        self.refuse(e, x.index[k], x.value[k])

    cdef refuse(self, Py_ssize_t e, Py_ssize_t j, double value):
        raise ValueError(
            f"event {e} (task {self.tasks[e]}): feature {j} is {value}; "
            f"features must be finite and at most {LARGEST:g} in size, so scale, impute or drop it"
        )

    cdef take_labels(self, y):
        self.y = one_per_event("y", y, self.n)
        self.labels = <const double*> cnp.PyArray_DATA(<cnp.ndarray> self.y)

    cdef check_labels(self, Py_ssize_t answers):
        cdef Py_ssize_t e
        cdef double y
        for e in range(self.n):
            y = self.labels[e]
            if answers == 1:
                if y != 1.0 and y != -1.0:
                    raise ValueError(
                        f"event {e} (task {self.tasks[e]}): label {y} is neither -1 nor +1"
                    )
            elif not fabs(y) <= LARGEST:  # nor NaN
                raise ValueError(
                    f"event {e} (task {self.tasks[e]}): the target is {y}; it must be finite and "
                    f"at most {LARGEST:g} in size, so scale it or drop the event"
                )
            elif answers > 1 and not (0.0 <= y < answers and y == <double> <long long> y):
                raise ValueError(
                    f"event {e} (task {self.tasks[e]}): {y} is no class from 0 to {answers - 1}"
                )

    cdef take_weights(self, weight):
        cdef Py_ssize_t e
        self.weight = one_per_event("weight", weight, self.n)
        self.weights = <const double*> cnp.PyArray_DATA(<cnp.ndarray> self.weight)
        for e in range(self.n):
            if not 0.0 <= self.weights[e] <= HEAVIEST:
                raise ValueError(
                    f"event {e} (task {self.tasks[e]}): weight {self.weights[e]}; a weight must be "
                    f"0 or a positive number up to {HEAVIEST:g}"
                )

    cdef take_offsets(self, offset, bint numbers):
        cdef Py_ssize_t e
        self.offset = one_per_event("offset", offset, self.n)
        self.offsets = <const double*> cnp.PyArray_DATA(<cnp.ndarray> self.offset)
        for e in range(self.n):
            if not fabs(self.offsets[e]) <= LARGEST:  # nor NaN
                raise ValueError(
                    f"event {e} (task {self.tasks[e]}): the offset is {self.offsets[e]}; it must be "
                    f"finite and at most {LARGEST:g} in size"
                )
        self.shifted = numbers
        if numbers and self.labels != NULL:
            self.y = self.y - self.offset
            self.labels = <const double*> cnp.PyArray_DATA(<cnp.ndarray> self.y)


def lacks_labels(y):
    """Whether an answer of a round is NaN: not known yet. Asked of every event, so it is compiled."""
    cdef Py_ssize_t e
    cdef const double* labels
    if not ready(y, cnp.NPY_FLOAT64, 1):
        y = np.asarray(y)
        return y.ndim == 1 and y.dtype.kind == "f" and bool(np.isnan(y).any())
    labels = <const double*> cnp.PyArray_DATA(<cnp.ndarray> y)
    for e in range(cnp.PyArray_DIM(<cnp.ndarray> y, 0)):
        if labels[e] != labels[e]:
            return True
    return False


def _tasks(task):
    task = np.asarray(task)
    if task.ndim != 1:
        raise ValueError(f"task must be one-dimensional, one entry per event; got shape {task.shape}")
    if task.size and not np.issubdtype(task.dtype, np.integer):
        raise ValueError(f"task must hold integers; got {task.dtype}")
    return np.ascontiguousarray(task, dtype=np.int64)


def _dense(x):
    x = np.asarray(x)
    if x.ndim != 2:
        raise ValueError(f"x must be two-dimensional, one row per event; got shape {x.shape}")
    return np.ascontiguousarray(_real(x), dtype=np.float64)


def _numbers(values):
    values = np.asarray(values)
    if values.ndim != 1:
        raise ValueError(f"expected a one-dimensional array, one number per event; got shape {values.shape}")
    return np.ascontiguousarray(_real(values), dtype=np.float64)


def _class_offsets(offset, n, classes):
    offset = np.asarray(offset)
    if offset.shape != (n, classes):
        raise ValueError(f"offset must have a row per event and a column per class, ({n}, {classes}); got shape {offset.shape}")
    offset = np.ascontiguousarray(_real(offset), dtype=np.float64)
    if not (np.abs(offset) <= LARGEST).all():  # nor NaN
        raise ValueError(f"an offset of a class is not finite, or beyond {LARGEST:g} in size")
    return offset


def _real(values):
    if values.dtype.kind not in "fiub":
        raise ValueError(f"expected real numbers; got an array of {values.dtype}")
    return values


def _int32(indices):
    """Indices that may be 64 bits wide: looked at before they are cut to 32."""
    indices = np.asarray(indices)
    if indices.ndim != 1 or indices.dtype.kind not in "iu":
        raise ValueError(
            f"x is not a valid CSR matrix: its indices are {indices.dtype}{list(indices.shape)}"
        )
    if indices.size and (indices.min() < 0 or indices.max() > 2147483647):
        raise ValueError(
            f"x is not a valid CSR matrix: an index is {indices.min()} or {indices.max()}, which is "
            "out of range (negative, or beyond 2^31 columns or stored entries: then split it)"
        )
    return np.ascontiguousarray(indices, dtype=np.int32)
