"""Margins of single events: a mapping in, a number out, and no array is made on the way."""

from libc.math cimport isfinite
from romco.kernels.baselines.mappings cimport Mappings
from romco.kernels.contract cimport Kernel
from romco.kernels.events cimport Events
from romco.kernels.memory cimport release, reserve


cdef class Single:
    """Rows that ``reader`` reads, one at a time and by one thread at a time.

    A round of one event costs ten times its margin in arrays. Here its row lies where the row before
    it lay.
    """

    cdef Mappings reader
    cdef Events events  # always one, whose numbers lie here:
    cdef long long task
    cdef int[2] start
    cdef double* values
    cdef int* columns
    cdef Py_ssize_t room_values, room_columns

    def __init__(self, Mappings reader not None):
        self.reader, self.events = reader, Events.__new__(Events)
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
        cdef double found = 0.0
        cdef Mappings read = self.reader
        if isinstance(row, Mappings):
            read = row
        else:
            read.clear()
            read.read_row(row, 0)
            read.end_row()
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
