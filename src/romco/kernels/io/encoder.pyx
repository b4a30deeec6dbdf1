"""Cells to sparse rows: ``romco.io.schema`` in compiled code, for plain ASCII cells.

A cell that is not plain (not ASCII, a number of many digits, a date, nested, very long) goes to
the Python function of its kind, so both give the same.
"""

from collections.abc import Mapping

import numpy as np
cimport cython
from cpython.dict cimport PyDict_Next
from cpython.float cimport PyFloat_Check
from cpython.long cimport PyLong_Check
from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.math cimport isfinite, isnan, log1p, sqrt
from libc.string cimport memcpy, memset
from romco.kernels.core.memory cimport release, reserve, resize
from romco.kernels.core.bits cimport lowest
from romco.kernels.io.lexicon cimport Hash, Lexicon, Slot, begin_hash, go_on, go_on_eight, mixed

KINDS = ("free", "number", "category", "text", "date", "day", "ignored", "time")
cdef enum:
    FREE, NUMBER, CATEGORY, TEXT, DATE, DAY, IGNORED, TIME
cdef enum:
    MAX_PLAIN_BYTES = 100000  # of a cell; longer ones go to Python, which has the limit
    MAX_SKIPPED_NAMES = 100  # that are remembered
cdef enum:
    IS_NUMBER, NO_NUMBER, UNSURE

cdef unsigned char[256] LETTERS  # in lower case; 0 for what is no part of a word
for _c in range(256):
    LETTERS[_c] = ord(chr(_c).lower()) if _c < 128 and (chr(_c).isalnum() or _c == 95) else 0
cdef double[16] WEIGHTS  # of a word by how often it occurs
WEIGHTS[:] = [log1p(count) for count in range(16)]
cdef double[23] TENS
TENS[:] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
           1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22]


@cython.final
cdef class Encoder:
    """Turns cells into entries of rows; names are numbers in its lexicon.

    ``plain(kind, column, value)`` gives the features of a cell that is not plain, by name.
    ``known`` has a tuple for each column, its kind first; columns that it lacks are "free".
    Where ``numbers`` are given, such a column is a number if it is among these, else it is skipped
    and its name, if it is one of the first, added to ``skipped``.
    """

    def __init__(self, plain, Lexicon lexicon not None, dict known=None, numbers=None):
        self.plain, self.lexicon, self.known = plain, lexicon, {} if known is None else known
        self.numbers, self.skipped = numbers, {}
        self.kept, self.place = [], {}

    def __dealloc__(self):
        release(self.columns)
        release(self.ids)
        release(self.values)
        release(self.letters)
        release(self.word)

    cpdef Py_ssize_t column(self, str name, str kind=None) except -1:
        """The number of a column, which is made if it is new, of this kind or as it is known."""
        cdef Py_ssize_t n
        cdef Column* column
        found = self.place.get(name)
        if found is not None:
            return found
        if kind is None and name in self.known:
            kind = self.known[name][0]
        elif kind is None:
            kind = "free" if self.numbers is None or name not in self.numbers else "number"
        reserve(<void**> &self.columns, &self.room_columns, self.n_columns + 1, sizeof(Column))
        column = &self.columns[self.n_columns]
        texts = (name, name + "=", name + ":")
        column.kind = KINDS.index(kind)
        column.name = PyUnicode_AsUTF8AndSize(texts[0], &n)
        column.equals = PyUnicode_AsUTF8AndSize(texts[1], NULL)
        column.colon = PyUnicode_AsUTF8AndSize(texts[2], NULL)
        column.n = n
        column.name_hash = begin_hash(column.name, n)
        column.equals_hash = begin_hash(column.equals, n + 1)
        column.colon_hash = begin_hash(column.colon, n + 1)
        self.kept.append((kind, *texts))
        self.place[name] = self.n_columns
        self.n_columns += 1
        return self.n_columns - 1

    cdef int add(self, str name, value) except -1:
        """Add a cell that is a Python object."""
        cdef Py_ssize_t n, column = self.column(name)
        cdef int kind = self.columns[column].kind
        cdef double number
        if kind == IGNORED or value is None:
            return 0
        if type(value) is str:
            try:
                text = PyUnicode_AsUTF8AndSize(value, &n)
            except UnicodeEncodeError:  # told in the words of the plain way
                return self.plainly(column, value)
            return self.cell(column, text, n)
        if (type(value) is float or type(value) is int) and (kind == FREE or kind == NUMBER or kind == TIME):
            try:
                number = value
            except OverflowError:
                return self.plainly(column, value)
            if isfinite(number):
                at = &self.columns[column]
                return self.push(self.lexicon.find(at.name, at.n, at.name_hash, NULL, 0), number)
            if isnan(number):
                return 0
        return self.plainly(column, value)

    cpdef Py_ssize_t add_row(self, row, roles, features=None) except -1:
        """Add a row that is a mapping; return where it ends. Where it is refused, nothing is added.

        Columns among ``roles`` are left out, and all but ``features`` if these are given.
        """
        cdef dict cells
        self.row = self.n
        try:
            if type(row) is dict and features is None:
                cells = row
                for name, value in cells.items():
                    if name not in roles and (self.numbers is None or self.knows(name)):
                        self.add(name if type(name) is str else str(name), value)
            elif isinstance(row, Mapping):
                for name in row if features is None else features:
                    if name not in roles and (self.numbers is None or self.knows(name)):
                        self.add(str(name), row.get(name))
            else:
                raise ValueError(f"expected a mapping of names to values; got {row!r}")
        except BaseException:
            self.n = self.row
            raise
        return self.n

    cdef bint knows(self, name) except -1:
        """Return whether a column is read; else note that it was skipped."""
        if name in self.known or name in self.numbers or not isinstance(name, str):
            return True
        if len(self.skipped) < MAX_SKIPPED_NAMES:
            self.skipped[name] = None
        return False

    @property
    def size(self):
        """Number of entries that wait to be taken."""
        return self.n

    def take(self):
        """Values and names (n,) of all entries, which are then forgotten here."""
        values, ids = np.empty(self.n), np.empty(self.n, dtype=np.int32)
        cdef double[::1] value = values
        cdef int[::1] number = ids
        if self.n:
            memcpy(&value[0], self.values, self.n * sizeof(double))
            memcpy(&number[0], self.ids, self.n * sizeof(int))
        self.n = self.row = 0
        self.lexicon.tell()
        return values, ids

    cdef int cell(self, Py_ssize_t column, const char* text, Py_ssize_t n) except -1 nogil:
        """Add a cell given as UTF-8, or as bytes that may be none."""
        cdef Column* at = &self.columns[column]
        cdef double number = 0.0
        cdef int found
        if at.kind == IGNORED:
            return 0
        if at.kind == DATE or at.kind == DAY or n > MAX_PLAIN_BYTES or not is_ascii(text, n):
            return self.plain_text(column, text, n)
        strip(&text, &n)
        if is_missing(text, n):
            return 0
        if at.kind == TEXT:
            return self.words(at, text, n)
        if at.kind != CATEGORY:
            found = parse(text, n, &number)
            if found == IS_NUMBER:
                return self.push(self.lexicon.find(at.name, at.n, at.name_hash, NULL, 0), number)
            if at.kind == NUMBER and (spells(text, n, "true", 4) or spells(text, n, "false", 5)):
                number = n == 4
                return self.push(self.lexicon.find(at.name, at.n, at.name_hash, NULL, 0), number)
            if found == UNSURE or at.kind == NUMBER or at.kind == TIME:
                return self.plain_text(column, text, n)
        found = self.lexicon.find(at.equals, at.n + 1, go_on(at.equals_hash, text, n), text, n)
        return self.push(found, 1.0)

    cdef int words(self, Column* at, const char* text, Py_ssize_t n) except -1 nogil:
        """Add the words of a text; each counts once, with its weight."""
        cdef Py_ssize_t i, k, begin = self.n, n_words = self.split_words(at, text, n)
        cdef Slot* slot
        cdef Word* word
        cdef double count, total = 0.0
        for i in range(n_words):
            word = &self.word[i]
            slot = self.lexicon.slot(at.colon, at.n + 1, word.hash, word.text, word.n)
            k = slot.mark  # where the word last stood
            if begin <= k < self.n and self.ids[k] == slot.number - 1:
                self.values[k] += 1.0
            else:
                slot.mark = <int> self.n
                self.push(slot.number - 1, 1.0)
        if self.n > begin:
            for k in range(begin, self.n):
                count = self.values[k]
                self.values[k] = WEIGHTS[<int> count] if count < 16.0 else log1p(count)
                total += self.values[k] * self.values[k]
            total = sqrt(total)
            for k in range(begin, self.n):
                self.values[k] /= total
        return 0

    cdef Py_ssize_t split_words(
        self, Column* at, const char* text, Py_ssize_t n
    ) except -1 nogil:
        """Find the words of a text and ask for their slots; eight letters at a time.

        Where words end cannot be guessed, so a branch for each letter would take longer.
        """
        cdef Py_ssize_t i, first, size, n_words = 0
        cdef unsigned long long letters, gaps
        cdef char* lower
        cdef Hash h
        reserve(<void**> &self.letters, &self.room_letters, n + 8, 1)
        reserve(<void**> &self.word, &self.room_word, n // 2 + 1, sizeof(Word))
        lower = self.letters
        for i in range(n):
            lower[i] = <char> LETTERS[<unsigned char> text[i]]
        memset(lower + n, 0, 8)
        i = 0
        while i < n:
            if not lower[i]:
                i += 1
                continue
            h, first, size = at.colon_hash, i, 8
            while size == 8:
                letters = eight(lower + i)
                gaps = (letters - 0x0101010101010101ULL) & ~letters & 0x8080808080808080ULL
                if gaps:
                    size = lowest(gaps) >> 3
                    letters &= (1ULL << 8 * size) - 1
                h = go_on_eight(h, letters, size)
                i += size
            self.word[n_words] = Word(mixed(h), lower + first, i - first)
            self.lexicon.prefetch(self.word[n_words].hash)
            n_words += 1
        return n_words

    cdef int plainly(self, Py_ssize_t column, value) except -1:
        kind, of, _, _ = self.kept[column]
        for name, number in self.plain(kind, of, value).items():
            self.push(self.lexicon.number(name), number)
        return 0

    cdef int plain_text(
        self, Py_ssize_t column, const char* text, Py_ssize_t n
    ) except -1 nogil:
        with gil:
            return self.plainly(column, text[:n].decode("utf-8", "surrogateescape"))

    cdef int push(self, int name, double value) except -1 nogil:
        cdef Py_ssize_t size
        if self.n == self.room:
            size = max(1024, 2 * self.room)
            self.ids = <int*> resize(self.ids, size, sizeof(int))
            self.values = <double*> resize(self.values, size, sizeof(double))
            self.room = size
        self.ids[self.n], self.values[self.n] = name, value
        self.n += 1
        return 0


def only_numbers(rows):
    """Whether all values of mappings are numbers or None."""
    cdef Py_ssize_t at
    cdef PyObject* cell
    for row in rows:
        if not hasattr(row, "values"):
            return True  # refused by whoever reads it
        values, at = row if type(row) is dict else dict(row.items()), 0
        while PyDict_Next(values, &at, NULL, &cell):
            value = <object> cell
            if not (value is None or PyFloat_Check(value) or PyLong_Check(value)):
                return False
    return True


cdef inline unsigned long long eight(const char* text) noexcept nogil:
    """Eight bytes as one number, the first lowest, on any machine."""
    cdef unsigned long long number = 0
    cdef int i
    for i in range(8):
        number |= <unsigned long long> <unsigned char> text[i] << 8 * i
    return number


cdef bint is_space(unsigned char c) noexcept nogil:
    return c == 32 or 9 <= c <= 13 or 28 <= c <= 31


cdef int strip(const char** text, Py_ssize_t* n) noexcept nogil:
    """Leave out spaces at both ends."""
    while n[0] > 0 and is_space(<unsigned char> text[0][0]):
        text[0] += 1
        n[0] -= 1
    while n[0] > 0 and is_space(<unsigned char> text[0][n[0] - 1]):
        n[0] -= 1
    return 0


cdef bint is_ascii(const char* text, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    cdef unsigned char seen = 0
    for i in range(n):
        seen |= <unsigned char> text[i]
    return seen < 128


cdef bint is_missing(const char* text, Py_ssize_t n) noexcept nogil:
    """Empty, na, n/a, nan, null in any case."""
    if n == 0 or n > 4 or (text[0] | 32) != 110:
        return n == 0
    return (
        spells(text, n, "na", 2) or spells(text, n, "n/a", 3)
        or spells(text, n, "nan", 3) or spells(text, n, "null", 4)
    )


cdef bint spells(const char* text, Py_ssize_t n, const char* word, Py_ssize_t size) noexcept nogil:
    """Whether text is a word, in lower case here, in any case; lower-case letters have bit 32."""
    cdef Py_ssize_t i = 0
    while i < size == n and (text[i] == word[i] or (word[i] > 96 and (text[i] | 32) == word[i])):
        i += 1
    return i == size


cdef int parse(const char* text, Py_ssize_t n, double* number) noexcept nogil:
    """A number with few digits, exactly; else whether it may be one all the same."""
    cdef Py_ssize_t i = 0
    cdef unsigned long long digits = 0
    cdef int seen = 0, used = 0, exponent = 0, written = 0
    cdef bint minus = False, below = False, less = False
    cdef unsigned char c = <unsigned char> text[0]
    if not (48 <= c <= 57 or c == 43 or c == 45 or c == 46):
        return UNSURE if (c | 32) == 105 or (c | 32) == 110 else NO_NUMBER  # inf, nan
    if c == 43 or c == 45:
        minus = c == 45
        i = 1
    while i < n:
        c = <unsigned char> text[i]
        if 48 <= c <= 57:
            seen += 1
            if used or c != 48:
                used += 1
                if used > 18:
                    return UNSURE
            digits = 10 * digits + (c - 48)
            exponent -= below
        elif c == 46 and not below:
            below = True
        else:
            break
        i += 1
    if seen == 0:
        return UNSURE
    if i < n:
        if (c | 32) != 101 or i + 1 == n:
            return UNSURE
        i += 1
        if text[i] == 43 or text[i] == 45:
            less = text[i] == 45
            i += 1
        if i == n or n - i > 4:
            return UNSURE
        while i < n:
            if not 48 <= <unsigned char> text[i] <= 57:
                return UNSURE
            written = 10 * written + (text[i] - 48)
            i += 1
        exponent += -written if less else written
    if digits > 9007199254740992ULL or exponent > 22 or exponent < -22:
        return UNSURE
    number[0] = <double> digits
    number[0] = number[0] / TENS[-exponent] if exponent < 0 else number[0] * TENS[exponent]
    if minus:
        number[0] = -number[0]
    return IS_NUMBER
