"""Functions of columns, as compiled code sees them."""

from romco.kernels.core.events cimport Row

cdef enum:
    KNOTS = 64                     # of a sketch,
    FIRST_KNOTS = 32               # and values from which the first are made
    WAVES = 4                      # functions of the rank of a number
    FUNCTIONS = 96                 # at most
    CROSSED = 24                   # first places whose features may be multiplied


cdef struct Sketch:                # of the values of a feature
    double count                   # of values,
    double wait                    # until the next one that is kept; each of `pace`
    double pace
    double kept                    # values since the knots were last made
    double is_number               # whether the knots differ
    double known                   # whether there are knots
    double sums[WAVES]             # of residuals times waves,
    double squares[WAVES]          # and of their squares
    double knots[KNOTS]            # rising
    double buffer[KNOTS]


cdef struct Definition:            # of a function: a product, or of one feature alone
    double used
    double feature, order          # of a wave; 0: whether the feature is there
    double second, second_order    # a feature, or -1


cdef class Functions:
    cdef double[:, ::1] places     # (n, k) rows that end with a Sketch
    cdef Py_ssize_t at             # column where it begins
    cdef double[:, ::1] definitions  # (FUNCTIONS, 5)
    cdef double[:, ::1] scores     # (B, 2 B) sums of residuals times products, and of their squares
    cdef Py_ssize_t n_features
    cdef const unsigned char* place  # (d,) of each feature; 0: none
    cdef object room
    cdef double* wave              # (n, WAVES) of each place,
    cdef unsigned char* there      # whether it is there,
    cdef int* listed               # and which are
    cdef Py_ssize_t n_listed
    cdef int active[FUNCTIONS]     # functions of the row that was last read that are not 0,
    cdef double value[FUNCTIONS]   # their values,
    cdef Py_ssize_t n_active       # and how many they are
    cdef Py_ssize_t n_used         # one more than the last function in use; -1: not known
    cdef double wave_scale, cross_scale
    cdef bint held                 # whether knots stay as they are until shards merge their sketches

    cdef inline Sketch* sketch(self, Py_ssize_t k) noexcept nogil:
        return <Sketch*> &self.places[k, self.at]

    cdef inline Definition* definition(self, Py_ssize_t f) noexcept nogil:
        return <Definition*> &self.definitions[f, 0]

    cdef void lose_track(self) noexcept nogil
    cdef Py_ssize_t used(self) noexcept nogil
    cdef void read(self, Row x) noexcept nogil
    cdef Py_ssize_t place_of(self, Row x, Py_ssize_t e) noexcept nogil
    cdef void see(self, Py_ssize_t k, double value) noexcept nogil
    cdef double factor(self, double feature, double order) noexcept nogil
    cdef void count(self, Row x) noexcept nogil
    cdef void score(self, double residual) noexcept nogil
    cdef Py_ssize_t free(self) noexcept nogil
    cdef bint best_product(self, double threshold, Definition* best) noexcept nogil
    cdef bint is_known(self, const Definition* d) noexcept nogil


cdef double surprise(double sum_, double square) noexcept nogil
cdef double rank(const double* knots, double value) noexcept nogil
cdef void count_value(Sketch* s, double value, bint held) noexcept nogil
