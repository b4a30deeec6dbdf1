"""How margins become probabilities, for compiled code that asks of one at a time."""


cdef class Scale:
    cdef public double log_a, curvature

    cpdef add(self, double margin, double y, double weight=*)
    cpdef double probability_of_one(self, double margin) noexcept
