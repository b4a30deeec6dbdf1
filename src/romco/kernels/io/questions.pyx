"""Events to predict, from JSON to sparse rows, where all of it is plain.

Plain is what clients mostly send: ``{"task": ..., "x": {...}}``, with an ``id`` or without, or a list
of such, text without escapes and in ASCII, numbers of ordinary size. Of all else nothing is said here, whether it is
right or wrong: that is for a reader who knows all of JSON.
"""

from cpython.unicode cimport PyUnicode_DecodeASCII
from libc.math cimport fabs
from libc.string cimport memcmp
from romco.kernels.io.mappings cimport Mappings
from romco.kernels.core.memory cimport release, reserve

cdef extern from "Python.h":
    double PyOS_string_to_double(const char* text, char** end, object overflow) except? -1.0

cdef double[23] TENS
TENS[:] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
           1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22]



cdef unsigned char[256] PLAIN  # whether a character may be within text, which a quote ends
cdef int c
for c in range(256):
    PLAIN[c] = 32 <= c <= 126 and c != 34 and c != 92


cdef inline bint is_space(char c) noexcept:
    return c == b" " or c == b"\n" or c == b"\r" or c == b"\t"


cdef class Questions:
    """Reads bodies of requests into ``reader``, one after the other.

    ``events``, ``features``, ``name`` and ``value`` are the most that a request may hold of each.

    >>> from romco.kernels.io.mappings import NamedMappings
    >>> rows = NamedMappings({"a": 0, "b": 1})
    >>> questions = Questions(rows, 10, 10, 20, 1e15)
    >>> questions.read(b'{"task": "ann", "x": {"b": 2, "a": 0.5}}'), rows.arrays()[0]
    (['ann'], array([0.5, 2. ]))
    >>> questions.read(b'{"task": "ann", "x": {"b": [2]}}') is None
    True
    >>> questions.read(b'[{"id": "e1", "task": 7, "x": {"a": 1}}]'), questions.waiting
    ([7], [(0, 'e1', b'{"a": 1}')])
    """

    def __init__(
        self, Mappings reader not None, Py_ssize_t events, Py_ssize_t features, Py_ssize_t name,
        double value,
    ):
        self.reader = reader
        self.events, self.features, self.name, self.value = events, features, name, value

    def __dealloc__(self):
        release(self.keys)

    def read(self, bytes body not None):
        """The tasks of the events, whose rows the reader then has; None where it is not plain.

        ``waiting`` then has place, id, and the JSON of the row of each event with an id.
        """
        cdef list tasks = []
        self.begin(body)
        self.many = self.next(b"[")
        while True:
            task = self.event(len(tasks))
            if task is None:
                return None
            tasks.append(task)
            if not self.many or len(tasks) > self.events or not self.next(b","):
                break
        if self.many and not self.next(b"]"):
            return None
        return tasks if len(tasks) <= self.events and self.ends(<const char*> body + len(body)) else None

    cdef begin(self, const char* text):
        self.at = text
        self.reader.clear()
        if self.waiting is None or self.waiting:
            self.waiting = []

    cdef bint ends(self, const char* end) noexcept:
        """Whether all was read up to here, and nothing beyond."""
        while self.at < end and is_space(self.at[0]):
            self.at += 1
        return self.at == end

    cdef event(self, Py_ssize_t place):
        """The task of an event whose row was read, or None."""
        cdef const char* key
        cdef Py_ssize_t n
        cdef bint known = False
        cdef const char* row = NULL
        cdef Py_ssize_t length = 0
        task = identity = None
        if not self.next(b"{"):
            return None
        while True:
            if not self.string(&key, &n) or not self.next(b":"):
                return None
            if n == 1 and key[0] == b"x" and not known:
                known = True
                self.skip()
                row = self.at
                if not self.row():
                    return None
                length = self.at - row
            elif n == 4 and memcmp(key, b"task", 4) == 0 and task is None:
                task = self.task()
                if task is None:
                    return None
            elif n == 2 and memcmp(key, b"id", 2) == 0 and identity is None:
                identity = self.named()
                if identity is None:
                    return None
            else:
                return None
            if not self.next(b","):
                break
        if not known or not self.next(b"}"):
            return None
        if identity is not None:
            self.waiting.append((place, identity, row[:length]))
        return task

    cdef named(self):
        """Text that may be a name, or None."""
        cdef const char* text
        cdef Py_ssize_t n
        found = self.string(&text, &n) and 0 < n <= self.name
        return PyUnicode_DecodeASCII(text, n, NULL) if found else None

    cdef task(self):
        cdef Py_ssize_t n
        cdef const char* begin
        self.skip()
        if self.at[0] == b'"':
            return self.named()
        begin = self.at
        while b"0" <= self.at[0] <= b"9":
            self.at += 1
        n = self.at - begin
        if n == 0 or n > 15 or (n > 1 and begin[0] == b"0") or self.at[0] in b".eE":
            return None
        return int(begin[:n])

    cdef bint row(self) except -1:
        """Read an object of features; False where it is not plain."""
        cdef const char* key
        cdef Py_ssize_t n, put = 0
        self.n_keys = self.n_special = 0
        if not self.next(b"{"):
            return False
        if not self.next(b"}"):
            while True:
                if not self.string(&key, &n) or n > self.name or not self.next(b":"):
                    return False
                if not self.feature(key, n, &put):
                    return False
                if not self.next(b","):
                    break
            if not self.next(b"}") or self.n_keys > self.features:
                return False
        put = self.reader.n
        self.reader.end_row()
        # Of a key given twice the last value counts, which is for others to see to.
        return self.reader.n == put and not self.repeats()

    cdef bint feature(self, const char* key, Py_ssize_t n, Py_ssize_t* put) except -1:
        """Put one feature into the row."""
        cdef const char* text
        cdef Py_ssize_t length
        cdef double value = 0.0
        cdef bint special = False
        self.skip()
        if self.at[0] == b'"':
            if not self.string(&text, &length) or length > self.name:
                return False
            name, said = PyUnicode_DecodeASCII(key, n, NULL), PyUnicode_DecodeASCII(text, length, NULL)
            self.reader.put(f"{name}={said}", 1.0, <int> put[0])
            put[0] += 1
            special = True
        elif self.word(b"null", 4):
            special = True
        elif self.truth(&value) or self.number(&value):
            self.reader.put_ascii(key, n, value, <int> put[0])
            put[0] += 1
        else:
            return False
        if self.n_keys == self.room_keys:
            reserve(<void**> &self.keys, &self.room_keys, self.n_keys + 1, sizeof(Key))
        self.keys[self.n_keys] = Key(key, n, special)
        self.n_keys += 1
        self.n_special += special
        return True

    cdef bint repeats(self) noexcept:
        """Whether a key of text or null is there twice, or that would take long to find out."""
        cdef Py_ssize_t i, j
        if self.n_special == 0:
            return False
        if self.n_special * self.n_keys > 4096:
            return True
        for i in range(self.n_keys):
            if not self.keys[i].special:
                continue
            for j in range(self.n_keys):
                if i != j and self.keys[i].n == self.keys[j].n and \
                        memcmp(self.keys[i].text, self.keys[j].text, self.keys[i].n) == 0:
                    return True
        return False

    # Pieces of JSON; each moves on where it finds what it looks for

    cdef inline void skip(self) noexcept:
        while is_space(self.at[0]):
            self.at += 1

    cdef inline bint next(self, char expected) noexcept:
        self.skip()
        if self.at[0] != expected:
            return False
        self.at += 1
        return True

    cdef bint word(self, const char* expected, Py_ssize_t n) noexcept:
        cdef Py_ssize_t k
        for k in range(n):
            if self.at[k] != expected[k]:
                return False
        self.at += n
        return True

    cdef bint truth(self, double* value) noexcept:
        value[0] = self.at[0] == b"t"
        return self.word(b"true", 4) or self.word(b"false", 5)

    cdef bint string(self, const char** text, Py_ssize_t* n) noexcept:
        cdef const char* at
        if not self.next(b'"'):
            return False
        at = text[0] = self.at
        while PLAIN[<unsigned char> at[0]]:
            at += 1
        n[0] = at - text[0]
        self.at = at + 1
        return at[0] == b'"'

    cdef bint number(self, double* value) except -1:
        """A number that is not -0 and not too large, to the last bit."""
        cdef const char* begin = self.at
        cdef const char* at = begin  # not in memory while it moves
        cdef char* end = NULL
        cdef unsigned long long digits = 0
        cdef int used = 0, exponent = 0, written = 0, length = 0
        cdef bint minus = begin[0] == b"-", less = False
        at += minus
        if not b"0" <= at[0] <= b"9" or (at[0] == b"0" and b"0" <= at[1] <= b"9"):
            return False
        while b"0" <= at[0] <= b"9":
            digits = 10 * digits + <unsigned long long> (at[0] - 48)
            used += digits > 0
            at += 1
        if at[0] == b".":
            at += 1
            if not b"0" <= at[0] <= b"9":
                return False
            while b"0" <= at[0] <= b"9":
                if used < 19:
                    digits = 10 * digits + <unsigned long long> (at[0] - 48)
                    exponent -= 1
                used += used > 0 or digits > 0
                at += 1
        if at[0] == b"e" or at[0] == b"E":
            at += 1
            less = at[0] == b"-"
            at += less or at[0] == b"+"
            while b"0" <= at[0] <= b"9" and length < 4:
                written = 10 * written + (at[0] - 48)
                length += 1
                at += 1
            if length == 0 or length == 4 or written > 250:
                return False
            exponent += -written if less else written
        if used == 0 and minus or used > 200:
            return False
        self.at = at
        if used <= 15 and -22 <= exponent <= 22:
            value[0] = <double> digits  # exact, and so is the power of ten: one rounding
            value[0] = value[0] / TENS[-exponent] if exponent < 0 else value[0] * TENS[exponent]
            value[0] = -value[0] if minus else value[0]
        else:
            value[0] = PyOS_string_to_double(begin, &end, None)
            if end != at:
                return False
        return fabs(value[0]) <= self.value
