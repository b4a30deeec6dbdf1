"""Columns of numbers, decorrelated, and a discriminant on them, as compiled code sees them."""

from romco.kernels.auto.functions cimport Sketch
from romco.kernels.auto.scales cimport Scaled, Scales
from romco.kernels.core.events cimport Row
from romco.kernels.core.pairs cimport Pairs

cdef enum:
    COLUMNS = 128                  # at most; raw features are numbered from here on


cdef struct ColumnState:
    double feature                 # one more than its number; 0: the place is free
    double order                   # 0: a line, else that of a wave
    double is_score                # whether a line is the normal score of a number
    Sketch sketch                  # of a line's values


cdef struct Progress:
    double events                  # that the scatter is of
    double group_products          # of events and the means of their groups, both less those of classes,
    double group_weights           # and the weights that these products have
    double renewal                 # rows at which columns are next chosen and decorrelated
    double solution                # events at which the discriminant is next solved
    double closed                  # 1 where too many features are frequent
    double log_det                 # of the common covariance of the lines
    double is_shard                # 1 in one of several shards, which leaves all this to barriers


cdef struct Vectors:               # weights of decorrelated columns, where they are
    void* shared                   # Pairs: means of each vector, then what is spent of its variance,
    void* personal                 # and the same of one vector of each task
    double* level                  # (2 n_shared, room) intercepts,
    double* own_level              # (m, 2, room)
    const double* counts           # (m, room) events of each task and class
    double own_prior               # variance of a task's weight before any event; of shared ones it is 1
    double unit                    # by which values are multiplied
    Py_ssize_t n_shared, classes, room


cdef class Discriminant:
    cdef double[:, ::1] columns    # (C, k) a ColumnState each
    cdef double[::1] progress_array
    cdef double[:, ::1] sums       # (K, C) of the columns, by class
    cdef double[:, ::1] scatter    # (C, C) within classes
    cdef double[::1] centre        # (C,) mean of the columns,
    cdef double[:, ::1] factor     # (C, C) the Cholesky factor that decorrelates them
    cdef double[:, ::1] line_factor  # (n, n) the same of the lines' covariance
    cdef double[:, :, ::1] class_scatter  # (K, n, n)
    cdef double[:, :, ::1] class_factor   # (K, n, n)
    cdef double[:, ::1] solved     # (K, 2) events and log-determinant of a class when last solved
    cdef Pairs groups              # (m, K) sums (n,) of the lines, by task and class
    cdef Progress* progress
    cdef object rooms
    cdef int* place                # (d,) column of each feature's line, plus one; 0: none
    cdef int* line                 # (n,) column of each line
    cdef int* index                # composed row: columns, then other features
    cdef double* value
    cdef double* u                 # (C,) columns of the row that was last composed,
    cdef double* ranks             # (C,) ranks of its lines' values, -1 where there is none,
    cdef double* off               # (C,) and room
    cdef double* matrix            # (2 C, C) room
    cdef Py_ssize_t n_features, n_columns, n_lines
    cdef Py_ssize_t n_zeros        # lines of the row that was last composed that are absent, and 0

    cdef inline ColumnState* column_of(self, Py_ssize_t c) noexcept nogil:
        return <ColumnState*> &self.columns[c, 0]

    cdef inline bint is_shard(self) noexcept nogil:
        """Whether this is one of several shards, which leaves columns and solutions to barriers."""
        return self.progress.is_shard != 0.0

    cdef double mean_prior(self) noexcept nogil
    cdef void find_columns(self) noexcept nogil
    cdef Scaled compose(self, Row x, Scaled row, Scales scales, bint frozen) noexcept nogil
    cdef void read_columns(self, Row x, Scaled row, Scales scales) noexcept nogil
    cdef void set_rank(self, Py_ssize_t c, double value) noexcept nogil
    cdef void score(
        self, long long task, const double* counts, const double* seen, Py_ssize_t classes,
        double* linear, double* quadratic,
    ) noexcept nogil
    cdef void set_offset(
        self, long long task, Py_ssize_t k, double count, double seen
    ) noexcept nogil
    cdef void compare_means(
        self, const double* own, Py_ssize_t label, double count, double seen, double h
    ) noexcept nogil
    cdef void learn(
        self, long long task, Py_ssize_t label, double count, double seen, double h
    ) noexcept nogil
    cdef void count(self, Row x) noexcept nogil
    cdef bint settle(
        self, Scales scales, const double* seen, Py_ssize_t label, Vectors vectors
    ) noexcept nogil
    cdef void choose(self, Scales scales, const double* seen, Vectors vectors) noexcept nogil
    cdef Py_ssize_t next_feature(self, Scales scales) noexcept nogil
    cdef bint is_far_from_normal(self, Py_ssize_t c) noexcept nogil
    cdef void become_score(
        self, Py_ssize_t i, Scales scales, const double* seen, Vectors vectors
    ) noexcept nogil
    cdef void join(self, Py_ssize_t feature, int order, const double* seen) noexcept nogil
    cdef bint lacks_wave(self, Py_ssize_t c, int order) noexcept nogil
    cdef void close(self) noexcept nogil
    cdef void decorrelate(self, const double* seen, Vectors vectors) noexcept nogil
    cdef void rotate(
        self, Pairs pairs, long long task, Py_ssize_t at, Vectors vectors, double prior,
        double* level, const double* M,
    ) noexcept nogil
    cdef void covariance_of_lines(self) noexcept nogil
    cdef double factorise(self, double* R) noexcept nogil
    cdef void solve(self) noexcept nogil
    cdef void solve_class(self, Py_ssize_t k, double seen) noexcept nogil


cdef inline double* stored(Pairs pairs, long long task, Py_ssize_t feature) noexcept nogil:
    """Return the numbers of a pair, or NULL where it never occurred."""
    cdef Py_ssize_t pair
    if pairs.dense:
        return pairs.value + (task * pairs.n_features + feature) * pairs.width
    pair = pairs.find(task, feature)
    return pairs.value + pair * pairs.width if pair >= 0 else NULL
