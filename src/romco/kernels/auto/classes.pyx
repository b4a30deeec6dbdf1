"""Many classes from learners of two: a learner for each pair of classes, or for each class.

With a_kj times the margin of class k against class j as log-odds z_kj, the probability of class k
is proportional to

    1 / (1 + sum_j exp(-z_kj))

which is 1 / (sum_j 1 / r_kj - (K - 2)) with r_kj the probability of k among the two. Where a class
has a learner against the rest of them the sum has that one term. These probabilities are made to
sum to one, and scores are their logarithms. Of more than two classes a conditional logit multiplies scores by
a weight that is learned along the stream. If a softmax of all classes learns beside the pairs, it adds
the scores of both.

With offsets o_k of the classes, a learner has the offset o_k - o_j, or o_k less the log-sum of the
rest; the factor a_kj multiplies what it learned, and the conditional logit the scores less the offsets. All
pairs are then evaluated, so that learners without events leave the probabilities exp(o_k) / sum_j exp(o_j).

Only pairs that matter are evaluated. Each class in turn is compared with the best so far, and the best
of all with every other. Classes within ``CLOSE_LOG_ODDS`` of it are compared with each other; pairs
of two unlikely classes are left out of the sum. Where one class stands out, about 1.5 (K - 1) of the
K (K - 1) / 2 pairs are evaluated.
"""

import numpy as np
from libc.math cimport NAN, exp, isfinite, isnan, log
from libc.stdlib cimport free, malloc
from romco.kernels.auto.gaussians cimport log_sum
from romco.kernels.auto.stacking cimport ConditionalLogit
from romco.kernels.core.memory cimport Scratch
from romco.kernels.core.contract cimport Kernel
from romco.kernels.core.events cimport Events

cdef double SCALE_MEMORY = 0.999  # as romco.model.Scale
cdef double LARGEST_STEP = 0.5
cdef double LARGEST_LOG = 30.0
cdef double MAX_LOG_ODDS = 500.0       # log-odds at which scores are clipped
cdef double CLOSE_LOG_ODDS = 4.0       # log-odds behind the likeliest class: unlikely beyond


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
        """Return the label of a class: -1 or +1."""
        if label == self.high:
            return 1.0
        if label == self.low:
            return -1.0
        return -1.0 if self.low < 0 else 1.0

    cdef int score(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, double* margins, bint followed,
        bint frozen,
    ) except -1 nogil:
        """Margins of events begin to end, the first of which is ``margins[0]``."""
        self.kernel.drop_notes()
        self.kernel.followed, self.kernel.frozen_predictions = followed, frozen
        return self.kernel.score(events, begin, end, margins - begin)

    cdef double shift(self, const double* offsets, Py_ssize_t n) noexcept nogil:
        """Return the offset of its +1, from those of n classes."""
        cdef Py_ssize_t j, one = self.high if self.high >= 0 else self.low
        cdef double rest = NAN
        if self.low >= 0 and self.high >= 0:
            return offsets[self.high] - offsets[self.low]
        for j in range(n):
            if j != one:
                rest = offsets[j] if isnan(rest) else log_sum(rest, offsets[j])
        return offsets[one] - rest if self.high >= 0 else rest - offsets[one]

    cdef inline double odds(self, double margin, double shift) noexcept nogil:
        """Return the log-odds of its +1, of which ``shift`` is the offset; NaN stays NaN."""
        cdef double z = shift + exp(self.scale[0]) * (margin - shift)
        return MAX_LOG_ODDS if z > MAX_LOG_ODDS else -MAX_LOG_ODDS if z < -MAX_LOG_ODDS else z

    cdef void rescale(self, double margin, double shift, double y, double h) noexcept nogil:
        """A Newton step of log a on the logistic loss, before the event is learned."""
        cdef double z = y * exp(self.scale[0]) * (margin - shift)
        cdef double miss = 1.0 / (1.0 + exp(min(z + y * shift, MAX_LOG_ODDS)))
        cdef double step
        self.scale[1] = max(1.0, SCALE_MEMORY * self.scale[1] + h * z * z * miss * (1.0 - miss))
        step = h * z * miss / self.scale[1]
        self.scale[0] += min(max(step, -LARGEST_STEP), LARGEST_STEP)
        self.scale[0] = min(max(self.scale[0], -LARGEST_LOG), LARGEST_LOG)


cdef class ClassesKernel(Kernel):
    """Learners of two classes as one of ``classes`` (abstract).

    ``softmax``, if given, is a kernel of all classes that learns the same events. ``stacking``, of more
    than two classes, combines its scores with those of the members.

    Notes are the margins of its members: of member i and event e at i (end - begin) + e - begin. They
    are also the inputs (n, c, K) of ``stacking``.
    """

    cdef list kept
    cdef void** member             # the same, borrowed, to be visited without the GIL
    cdef Py_ssize_t n
    cdef Kernel softmax
    cdef ConditionalLogit stacking
    cdef Py_ssize_t n_inputs       # of ``stacking``
    cdef Scratch margins, sides, shifts, inputs, logs, scores
    cdef const double* offsets     # (n, width) of the events at hand, or NULL

    def __cinit__(self):
        self.member = NULL

    def __init__(
        self, list members not None, Py_ssize_t classes, ConditionalLogit stacking=None,
        Kernel softmax=None,
    ):
        cdef Py_ssize_t i
        cdef Member one
        self.kept, self.n, self.width = list(members), len(members), classes
        self.stacking, self.softmax = stacking, softmax
        self.n_inputs = 1 if softmax is None else 2
        self.margins, self.sides, self.shifts = Scratch(), Scratch(), Scratch()
        self.inputs, self.logs, self.scores = Scratch(), Scratch(), Scratch()
        self.offsets = NULL
        free(self.member)
        self.member = <void**> malloc(max(self.n, 1) * sizeof(void*))
        if self.member == NULL:
            raise MemoryError()
        for i in range(self.n):
            one = self.kept[i]
            self.member[i] = <void*> one

    def __dealloc__(self):
        free(self.member)

    def scores_of(self, double[:, ::1] margins):
        """Return scores (n, K) of events from the margins (P, n) of all members."""
        cdef Py_ssize_t e, n = margins.shape[1]
        cdef double[:, ::1] scores = np.empty((n, self.width))
        self.check_idle()
        if np.isnan(margins).any():
            raise FloatingPointError("a margin is not a number: the weights have overflowed")
        self.offsets = NULL
        for e in range(n):
            self.combine(None, e, n, &margins[0, e], &scores[e, 0])
        self.stack(None, 0, n, &scores[0, 0])
        return np.asarray(scores)

    cdef int combine(
        self, Events events, Py_ssize_t e, Py_ssize_t n, double* own, double* scores
    ) except -1 nogil:
        """Scores (K,) of an event, of which member i has the margin ``own[i * n]``."""
        return 0

    cdef inline double shift(self, Py_ssize_t i, Py_ssize_t e) noexcept nogil:
        """Return the offset of a member's +1."""
        if self.offsets == NULL:
            return 0.0
        return (<Member> self.member[i]).shift(self.offsets + e * self.width, self.width)

    cdef int set_shifts(
        self, Py_ssize_t i, Events events, Py_ssize_t begin, Py_ssize_t end
    ) except -1 nogil:
        """Set the offsets of events to those of a member."""
        cdef double* shifts
        cdef Py_ssize_t e
        if self.offsets != NULL:
            shifts = self.shifts.take(end - begin)
            for e in range(begin, end):
                shifts[e - begin] = self.shift(i, e)
            events.offsets = shifts - begin
        return 0

    cdef int score_member(
        self, Py_ssize_t i, Events events, Py_ssize_t begin, Py_ssize_t end, double* own,
        bint followed,
    ) except -1 nogil:
        self.set_shifts(i, events, begin, end)
        return (<Member> self.member[i]).score(
            events, begin, end, own, followed, self.frozen_predictions
        )

    cdef void couple(self, double* sums) noexcept nogil:
        """Replace the evidence against classes, 1 + sum of exp(-z), by their log-probabilities."""
        cdef double total = 0.0, least = sums[0]
        cdef Py_ssize_t k, n = self.width
        for k in range(1, n):
            least = min(least, sums[k])
        least = log(least)
        for k in range(n):
            sums[k] = least - log(sums[k])
            total += exp(sums[k])
        total = log(total)
        for k in range(n):
            sums[k] -= total

    cdef int stack(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, double* scores
    ) except -1 nogil:
        """Combine scores of the members with those of the softmax, if there is one."""
        cdef Py_ssize_t e, k, n = end - begin, K = self.width
        cdef double* inputs
        cdef double* soft = NULL
        cdef const double* offset = NULL
        cdef double shift
        if self.stacking is None:
            return 0
        inputs = self.inputs.take(self.n_inputs * n * K)
        if self.softmax is not None:
            soft = self.logs.take(n * K)
            self.softmax.drop_notes()
            self.softmax.followed = self.followed
            self.softmax.frozen_predictions = self.frozen_predictions
            self.softmax.score(events, begin, end, soft - begin * K)
        for e in range(begin, end):
            if self.offsets != NULL:
                offset = self.offsets + e * K
            for k in range(K):
                shift = 0.0 if offset == NULL else offset[k]
                inputs[k] = scores[e * K + k] - shift
                if soft != NULL:
                    inputs[K + k] = soft[(e - begin) * K + k] - shift
            self.stacking.score(inputs, K, scores + e * K, offset)
            inputs += self.n_inputs * K
        return 0

    cdef void learn_stacking(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, const double* scores
    ) noexcept nogil:
        """Learn the weights of the stacking model from the inputs of the last prediction."""
        cdef Py_ssize_t e, K = self.width
        cdef const double* inputs = self.inputs.data
        if self.stacking is None:
            return
        for e in range(begin, end):
            if events.count(e) > 0.0:
                self.stacking.learn(
                    inputs, K, scores + e * K, <Py_ssize_t> events.labels[e], events.count(e)
                )
            inputs += self.n_inputs * K

    cdef int score_again(
        self, Events events, Py_ssize_t begin, Py_ssize_t end
    ) except -1 nogil:
        """Compute margins and inputs, where notes are not of these events."""
        self.followed = True
        self.score(events, begin, end, self.scores.take((end - begin) * self.width) - begin * self.width)
        return 0


cdef class RestKernel(ClassesKernel):
    """One-vs-rest: all learners predict, and all learn."""

    cdef int score(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, double* margins
    ) except -1 nogil:
        cdef Py_ssize_t e, n = end - begin
        cdef double* own = self.margins.take(self.n * n)
        self.offsets = events.offsets
        try:
            self.ask(events, begin, end, own, self.followed)
        finally:
            events.offsets = self.offsets
        self.keep_notes(events, begin, end)
        for e in range(begin, end):
            self.combine(events, e, n, own + e - begin, margins + e * self.width)
        self.stack(events, begin, end, margins)
        return 0

    cdef int combine(
        self, Events events, Py_ssize_t e, Py_ssize_t n, double* own, double* scores
    ) except -1 nogil:
        cdef Py_ssize_t i
        cdef double z
        for i in range(self.n):
            z = (<Member> self.member[i]).odds(own[i * n], self.shift(i, e))
            z = z if (<Member> self.member[i]).high >= 0 else -z
            scores[i] = 1.0 + exp(-z)
        self.couple(scores)
        return 0

    cdef int ask(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, double* own, bint followed
    ) except -1 nogil:
        cdef Py_ssize_t i
        for i in range(self.n):
            self.score_member(i, events, begin, end, own + i * (end - begin), followed)
        return 0

    cdef int learn(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, const double* margins
    ) except -1 nogil:
        cdef Py_ssize_t i, n = end - begin
        cdef const double* truth = events.labels
        cdef double* own = self.margins.take(self.n * n)
        if not self.has_notes(events, begin, end):
            self.score_again(events, begin, end)
        self.offsets = events.offsets
        try:
            self.learn_stacking(events, begin, end, margins)
            for i in range(self.n):
                self.teach(i, events, truth, begin, end, own + i * n)
        finally:
            events.labels, events.offsets = truth, self.offsets
        return 0

    cdef int teach(
        self, Py_ssize_t i, Events events, const double* truth, Py_ssize_t begin, Py_ssize_t end,
        const double* own,
    ) except -1 nogil:
        """Update one member by a round; labels are its sides."""
        cdef double* sides = self.sides.take(end - begin)
        cdef Py_ssize_t e
        for e in range(begin, end):
            sides[e - begin] = (<Member> self.member[i]).side(<Py_ssize_t> truth[e])
            if events.count(e) > 0.0:
                (<Member> self.member[i]).rescale(
                    own[e - begin], self.shift(i, e), sides[e - begin], events.count(e)
                )
        events.labels = sides - begin
        self.set_shifts(i, events, begin, end)
        (<Member> self.member[i]).kernel.learn(events, begin, end, own - begin)
        (<Member> self.member[i]).kernel.drop_notes()
        return 0


cdef class PairsKernel(ClassesKernel):
    """A learner for each pair of classes, low < high, member high (high - 1) / 2 + low.

    Those of the true class learn, one event after the other. A margin that is NaN has not been
    computed.
    """

    # --- prediction --------------------------------------------------------------------------

    cdef int score(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, double* margins
    ) except -1 nogil:
        cdef Py_ssize_t e, n = end - begin, K = self.width
        cdef double* own = self.clear(n)
        self.offsets = events.offsets
        try:
            if self.n == 1:
                self.score_member(0, events, begin, end, own, self.followed)
            for e in range(begin, end):
                self.combine(events, e, n, own + e - begin, margins + e * K)
        finally:
            events.offsets = self.offsets
        self.stack(events, begin, end, margins)
        self.keep_notes(events, begin, end)
        return 0

    cdef int combine(
        self, Events events, Py_ssize_t e, Py_ssize_t n, double* own, double* scores
    ) except -1 nogil:
        self.meet(events, e, n, own, scores)
        self.couple(scores)
        return 0

    cdef double* clear(self, Py_ssize_t n) except NULL nogil:
        """Return an array of margins, all NaN: not computed."""
        cdef double* own = self.margins.take(self.n * n + 1)
        cdef Py_ssize_t i
        for i in range(self.n * n):
            own[i] = NAN
        return own

    cdef int meet(
        self, Events events, Py_ssize_t e, Py_ssize_t n, double* own, double* sums
    ) except -1 nogil:
        """Compute 1 + the evidence against each class, from the pairs that matter."""
        cdef Py_ssize_t best = 0, a, b
        self.find_best(events, e, n, own, &best)
        for a in range(self.width):
            sums[a] = 1.0
        for a in range(self.width):
            if a != best:
                self.add(events, e, n, own, best, a, sums)
        for a in range(1, self.width):
            if a == best or not self.close(own, n, best, a):
                continue
            for b in range(a):
                if b != best and self.close(own, n, best, b):
                    self.add(events, e, n, own, a, b, sums)
        return 0

    cdef int find_best(
        self, Events events, Py_ssize_t e, Py_ssize_t n, double* own, Py_ssize_t* best
    ) except -1 nogil:
        """Find the best class: compare each with the best so far."""
        cdef Py_ssize_t k
        cdef double z = 0.0
        best[0] = 0
        for k in range(1, self.width):
            self.ask(events, e, n, own, k, best[0], &z)
            if z > 0.0:
                best[0] = k
        return 0

    cdef inline Py_ssize_t place(self, Py_ssize_t k, Py_ssize_t j) noexcept nogil:
        """Return the member of a pair of classes."""
        return k * (k - 1) // 2 + j if k > j else j * (j - 1) // 2 + k

    cdef inline bint close(
        self, const double* own, Py_ssize_t n, Py_ssize_t best, Py_ssize_t k
    ) noexcept nogil:
        """Return whether a class is within ``CLOSE_LOG_ODDS`` of the best; with offsets all are."""
        cdef Py_ssize_t i = self.place(best, k)
        cdef double z = (<Member> self.member[i]).odds(own[i * n], 0.0)
        return self.offsets != NULL or (z if best > k else -z) < CLOSE_LOG_ODDS

    cdef int ask(
        self, Events events, Py_ssize_t e, Py_ssize_t n, double* own, Py_ssize_t k, Py_ssize_t j,
        double* z,
    ) except -1 nogil:
        """Compute the log-odds z of class k against class j."""
        cdef Py_ssize_t i = self.place(k, j)
        if isnan(own[i * n]):
            self.score_member(i, events, e, e + 1, own + i * n, self.followed and n == 1)
        z[0] = (<Member> self.member[i]).odds(own[i * n], self.shift(i, e))
        if k < j:
            z[0] = -z[0]
        return 0

    cdef int add(
        self, Events events, Py_ssize_t e, Py_ssize_t n, double* own, Py_ssize_t k, Py_ssize_t j,
        double* sums,
    ) except -1 nogil:
        """Add the evidence of a pair to both of its classes."""
        cdef double z = 0.0
        self.ask(events, e, n, own, k, j, &z)
        sums[k] += exp(-z)
        sums[j] += exp(z)
        return 0

    # --- learning ----------------------------------------------------------------------------

    cdef int learn(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, const double* margins
    ) except -1 nogil:
        cdef Py_ssize_t e, n = end - begin
        cdef const double* truth = events.labels
        cdef bint noted = self.has_notes(events, begin, end)
        cdef double* own
        self.followed, self.offsets = True, events.offsets
        if not noted and self.stacking is not None:
            self.score_again(events, begin, end)
            noted = True
        own = self.margins.take(self.n * n + 1) if noted else self.clear(n)
        try:
            for e in range(begin, end):
                self.ask_true(events, e, n, own + e - begin)
            self.learn_stacking(events, begin, end, margins)
            for e in range(begin, end):
                if events.count(e) > 0.0:
                    self.rescale_true(events, e, n, own + e - begin)
            for e in range(begin, end):
                if events.count(e) > 0.0:
                    self.teach(events, e, n, own + e - begin)
        finally:
            events.labels, events.offsets = truth, self.offsets
        if self.softmax is not None:
            self.softmax.learn(events, begin, end, self.logs.data - begin * self.width)
            self.softmax.drop_notes()
        return 0

    cdef int ask_true(
        self, Events events, Py_ssize_t e, Py_ssize_t n, double* own
    ) except -1 nogil:
        """Compute the margins of an event's class against others, before anything changes."""
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
        """Learn the factors of the pairs of an event's class."""
        cdef Py_ssize_t i, k, label = <Py_ssize_t> events.labels[e]
        for k in range(self.width):
            if k != label:
                i = self.place(label, k)
                (<Member> self.member[i]).rescale(
                    own[i * n], self.shift(i, e), 1.0 if label > k else -1.0, events.count(e)
                )

    cdef int teach(
        self, Events events, Py_ssize_t e, Py_ssize_t n, double* own
    ) except -1 nogil:
        """Update the pairs of an event's class; labels are their sides."""
        cdef const double* truth = events.labels
        cdef double* side = self.sides.take(1)
        cdef Py_ssize_t i, k, label = <Py_ssize_t> truth[e]
        if n > 1:  # members may have learned another event of the round
            for k in range(self.width):
                if k != label:
                    i = self.place(label, k)
                    self.score_member(i, events, e, e + 1, own + i * n, True)
        events.labels = side - e
        for k in range(self.width):
            if k == label:
                continue
            i = self.place(label, k)
            side[0] = 1.0 if label > k else -1.0
            self.set_shifts(i, events, e, e + 1)
            (<Member> self.member[i]).kernel.learn(events, e, e + 1, own + i * n - e)
            (<Member> self.member[i]).kernel.drop_notes()
        events.labels = truth
        return 0
