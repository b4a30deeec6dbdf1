"""Partition of rows by task: codes of task names, and copies of a shard's rows."""

import numpy as np
from cpython.dict cimport PyDict_GetItemWithError
from cpython.object cimport PyObject
from libc.string cimport memcpy


def encode(dict codes not None, list names not None, add not None):
    """Return the code (n,) of each name; one that has none gets that of ``add(name)``."""
    cdef Py_ssize_t i
    cdef PyObject* code
    cdef long long[::1] out = np.empty(len(names), dtype=np.int64)
    for i in range(out.shape[0]):
        try:
            code = PyDict_GetItemWithError(codes, names[i])
        except TypeError:  # not hashable
            code = NULL
        out[i] = <long long> <object> code if code != NULL else add(names[i])
    return np.asarray(out)


def pick_rows(
    const double[::1] values not None, const int[::1] columns not None,
    const int[::1] starts not None, const long long[::1] places not None,
):
    """Return values, columns and starts of some rows in CSR form; releases the GIL."""
    cdef Py_ssize_t i, n = places.shape[0], length
    check(values, columns, starts, places)
    cdef int[::1] ends = np.zeros(n + 1, dtype=np.int32)
    for i in range(n):
        ends[i + 1] = ends[i] + starts[places[i] + 1] - starts[places[i]]
    cdef double[::1] found = np.empty(ends[n])
    cdef int[::1] whose = np.empty(ends[n], dtype=np.int32)
    with nogil:
        for i in range(n):
            length = ends[i + 1] - ends[i]
            if length > 0:
                memcpy(&found[ends[i]], &values[starts[places[i]]], length * sizeof(double))
                memcpy(&whose[ends[i]], &columns[starts[places[i]]], length * sizeof(int))
    return np.asarray(found), np.asarray(whose), np.asarray(ends)


cdef check(
    const double[::1] values, const int[::1] columns, const int[::1] starts, const long long[::1] places
):
    """Raise ValueError where a place is no row, or a row is not where it is said to be."""
    cdef Py_ssize_t i
    cdef bint fits = True
    for i in range(places.shape[0]):
        fits = fits and 0 <= places[i] < starts.shape[0] - 1 and \
            0 <= starts[places[i]] <= starts[places[i] + 1] <= min(values.shape[0], columns.shape[0])
    if not fits:
        raise ValueError(f"rows that are not among {starts.shape[0] - 1}")
