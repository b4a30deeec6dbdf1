"""What is done with one entry of an event for all classes at once: loops that a compiler widens."""

cdef extern from *:
    """
    #if defined(_MSC_VER)
    #define ROMCO_ALONE __restrict
    #else
    #define ROMCO_ALONE __restrict__
    #endif
    static inline void romco_hear_classes(
        double* ROMCO_ALONE m, double* ROMCO_ALONE v, const double* ROMCO_ALONE mean,
        const double* ROMCO_ALONE spent, double x, Py_ssize_t n
    ) {
        const double x2 = x * x;
        for (Py_ssize_t k = 0; k < n; k++) {
            m[k] += x * mean[k];
            v[k] -= x2 * spent[k];
        }
    }
    static inline void romco_move_class(
        double* mean, double* spent, double a, double b, double prior, double rate, double x
    ) {
        const double sx = (prior - *spent) * x;
        double left;
        *mean += a * sx;
        left = *spent + b * sx * sx;
        left -= rate * (prior - left);
        *spent = left > 0.0 ? left : 0.0;
    }
    static inline void romco_move_classes(
        double* mean, double* spent, const double* a, const double* b, double prior, double rate,
        double x, const int* some, Py_ssize_t n
    ) {
        for (Py_ssize_t i = 0; i < n; i++) {
            const Py_ssize_t k = some[i];
            romco_move_class(mean + k, spent + k, a[k], b[k], prior, rate, x);
        }
    }
    static inline double romco_dot(
        const double* ROMCO_ALONE a, const double* ROMCO_ALONE b, Py_ssize_t n
    ) {
        double s0 = 0.0, s1 = 0.0, s2 = 0.0, s3 = 0.0;
        Py_ssize_t k = 0;
        for (; k + 4 <= n; k += 4) {
            s0 += a[k] * b[k];
            s1 += a[k + 1] * b[k + 1];
            s2 += a[k + 2] * b[k + 2];
            s3 += a[k + 3] * b[k + 3];
        }
        for (; k < n; k++) s0 += a[k] * b[k];
        return (s0 + s1) + (s2 + s3);
    }
    """
    # m += x mean, v -= x^2 spent: of n classes.
    void hear "romco_hear_classes" (
        double* m, double* v, const double* mean, const double* spent, double x, Py_ssize_t n
    ) noexcept nogil
    # Steps a, b of n classes, by their numbers; then a share of what is left of the prior comes back.
    void go "romco_move_classes" (
        double* mean, double* spent, const double* a, const double* b, double prior, double rate,
        double x, const int* some, Py_ssize_t n
    ) noexcept nogil
    double dot "romco_dot" (const double* a, const double* b, Py_ssize_t n) noexcept nogil
