"""Variances of what is personal, learned by their marginal likelihood on a grid.

Of a slope of one task the information i and the precision p are known, so that under a prior of
variance t its log-likelihood is, but for a constant,

    (t i^2 / (1 + t p) - log(1 + t p)) / 2

The sum of it over all tasks is kept for a grid of variances, each ten times the one before. An event
changes one term of the sum. Of functions of columns what m tasks have in common is left out: with the
sums I and P of their information and precision, t I^2 / (m + t P) / 2 is taken off. Of levels the sum
is that of the log-likelihoods of all answers, each predicted by the level that a variance gives: yes
and no of a few events are far from a Gaussian, for which the formula would find too small a variance.
Sums of shards are added. The variance is the geometric mean of the grid under its posterior, whose
prior falls with the square of the distance from an expected variance.
"""

from libc.math cimport exp, log10
from romco.kernels.auto.gaussians cimport Personal

cdef enum:
    GRID = 4


cdef struct VarianceGrid:
    double least                   # the smallest variance
    double start                   # expected before any event
    double penalty                 # log-odds against a variance ten times off


cdef inline void add_evidence(
    double* evidence, double* products, double variance, double size, Personal old, Personal new
) noexcept nogil:
    """Replace a weight's term in the evidence; products of 1 + t p are for `finish_evidence`."""
    cdef double before, after, old_square = (size * old.information) * (size * old.information)
    cdef double square = (size * new.information) * (size * new.information)
    cdef int k
    for k in range(GRID):
        before = 1.0 + variance * old.precision
        after = 1.0 + variance * new.precision
        evidence[k] += 0.5 * variance * (square / after - old_square / before)
        products[k] *= after / before
        variance *= 10.0


cdef inline double expected_variance(
    const double* evidence, VarianceGrid grid, double centre
) noexcept nogil:
    """Posterior geometric mean of the variances of a grid."""
    cdef double place = log10(centre / grid.least), best = -1e300, total = 0.0, mean = 0.0, weight
    cdef double[GRID] score
    cdef int k
    for k in range(GRID):
        score[k] = evidence[k] - grid.penalty * (k - place) * (k - place)
        best = max(best, score[k])
    for k in range(GRID):
        weight = exp(score[k] - best)
        total += weight
        mean += weight * k
    return grid.least * exp(2.302585092994046 * mean / total)
