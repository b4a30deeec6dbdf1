"""How long requests took."""

from itertools import accumulate

BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
cdef enum:
    BOUNDS = 12
    RECENT = 2000  # requests whose times are kept
cdef double[BOUNDS] bounds = BUCKETS


cdef class Times:
    """How long requests took: how many up to each bound, the sum, and the last ones.

    Prometheus' own histogram takes a lock for each; only one thread answers requests.

    >>> times = Times()
    >>> for seconds in (0.0001, 0.003, 0.003, 9.0):
    ...     times.add(seconds)
    >>> times.buckets()[0], times.buckets()[3], times.buckets()[-1]
    (('0.0005', 1), ('0.005', 3), ('+Inf', 4))
    >>> times.recent()
    [0.0001, 0.003, 0.003, 9.0]
    """

    cpdef add(self, double seconds):
        """Count a request."""
        cdef Py_ssize_t k = 0
        while k < BOUNDS and bounds[k] < seconds:
            k += 1
        self.counts[k] += 1
        self.sum += seconds
        self.last[self.n % RECENT] = seconds
        self.n += 1

    def recent(self):
        """The last ones, in no order."""
        return [self.last[k] for k in range(min(self.n, RECENT))]

    def buckets(self):
        """How many took at most so long."""
        counts = accumulate([self.counts[k] for k in range(BOUNDS + 1)])
        return list(zip([*map(str, BUCKETS), "+Inf"], counts, strict=True))
