"""What is asked of every event that comes by itself, where NumPy would cost more than the answer."""

cimport numpy as cnp

cnp.import_array()


def in_order(cnp.ndarray columns not None, cnp.ndarray starts not None):
    """Whether rows in CSR form fit their arrays, and are sorted and free of duplicates."""
    cdef const int* column = numbers_of(columns)
    cdef const int* start = numbers_of(starts)
    cdef Py_ssize_t i, k, rows = cnp.PyArray_DIM(starts, 0) - 1
    if rows < 0 or start[0] != 0 or start[rows] != cnp.PyArray_DIM(columns, 0):
        return False
    for i in range(rows):
        if start[i + 1] < start[i] or start[i + 1] > start[rows]:
            return False
        for k in range(start[i] + 1, start[i + 1]):
            if column[k] <= column[k - 1]:
                return False
    return True


def needed_width(cnp.ndarray columns not None):
    """One more than the largest column; 0 if there is none."""
    cdef const int* column = numbers_of(columns)
    cdef Py_ssize_t k
    cdef int largest = -1
    for k in range(cnp.PyArray_DIM(columns, 0)):
        largest = max(largest, column[k])
    return <Py_ssize_t> largest + 1


def all_known(cnp.ndarray tasks not None):
    """Whether no task (n,) is -1, that is without a number."""
    cdef const long long* task = <const long long*> cnp.PyArray_DATA(tasks)
    cdef Py_ssize_t i
    if cnp.PyArray_TYPE(tasks) != cnp.NPY_INT64 or not cnp.PyArray_IS_C_CONTIGUOUS(tasks):
        return bool((tasks >= 0).all())
    for i in range(cnp.PyArray_SIZE(tasks)):
        if task[i] < 0:
            return False
    return True


cdef const int* numbers_of(cnp.ndarray array) except NULL:
    if (
        cnp.PyArray_TYPE(array) != cnp.NPY_INT32
        or cnp.PyArray_NDIM(array) != 1
        or not cnp.PyArray_IS_C_CONTIGUOUS(array)
    ):
        raise ValueError("expected whole numbers of 32 bits, one after the other")
    return <const int*> cnp.PyArray_DATA(array)
