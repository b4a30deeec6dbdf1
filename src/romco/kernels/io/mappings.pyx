"""Events given as mappings of names to values, turned into sparse rows."""

import numpy as np
from cpython.dict cimport PyDict_GetItemWithError, PyDict_Next
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_Check, PyFloat_CheckExact
from cpython.long cimport PyLong_AsLong, PyLong_Check
from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.math cimport INFINITY, fabs
from libc.string cimport memcpy, memset
from romco.kernels.core.memory cimport release, reserve, zeros
from romco.kernels.core.prefetch cimport ahead

from romco.kernels.core.events import LARGEST_FEATURE

cdef extern from "Python.h":
    bint PyUnicode_IS_COMPACT_ASCII(object)
    Py_ssize_t PyUnicode_GET_LENGTH(object)
    unsigned char* PyUnicode_1BYTE_DATA(object)

cdef double LARGEST = LARGEST_FEATURE
cdef enum:
    LINE = 64  # bytes of memory that come together
    LONGEST_NAME = 16  # characters of a name that the cache holds
    MIN_SLOTS = 1024
    FEW_ENTRIES = 24  # of a row, sorted by insertion
    NEAR_SLOTS = 8192  # of a cache of names, which a processor holds by itself
    FOLLOWED = 16  # names that a cache takes up at a time


cdef class Mappings:
    """Reads rows; how a name becomes a column is left to two final classes (abstract)."""

    def __dealloc__(self):
        release(self.entries)
        release(self.ends)
        release(self.spare)

    cdef int put(self, name, double value, int place) except -1:
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

    cdef void begin(self, bint growing):
        self.clear()
        self.single, self.unread = growing, False

    cdef int commit(self) except -1:
        return 0

    cdef bint adopts(self) except -1:
        return not self.unread

    cdef int read_row(self, row, Py_ssize_t i) except -1:
        """Read numbers here; other values, and columns that are no numbers, by ``cells``."""
        cdef int place = 0
        cdef Py_ssize_t at = 0
        cdef PyObject* key
        cdef PyObject* value
        self.plain = None if self.cells is None else self.cells.columns
        if type(row) is dict:
            self.prefetch_names(row)
            while PyDict_Next(row, &at, &key, &value):
                place += self.read_cell(<object> key, <object> value, i, place)
            return 0
        if not hasattr(row, "items"):
            raise ValueError(f"row {i}: expected a mapping of names to values; got {row!r}")
        for name, cell in row.items():
            place += self.read_cell(name, cell, i, place)
        return 0

    cdef int prefetch_names(self, dict row) except -1:
        """Ask for the memory that the names of a row are looked up in, all at once."""
        return 0

    cdef inline int read_cell(self, name, value, Py_ssize_t i, int place) except -1:
        """Read one raw cell of row i, and return how many entries it has."""
        cdef double number
        if value is None:
            return 0
        if self.cells is None and isinstance(value, str):
            name, value = f"{name}={value}", 1.0
        if self.cells is not None and not (
            (PyFloat_Check(value) or PyLong_Check(value))
            and (self.plain is None or self.plain.get(name) is True)
        ):
            return self.read_by_schema(name, value, i, place)
        if PyFloat_CheckExact(value):
            number = PyFloat_AS_DOUBLE(value)
            if not fabs(number) <= LARGEST:
                if self.cells is not None and number != number:
                    return 0  # NaN is absent
                as_number(name, value, i)  # raises
        elif self.cells is not None and value != value:
            return 0
        else:
            number = as_number(name, value, i)
        self.put(name, number, place)
        return 1

    cdef int read_by_schema(self, name, value, Py_ssize_t i, int place) except -1:
        """Read a cell that is no plain number of a column of numbers."""
        cdef int n = 0
        if self.single and (self.plain is None or name not in self.plain):
            self.unread = True
            return 0
        try:
            encoded = self.cells.encode(name, value, self.names_known(), self.learning)
        except ValueError as error:
            raise ValueError(f"row {i}: {error}") from None
        self.plain = self.cells.columns  # may have grown
        for name, value in encoded.items():
            self.put(name, as_number(name, value, i), place + n)
            n += 1
        return n

    cdef names_known(self):
        """Names of known features."""
        return ()

    cdef int tidy(self, Py_ssize_t begin) except -1:
        """Sort the last row and add up entries of the same column."""
        cdef Py_ssize_t i, end = begin
        reserve(<void**> &self.spare, &self.room_spare, self.n - begin, sizeof(Entry))
        sort(self.entries + begin, self.spare, self.n - begin)
        for i in range(begin, self.n):
            if end > begin and self.entries[end - 1].column == self.entries[i].column:
                self.entries[end - 1].value += self.entries[i].value
            else:
                self.entries[end] = self.entries[i]
                end += 1
        self.n = end
        return 0


cdef struct CachedName:  # half a line of memory
    Py_hash_t hash
    unsigned long long[2] text
    int length  # 0: nothing is here
    int column


cdef class NameCache:
    """Columns of short ASCII names, so that each is found by one look into memory.

    A dictionary looks into four places: its index, the entry, the name and the number. What is
    looked up here is compared whole, so that no two names are ever taken for one. Readers of the
    same dictionary of names share it; names may be added there, but must keep order and columns.
    """

    cdef CachedName* slots
    cdef void* memory
    cdef Py_ssize_t mask, used
    cdef Py_ssize_t listed, at  # names of the dictionary that were looked at, and its place of the next
    cdef bint partial  # there are names that equal text but are of a class of their own

    def __init__(self):
        self.grow(MIN_SLOTS)

    def __dealloc__(self):
        release(self.memory)

    cdef int grow(self, Py_ssize_t n) except -1:
        """Exchange the slots for n empty ones, a power of two, and put back what was there."""
        cdef void* memory = zeros(n * sizeof(CachedName) + LINE, 1)
        cdef CachedName* old = self.slots
        cdef Py_ssize_t k, n_old = self.mask + 1 if self.memory != NULL else 0
        self.slots = <CachedName*> (<size_t> memory + LINE - <size_t> memory % LINE)
        self.mask = n - 1
        for k in range(n_old):
            if old[k].length:
                self.empty_slot(old[k].hash)[0] = old[k]
        release(self.memory)
        self.memory = memory
        return 0

    cdef inline CachedName* empty_slot(self, Py_hash_t hash) noexcept:
        cdef Py_ssize_t at = hash & self.mask
        while self.slots[at].length:
            at = (at + 1) & self.mask
        return &self.slots[at]

    cdef inline int find(self, name) except -2:
        """Return the column of a name that :meth:`fits`; -1 if it is not here."""
        cdef CachedName key
        cdef Py_ssize_t at
        cdef CachedName* slot
        as_key(name, &key)
        at = key.hash & self.mask
        while True:
            slot = &self.slots[at]
            if slot.length == key.length and slot.text[0] == key.text[0] \
                    and slot.text[1] == key.text[1]:
                return slot.column
            if slot.length == 0:
                return -1
            at = (at + 1) & self.mask

    cdef int follow(self, dict known) except -1:
        """Look at some names that were added to ``known``."""
        cdef PyObject* name
        cdef PyObject* column
        cdef int n = 0
        while n < FOLLOWED and self.listed < len(known):
            if not PyDict_Next(known, &self.at, &name, &column):
                self.partial = True  # an order that cannot be followed
            elif fits(<object> name):
                self.add(<object> name, <int> PyLong_AsLong(<object> column))
            elif type(<object> name) is not str and isinstance(<object> name, str):
                self.partial = True
            self.listed += 1
            n += 1
        return 0

    cdef int add(self, name, int column) except -1:
        cdef CachedName key
        if 2 * self.used > self.mask:
            self.grow(2 * (self.mask + 1))
        as_key(name, &key)
        key.column = column
        self.empty_slot(key.hash)[0] = key
        self.used += 1
        return 0


cdef inline bint fits(name) noexcept:
    """Return whether a name is short ASCII text."""
    return type(name) is str and PyUnicode_IS_COMPACT_ASCII(name) \
        and 0 < PyUnicode_GET_LENGTH(name) <= LONGEST_NAME


cdef inline int as_key(name, CachedName* key) except -1:
    key.hash, key.length = hash(name), <int> PyUnicode_GET_LENGTH(name)
    key.text[0] = key.text[1] = 0
    memcpy(key.text, PyUnicode_1BYTE_DATA(name), key.length)
    return 0


cdef class NamedMappings(Mappings):
    """A name's column is looked up in ``known``, then in ``new``; else it is added there.

    Without ``new`` a name that is not known is dropped. Names may be added to ``known``
    meanwhile, but a name keeps its column.
    """

    cdef dict known, new
    cdef Py_ssize_t width
    cdef NameCache cache

    def __init__(self, dict known not None, dict new=None, cells=None, NameCache cache=None):
        self.known, self.new, self.width = known, new, len(known)
        self.cells, self.learning = cells, new is not None
        self.cache = NameCache() if cache is None else cache

    cdef names_known(self):
        return self.known

    cdef void begin(self, bint growing):
        Mappings.begin(self, growing)
        self.width = len(self.known)
        if not growing:
            self.new = None
        elif self.new is None:
            self.new = {}
        else:
            self.new.clear()

    cdef int commit(self) except -1:
        self.known.update(self.new)
        return 0

    cdef bint adopts(self) except -1:
        if self.unread:
            return False
        for name in self.new:
            if type(name) is not str or not (<str> name).isascii():
                return False
        return True

    cdef int prefetch_names(self, dict row) except -1:
        cdef Py_ssize_t at = 0
        cdef PyObject* key
        if self.cache.mask < NEAR_SLOTS:
            return 0
        while PyDict_Next(row, &at, &key, NULL):
            if fits(<object> key):
                ahead(&self.cache.slots[hash(<object> key) & self.cache.mask])
        return 0

    cdef int put(self, name, double value, int place) except -1:
        cdef PyObject* column
        cdef int cached = -1
        cdef bint looked_up = False
        if fits(name):
            cached = self.cache.find(name)
            if cached < 0 and self.cache.listed < len(self.known):
                self.cache.follow(self.known)
                cached = self.cache.find(name)
            if cached >= 0:
                return self.push(cached, value, place)
            looked_up = self.cache.listed == len(self.known) and not self.cache.partial
        column = NULL if looked_up else PyDict_GetItemWithError(self.known, name)
        if column == NULL:
            if self.new is None:
                return 0
            column = PyDict_GetItemWithError(self.new, name)
            if column == NULL:
                number = self.new[name] = self.width + len(self.new)
                return self.push(number, value, place)
        return self.push(<int> PyLong_AsLong(<object> column), value, place)


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


cpdef unsigned long long hash_name(str name) except? 0:
    """FNV-1a over the name's UTF-8 bytes, then the finishing mix of MurmurHash3.

    Part of the model file's meaning: it is the same everywhere and may never change.
    """
    cdef Py_ssize_t n
    cdef const char* text = PyUnicode_AsUTF8AndSize(name, &n)
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


cdef void sort(Entry* entries, Entry* spare, Py_ssize_t n) noexcept nogil:
    """Sort by column, entries of a column as they came: by insertion, or byte by byte of columns."""
    cdef Py_ssize_t i, j
    cdef Entry entry
    cdef bint rising = True
    cdef int all_bits = 0, shift = 0, byte
    cdef int[256] end
    for i in range(n):
        rising = rising and (i == 0 or entries[i - 1].column <= entries[i].column)
        all_bits |= entries[i].column
    if rising:
        return
    if n <= FEW_ENTRIES:
        for i in range(1, n):
            entry, j = entries[i], i
            while j > 0 and entries[j - 1].column > entry.column:
                entries[j] = entries[j - 1]
                j -= 1
            entries[j] = entry
        return
    while shift < 32 and all_bits >> shift:
        memset(end, 0, sizeof(end))
        for i in range(n):
            end[(entries[i].column >> shift) & 255] += 1
        for byte in range(1, 256):
            end[byte] += end[byte - 1]
        memcpy(spare, entries, n * sizeof(Entry))
        for i in range(n - 1, -1, -1):
            byte = (spare[i].column >> shift) & 255
            end[byte] -= 1
            entries[end[byte]] = spare[i]
        shift += 8
