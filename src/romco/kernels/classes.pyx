"""Many classes from learners of two: a learner for each pair of classes, or for each class.

With a_kj times the margin of class k against class j as log-odds z_kj, the probability of class k
is proportional to

    1 / (1 + sum_j exp(-z_kj))

which is 1 / (sum_j 1 / r_kj - (K - 2)) with r_kj the probability of k among the two. Where a class
has a learner against the rest of them the sum has that one term. Of more than two classes these
probabilities are raised to a power t, learned along the stream, and made to sum to one. Scores
are their logarithms.
"""

from libc.math cimport exp, log
from romco.kernels.baselines.linear cimport Scratch
from romco.kernels.contract cimport Kernel
from romco.kernels.events cimport Events

cdef double MEMORY = 0.999         # as romco.model.Scale
cdef double LARGEST_STEP = 0.5
cdef double LARGEST_LOG = 30.0
cdef double LARGEST_POWER = 3.0    # of its logarithm
cdef double FAR = 500.0            # log-odds beyond which nothing changes


cdef class Member:
    """A learner of two classes, the classes that are its -1 and +1, and the next such learner.

    ``low`` or ``high`` is -1 where that side is all other classes. ``scale`` (2,) holds log a and
    a curvature: a margin times a is log-odds, learned as by :class:`romco.model.Scale`.
    They are a chain, and not a list, so that they are visited without the GIL.
    """

    cdef Kernel kernel
    cdef Member next
    cdef double[::1] scale
    cdef Py_ssize_t low, high

    def __init__(self, Kernel kernel not None, scale, Py_ssize_t low, Py_ssize_t high, Member next):
        self.kernel, self.scale, self.low, self.high = kernel, scale, low, high
        self.next = next

    cdef inline double side(self, Py_ssize_t label) noexcept nogil:
        """Of a class: -1, +1, or 0 where it is none of the learner's business."""
        if label == self.high:
            return 1.0
        if label == self.low:
            return -1.0
        return -1.0 if self.low < 0 else 1.0 if self.high < 0 else 0.0

    cdef int score(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, double* margins, bint followed
    ) except -1 nogil:
        """Margins (n,) of this learner, then those of the next."""
        self.kernel.drop_notes()
        self.kernel.followed = followed
        self.kernel.score(events, begin, end, margins - begin)
        if self.next is not None:
            self.next.score(events, begin, end, margins + (end - begin), followed)
        return 0

    cdef void doubt(
        self, Py_ssize_t n, Py_ssize_t width, const double* margins, double* sums
    ) noexcept nogil:
        """Add what speaks against each class, exp(-z), to ``sums`` (n, width)."""
        cdef double a = exp(self.scale[0])
        cdef double z
        cdef Py_ssize_t e
        for e in range(n):
            z = a * margins[e]
            z = FAR if z > FAR else -FAR if z < -FAR else z  # what is not a number stays so
            if self.high >= 0:
                sums[e * width + self.high] += exp(-z)
            if self.low >= 0:
                sums[e * width + self.low] += exp(z)
        if self.next is not None:
            self.next.doubt(n, width, margins + n, sums)

    cdef int learn(
        self, Events events, const double* truth, Py_ssize_t begin, Py_ssize_t end, double* sides,
        double* margins,
    ) except -1 nogil:
        """Learn what is this learner's business; ``sides`` are the labels that it sees."""
        cdef Py_ssize_t e
        for e in range(begin, end):
            sides[e - begin] = self.side(<Py_ssize_t> truth[e])
            if sides[e - begin] != 0.0 and events.count(e) > 0.0:
                self.rescale(margins[e - begin], sides[e - begin], events.count(e))
        if self.low < 0 or self.high < 0:
            self.kernel.learn(events, begin, end, margins - begin)
        else:
            self.learn_some(events, begin, end, sides, margins)
        self.kernel.drop_notes()
        if self.next is not None:
            self.next.learn(events, truth, begin, end, sides, margins + (end - begin))
        return 0

    cdef int learn_some(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, const double* sides, double* margins
    ) except -1 nogil:
        """Learn the events of two classes, one after the other."""
        cdef Py_ssize_t e
        cdef bint fresh = True
        for e in range(begin, end):
            if sides[e - begin] == 0.0:
                continue
            if not fresh:
                self.kernel.drop_notes()
                self.kernel.score(events, e, e + 1, margins - begin)
            self.kernel.learn(events, e, e + 1, margins - begin)
            fresh = False
        return 0

    cdef void rescale(self, double margin, double y, double h) noexcept nogil:
        """A Newton step of log a on the logistic loss, before the event is learned."""
        cdef double z = y * exp(self.scale[0]) * margin
        cdef double miss = 1.0 / (1.0 + exp(min(z, FAR)))
        cdef double step
        self.scale[1] = max(1.0, MEMORY * self.scale[1] + h * z * z * miss * (1.0 - miss))
        step = h * z * miss / self.scale[1]
        self.scale[0] += min(max(step, -LARGEST_STEP), LARGEST_STEP)
        self.scale[0] = min(max(self.scale[0], -LARGEST_LOG), LARGEST_LOG)


cdef class ClassesKernel(Kernel):
    """Learners of two classes, ``first`` of a chain of ``n``, as one of ``classes``.

    Notes are the margins of all of them.
    """

    cdef Member first
    cdef Py_ssize_t n
    cdef Scratch margins, sides
    cdef double[::1] power         # log t, and a curvature

    def __init__(self, Member first not None, Py_ssize_t n, Py_ssize_t classes, double[::1] power):
        self.first, self.n, self.width, self.power = first, n, classes, power
        self.margins, self.sides = Scratch(), Scratch()

    cdef int score(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, double* margins
    ) except -1 nogil:
        cdef Py_ssize_t e, k, n = end - begin
        cdef double* own = self.margins.take(self.n * n)
        cdef double* p = margins + begin * self.width
        cdef double total, least, t = exp(self.power[0]) if self.width > 2 else 1.0
        self.first.score(events, begin, end, own, self.followed)
        self.keep_notes(events, begin, end)
        for k in range(n * self.width):
            p[k] = 1.0
        self.first.doubt(n, self.width, own, p)
        for e in range(n):
            total, least = 0.0, p[0]
            for k in range(1, self.width):
                least = p[k] if p[k] < least else least
            least = log(least)
            for k in range(self.width):
                p[k] = t * (least - log(p[k]))
                total += exp(p[k])
            total = log(total)
            for k in range(self.width):
                p[k] -= total
            p += self.width
        return 0

    cdef int learn(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, const double* margins
    ) except -1 nogil:
        cdef Py_ssize_t e
        cdef const double* truth = events.labels
        cdef double* own = self.margins.take(self.n * (end - begin))
        cdef double* sides = self.sides.take(end - begin)
        if not self.has_notes(events, begin, end):
            self.first.score(events, begin, end, own, True)
        if self.width > 2:
            for e in range(begin, end):
                if events.count(e) > 0.0:
                    self.temper(margins + e * self.width, <Py_ssize_t> truth[e], events.count(e))
        events.labels = sides - begin
        try:
            self.first.learn(events, truth, begin, end, sides, own)
        finally:
            events.labels = truth
        return 0

    cdef void temper(self, const double* scores, Py_ssize_t label, double h) noexcept nogil:
        """A Newton step of log t on the log loss of an event that counts as h."""
        cdef double mean = 0.0, square = 0.0, step
        cdef Py_ssize_t k
        for k in range(self.width):
            mean += exp(scores[k]) * scores[k]
            square += exp(scores[k]) * scores[k] * scores[k]
        self.power[1] = max(1.0, MEMORY * self.power[1] + h * (square - mean * mean))
        step = h * (scores[label] - mean) / self.power[1]
        self.power[0] += min(max(step, -LARGEST_STEP), LARGEST_STEP)
        self.power[0] = min(max(self.power[0], -LARGEST_POWER), LARGEST_POWER)
