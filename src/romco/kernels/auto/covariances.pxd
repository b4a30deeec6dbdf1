"""Covariances of the weights of frequent features, as compiled code sees them."""

from romco.kernels.auto.gaussians cimport Step
from romco.kernels.auto.scales cimport Scaled, Scales
from romco.kernels.core.memory cimport Scratch

cdef extern from *:
    """
    #define ROMCO_FIRST_FUNCTION 2147483648  /* functions are numbered from here on in `frequent` */
    #define ROMCO_JOIN_SHARE 0.1  /* of the events that must have a feature before it joins */
    """
    const Py_ssize_t FIRST_FUNCTION "ROMCO_FIRST_FUNCTION"
    const double JOIN_SHARE "ROMCO_JOIN_SHARE"


cdef class Covariances:
    cdef double[:, ::1] spent      # (n, n) of the prior covariance, which is diagonal
    cdef double[::1] frequent      # (n,) features of the places from 1 on, or FREE, or CLOSED
    cdef double[:, ::1] functions  # (f, w) the same of functions of columns
    cdef double[:, ::1] shared     # (d, w) rows that hold a weight and what is spent of its variance
    cdef double[:, ::1] intercept  # (1, w) the same of the intercept
    cdef double[:, ::1] extra      # (n, k) further numbers of a place: zeros when a feature joins
    cdef int mean_at, spent_at     # their columns in `shared`
    cdef double prior              # variance of a feature's weight before any event; the intercept's: 1
    cdef double scale              # share of what is left of it that is a variance outside of the block
    cdef object rooms
    cdef unsigned char* place      # (d,) of each feature; 0: none
    cdef unsigned char* function_place  # (f,) of each function
    cdef Py_ssize_t most_columns   # places that features may have, and the intercept,
    cdef Py_ssize_t n_columns      # and those that they have
    cdef Py_ssize_t count          # places in use, the intercept's among them; 0: not known
    cdef bint moved                # a place was taken from somebody
    cdef double* Sx                # (n,) covariance times the row that was last read,
    cdef double* value             # (n,) values of that row, by entry,
    cdef double* row               # (n,) room for them by place; zeros
    cdef Scratch matrices          # room for two of them
    cdef unsigned char* active     # (n,) their places,
    cdef Py_ssize_t n_active       # and how many they are,
    cdef Py_ssize_t n_active_columns  # the intercept and features first
    cdef double margin             # what functions add to the margin of that row

    cdef inline bint closed(self) noexcept nogil:
        """Whether features were too many for covariances."""
        return self.scale != 1.0

    cdef inline void close_weight(self, Py_ssize_t j) noexcept nogil:
        """Change the precision of a feature's weight by what those of the priors differ."""
        cdef double* spent = &self.shared[j, self.spent_at]
        if spent[0] > 0.0:
            spent[0] = self.prior * (
                1.0 - 1.0 / (1.0 / (self.prior - spent[0]) + 1.0 - 1.0 / self.prior)
            )

    cdef void find_places(self) noexcept nogil
    cdef bint set_place(self, Py_ssize_t k) noexcept nogil
    cdef void clear_place(self, Py_ssize_t k) noexcept nogil
    cdef bint has_column(self, Py_ssize_t k) noexcept nogil
    cdef double* row_of(self, Py_ssize_t k) noexcept nogil
    cdef double* mean_of(self, Py_ssize_t k) noexcept nogil
    cdef double* spent_of(self, Py_ssize_t k) noexcept nogil
    cdef void settle(self) noexcept nogil
    cdef void lose_track(self) noexcept nogil
    cdef bint choose(
        self, const int* counted, Py_ssize_t n, Scales units, bint leave
    ) noexcept nogil
    cdef void close(self) noexcept nogil
    cdef void add(self, Py_ssize_t j) noexcept nogil
    cdef void rebase(self, Py_ssize_t j, double ratio, double shift) noexcept nogil
    cdef void remove(self, Py_ssize_t k) noexcept nogil
    cdef double read(
        self, Scaled x, double unit, const int* functions, const double* values, Py_ssize_t n_functions
    ) noexcept nogil
    cdef double move(self, Step step) noexcept nogil
    cdef int reserve(self) except -1 nogil
    cdef double known(self) noexcept nogil
    cdef bint reweigh(self, double ratio, double* change) noexcept nogil
