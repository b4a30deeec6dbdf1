"""Events given as mappings of names to values, turned into sparse rows."""

import numpy as np
from cpython.float cimport PyFloat_Check
from cpython.long cimport PyLong_Check
from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_DecodeASCII
from libc.math cimport INFINITY, fabs
from libc.stdlib cimport qsort
from libc.string cimport memcmp
from romco.kernels.core.memory cimport release, reserve, zeros

from romco.kernels.core.events import LARGEST_FEATURE

cdef double LARGEST = LARGEST_FEATURE
cdef enum:
    FEW = 48
    MET = 4096  # names whose columns are remembered, a power of two


cdef class Mappings:
    """Reads rows; how a name becomes a column is left to two final classes (abstract)."""

    def __dealloc__(self):
        release(self.entries)
        release(self.ends)

    cdef int put(self, name, double value, int place) except -1:
        raise NotImplementedError

    cdef int put_ascii(self, const char* name, Py_ssize_t n, double value, int place) except -1:
        raise NotImplementedError

    cdef int push(self, int column, double value, int place) except -1:
        if self.n == self.room:
            reserve(<void**> &self.entries, &self.room, max(64, 2 * self.room), sizeof(Entry))
        self.entries[self.n] = Entry(column, place, value)
        self.n += 1
        return 0

    def read(self, rows):
        """Values, columns and row starts; each row sorted, entries of the same column added."""
        cdef Py_ssize_t i
        self.clear()
        for i, row in enumerate(rows):
            self.read_row(row, i)
            self.end_row()
        return self.arrays()

    def arrays(self):
        """Values, columns and row starts of the rows that were read last."""
        cdef Py_ssize_t i
        values, columns = np.empty(self.n), np.empty(self.n, dtype=np.int32)
        starts = np.zeros(self.rows + 1, dtype=np.int32)
        cdef double[::1] value = values
        cdef int[::1] column = columns, start = starts
        for i in range(self.n):
            value[i], column[i] = self.entries[i].value, self.entries[i].column
        for i in range(self.rows):
            start[i + 1] = self.ends[i]
        return values, columns, starts

    cdef void clear(self) noexcept:
        self.n = self.rows = 0

    cdef int end_row(self) except -1:
        self.tidy(self.ends[self.rows - 1] if self.rows else 0)
        reserve(<void**> &self.ends, &self.room_ends, self.rows + 1, sizeof(int))
        self.ends[self.rows] = <int> self.n
        self.rows += 1
        return 0

    cdef int read_row(self, row, Py_ssize_t i) except -1:
        """Read numbers here; other values, and columns that are no numbers, by ``cells``."""
        cdef int place = 0
        cells = self.cells
        cdef dict columns = None if cells is None else cells.columns
        if not hasattr(row, "items"):
            raise ValueError(f"row {i}: expected a mapping of names to values; got {row!r}")
        for name, value in row.items():
            if value is None:
                continue
            if cells is None and isinstance(value, str):
                name, value = f"{name}={value}", 1.0
            if cells is None or (
                (PyFloat_Check(value) or PyLong_Check(value))
                and (columns is None or columns.get(name) is True)
            ):
                if cells is None or value == value:  # NaN is absent
                    self.put(name, as_number(name, value, i), place)
                    place += 1
                continue
            try:
                encoded = cells.encode(name, value, self.names_known(), self.learning)
            except ValueError as error:
                raise ValueError(f"row {i}: {error}") from None
            columns = cells.columns  # may have grown
            for name, value in encoded.items():
                self.put(name, as_number(name, value, i), place)
                place += 1
        return 0

    cdef names_known(self):
        """Names of known features."""
        return ()

    cdef int tidy(self, Py_ssize_t begin) except -1:
        """Sort the last row and add up entries of the same column."""
        cdef Py_ssize_t i, end = begin
        sort(self.entries + begin, self.n - begin)
        for i in range(begin, self.n):
            if end > begin and self.entries[end - 1].column == self.entries[i].column:
                self.entries[end - 1].value += self.entries[i].value
            else:
                self.entries[end] = self.entries[i]
                end += 1
        self.n = end
        return 0


cdef struct Met:
    const char* text  # of a name that `names` holds; NULL where there is none
    Py_ssize_t n
    int column


cdef class NamedMappings(Mappings):
    """A name's column is looked up in ``known``, then in ``new``; else it is added there.

    Without ``new`` a name that is not known is dropped. Names may be added to ``known``
    meanwhile, but a name keeps its column.
    """

    cdef dict known, new
    cdef Py_ssize_t width
    cdef Met* met  # of names in ASCII, by the low bits of their hash
    cdef list names

    def __init__(self, dict known not None, dict new=None, cells=None):
        self.known, self.new, self.width = known, new, len(known)
        self.cells, self.learning = cells, new is not None

    cdef names_known(self):
        return self.known

    def __dealloc__(self):
        release(self.met)

    cdef int put(self, name, double value, int place) except -1:
        column = self.known.get(name)
        if column is None:
            if self.new is None:
                return 0
            column = self.new.get(name)
            if column is None:
                column = self.new[name] = self.width + len(self.new)
        return self.push(column, value, place)

    cdef int put_ascii(self, const char* name, Py_ssize_t n, double value, int place) except -1:
        cdef Py_ssize_t at = <Py_ssize_t> (hash_text(name, n) & (MET - 1))
        if self.met == NULL:
            self.names = [None] * MET
            self.met = <Met*> zeros(MET, sizeof(Met))
        cdef Met* met = &self.met[at]
        if met.text == NULL or met.n != n or memcmp(met.text, name, n) != 0:
            text = PyUnicode_DecodeASCII(name, n, NULL)
            column = self.known.get(text)
            if column is None:
                return self.put(text, value, place)
            self.names[at] = text
            met.text, met.column = PyUnicode_AsUTF8AndSize(text, &met.n), column
        return self.push(met.column, value, place)


cdef class HashedMappings(Mappings):
    """A name's hash gives its column, the low bits, and its sign, the top bit."""

    cdef unsigned long long mask

    def __init__(self, unsigned long long size, cells=None, bint learning=False):
        self.mask = size - 1
        self.cells, self.learning = cells, learning

    cdef int put(self, name, double value, int place) except -1:
        cdef unsigned long long h
        try:
            h = hash_name(name if type(name) is str else str(name))
        except UnicodeEncodeError:
            raise ValueError(f"feature {name!a} is no text: it holds half a surrogate pair") from None
        return self.push(<int> (h & self.mask), -value if h >> 63 else value, place)

    cdef int put_ascii(self, const char* name, Py_ssize_t n, double value, int place) except -1:
        cdef unsigned long long h = hash_text(name, n)
        return self.push(<int> (h & self.mask), -value if h >> 63 else value, place)


cpdef unsigned long long hash_name(str name) except? 0:
    """FNV-1a over the name's UTF-8 bytes, then the finishing mix of MurmurHash3.

    Part of the model file's meaning: it is the same everywhere and may never change.
    """
    cdef Py_ssize_t n
    cdef const char* text = PyUnicode_AsUTF8AndSize(name, &n)
    return hash_text(text, n)


cdef unsigned long long hash_text(const char* text, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    cdef unsigned long long h = 14695981039346656037ULL
    for i in range(n):
        h = (h ^ <unsigned char> text[i]) * 1099511628211ULL
    h = (h ^ (h >> 33)) * 0xff51afd7ed558ccdULL
    h = (h ^ (h >> 33)) * 0xc4ceb9fe1a85ec53ULL
    return h ^ (h >> 33)


cdef double as_number(name, value, Py_ssize_t i) except? -1.0:
    cdef double number
    try:
        number = value
    except OverflowError:  # a whole number beyond all that a computer calculates with
        number = INFINITY
    except (TypeError, ValueError):
        raise ValueError(
            f"row {i}: feature {name!r} is {value!r}; give a number, text, or None if absent"
        ) from None
    if not fabs(number) <= LARGEST:
        raise ValueError(
            f"row {i}: feature {name!r} is {number}; it must be finite and at most {LARGEST:g} in "
            "size: scale it, impute it, or give None if absent"
        )
    return number


cdef void sort(Entry* entries, Py_ssize_t n) noexcept nogil:
    """By column, then by place; few are sorted here, without a call for each comparison."""
    cdef Py_ssize_t i, j
    cdef Entry entry
    if n > FEW:
        qsort(entries, n, sizeof(Entry), in_order)
        return
    for i in range(1, n):
        entry, j = entries[i], i
        while j > 0 and entries[j - 1].column > entry.column:
            entries[j] = entries[j - 1]
            j -= 1
        entries[j] = entry


cdef int in_order(const void* a, const void* b) noexcept nogil:
    cdef const Entry* p = <const Entry*> a
    cdef const Entry* q = <const Entry*> b
    if p.column != q.column:
        return -1 if p.column < q.column else 1
    return -1 if p.place < q.place else 1
