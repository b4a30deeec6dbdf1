"""Gaussians over weights: one step on a loss, and what their variance does to log-odds."""

from libc.math cimport M_PI, exp, log1p, sqrt

cdef extern from *:
    """
    #define ROMCO_LEAST_LEFT 1e-12  /* least share of a variance that a step leaves */
    """
    const double LEAST_LEFT "ROMCO_LEAST_LEFT"


cdef struct Weight:
    double mean, spent             # spent is the prior variance less that of now: zeros are the prior
    double copy                    # of the mean, for frozen predictions


cdef struct Personal:              # a task's own weight, whose prior variance is learned
    double information, precision  # without the prior; mean = information * variance
    double copy                    # of the mean, for frozen predictions


cdef struct Step:
    double a, b                    # w += a S x, S -= b (S x)(S x)'


cdef inline double moderate(double mean, double variance) noexcept nogil:
    """Log-odds of a logistic model whose linear part is Gaussian (MacKay's approximation)."""
    return mean / sqrt(1.0 + M_PI * variance / 8.0)


cdef inline double softplus(double z) noexcept nogil:
    """log(1 + exp(z))."""
    return z + log1p(exp(-z)) if z > 0.0 else log1p(exp(z))


cdef inline double log_sum(double a, double b) noexcept nogil:
    """log(exp(a) + exp(b))."""
    return a + softplus(b - a)


cdef inline Step logistic(double y, double margin, double v, double share) noexcept nogil:
    """A step on share * the logistic loss of a mean with variance v, given as a moderate margin."""
    return step_by(y, 1.0 / (1.0 + exp(y * margin)), v, share)


cdef inline Step step_by(double y, double miss, double v, double share) noexcept nogil:
    """The same where the probability of another answer is known."""
    cdef Step step
    cdef double curvature = share * miss * (1.0 - miss)
    step.b = curvature / (1.0 + curvature * v)
    step.a = y * share * miss / (1.0 + curvature * v)
    return step


cdef inline Step arow(double y, double p, double v, double r) noexcept nogil:
    """A step on the squared hinge loss."""
    cdef Step step
    cdef double loss = 1.0 - y * p
    step.b = 1.0 / (v + r) if loss > 0.0 else 0.0
    step.a = step.b * loss * y
    return step


cdef inline double move(
    double* mean, double* spent, double prior, Step step, double x
) noexcept nogil:
    """Step along a feature of value x; return the mean's change."""
    cdef double sx = (prior - spent[0]) * x
    mean[0] += step.a * sx
    spent[0] += step.b * sx * sx
    return step.a * sx


cdef inline void forget(double* spent, double prior, double rate) noexcept nogil:
    """Let the variance that is left grow by a factor 1 + rate, up to the prior."""
    spent[0] = max(0.0, spent[0] - rate * max(0.0, prior - spent[0]))


cdef inline double move_weight(Weight* w, double prior, Step step, double x) noexcept nogil:
    """`move` of a weight."""
    return move(&w.mean, &w.spent, prior, step, x)


cdef inline double variance_left(const Personal* w, double prior) noexcept nogil:
    """Return the variance of a personal weight."""
    return prior / (1.0 + prior * w.precision)


cdef inline double mean_of(const Personal* w, double prior) noexcept nogil:
    """Return the mean of a personal weight."""
    return w.information * variance_left(w, prior)


cdef inline void observe(Personal* w, double prior, Step step, double x) noexcept nogil:
    """Step along a feature of value x; by one division, which takes longer than all else."""
    cdef double known = 1.0 + prior * w.precision
    cdef double seen = step.b * x * x
    cdef double left = max(LEAST_LEFT * known, known - prior * seen)
    cdef double share = 1.0 / left
    w.precision += seen * known * share
    w.information = (w.information + step.a * x) * (left + prior * seen) * share
