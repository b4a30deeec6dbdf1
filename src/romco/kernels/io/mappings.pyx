"""Events given as mappings of names to values, turned into sparse rows."""

import numpy as np
from cpython.dict cimport PyDict_GetItemWithError, PyDict_Next
from cpython.float cimport PyFloat_Check
from cpython.long cimport PyLong_AsLong, PyLong_Check
from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.math cimport INFINITY, fabs
from libc.string cimport memcpy, memset
from romco.kernels.core.memory cimport release, reserve, zeros
from romco.kernels.core.prefetch cimport ahead

from romco.kernels.core.events import LARGEST_FEATURE

cdef extern from "Python.h":  # of borrowed references
    bint is_text "PyUnicode_CheckExact" (PyObject*) noexcept
    bint is_ascii "PyUnicode_IS_COMPACT_ASCII" (PyObject*) noexcept
    Py_ssize_t length_of "PyUnicode_GET_LENGTH" (PyObject*) noexcept
    unsigned char* characters_of "PyUnicode_1BYTE_DATA" (PyObject*) noexcept
    bint is_float "PyFloat_CheckExact" (PyObject*) noexcept
    double float_of "PyFloat_AS_DOUBLE" (PyObject*) noexcept
    ctypedef struct PyASCIIObject:
        Py_hash_t hash

cdef double LARGEST = LARGEST_FEATURE
cdef enum:
    LINE = 64  # bytes of memory that come together
    LONGEST_NAME = 16  # characters of a name that the cache holds
    MIN_SLOTS = 1024
    FEW_ENTRIES = 24  # of a row, sorted by insertion
    NEAR_SLOTS = 8192  # of a cache of names, which a processor holds by itself
    FOLLOWED = 16  # names that a cache takes up at a time
cdef enum:  # in place of a column
    UNKNOWN = -1
    DROPPED = -2


cdef class Mappings:
    """Reads rows; how a name becomes a column is left to two final classes (abstract)."""

    def __dealloc__(self):
        release(self.entries)
        release(self.ends)
        release(self.spare)

    cdef int put(self, name, double value) except -1:
        raise NotImplementedError

    def read(self, rows):
        """Values, columns and row starts; each row sorted, entries of the same column added.

        None where a cell is left unread.
        """
        cdef Py_ssize_t i
        self.clear()
        for i, row in enumerate(rows):
            self.read_row(row, i)
            if self.unread:
                return None
            self.end_row()
        return self.arrays()

    def read_encoded(self, rows, LexiconColumns found not None):
        """The same of an ``Encoded`` block; a name is looked up once, not once per row."""
        cdef const double[::1] values = rows.values
        cdef const int[::1] names = rows.names
        cdef const long long[::1] starts = rows.starts
        cdef Py_ssize_t i, k, begin = 0, end = 0, last, n = starts.shape[0] - 1
        cdef Entry* entry
        cdef list texts = rows.lexicon.names, fresh = []
        found.follow(rows.lexicon, len(texts))
        self.clear()
        reserve(<void**> &self.entries, &self.room, names.shape[0] + 1, sizeof(Entry))
        reserve(<void**> &self.ends, &self.room_ends, n, sizeof(int))
        try:
            for i in range(n):
                for k in range(starts[i], starts[i + 1]):
                    entry = &found.at[names[k]]
                    if entry.column == UNKNOWN:
                        entry[0] = self.look_up(texts[names[k]])
                        if entry.column >= self.width or entry.column < 0:
                            fresh.append(names[k])
                    if entry.column >= 0:
                        self.entries[self.n] = Entry(entry.column, entry.value * values[k])
                        self.n += 1
                self.ends[i] = <int> self.n
        finally:
            for name in fresh:  # a new name keeps its column only if its row is learned
                found.at[<Py_ssize_t> name].column = UNKNOWN
        with nogil:
            for i in range(n):
                last = self.ends[i]
                end = self.tidy(begin, last, end)
                begin, self.ends[i] = last, <int> end
        self.n, self.rows = end, n
        return self.arrays()

    cdef Entry look_up(self, name) except *:
        """Column and sign of a name; DROPPED where it has none."""
        cdef Py_ssize_t n = self.n
        self.put(name, 1.0)
        if self.n == n:
            return Entry(DROPPED, 0.0)
        self.n = n
        return self.entries[n]

    cdef arrays(self):
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
        self.unread = self.too_large = False

    cdef int end_row(self) except -1:
        cdef Py_ssize_t begin = self.ends[self.rows - 1] if self.rows else 0
        self.n = self.tidy(begin, self.n, begin)
        reserve(<void**> &self.ends, &self.room_ends, self.rows + 1, sizeof(int))
        self.ends[self.rows] = <int> self.n
        self.rows += 1
        return 0

    cdef void begin(self, bint growing):
        self.clear()

    cdef int commit(self) except -1:
        return 0

    cdef bint adopts(self) except -1:
        return True

    cdef int read_row(self, row, Py_ssize_t i) except -1:
        """Read all cells of a mapping."""
        cdef Py_ssize_t at = 0
        cdef PyObject* key
        cdef PyObject* value
        if type(row) is dict:
            self.prefetch_names(row)
            reserve(<void**> &self.entries, &self.room, self.n + len(row), sizeof(Entry))
            while not self.unread and PyDict_Next(row, &at, &key, &value):
                if not self.put_known(key, value):
                    self.read_cell(<object> key, <object> value, i)
            return 0
        if not hasattr(row, "items"):
            raise ValueError(f"row {i}: expected a mapping of names to values; got {row!r}")
        for name, cell in row.items():
            self.read_cell(name, cell, i)
        return 0

    cdef int prefetch_names(self, dict row) except -1:
        """Ask for the memory that the names of a row are looked up in, all at once."""
        return 0

    cdef bint put_known(self, PyObject* name, PyObject* value) noexcept:
        """Put a cell, if it is a plain number of a name at hand; most are, so it takes no detour."""
        return False

    cdef inline int read_cell(self, name, value, Py_ssize_t i) except -1:
        """Read one raw cell of row i."""
        if value is None:
            return 0
        if self.raw:
            if not (PyFloat_Check(value) or PyLong_Check(value)) or not (
                self.kinds is None or self.takes_numbers(name)
            ):
                self.unread = True
                return 0
            if value != value:
                return 0  # NaN is absent
        elif isinstance(value, str):
            name, value = f"{name}={value}", 1.0
        return self.put(name, as_number(name, value, i))

    cdef bint takes_numbers(self, name) except -1:
        """Return whether numbers of a column are features as they are."""
        column = self.kinds.get(name)
        if column is None:
            return False
        kind = (<tuple> column)[0]
        return kind == "number" or kind == "free"

    cdef Py_ssize_t tidy(self, Py_ssize_t begin, Py_ssize_t end, Py_ssize_t to) except -1 nogil:
        """Sort a row, add up entries of the same column, and move it; return where it ends then."""
        cdef Py_ssize_t i, first = to
        reserve(<void**> &self.spare, &self.room_spare, end - begin, sizeof(Entry))
        sort_entries(self.entries + begin, self.spare, end - begin)
        for i in range(begin, end):
            if to > first and self.entries[to - 1].column == self.entries[i].column:
                self.entries[to - 1].value += self.entries[i].value
                if not fabs(self.entries[to - 1].value) <= LARGEST:
                    self.too_large = True
            else:
                self.entries[to] = self.entries[i]
                to += 1
        return to


cdef class LexiconColumns:
    """Columns and signs of a lexicon's names, as far as they are final; readers share it."""

    cdef object lexicon
    cdef Entry* at  # by number of the name; column UNKNOWN where it was not looked up
    cdef Py_ssize_t n, room

    def __dealloc__(self):
        release(self.at)

    cdef int follow(self, lexicon, Py_ssize_t n) except -1:
        """Take the first n names of a lexicon, the same as before or another."""
        if lexicon is not self.lexicon:
            self.lexicon, self.n = lexicon, 0
        reserve(<void**> &self.at, &self.room, n, sizeof(Entry))
        while self.n < n:
            self.at[self.n].column = UNKNOWN
            self.n += 1
        return 0


cdef struct CachedName:  # half a line of memory
    Py_hash_t hash
    unsigned long long first, last  # characters; of longer names the two overlap
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

    cdef inline int find(self, PyObject* name) noexcept:
        """Return the column of a name that :meth:`fits`; -1 if it is not here."""
        cdef CachedName key = as_key(name)
        cdef Py_ssize_t at = key.hash & self.mask
        cdef CachedName* slot
        while True:
            slot = &self.slots[at]
            if slot.length == key.length and slot.first == key.first and slot.last == key.last:
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
            elif fits(name):
                self.add(name, <int> PyLong_AsLong(<object> column))
            elif type(<object> name) is not str and isinstance(<object> name, str):
                self.partial = True
            self.listed += 1
            n += 1
        return 0

    cdef int add(self, PyObject* name, int column) except -1:
        cdef CachedName key = as_key(name)
        if 2 * self.used > self.mask:
            self.grow(2 * (self.mask + 1))
        key.column = column
        self.empty_slot(key.hash)[0] = key
        self.used += 1
        return 0


cdef inline bint fits(PyObject* name) noexcept:
    """Return whether a name is short ASCII text."""
    return is_text(name) and is_ascii(name) and 0 < length_of(name) <= LONGEST_NAME


cdef inline CachedName as_key(PyObject* name) noexcept:
    """Return a name that :meth:`fits`, without a column."""
    cdef CachedName key
    cdef const unsigned char* text = characters_of(name)
    cdef Py_ssize_t n = length_of(name)
    cdef unsigned int half, other
    key.hash, key.length = hash_of(name), <int> n
    if n >= 8:
        memcpy(&key.first, text, 8)
        memcpy(&key.last, text + n - 8, 8)
    elif n >= 4:
        memcpy(&half, text, 4)
        memcpy(&other, text + n - 4, 4)
        key.first, key.last = half, other
    else:
        key.first, key.last = text[0], text[n // 2] | <unsigned long long> text[n - 1] << 8
    return key


cdef inline Py_hash_t hash_of(PyObject* name) noexcept:
    """Return the hash of text; where it is known, which that of a dictionary's key is, at a look."""
    cdef Py_hash_t known = (<PyASCIIObject*> name).hash
    return known if known != -1 else hash(<object> name)


cdef class NamedMappings(Mappings):
    """A name's column is looked up in ``known``, then in ``new``; else it is added there.

    Without ``new`` a name that is not known is dropped. Names may be added to ``known``
    meanwhile, but a name keeps its column.
    """

    cdef dict known, new
    cdef NameCache cache

    def __init__(self, dict known not None, dict new=None, bint raw=False, NameCache cache=None):
        self.known, self.new, self.width, self.raw = known, new, len(known), raw
        self.cache = NameCache() if cache is None else cache

    cdef void begin(self, bint growing):
        Mappings.begin(self, growing)
        self.width = len(self.known)
        if not growing:
            self.new = None
        elif self.new is None:
            self.new = {}
        elif self.new:
            self.new.clear()

    cdef int commit(self) except -1:
        if self.new:
            self.known.update(self.new)
        return 0

    cdef bint adopts(self) except -1:
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
            if fits(key):
                ahead(&self.cache.slots[hash_of(key) & self.cache.mask])
        return 0

    cdef bint put_known(self, PyObject* name, PyObject* value) noexcept:
        cdef double number
        cdef int column
        if self.kinds is not None or not is_float(value) or not fits(name):
            return False
        number, column = float_of(value), self.cache.find(name)
        if column < 0 or not fabs(number) <= LARGEST or self.n == self.room:
            return False
        self.entries[self.n] = Entry(column, number)
        self.n += 1
        return True

    cdef int put(self, name, double value) except -1:
        cdef PyObject* column
        cdef int cached = -1
        cdef bint looked_up = False
        if fits(<PyObject*> name):
            cached = self.cache.find(<PyObject*> name)
            if cached < 0 and self.cache.listed < len(self.known):
                self.cache.follow(self.known)
                cached = self.cache.find(<PyObject*> name)
            if cached >= 0:
                return self.push(cached, value)
            looked_up = self.cache.listed == len(self.known) and not self.cache.partial
        column = NULL if looked_up else PyDict_GetItemWithError(self.known, name)
        if column == NULL:
            if self.new is None:
                return 0
            column = PyDict_GetItemWithError(self.new, name)
            if column == NULL:
                number = self.new[name] = self.width + len(self.new)
                return self.push(number, value)
        return self.push(<int> PyLong_AsLong(<object> column), value)


cdef class HashedMappings(Mappings):
    """A name's hash gives its column, the low bits, and its sign, the top bit."""

    cdef unsigned long long mask

    def __init__(self, unsigned long long size, bint raw=False):
        self.mask, self.width, self.raw = size - 1, size, raw

    cdef int put(self, name, double value) except -1:
        cdef unsigned long long h
        try:
            h = hash_name(name if type(name) is str else str(name))
        except UnicodeEncodeError:
            raise ValueError(f"feature {name!a} is no text: it holds half a surrogate pair") from None
        return self.push(<int> (h & self.mask), -value if h >> 63 else value)


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


cdef void sort_entries(Entry* entries, Entry* spare, Py_ssize_t n) noexcept nogil:
    """Sort by column, entries of a column as they came: by insertion, or by digits of columns."""
    cdef Py_ssize_t i, j
    cdef Entry entry
    cdef Entry* source = entries
    cdef Entry* target = spare
    cdef bint rising = True
    cdef int all_bits = 0, bits = 0, digits, shift = 0, digit, begin, count
    cdef int[256] place
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
    while all_bits >> bits:
        bits += 1
    digits = (bits + 7) // 8
    bits = (bits + digits - 1) // digits  # of a digit
    while digits:
        memset(place, 0, sizeof(int) << bits)
        for i in range(n):
            place[(source[i].column >> shift) & ((1 << bits) - 1)] += 1
        begin = 0
        for digit in range(1 << bits):
            count = place[digit]
            place[digit] = begin
            begin += count
        for i in range(n):
            digit = (source[i].column >> shift) & ((1 << bits) - 1)
            target[place[digit]] = source[i]
            place[digit] += 1
        source, target = target, source
        shift += bits
        digits -= 1
    if source != entries:
        memcpy(entries, source, n * sizeof(Entry))
