from romco.kernels.core.prefetch cimport ahead


cdef struct Hash:  # of bytes c: the sum of c_i * BASE^i, and BASE^n for n of them
    unsigned long long sum, power


cdef struct Slot:
    unsigned long long hash
    int number  # + 1; 0 where the slot is free
    int mark  # of the name's user; 0 at first


cdef inline unsigned long long mixed(Hash h) noexcept nogil:
    """The hash whose low bits tell where a name is looked for; its end counts as one more byte."""
    cdef unsigned long long bits = h.sum + h.power
    bits = (bits ^ (bits >> 33)) * 0xff51afd7ed558ccdULL
    return bits ^ (bits >> 33)


cdef class Lexicon:
    cdef readonly list names  # by number, as far as they are told
    cdef Slot* slots
    cdef Py_ssize_t mask
    cdef char* fresh  # names that are found but not told yet, one after the other
    cdef Py_ssize_t* ends  # of these
    cdef Py_ssize_t n_names, n_ends, room_fresh, room_ends

    cdef inline void prefetch(self, unsigned long long h) noexcept nogil:
        """Ask for the memory that :meth:`slot` looks into."""
        ahead(&self.slots[h & self.mask])

    cdef inline Slot* slot(
        self, const char* head, Py_ssize_t n_head, unsigned long long h,
        const char* tail, Py_ssize_t n_tail
    ) except NULL nogil:
        """The slot of the name head + tail, whose mixed hash is h, until the next one is added.

        Names are told apart by 64 bits of hash: to compare all bytes would cost a look at far
        memory for each word, and a million names meet by chance once in thirty million tables.
        """
        cdef Py_ssize_t k = h & self.mask
        while self.slots[k].number:
            if self.slots[k].hash == h:
                return &self.slots[k]
            k = (k + 1) & self.mask
        return self.add(h, head, n_head, tail, n_tail)

    cdef inline int find(
        self, const char* head, Py_ssize_t n_head, Hash h, const char* tail, Py_ssize_t n_tail
    ) except -1 nogil:
        """The number of the name head + tail."""
        return self.slot(head, n_head, mixed(h), tail, n_tail).number - 1

    cdef Slot* add(
        self, unsigned long long h, const char* head, Py_ssize_t n_head,
        const char* tail, Py_ssize_t n_tail
    ) except NULL nogil
    cdef int grow(self) except -1 nogil
    cdef int tell(self) except -1


cdef Hash begin_hash(const char* text, Py_ssize_t n) noexcept nogil
cdef Hash go_on(Hash h, const char* text, Py_ssize_t n) noexcept nogil
cdef Hash go_on_eight(Hash h, unsigned long long text, Py_ssize_t n) noexcept nogil
