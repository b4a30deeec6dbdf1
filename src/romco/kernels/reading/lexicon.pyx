"""Names by number, found by their bytes without making a Python object."""

from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_DecodeUTF8
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy

cdef unsigned long long OFFSET = 14695981039346656037ULL
cdef unsigned long long PRIME = 1099511628211ULL


cdef unsigned long long begin_hash(const char* text, Py_ssize_t n) noexcept nogil:
    """FNV-1a of the head that many names share, to be gone on with."""
    cdef unsigned long long h = OFFSET
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
        self.mask, self.room = 1023, 512
        self.slots = <int*> calloc(self.mask + 1, sizeof(int))
        self.hashes = <unsigned long long*> malloc((self.mask + 1) * sizeof(unsigned long long))
        self.texts = <const char**> malloc(self.room * sizeof(char*))
        self.lengths = <Py_ssize_t*> malloc(self.room * sizeof(Py_ssize_t))
        if not (self.slots and self.hashes and self.texts and self.lengths):
            raise MemoryError

    def __dealloc__(self):
        free(self.slots)
        free(self.hashes)
        free(self.texts)
        free(self.lengths)

    def __len__(self):
        return len(self.names)

    def number(self, str name not None):
        """The number of a name."""
        cdef Py_ssize_t n
        cdef const char* text = PyUnicode_AsUTF8AndSize(name, &n)
        return self.find(NULL, 0, OFFSET, text, n)

    cdef int find(
        self, const char* head, Py_ssize_t n_head, unsigned long long begun,
        const char* tail, Py_ssize_t n_tail
    ) except -1:
        """The number of the name head + tail; ``begun`` is the hash of the head."""
        cdef unsigned long long h = begun
        cdef Py_ssize_t i, slot
        cdef int found
        for i in range(n_tail):
            h = (h ^ <unsigned char> tail[i]) * PRIME
        h = (h ^ (h >> 33)) * 0xff51afd7ed558ccdULL
        h = h ^ (h >> 33)
        slot = h & self.mask
        while self.slots[slot]:
            if self.hashes[slot] == h:
                found = self.slots[slot] - 1
                if (
                    self.lengths[found] == n_head + n_tail
                    and memcmp(self.texts[found], head, n_head) == 0
                    and memcmp(self.texts[found] + n_head, tail, n_tail) == 0
                ):
                    return found
            slot = (slot + 1) & self.mask
        return self.add(h, slot, head, n_head, tail, n_tail)

    cdef int add(
        self, unsigned long long h, Py_ssize_t slot,
        const char* head, Py_ssize_t n_head, const char* tail, Py_ssize_t n_tail
    ) except -1:
        cdef Py_ssize_t number = len(self.names), n
        cdef char* whole
        if number == self.room:
            self.grow()
            slot = h & self.mask
            while self.slots[slot]:
                slot = (slot + 1) & self.mask
        whole = <char*> malloc(n_head + n_tail + 1)
        if whole == NULL:
            raise MemoryError
        memcpy(whole, head, n_head)
        memcpy(whole + n_head, tail, n_tail)
        try:
            name = PyUnicode_DecodeUTF8(whole, n_head + n_tail, NULL)
        finally:
            free(whole)
        self.texts[number] = PyUnicode_AsUTF8AndSize(name, &n)
        self.lengths[number] = n
        self.names.append(name)
        self.slots[slot] = <int> number + 1
        self.hashes[slot] = h
        return <int> number

    cdef int grow(self) except -1:
        """Twice the room; at most half of the slots are ever taken."""
        cdef Py_ssize_t old = self.mask + 1, size = 2 * old, k, slot
        cdef int* slots = <int*> calloc(size, sizeof(int))
        cdef unsigned long long* hashes = <unsigned long long*> malloc(size * sizeof(unsigned long long))
        cdef void* texts = realloc(<void*> self.texts, old * sizeof(char*))
        if texts != NULL:
            self.texts = <const char**> texts
        cdef void* lengths = realloc(self.lengths, old * sizeof(Py_ssize_t))
        if lengths != NULL:
            self.lengths = <Py_ssize_t*> lengths
        if not (slots and hashes and texts and lengths):
            free(slots)
            free(hashes)
            raise MemoryError
        for k in range(old):
            if self.slots[k]:
                slot = self.hashes[k] & (size - 1)
                while slots[slot]:
                    slot = (slot + 1) & (size - 1)
                slots[slot], hashes[slot] = self.slots[k], self.hashes[k]
        free(self.slots)
        free(self.hashes)
        self.slots, self.hashes, self.mask, self.room = slots, hashes, size - 1, old
        return 0
