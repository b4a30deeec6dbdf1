"""Prediction and update of romco-auto for each entry of an event, two numbers at a time.

Rows are those of `auto`: all (16) has the means and the spent variances of margin, logistic and
together, a row of B, and mean and spent variance of the learner that forgets; own (6) the first six.
b is the row of B that is in use.
"""

cdef extern from *:
    """
    #include <math.h>
    /* Two numbers in one register where the compiler has such; sums are taken in the same order. */
    #define ROMCO_ALONE __restrict
    #if defined(__GNUC__) && !defined(ROMCO_STANDARD_C)
    typedef double romco_two __attribute__((vector_size(16)));
    static inline romco_two romco_both(double a, double b) { return (romco_two) {a, b}; }
    static inline romco_two romco_load(const double* p) { return (romco_two) {p[0], p[1]}; }
    static inline void romco_store(double* p, romco_two x) { p[0] = x[0]; p[1] = x[1]; }
    #define ROMCO_ADD_PRODUCT(sum, a, b) ((sum) + (a) * (b))
    #define ROMCO_LESS(a, b) ((a) - (b))
    #define ROMCO_TIMES(a, b) ((a) * (b))
    #define ROMCO_FIRST(x) ((x)[0])
    #define ROMCO_SECOND(x) ((x)[1])
    #define ROMCO_LANES static inline __attribute__((always_inline))
    #else
    typedef struct { double a, b; } romco_two;
    static inline romco_two romco_both(double a, double b) { romco_two x; x.a = a; x.b = b; return x; }
    static inline romco_two romco_load(const double* p) { return romco_both(p[0], p[1]); }
    static inline void romco_store(double* p, romco_two x) { p[0] = x.a; p[1] = x.b; }
    static inline romco_two ROMCO_ADD_PRODUCT(romco_two s, romco_two a, romco_two b) {
        return romco_both(s.a + a.a * b.a, s.b + a.b * b.b);
    }
    static inline romco_two ROMCO_LESS(romco_two a, romco_two b) { return romco_both(a.a - b.a, a.b - b.b); }
    static inline romco_two ROMCO_TIMES(romco_two a, romco_two b) { return romco_both(a.a * b.a, a.b * b.b); }
    #define ROMCO_FIRST(x) ((x).a)
    #define ROMCO_SECOND(x) ((x).b)
    #define ROMCO_LANES static inline
    #endif

    /* Sums over entries: of all (12), then of own (6). */
    typedef struct { romco_two s[9]; } romco_sums;

    ROMCO_LANES void romco_clear(romco_sums* t) {
        for (int i = 0; i < 9; i++) t->s[i] = romco_both(0.0, 0.0);
    }
    ROMCO_LANES void romco_accumulate(romco_sums* t, const double* all, const double* b, double value) {
        const double square = value * value;
        const romco_two v = romco_both(value, value), w = romco_both(square, square);
        const romco_two x = romco_both(value, square);
        t->s[0] = ROMCO_ADD_PRODUCT(t->s[0], v, romco_load(all));
        t->s[1] = ROMCO_ADD_PRODUCT(t->s[1], x, romco_load(all + 2));
        t->s[2] = ROMCO_ADD_PRODUCT(t->s[2], w, romco_load(all + 4));
        t->s[3] = ROMCO_ADD_PRODUCT(t->s[3], v, romco_load(b));
        t->s[4] = ROMCO_ADD_PRODUCT(t->s[4], v, romco_load(b + 2));
        t->s[5] = ROMCO_ADD_PRODUCT(t->s[5], x, romco_load(all + 10));
    }
    ROMCO_LANES void romco_accumulate_own(romco_sums* t, const double* own, double value) {
        const double square = value * value;
        const romco_two v = romco_both(value, value), w = romco_both(square, square);
        const romco_two x = romco_both(value, square);
        t->s[6] = ROMCO_ADD_PRODUCT(t->s[6], v, romco_load(own));
        t->s[7] = ROMCO_ADD_PRODUCT(t->s[7], x, romco_load(own + 2));
        t->s[8] = ROMCO_ADD_PRODUCT(t->s[8], w, romco_load(own + 4));
    }
    ROMCO_LANES void romco_store_sums(const romco_sums* t, double* out) {
        for (int i = 0; i < 9; i++) romco_store(out + 2 * i, t->s[i]);
    }

    /* The steps of the learners: all margin and logistic, own margin and logistic, together of all
       and of own, and the one that forgets. */
    typedef struct {
        romco_two a_all[2], b_all[2];  /* of a feature without covariances, and of one with them */
        romco_two a_own, b_own, a_both, b_both, prior_all, prior_own, prior_both;
        double a_forgets, b_forgets, forgetting;
        romco_two f[2];
    } romco_steps;

    /* Along an entry; f follows the change of the own logistic mean. */
    ROMCO_LANES void romco_update(
        romco_steps* ROMCO_ALONE t, double* ROMCO_ALONE all, const double* ROMCO_ALONE b,
        double* ROMCO_ALONE own, double value, int joint
    ) {
        const romco_two v = romco_both(value, value);
        romco_two mean, spent, sx, change;
        double left;
        spent = romco_load(all + 3);
        sx = ROMCO_TIMES(ROMCO_LESS(t->prior_all, spent), v);
        mean = ROMCO_ADD_PRODUCT(romco_load(all), t->a_all[joint], sx);
        spent = ROMCO_ADD_PRODUCT(spent, ROMCO_TIMES(t->b_all[joint], sx), sx);
        romco_store(all, mean);
        all[3] = ROMCO_FIRST(spent);
        all[4] = ROMCO_SECOND(spent);
        spent = romco_load(own + 3);
        sx = ROMCO_TIMES(ROMCO_LESS(t->prior_own, spent), v);
        change = ROMCO_TIMES(t->a_own, sx);
        mean = ROMCO_ADD_PRODUCT(romco_load(own), t->a_own, sx);
        spent = ROMCO_ADD_PRODUCT(spent, ROMCO_TIMES(t->b_own, sx), sx);
        romco_store(own, mean);
        own[3] = ROMCO_FIRST(spent);
        own[4] = ROMCO_SECOND(spent);
        change = romco_both(ROMCO_SECOND(change), ROMCO_SECOND(change));
        t->f[0] = ROMCO_ADD_PRODUCT(t->f[0], change, romco_load(b));
        t->f[1] = ROMCO_ADD_PRODUCT(t->f[1], change, romco_load(b + 2));
        spent = romco_both(all[5], own[5]);
        sx = ROMCO_TIMES(ROMCO_LESS(t->prior_both, spent), v);
        mean = ROMCO_ADD_PRODUCT(romco_both(all[2], own[2]), t->a_both, sx);
        spent = ROMCO_ADD_PRODUCT(spent, ROMCO_TIMES(t->b_both, sx), sx);
        all[2] = ROMCO_FIRST(mean);
        own[2] = ROMCO_SECOND(mean);
        all[5] = ROMCO_FIRST(spent);
        own[5] = ROMCO_SECOND(spent);
        left = (1.0 - all[11]) * value;
        all[10] += t->a_forgets * left;
        left = (1.0 + t->forgetting) * (all[11] + t->b_forgets * left * left) - t->forgetting;
        all[11] = 0.5 * (left + fabs(left));  /* at least 0; a branch would often be guessed wrong */
    }
    """
    ctypedef struct Sums "romco_sums":
        pass
    void clear "romco_clear" (Sums* t) noexcept nogil
    void accumulate "romco_accumulate" (
        Sums* t, const double* all_, const double* b, double value
    ) noexcept nogil
    void accumulate_own "romco_accumulate_own" (Sums* t, const double* own, double value) noexcept nogil
    void store_sums "romco_store_sums" (const Sums* t, double* out) noexcept nogil

    ctypedef struct Two "romco_two":
        pass
    Two both "romco_both" (double a, double b) noexcept nogil
    Two load "romco_load" (const double* p) noexcept nogil
    void store "romco_store" (double* p, Two x) noexcept nogil
    ctypedef struct Steps "romco_steps":
        Two a_all[2]
        Two b_all[2]
        Two a_own, b_own, a_both, b_both, prior_all, prior_own, prior_both
        double a_forgets, b_forgets, forgetting
        Two f[2]
    void update "romco_update" (
        Steps* t, double* all_, const double* b, double* own, double value, bint joint
    ) noexcept nogil
