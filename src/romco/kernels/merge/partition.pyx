"""Codes of task names, by which rows are dealt out to shards."""

import numpy as np
from cpython.dict cimport PyDict_GetItemWithError
from cpython.object cimport PyObject


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
