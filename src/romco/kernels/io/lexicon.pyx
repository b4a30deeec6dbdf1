"""Names by number, found by their bytes without making a Python object."""

from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_DecodeUTF8
from libc.string cimport memcpy
from romco.kernels.core.memory cimport release, reserve, zeros


cdef unsigned long long BASE = 0x9fb21c651e98df25ULL
cdef unsigned long long[9] POWERS
POWERS[:] = [pow(BASE, i, 2**64) for i in range(9)]


cdef Hash begin_hash(const char* text, Py_ssize_t n) noexcept nogil:
    """The hash of text, to be gone on with: many names share a head."""
    return go_on(Hash(0, 1), text, n)


cdef Hash go_on(Hash h, const char* text, Py_ssize_t n) noexcept nogil:
    """The hash of what was hashed to h, and then text."""
    cdef Py_ssize_t i
    for i in range(n):
        h.sum += h.power * <unsigned char> text[i]
        h.power *= BASE
    return h


cdef Hash go_on_eight(Hash h, unsigned long long text, Py_ssize_t n) noexcept nogil:
    """The same of n bytes in a number, the first lowest; those beyond, up to eight, are zero."""
    cdef unsigned long long total = 0
    cdef int i
    for i in range(8):
        total += (text >> 8 * i & 255) * POWERS[i]
    return Hash(h.sum + h.power * total, h.power * POWERS[n])


cdef class Lexicon:
    """Gives each name a number, in order of appearance.

    Names are found without Python's lock. Those that are new become text when they are
    told, all at once, so that other threads may look at ``names`` meanwhile.

    >>> lexicon = Lexicon()
    >>> lexicon.number("town=Rome"), lexicon.number("age"), lexicon.number("town=Rome")
    (0, 1, 0)
    >>> lexicon.names
    ['town=Rome', 'age']
    """

    def __cinit__(self):
        self.names = []
        self.mask = 1023
        self.slots = <Slot*> zeros(self.mask + 1, sizeof(Slot))

    def __dealloc__(self):
        release(self.slots)
        release(self.fresh)
        release(self.ends)

    def __len__(self):
        return len(self.names)

    def number(self, str name not None):
        """The number of a name."""
        cdef Py_ssize_t n
        cdef const char* text = PyUnicode_AsUTF8AndSize(name, &n)
        found = self.find(NULL, 0, begin_hash(text, n), text, n)
        self.tell()
        return found

    cdef Slot* add(
        self, unsigned long long h, const char* head, Py_ssize_t n_head,
        const char* tail, Py_ssize_t n_tail
    ) except NULL nogil:
        cdef Py_ssize_t begin = self.ends[self.n_ends - 1] if self.n_ends else 0
        cdef Py_ssize_t end = begin + n_head + n_tail, k
        if 2 * self.n_names > self.mask:
            self.grow()
        reserve(<void**> &self.fresh, &self.room_fresh, end + 1, 1)
        reserve(<void**> &self.ends, &self.room_ends, self.n_ends + 1, sizeof(Py_ssize_t))
        if n_head:
            memcpy(self.fresh + begin, head, n_head)
        if n_tail:
            memcpy(self.fresh + begin + n_head, tail, n_tail)
        self.ends[self.n_ends] = end
        self.n_ends += 1
        self.n_names += 1
        k = h & self.mask
        while self.slots[k].number:
            k = (k + 1) & self.mask
        self.slots[k] = Slot(h, <int> self.n_names, 0)
        return &self.slots[k]

    cdef int tell(self) except -1:
        """Let the names that are new be among ``names``."""
        cdef Py_ssize_t begin = 0, k
        told = []
        for k in range(self.n_ends):
            told.append(PyUnicode_DecodeUTF8(self.fresh + begin, self.ends[k] - begin, NULL))
            begin = self.ends[k]
        self.names.extend(told)
        self.n_ends = 0
        return 0

    cdef int grow(self) except -1 nogil:
        """Twice the room; at most half of the slots are ever taken."""
        cdef Py_ssize_t old = self.mask + 1, size = 2 * old, i, k
        cdef Slot* slots = <Slot*> zeros(size, sizeof(Slot))
        for i in range(old):
            if self.slots[i].number:
                k = self.slots[i].hash & (size - 1)
                while slots[k].number:
                    k = (k + 1) & (size - 1)
                slots[k] = self.slots[i]
        release(self.slots)
        self.slots, self.mask = slots, size - 1
        return 0
