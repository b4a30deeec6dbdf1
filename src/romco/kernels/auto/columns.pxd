"""What is kept of one feature, and what it makes of a value: see `scales`."""

from libc.math cimport exp, log, sqrt

cdef extern from *:
    """
    #define ROMCO_OFTEN 0.7        /* share of events from which on a feature is centred in part, */
    #define ROMCO_SELDOM 0.69      /* and below this surely not: no need to work it out */
    #define ROMCO_ALWAYS 0.85      /* and wholly */
    #define ROMCO_NEAR 1.4         /* log sizes up to which a feature is near the common one */
    #define ROMCO_FAR 10.0         /* sizes from the centre beyond which a value is cut */
    #define ROMCO_FEW 3.0          /* values that a size cannot be told from */
    #define ROMCO_ROUNDING 1e-12   /* share of a mean below which a standard deviation is rounding */
    #define ROMCO_GROWTH 1.1       /* of its count, after which a feature is measured again */
    #define ROMCO_SMALLEST 1e-150  /* values whose squares underflow or overflow */
    #define ROMCO_LARGEST 1e150
    """
    const double OFTEN "ROMCO_OFTEN"
    const double SELDOM "ROMCO_SELDOM"
    const double ALWAYS "ROMCO_ALWAYS"
    const double NEAR "ROMCO_NEAR"
    const double FAR "ROMCO_FAR"
    const double FEW "ROMCO_FEW"
    const double ROUNDING "ROMCO_ROUNDING"
    const double GROWTH "ROMCO_GROWTH"
    const double SMALLEST "ROMCO_SMALLEST"
    const double LARGEST "ROMCO_LARGEST"


cdef struct Column:                # what is kept of a feature
    double count                   # number of values that were not zero
    double mean                    # of these,
    double deviations              # and their squared distances from it, summed
    double centre, size, factor    # a value becomes factor * (value - centre), within 10 sizes
    double due_count, due_events   # when the last three are found anew


cdef inline double mean_square(const Column* c) noexcept nogil:
    return c.mean * c.mean + c.deviations / c.count


cdef inline double limited(const Column* c, double x) noexcept nogil:
    """Return a value as it is counted: cut, as a single odd one must not spoil the feature."""
    cdef double limit
    if c.count >= FEW and x * x * c.count > FAR * FAR * (c.mean * c.mean * c.count + c.deviations):
        limit = FAR * sqrt(mean_square(c))
        return max(-limit, min(limit, x))
    return x


cdef inline void add(Column* c, double x) noexcept nogil:
    """Count a value (Welford, 1962)."""
    cdef double difference
    x = limited(c, x)
    difference = x - c.mean
    c.count += 1.0
    c.mean += difference / c.count
    c.deviations += difference * (x - c.mean)


cdef inline bint due(const Column* c, double count, double events) noexcept nogil:
    return count >= c.due_count or (c.centre != 0.0 and events >= c.due_events)


cdef inline bint spreads(const Column* c) noexcept nogil:
    """Whether the values that are not zero are not all the same."""
    return c.deviations > ROUNDING * ROUNDING * c.mean * c.mean * c.count


cdef inline bint has_zeros(const Column* c, double events) noexcept nogil:
    """Return whether a stored zero is a value: the feature is nearly always there, or binary."""
    if c.centre == 0.0:
        return False
    return c.count >= ALWAYS * events or (c.count >= SELDOM * events and not spreads(c))


cdef inline double share_centred(double count, double events) noexcept nogil:
    """Return the share of the mean by which a feature of this frequency is centred, from 0 to 1."""
    if count >= ALWAYS * events:
        return 1.0
    if count < SELDOM * events:
        return 0.0
    return max(0.0, min(1.0, (count / events - OFTEN) / (ALWAYS - OFTEN)))


cdef inline double mean_shrinkage(const Column* c) noexcept nogil:
    """Return t^2 / (t^2 + 1) by the t-statistic of the mean; 1 where all values are the same."""
    cdef double scaled_t2 = (c.count - 1.0) * c.mean * c.mean  # t^2 times the variance
    return scaled_t2 / (scaled_t2 + c.deviations / c.count) if spreads(c) else 1.0


cdef inline void measure(Column* c, double events) noexcept nogil:
    """Centre and size."""
    cdef double off, square = mean_square(c), variance
    c.due_count, c.due_events = GROWTH * c.count, GROWTH * events
    if c.count < SELDOM * events:
        c.centre, c.size = 0.0, sqrt(square)
        return
    c.centre = c.mean * share_centred(c.count, events) * mean_shrinkage(c)
    off = c.mean - c.centre
    variance = c.deviations / c.count + off * off
    c.size = sqrt(variance if variance > ROUNDING * ROUNDING * square else square)


cdef inline bint varies(const Column* c) noexcept nogil:
    """Whether a feature has a size at all: a constant that is centred says nothing."""
    return c.size > 0.0 and (c.centre == 0.0 or spreads(c))


cdef inline void set_factor(Column* c, double common) noexcept nogil:
    """Set what a value is multiplied by."""
    c.factor = factor_of(c.size, common)


cdef inline double factor_of(double size, double common) noexcept nogil:
    """The factor that brings a feature near the common size."""
    cdef double r = log(size) - common
    cdef double r4 = r * r * r * r
    return exp(-common - r * r4 / (r4 + NEAR * NEAR * NEAR * NEAR))


cdef inline double scaled(const Column* c, double x) noexcept nogil:
    return scaled_from(c, x, c.centre)


cdef inline double scaled_from(const Column* c, double x, double centre) noexcept nogil:
    cdef double limit = FAR * c.size
    return c.factor * max(-limit, min(limit, x - centre))
