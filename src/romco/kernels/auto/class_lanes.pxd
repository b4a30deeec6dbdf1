"""Prediction and update of one entry of an event, for all classes at once."""

from romco.kernels.auto.gaussians cimport Step, move

cdef extern from *:
    """
    #define ROMCO_ALONE __restrict
    /* In C for the promise that nothing overlaps, so that the compiler widens the loop. */
    static inline void romco_accumulate_classes(
        double* ROMCO_ALONE m, double* ROMCO_ALONE v, const double* ROMCO_ALONE mean,
        const double* ROMCO_ALONE spent, double x, Py_ssize_t n
    ) {
        const double x2 = x * x;
        for (Py_ssize_t k = 0; k < n; k++) {
            m[k] += x * mean[k];
            v[k] -= x2 * spent[k];
        }
    }
    """
    # m += x mean, v -= x^2 spent: of n classes.
    void accumulate "romco_accumulate_classes" (
        double* m, double* v, const double* mean, const double* spent, double x, Py_ssize_t n
    ) noexcept nogil


cdef inline void update(
    double* mean, double* spent, const double* a, const double* b, double prior,
    double x, const int* some, Py_ssize_t n,
) noexcept nogil:
    """Step the weights of n classes by a and b."""
    cdef Py_ssize_t i
    cdef int k
    cdef Step step
    for i in range(n):
        k = some[i]
        step.a, step.b = a[k], b[k]
        move(mean + k, spent + k, prior, step, x)
