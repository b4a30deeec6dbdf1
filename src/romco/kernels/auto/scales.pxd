"""Each feature in units of its own, as compiled code sees it."""

from libc.math cimport exp, log
from romco.kernels.core.prefetch cimport soon
from romco.kernels.auto.columns cimport Column, has_zeros
from romco.kernels.core.events cimport Row, column


cdef extern from *:
    """
    #define ROMCO_SETTLED_RATIO 1.25  /* of a unit that is replaced to the new one, */
    #define ROMCO_SETTLED_SHIFT 0.25  /* or sizes by which its centre is off */
    """
    const double SETTLED_RATIO "ROMCO_SETTLED_RATIO"
    const double SETTLED_SHIFT "ROMCO_SETTLED_SHIFT"


cdef struct Scaled:                # a row in the units of its features
    Py_ssize_t n
    const int* index
    const double* value
    double x2                      # |x|^2, infinite where a value is too large to square


cdef class Scales:
    cdef double[:, ::1] columns    # (d, 8) a Column of each feature
    cdef double[::1] typical       # events; common log size; times sizes were found; when to look
                                   # again; one more than the highest feature
    cdef bint held                 # whether units stay as they are until shards agree on them
    cdef object indices, values
    cdef int* index                # features of the row that was last looked at,
    cdef double* value             # their values in units,
    cdef double* given             # and as they were given
    cdef double* sizes             # room for a number of each feature
    cdef object renewed
    cdef Column* fresh             # columns that this row makes anew,
    cdef int* fresh_at             # their places in it, rising,
    cdef Py_ssize_t n_fresh        # and how many they are
    cdef double seen_x2            # |x|^2 of that row
    cdef Py_ssize_t n_seen
    cdef object listed
    cdef int* met                  # features that have a size, as far as they are listed,
    cdef Py_ssize_t n_met          # how many they are, -1 where they are not listed,
    cdef double counted            # and the events counted when the last of them was
    cdef double ahead              # 1 where a row that is looked at is not yet counted

    cdef inline void ask(self, Py_ssize_t j) noexcept nogil:
        """Ask for a feature's column."""
        soon(&self.columns[j, 0])

    cdef Scaled look(self, Row x, bint frozen) noexcept nogil
    cdef Scaled count(self, Row x) noexcept nogil
    cdef Scaled count_seen(self, Row x) noexcept nogil
    cdef void lose_track(self) noexcept nogil
    cdef void begin_count(self) noexcept nogil
    cdef void meet(self, int j) noexcept nogil
    cdef void put_fresh(self) noexcept nogil
    cdef bint find_common(self) noexcept nogil
    cdef double median(self) noexcept nogil
    cdef void list_met(self) noexcept nogil

    cdef inline double events(self) noexcept nogil:
        """Events counted."""
        return self.typical[0]

    cdef inline double common(self) noexcept nogil:
        """The common log size."""
        return self.typical[1]

    cdef inline Py_ssize_t width(self) noexcept nogil:
        """One more than the highest feature that has occurred."""
        return <Py_ssize_t> self.typical[4]

    cdef inline Py_ssize_t n_entries(self, Row x) noexcept nogil:
        """Number of entries that may be learned; few zeros of a dense row are among them."""
        cdef Py_ssize_t k, n = 0
        cdef double events = self.typical[0] + 1.0
        if x.index != NULL:
            return x.n
        for k in range(x.n):
            n += x.value[k] != 0.0 or has_zeros(<const Column*> &self.columns[k, 0], events)
        return n

    cdef inline double count_of(self, Py_ssize_t j) noexcept nogil:
        """Events that had a feature."""
        return self.columns[j, 0]


cdef class SettledScales(Scales):
    cdef object changes
    cdef Column* before            # columns that the row makes anew, as they were
    cdef Py_ssize_t n_changes      # features whose units the last row has changed,
    cdef int* changed              # which,
    cdef double* ratio             # their old factors by the new ones,
    cdef double* moved             # and by how much their centres moved, in old units

    cdef void agree(self, const int[::1] rows) noexcept nogil
    cdef void settle(self, Column* c, const Column* old, int j) noexcept nogil


cdef Scaled found(Py_ssize_t n, const int* index, const double* value, double x2) noexcept nogil


cdef inline bint alike(double a, double b) noexcept nogil:
    """Whether two units are within a quarter of each other."""
    return a <= SETTLED_RATIO * b and b <= SETTLED_RATIO * a


# The size of events, kept as the sum of log |x|^2 and how many they are.

cdef inline double unit_of(const double* sizes) noexcept nogil:
    """One over the geometric mean of |x| so far; a single odd event cannot move it far."""
    return exp(-0.5 * sizes[0] / sizes[1]) if sizes[1] > 0.0 else 1.0


cdef inline void count_size(double* sizes, double x2, double h) noexcept nogil:
    """An event counts as h of them; one without features has no size."""
    if x2 > 0.0:
        sizes[0] += h * log(x2)
        sizes[1] += h
