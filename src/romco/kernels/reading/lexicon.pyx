"""Names by number, found by their bytes without making a Python object."""

from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_DecodeUTF8
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy


cdef unsigned long long begin_hash(const char* text, Py_ssize_t n) noexcept nogil:
    """FNV-1a of text, to be gone on with: many names share a head."""
    return go_on(14695981039346656037ULL, text, n)


cdef unsigned long long go_on(unsigned long long h, const char* text, Py_ssize_t n) noexcept nogil:
    """The hash of what was hashed to h, and then text."""
    cdef Py_ssize_t i
    for i in range(n):
        h = (h ^ <unsigned char> text[i]) * PRIME
    return h


cdef class Lexicon:
    """Gives each name a number, in order of appearance.

    >>> lexicon = Lexicon()
    >>> lexicon.number("town=Rome"), lexicon.number("age"), lexicon.number("town=Rome")
    (0, 1, 0)
    >>> lexicon.names
    ['town=Rome', 'age']
    """

    def __cinit__(self):
        self.names = []
        self.mask = 1023
        self.slots = <Slot*> calloc(self.mask + 1, sizeof(Slot))
        if self.slots == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.slots)

    def __len__(self):
        return len(self.names)

    def number(self, str name not None):
        """The number of a name."""
        cdef Py_ssize_t n
        cdef const char* text = PyUnicode_AsUTF8AndSize(name, &n)
        return self.find(NULL, 0, begin_hash(text, n), text, n)

    cdef int find(
        self, const char* head, Py_ssize_t n_head, unsigned long long begun,
        const char* tail, Py_ssize_t n_tail
    ) except -1:
        """The number of the name head + tail, whose hash is ``begun``.

        Names are told apart by 64 bits of hash and their length: to compare all bytes would
        cost a look at far memory for each word, and a million names meet by chance once in
        thirty million tables.
        """
        cdef unsigned long long h = (begun ^ (begun >> 33)) * 0xff51afd7ed558ccdULL
        cdef int length = <int> (n_head + n_tail)
        h = h ^ (h >> 33)
        cdef Py_ssize_t k = h & self.mask
        while self.slots[k].number:
            if self.slots[k].hash == h and self.slots[k].length == length:
                return self.slots[k].number - 1
            k = (k + 1) & self.mask
        return self.add(h, head, n_head, tail, n_tail)

    cdef int add(
        self, unsigned long long h, const char* head, Py_ssize_t n_head,
        const char* tail, Py_ssize_t n_tail
    ) except -1:
        cdef Py_ssize_t number = len(self.names), k
        cdef char* whole
        if 2 * number > self.mask:
            self.grow()
        whole = <char*> malloc(n_head + n_tail + 1)
        if whole == NULL:
            raise MemoryError
        memcpy(whole, head, n_head)
        memcpy(whole + n_head, tail, n_tail)
        try:
            self.names.append(PyUnicode_DecodeUTF8(whole, n_head + n_tail, NULL))
        finally:
            free(whole)
        k = h & self.mask
        while self.slots[k].number:
            k = (k + 1) & self.mask
        self.slots[k] = Slot(h, <int> number + 1, <int> (n_head + n_tail))
        return <int> number

    cdef int grow(self) except -1:
        """Twice the room; at most half of the slots are ever taken."""
        cdef Py_ssize_t old = self.mask + 1, size = 2 * old, i, k
        cdef Slot* slots = <Slot*> calloc(size, sizeof(Slot))
        if slots == NULL:
            raise MemoryError
        for i in range(old):
            if self.slots[i].number:
                k = self.slots[i].hash & (size - 1)
                while slots[k].number:
                    k = (k + 1) & (size - 1)
                slots[k] = self.slots[i]
        free(self.slots)
        self.slots, self.mask = slots, size - 1
        return 0
