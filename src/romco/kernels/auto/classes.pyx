"""Many classes from learners of two: a learner for each pair of classes, or for each class.

With a_kj times the margin of class k against class j as log-odds z_kj, the probability of class k
is proportional to

    1 / (1 + sum_j exp(-z_kj))

which is 1 / (sum_j 1 / r_kj - (K - 2)) with r_kj the probability of k among the two. Where a class
has a learner against the rest of them the sum has that one term. Of more than two classes these
probabilities are raised to a power t, learned along the stream, and made to sum to one. A share
BEYOND K / (n + K) after n events of more than two classes is given to all classes alike: what
nobody can know yet. Without it a few surprises at the start would make all that is said timid.
Scores are the logarithms.

Of pairs only those are asked that matter. The classes meet in turn, the likelier of two stays,
and the last one to stay meets all whom it has not met. Those that come within ``CLOSE`` of it meet
each other; what two others would say, of an event that is likely of neither, is left out of the sum.
So of K (K - 1) / 2 pairs about 1.5 (K - 1) are asked where one class stands out.
"""

from libc.math cimport NAN, exp, isfinite, isnan, log
from libc.stdlib cimport free, malloc
from romco.kernels.auto.between cimport Measured
from romco.kernels.core.memory cimport Scratch
from romco.kernels.core.contract cimport Kernel
from romco.kernels.core.events cimport Events

cdef double MEMORY = 0.999         # as romco.model.Scale
cdef double LARGEST_STEP = 0.5
cdef double LARGEST_LOG = 30.0
cdef double LARGEST_POWER = 3.0    # of its logarithm
cdef double LEAST = 1e-15          # probability that rounding leaves nothing of
cdef double BEYOND = 0.3           # by the number of classes: events that come from nowhere
cdef double FAR = 500.0            # log-odds beyond which nothing changes
cdef Py_ssize_t MANY = 6           # classes from which on it is worth to guess which will stay
cdef double CLOSE = 4.0            # log-odds from the likeliest class beyond which a class is unlikely


cdef class Member:
    """A learner of two classes, and the classes that are its -1 and +1.

    ``low`` or ``high`` is -1 where that side is all other classes. ``scale`` (2,) holds log a and
    a curvature: a margin times a is log-odds, learned as by :class:`romco.model.Scale`.
    """

    cdef Kernel kernel
    cdef double[::1] scale
    cdef Py_ssize_t low, high

    def __init__(self, Kernel kernel not None, scale, Py_ssize_t low, Py_ssize_t high):
        self.kernel, self.scale, self.low, self.high = kernel, scale, low, high

    cdef inline double side(self, Py_ssize_t label) noexcept nogil:
        """Of a class: -1 or +1."""
        if label == self.high:
            return 1.0
        if label == self.low:
            return -1.0
        return -1.0 if self.low < 0 else 1.0

    cdef int score(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, double* margins, bint followed
    ) except -1 nogil:
        """Margins of events begin to end, the first of which is ``margins[0]``."""
        self.kernel.drop_notes()
        self.kernel.followed = followed
        return self.kernel.score(events, begin, end, margins - begin)

    cdef inline double odds(self, double margin) noexcept nogil:
        """Log-odds of its +1; what is not a number stays so."""
        cdef double z = exp(self.scale[0]) * margin
        return FAR if z > FAR else -FAR if z < -FAR else z

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
    """Learners of two classes as one of ``classes`` (abstract).

    Notes are the margins of its members: of member i and event e at i (end - begin) + e - begin.
    ``power`` (3,) holds log t, a curvature, and the number of events of more than two classes.
    """

    cdef list kept
    cdef void** member             # the same, borrowed, to be visited without the GIL
    cdef Py_ssize_t n
    cdef Scratch margins, sides
    cdef double[::1] power

    def __cinit__(self):
        self.member = NULL

    def __init__(self, list members not None, Py_ssize_t classes, double[::1] power):
        cdef Py_ssize_t i
        cdef Member one
        self.kept, self.n, self.width, self.power = list(members), len(members), classes, power
        self.margins, self.sides = Scratch(), Scratch()
        free(self.member)
        self.member = <void**> malloc(max(self.n, 1) * sizeof(void*))
        if self.member == NULL:
            raise MemoryError()
        for i in range(self.n):
            one = self.kept[i]
            self.member[i] = <void*> one

    def __dealloc__(self):
        free(self.member)

    cdef void couple(self, double* sums) noexcept nogil:
        """Log-probabilities (K,) in place of what speaks against each class, 1 + sum of exp(-z)."""
        cdef double t = exp(self.power[0]) if self.width > 2 else 1.0
        cdef double share = self.unknown()
        cdef double total = 0.0, least = sums[0]
        cdef Py_ssize_t k
        for k in range(1, self.width):
            least = sums[k] if sums[k] < least else least
        least = log(least)
        for k in range(self.width):
            sums[k] = t * (least - log(sums[k]))
            total += exp(sums[k])
        total = log(total)
        for k in range(self.width):
            sums[k] -= total
        if share > 0.0:
            for k in range(self.width):
                sums[k] = log((1.0 - share) * exp(sums[k]) + share / self.width)

    cdef double unknown(self) noexcept nogil:
        """The share of probability that all classes have alike; none of two."""
        if self.width == 2:
            return 0.0
        return BEYOND * self.width / (self.power[2] + self.width)

    cdef void temper_all(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, const double* scores
    ) noexcept nogil:
        cdef Py_ssize_t e
        cdef double share = self.unknown()  # as it was when they were predicted
        if self.width == 2:
            return
        for e in range(begin, end):
            if events.count(e) > 0.0:
                self.temper(
                    scores + e * self.width, <Py_ssize_t> events.labels[e], events.count(e), share
                )
                self.power[2] += events.count(e)

    cdef void temper(
        self, const double* scores, Py_ssize_t label, double h, double share
    ) noexcept nogil:
        """A Newton step of log t on the log loss of an event that counts as h.

        It counts by how likely it is not one of those that come from nowhere.
        """
        cdef double mean = 0.0, square = 0.0, told = 0.0, p, z, step
        cdef Py_ssize_t k
        for k in range(self.width):
            p = (exp(scores[k]) - share / self.width) / (1.0 - share)
            if p > LEAST:
                z = log(p)
                mean += p * z
                square += p * z * z
                if k == label:
                    told = z
                    h *= (1.0 - share) * p * exp(-scores[k])
            elif k == label:
                return
        self.power[1] = max(1.0, MEMORY * self.power[1] + h * (square - mean * mean))
        step = h * (told - mean) / self.power[1]
        self.power[0] += min(max(step, -LARGEST_STEP), LARGEST_STEP)
        self.power[0] = min(max(self.power[0], -LARGEST_POWER), LARGEST_POWER)


cdef class RestKernel(ClassesKernel):
    """A learner of each class against the rest; all are asked, and all learn."""

    cdef int score(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, double* margins
    ) except -1 nogil:
        cdef Py_ssize_t e, i, n = end - begin
        cdef double* own = self.margins.take(self.n * n)
        cdef double z
        self.ask(events, begin, end, own, self.followed)
        self.keep_notes(events, begin, end)
        for e in range(n):
            for i in range(self.n):
                z = (<Member> self.member[i]).odds(own[i * n + e])
                z = z if (<Member> self.member[i]).high >= 0 else -z
                margins[(begin + e) * self.width + i] = 1.0 + exp(-z)
            self.couple(margins + (begin + e) * self.width)
        return 0

    cdef int ask(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, double* own, bint followed
    ) except -1 nogil:
        cdef Py_ssize_t i
        for i in range(self.n):
            (<Member> self.member[i]).score(
                events, begin, end, own + i * (end - begin), followed
            )
        return 0

    cdef int learn(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, const double* margins
    ) except -1 nogil:
        cdef Py_ssize_t i, n = end - begin
        cdef const double* truth = events.labels
        cdef double* own = self.margins.take(self.n * n)
        if not self.has_notes(events, begin, end):
            self.ask(events, begin, end, own, True)
        self.temper_all(events, begin, end, margins)
        try:
            for i in range(self.n):
                self.teach(<Member> self.member[i], events, truth, begin, end, own + i * n)
        finally:
            events.labels = truth
        return 0

    cdef int teach(
        self, Member member, Events events, const double* truth, Py_ssize_t begin, Py_ssize_t end,
        const double* own,
    ) except -1 nogil:
        """One member learns a round; it sees its sides as labels."""
        cdef double* sides = self.sides.take(end - begin)
        cdef Py_ssize_t e
        for e in range(begin, end):
            sides[e - begin] = member.side(<Py_ssize_t> truth[e])
            if events.count(e) > 0.0:
                member.rescale(own[e - begin], sides[e - begin], events.count(e))
        events.labels = sides - begin
        member.kernel.learn(events, begin, end, own - begin)
        member.kernel.drop_notes()
        return 0


cdef class PairsKernel(ClassesKernel):
    """A learner for each pair of classes, low < high, which is member high (high - 1) / 2 + low.

    Those of the true class learn, one event after the other. A margin that is not a
    number has not been asked for. ``measured``, if given, is by what all of them measure features: an
    event is looked at and counted once. ``beside``, if given, is a kernel of as many classes that learns the
    same events: it is to take over when classes become too many for pairs.
    """

    cdef Kernel beside
    cdef Measured measured
    cdef Scratch unheard

    def __init__(
        self, list members not None, Py_ssize_t classes, double[::1] power, Kernel beside=None,
        Measured measured=None,
    ):
        ClassesKernel.__init__(self, members, classes, power)
        self.beside, self.measured, self.unheard = beside, measured, Scratch()

    cdef int score(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, double* margins
    ) except -1 nogil:
        cdef Py_ssize_t e, n = end - begin
        cdef double* own = self.clear(n)
        if self.n == 1:
            (<Member> self.member[0]).score(events, begin, end, own, self.followed)
        for e in range(begin, end):
            self.hold(events, e)
            self.meet(events, e, n, own + e - begin, margins + e * self.width)
            self.couple(margins + e * self.width)
        self.let_go()
        self.keep_notes(events, begin, end)
        return 0

    cdef inline void hold(self, Events events, Py_ssize_t e) noexcept nogil:
        """Look at an event for all pairs, if they measure features together."""
        if self.measured is not None:
            self.measured.hold(events.row(e))

    cdef inline void let_go(self) noexcept nogil:
        if self.measured is not None:
            self.measured.let_go()

    cdef double* clear(self, Py_ssize_t n) except NULL nogil:
        """Room for margins, none of which has been asked for."""
        cdef double* own = self.margins.take(self.n * n)
        cdef Py_ssize_t i
        for i in range(self.n * n):
            own[i] = NAN
        return own

    cdef int meet(
        self, Events events, Py_ssize_t e, Py_ssize_t n, double* own, double* sums
    ) except -1 nogil:
        """1 + what speaks against each class, from the pairs that matter."""
        cdef Py_ssize_t best = 0, k, j
        self.last_to_stay(events, e, n, own, &best)
        for k in range(self.width):
            sums[k] = 1.0
        for k in range(self.width):
            if k != best:
                self.add(events, e, n, own, best, k, sums)
        for k in range(1, self.width):
            if k == best or not self.close(own, n, best, k):
                continue
            for j in range(k):
                if j != best and self.close(own, n, best, j):
                    self.add(events, e, n, own, k, j, sums)
        return 0

    cdef int last_to_stay(
        self, Events events, Py_ssize_t e, Py_ssize_t n, double* own, Py_ssize_t* best
    ) except -1 nogil:
        """The class that stays when all meet in turn."""
        cdef Py_ssize_t k, guess
        cdef double z = 0.0
        if self.measured is not None and self.width >= MANY:
            guess = self.measured.nearest()
            if self.stays(events, e, n, own, guess):
                best[0] = guess
                return 0
        best[0] = 0
        for k in range(1, self.width):
            self.ask(events, e, n, own, k, best[0], &z)
            if z > 0.0:
                best[0] = k
        return 0

    cdef bint stays(
        self, Events events, Py_ssize_t e, Py_ssize_t n, double* own, Py_ssize_t k
    ) except -1 nogil:
        """Whether a class would stay whomever it meets: then it is the last, and fewer are asked."""
        cdef Py_ssize_t j
        cdef double z = 0.0
        for j in range(self.width):
            if j != k:
                self.ask(events, e, n, own, k, j, &z)
                if z < 0.0 or (z == 0.0 and j < k):
                    return False
        return True

    cdef inline Py_ssize_t place(self, Py_ssize_t k, Py_ssize_t j) noexcept nogil:
        """Which member tells two classes apart."""
        return k * (k - 1) // 2 + j if k > j else j * (j - 1) // 2 + k

    cdef inline bint close(
        self, const double* own, Py_ssize_t n, Py_ssize_t best, Py_ssize_t k
    ) noexcept nogil:
        """Whether a class that has met the best one comes near it."""
        cdef Py_ssize_t i = self.place(best, k)
        cdef double z = (<Member> self.member[i]).odds(own[i * n])
        return (z if best > k else -z) < CLOSE

    cdef int ask(
        self, Events events, Py_ssize_t e, Py_ssize_t n, double* own, Py_ssize_t k, Py_ssize_t j,
        double* z,
    ) except -1 nogil:
        """Log-odds z of class k against class j."""
        cdef Py_ssize_t i = self.place(k, j)
        if isnan(own[i * n]):
            (<Member> self.member[i]).score(events, e, e + 1, own + i * n, self.followed and n == 1)
        z[0] = (<Member> self.member[i]).odds(own[i * n])
        if k < j:
            z[0] = -z[0]
        return 0

    cdef int add(
        self, Events events, Py_ssize_t e, Py_ssize_t n, double* own, Py_ssize_t k, Py_ssize_t j,
        double* sums,
    ) except -1 nogil:
        """Let two classes speak against each other."""
        cdef double z = 0.0
        self.ask(events, e, n, own, k, j, &z)
        sums[k] += exp(-z)
        sums[j] += exp(z)
        return 0

    cdef int learn(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, const double* margins
    ) except -1 nogil:
        cdef Py_ssize_t e, n = end - begin
        cdef const double* truth = events.labels
        cdef double* own = self.margins.take(self.n * n)
        cdef bint noted = self.has_notes(events, begin, end)
        if not noted:
            own = self.clear(n)
        self.followed = True
        for e in range(begin, end):
            if noted and n == 1 and self.measured is not None:
                self.measured.hold_again()
            else:
                self.hold(events, e)
            self.ask_true(events, e, n, own + e - begin)
        self.temper_all(events, begin, end, margins)
        try:
            for e in range(begin, end):
                if events.count(e) > 0.0:
                    self.rescale_true(events, e, n, own + e - begin)
            for e in range(begin, end):
                if events.count(e) > 0.0:
                    self.teach(events, truth, e, n, own + e - begin)
        finally:
            events.labels = truth
            self.let_go()
        if self.beside is not None:
            self.beside.take_step(
                events, begin, end, self.unheard.take(n * self.width) - begin * self.width
            )
        return 0

    cdef int ask_true(self, Events events, Py_ssize_t e, Py_ssize_t n, double* own) except -1 nogil:
        """The margins of an event's class against all others, before anything changes."""
        cdef Py_ssize_t k, label = <Py_ssize_t> events.labels[e]
        cdef double z = 0.0
        for k in range(self.width):
            if k == label:
                continue
            self.ask(events, e, n, own, label, k, &z)
            z = own[self.place(label, k) * n]
            if not isfinite(z):
                with gil:
                    raise FloatingPointError(
                        f"event {e}: the margin of class {label} against class {k} is {z}; the "
                        "weights have overflowed, so use smaller steps or scale the features"
                    )
        return 0

    cdef void rescale_true(
        self, Events events, Py_ssize_t e, Py_ssize_t n, const double* own
    ) noexcept nogil:
        cdef Py_ssize_t i, k, label = <Py_ssize_t> events.labels[e]
        for k in range(self.width):
            if k != label:
                i = self.place(label, k)
                (<Member> self.member[i]).rescale(
                    own[i * n], 1.0 if label > k else -1.0, events.count(e)
                )

    cdef int teach(
        self, Events events, const double* truth, Py_ssize_t e, Py_ssize_t n, double* own
    ) except -1 nogil:
        """All pairs of an event's class learn it; they see their sides as labels."""
        cdef double* side = self.sides.take(1)
        cdef Py_ssize_t i, k, label = <Py_ssize_t> truth[e]
        if n > 1:  # they may have learned another event of the round
            self.hold(events, e)
            for k in range(self.width):
                if k != label:
                    i = self.place(label, k)
                    (<Member> self.member[i]).score(events, e, e + 1, own + i * n, True)
        if self.measured is not None and self.measured.count(events.row(e)):
            self.drop_true(label)
        events.labels = side - e
        for k in range(self.width):
            if k == label:
                continue
            i = self.place(label, k)
            side[0] = 1.0 if label > k else -1.0
            (<Member> self.member[i]).kernel.learn(events, e, e + 1, own + i * n - e)
            (<Member> self.member[i]).kernel.drop_notes()
        events.labels = truth
        if self.measured is not None:
            self.measured.count_class(label)
        return 0

    cdef void drop_true(self, Py_ssize_t label) noexcept nogil:
        """What the pairs of a class have noted of an event was in units that are no more."""
        cdef Py_ssize_t k
        for k in range(self.width):
            if k != label:
                (<Member> self.member[self.place(label, k)]).kernel.drop_notes()
