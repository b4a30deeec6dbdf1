"""Features measured once for all pairs of classes, as compiled code sees it."""

from romco.kernels.auto.columns cimport Column
from romco.kernels.auto.scales cimport Scaled, Scales, Units
from romco.kernels.core.events cimport Row


cdef struct Sums:                  # of a feature in one class
    double count, total, square    # of the values that were not zero,
    double known, known_total, known_square    # and the same when sizes were last computed


cdef struct Unit:                  # of a feature in a pair of classes, computed from
    double known, common           # so many values and the common size
    double size, factor


cdef struct Moving:                # an entry of a row that each pair centres by itself
    int place                      # in the row
    double raw                     # its value
    double factor, size            # of its feature
    double plain                   # what it becomes where a pair does not centre it


cdef class Measured:
    cdef Scales scales
    cdef double[:, :, ::1] sums    # (d, K, 6) a Sums of each feature and class
    cdef double[::1] seen          # (K,) events of each class
    cdef double[::1] nearness      # room for two numbers of each class
    cdef bint held                 # a row is current: pairs need not scale it again
    cdef long long turn            # number of rows that were split so far
    cdef object room, values
    cdef double* counted           # values of the current row, as they are counted;
    cdef Moving* moving            # its entries that pairs may centre,
    cdef Py_ssize_t n_moving       # how many they are,
    cdef double still              # and |x|^2 of the others

    cdef void hold(self, Row x) noexcept nogil
    cdef void hold_again(self) noexcept nogil
    cdef void let_go(self) noexcept nogil
    cdef bint count(self, Row x) noexcept nogil
    cdef void count_class(self, Py_ssize_t label) noexcept nogil
    cdef void part(self) noexcept nogil
    cdef void put(self, const Column* c, Py_ssize_t n, double value) noexcept nogil
    cdef bint may_move(self, Py_ssize_t j) noexcept nogil
    cdef Py_ssize_t nearest(self) noexcept nogil


cdef class Between(Units):
    cdef Measured measured
    cdef Py_ssize_t low, high
    cdef object room, found_before
    cdef Unit* unit                # (d,) cached units, computed again where out of date
    cdef double* value             # the row that was last centred,
    cdef double x2                 # its |x|^2,
    cdef long long turn            # and the number of its split

    cdef Scaled look_alone(self, Row x) noexcept nogil
    cdef Scaled centred(self) noexcept nogil
    cdef void centre(self) noexcept nogil
    cdef double value_of(self, const Moving* one, double events) noexcept nogil
    cdef Unit unit_of(self, Py_ssize_t j, const Sums* low, const Sums* high) noexcept nogil
