"""romco-auto for numbers: five learners read each event, and three combiners weigh what they say.

Two of the learners are *global*, one of which forgets (*recent*); two know each task *alone*, by all
features or by its *level* only; the fifth learns a shared and a personal vector *together*. Each is
a Gaussian over weights, part of whose prior variance is spent as events come in: of the shared
vectors the full covariance where there are few features, else its diagonal. Errors are taken
as Student's t with four degrees of freedom, so that a wild answer moves little, and
the size of the noise is followed for each learner. The task's last answer is heard beside
them: where answers drift, nobody knows better.

Answers are measured from the first one, variances in units of the answers' own; nothing depends on
their place and unit. Numbers that are read together lie together:

    mean     (3, d + 1)                shared vectors of global, recent, together; intercepts first
    spent    (3, d + 1[, d + 1])       spent of their prior variance
    personal (m, d, 4)                 mean and spent variance of alone, of together
    own      (m, 8)                    the same of the tasks' intercepts: alone, level, together; the
                                       task's last answer, and whether there is one
    common   (2, 2)                    intercepts of all tasks: alone, level
    noise    (8, 2)                    of learners and combiners: variance in units, events
    clock    (7,)                      sum of log |x|^2, events with features, when to draw next,
                                       events, first answer, mean from there, sum of squares
"""

cimport numpy as cnp
from libc.math cimport NAN, exp, fabs, floor, isfinite, log, log1p, log2, sqrt
from libc.string cimport memset
from romco.kernels.auto.gaussians cimport Step, move
from romco.kernels.auto.scales cimport count_size, unit_of
from romco.kernels.auto.subspace cimport RANK, Subspace
from romco.kernels.core.memory cimport Scratch
from romco.kernels.core.contract cimport Kernel
from romco.kernels.core.events cimport Events, Row, column, n_filled, square
from romco.kernels.core.pairs cimport Pairs

cnp.import_array()

cdef enum:
    GLOBAL, RECENT, ALONE, LEVEL, TOGETHER, DIRECTION  # places of what is heard
    LEARNERS = 5
    LAST = 9                                   # the last of them
    HEARD = 10
    KINDS = 3                                  # of tasks: related, like all others, on their own
    SHARED = 3                                 # learners with a shared vector
    TASK_ALONE = 0                             # places in `own`
    TASK_LEVEL = 2
    TASK_TOGETHER = 4
    TASK_LAST = 6
    SQUARES = 0                                # places in `clock`
    ROWS, NEXT, EVENTS, ORIGIN, MEAN, SPREAD
    OCTAVE = 8                                 # bins of residuals for each doubling,
    LOWEST = 8                                 # from 2^-8 of the expected size

cdef double FREEDOM = 4.0                      # degrees of freedom of the noise
cdef double APART = 0.3                        # prior variance of a task's part in together
cdef double FORGETTING = 1e-2                  # of recent: share of its variance that comes back
cdef double SLOW_FORGETTING = 3e-4             # of together
cdef double FOLLOWING = 1e-3                   # least share by which noise follows an event
cdef double SURE = 20.0                        # evidence is kept within this: a task may change
cdef double NONE = 1e-300
cdef double GROWTH = 1.25                      # directions are drawn when there are so many times
cdef double MANY = 10000.0                     # as many events, later
cdef double SLOW_GROWTH = 2.0                  # less often
cdef double MEMORY = 0.998                     # of residuals, by event
cdef double FARTHEST = 1e4                     # usual sizes of an event beyond which a value is cut


cdef struct Combination:
    double Sz[HEARD]               # the combiner's covariance times what it hears
    double mean, variance


cdef struct Opinions:
    double x2
    double p[LEARNERS]             # predictions from the origin
    double v[LEARNERS]             # their variances, in units
    double z[HEARD]                # what is heard, from the mean
    Combination said[KINDS]
    double chance[KINDS]
    double mean, spread            # of the mixture, from the mean


cdef class NumberCombiner:
    """Bayesian linear regression on what is heard: views of ``weight`` (n,), ``covariance``."""

    cdef double[::1] weight
    cdef double[:, ::1] covariance
    cdef double prior, renewal

    def __init__(self, weight, covariance, double prior, double renewal):
        self.weight, self.covariance = weight, covariance
        self.prior, self.renewal = prior, renewal

    cdef void combine(self, const double* z, Combination* said) noexcept nogil:
        cdef Py_ssize_t c, k, n = self.weight.shape[0]
        said.mean = said.variance = 0.0
        for c in range(n):
            said.Sz[c] = 0.0
            for k in range(n):
                said.Sz[c] += self.covariance[c, k] * z[k]
            said.mean += self.weight[c] * z[c]
            said.variance += z[c] * said.Sz[c]
        said.variance = max(said.variance, 0.0)

    cdef void learn(self, double a, double b, double h, const Combination* said) noexcept nogil:
        """Step by a, spend by b; ``h`` is how much the event counts."""
        cdef Py_ssize_t c, k, n = self.weight.shape[0]
        for c in range(n):
            self.weight[c] += a * said.Sz[c]
            for k in range(n):
                self.covariance[c, k] -= b * said.Sz[c] * said.Sz[k]
            if self.covariance[c, c] < self.prior:
                self.covariance[c, c] += h * self.renewal


cdef class AutoNumberKernel(Kernel):
    """Views of the learner's arrays and the two verbs."""

    cdef double[:, ::1] mean, own, common, noise, factor, evidence, belief
    cdef double[:, :, ::1] full    # spent variances with all covariances, or nothing
    cdef double[:, ::1] diagonal   # only of each weight by itself, or nothing
    cdef double[::1] kinds, clock, residuals
    cdef double[:, :] B
    cdef Pairs personal
    cdef NumberCombiner related, like_all, on_its_own
    cdef Subspace subspace
    cdef Scratch room
    cdef Py_ssize_t k              # weights of a shared vector
    cdef bint dense

    def __init__(
        self, mean, spent, Pairs personal, own, common, noise, factor, directions,
        NumberCombiner related, NumberCombiner like_all, NumberCombiner on_its_own,
        evidence, belief, kinds, clock, residuals,
    ):
        self.mean, self.own, self.common, self.noise = mean, own, common, noise
        self.dense = spent.ndim == 3
        if self.dense:
            self.full = spent
        else:
            self.diagonal = spent
        self.personal, self.factor, self.B = personal, factor, directions
        self.related, self.like_all, self.on_its_own = related, like_all, on_its_own
        self.evidence, self.belief, self.kinds = evidence, belief, kinds
        self.clock, self.residuals = clock, residuals
        self.subspace = Subspace(directions, factor, personal, 0)
        self.k, self.room = mean.shape[1], Scratch()

    # --- units -------------------------------------------------------------------------------

    cdef double unit(self) noexcept nogil:
        return unit_of(&self.clock[SQUARES])

    cdef double variance(self) noexcept nogil:
        """Of the answers so far; 0 until two of them differ."""
        return self.clock[SPREAD] / self.clock[EVENTS] if self.clock[EVENTS] > 0.0 else 0.0

    cdef void count(self, double x2, double h) noexcept nogil:
        count_size(&self.clock[SQUARES], x2, h)

    cdef void place(self, double y, double h) noexcept nogil:
        """Mean and variance of the answers, from the first of them."""
        cdef double step
        if self.clock[EVENTS] == 0.0:
            self.clock[ORIGIN] = y
        step = y - self.clock[ORIGIN] - self.clock[MEAN]
        self.clock[EVENTS] += h
        self.clock[MEAN] += h * step / self.clock[EVENTS]
        self.clock[SPREAD] += h * step * (y - self.clock[ORIGIN] - self.clock[MEAN])

    # --- what is said about an event ---------------------------------------------------------

    cdef void read(
        self, Row x, long long task, double unit, Opinions* o, double* Sx
    ) noexcept nogil:
        """Predictions and variances of the learners; ``Sx`` (3, k) of the shared vectors."""
        cdef double value, value2, x2 = 0.0, alone = 0.0, left = 0.0, apart = 0.0, left_apart = 0.0
        cdef double[RANK] b
        cdef const double* own
        cdef const double* task_own = &self.own[task, 0]
        cdef Py_ssize_t k, j
        cdef int c
        for c in range(RANK):
            b[c] = 0.0
        for k in range(x.n):
            j = column(x, k)
            value = measured(x.value[k], unit)
            value2 = value * value
            x2 += value2
            own = self.personal.look(task, j)
            alone += value * own[0]
            left += value2 * (1.0 - own[1])
            apart += value * own[2]
            left_apart += value2 * (APART - own[3])
            for c in range(RANK):
                b[c] += value * self.B[j, c]
        o.x2 = x2
        self.read_shared(x, unit, o, Sx)
        o.p[ALONE] = alone + self.common[0, 0] + task_own[TASK_ALONE]
        o.v[ALONE] = left + 2.0 - self.common[0, 1] - task_own[TASK_ALONE + 1]
        o.p[LEVEL] = self.common[1, 0] + task_own[TASK_LEVEL]
        o.v[LEVEL] = 2.0 - self.common[1, 1] - task_own[TASK_LEVEL + 1]
        o.p[TOGETHER] += apart + task_own[TASK_TOGETHER]
        o.v[TOGETHER] += left_apart + 1.0 - task_own[TASK_TOGETHER + 1]
        for c in range(LEARNERS):
            o.z[c] = o.p[c] - self.clock[MEAN]
        for c in range(RANK):
            o.z[DIRECTION + c] = b[c] * self.factor[task, c]
        o.z[LAST] = task_own[TASK_LAST] - self.clock[MEAN] if task_own[TASK_LAST + 1] > 0.0 else 0.0

    cdef void read_shared(self, Row x, double unit, Opinions* o, double* Sx) noexcept nogil:
        """Of the shared vectors: w . x, S x and x . S x, with an intercept."""
        cdef Py_ssize_t k, i, j
        cdef double value
        cdef double* s
        cdef const double* spent
        cdef int c, at
        for c in range(SHARED):
            at = TOGETHER if c == 2 else c
            s = Sx + c * self.k
            memset(s, 0, self.k * sizeof(double))
            o.p[at], o.v[at] = self.mean[c, 0], 0.0
            if self.dense:
                for i in range(self.k):
                    s[i] = -self.full[c, 0, i]
            else:
                s[0] = -self.diagonal[c, 0]
            s[0] += 1.0
            for k in range(x.n):
                j, value = column(x, k) + 1, measured(x.value[k], unit)
                if value == 0.0:
                    continue
                o.p[at] += self.mean[c, j] * value
                if self.dense:
                    spent = &self.full[c, j, 0]
                    for i in range(self.k):
                        s[i] -= spent[i] * value
                    s[j] += value
                else:
                    s[j] = (1.0 - self.diagonal[c, j]) * value
            o.v[at] = s[0]
            for k in range(x.n):
                o.v[at] += s[column(x, k) + 1] * measured(x.value[k], unit)
            o.v[at] = max(o.v[at], 0.0)

    cdef void combine(self, long long task, double V, Opinions* o) noexcept nogil:
        """What the combiners say, how much each matters for the task, and the mixture of them."""
        cdef int k
        cdef double variance = 0.0
        self.related.combine(o.z, &o.said[0])
        self.like_all.combine(o.z + GLOBAL, &o.said[1])
        self.on_its_own.combine(o.z + ALONE, &o.said[2])
        self.chances(task, o.chance)
        o.mean = 0.0
        for k in range(KINDS):
            o.mean += o.chance[k] * o.said[k].mean
        for k in range(KINDS):
            variance += o.chance[k] * (
                o.said[k].variance + self.noise[LEARNERS + k, 0] * V
                + (o.said[k].mean - o.mean) * (o.said[k].mean - o.mean)
            )
        o.spread = sqrt(variance)

    cdef void chances(self, long long task, double* chance) noexcept nogil:
        """Bayes' rule: a kind is likely if many tasks are of it and if it explains this one."""
        cdef double total = 0.0
        cdef int k
        for k in range(KINDS):
            chance[k] = self.kinds[k] * exp(self.evidence[task, k])
            total += chance[k]
        for k in range(KINDS):
            chance[k] /= total

    cdef int look(
        self, Events events, Py_ssize_t e, double unit, double V, Opinions* o
    ) except -1 nogil:
        """Prediction and spread of an event, from the origin."""
        if V == 0.0:  # nothing to tell apart yet
            o.x2 = square(events.row(e))
            o.mean = o.spread = 0.0
            return 0
        self.read(events.row(e), events.tasks[e], unit, o, self.room.take(SHARED * self.k))
        self.combine(events.tasks[e], V, o)
        return 0

    cdef int score(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, double* margins
    ) except -1 nogil:
        cdef Opinions o
        cdef Py_ssize_t e
        cdef double unit = self.unit(), V = self.variance()
        for e in range(begin, end):
            self.look(events, e, unit, V, &o)
            # Features whose squares overflow must be refused before they are learned.
            margins[e] = NAN
            if isfinite(o.x2):
                margins[e] = self.clock[ORIGIN] + (self.clock[MEAN] + o.mean)
        return 0

    def spreads(self, Events events not None):
        """Size (n,) of the error to be expected of each event."""
        self.check_idle()
        cdef cnp.npy_intp n = events.n
        cdef cnp.ndarray found = cnp.PyArray_EMPTY(1, &n, cnp.NPY_FLOAT64, 0)
        cdef double* spread = <double*> cnp.PyArray_DATA(found)
        cdef Opinions o
        cdef Py_ssize_t e
        for e in range(events.n):
            self.look(events, e, self.unit(), self.variance(), &o)
            spread[e] = o.spread
        return found

    # --- learning ----------------------------------------------------------------------------

    cdef int learn(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, const double* margins
    ) except -1 nogil:
        cdef Py_ssize_t e
        for e in range(begin, end):
            if events.count(e) > 0.0:
                self.learn_one(events, e, events.labels[e], events.count(e))
        if self.clock[ROWS] >= self.clock[NEXT]:
            self.subspace.draw()
            self.clock[NEXT] = self.clock[ROWS] * (
                GROWTH if self.clock[ROWS] < MANY else SLOW_GROWTH
            )
        return 0

    cdef int learn_one(self, Events events, Py_ssize_t e, double y, double h) except -1 nogil:
        """Learn an event that counts as h; while answers are all alike they are only placed."""
        cdef Opinions o
        cdef Row x = events.row(e)
        cdef double x2 = square(x), V = self.variance()
        cdef bint first = self.clock[ROWS] == 0.0
        if first:  # there is no unit yet, so the first event is its own
            self.count(x2, h)
        if V > 0.0:
            self.personal.reserve(events.tasks[e], n_filled(x))
            self.look(events, e, self.unit(), V, &o)
            self.move_combiners(events.tasks[e], y - self.clock[ORIGIN] - self.clock[MEAN], h, V, &o)
            self.move_learners(
                x, events.tasks[e], y - self.clock[ORIGIN], h, V, &o,
                self.room.take(SHARED * self.k),
            )
        self.place(y, h)
        self.own[events.tasks[e], TASK_LAST] = y - self.clock[ORIGIN]
        self.own[events.tasks[e], TASK_LAST + 1] = 1.0
        if not first:
            self.count(x2, h)
        return 0

    cdef Step step(self, int who, double e, double v, double V, double h, double share) noexcept nogil:
        """A step on an error e of variance v (in units V); the noise is followed.

        The weight of Student's t: an error much larger than expected counts for little.
        """
        cdef Step step
        cdef double s2 = self.noise[who, 0], total = v + s2, trust, found
        trust = (FREEDOM + 1.0) / (FREEDOM + e * e / (V * total))
        step.b = 1.0 / (v + s2 / (trust * share))
        step.a = step.b * e
        found = trust * e * e / V * (s2 / total) * (s2 / total) + v * s2 / total
        self.noise[who, 1] += h
        self.noise[who, 0] += (found - s2) * min(1.0, h * max(1.0 / self.noise[who, 1], FOLLOWING))
        return step

    cdef void move_combiners(
        self, long long task, double t, double h, double V, Opinions* o
    ) noexcept nogil:
        """Learn the answer t, from the mean, and of which kind the task is."""
        cdef Step step
        cdef double e, total, best = -1e300
        cdef double[KINDS] share
        cdef int k
        self.remember(fabs(t - o.mean) / o.spread, h)
        share[0], share[1], share[2] = h * o.chance[0], h, h
        for k in range(KINDS):
            e = t - o.said[k].mean
            total = o.said[k].variance + self.noise[LEARNERS + k, 0] * V
            self.evidence[task, k] -= h * (
                0.5 * log(total / V) + 0.5 * (FREEDOM + 1.0) * log1p(e * e / (FREEDOM * total))
            )
            best = max(best, self.evidence[task, k])
            # Variances of combiners are those of answers: in units here, and back there.
            step = self.step(LEARNERS + k, e, o.said[k].variance / V, V, h, share[k])
            if k == 0:
                self.related.learn(step.a / V, step.b / V, h, &o.said[k])
            elif k == 1:
                self.like_all.learn(step.a / V, step.b / V, h, &o.said[k])
            else:
                self.on_its_own.learn(step.a / V, step.b / V, h, &o.said[k])
        for k in range(KINDS):
            self.evidence[task, k] = max(-SURE, self.evidence[task, k] - best)
        self.chances(task, o.chance)
        for k in range(KINDS):
            self.kinds[k] = max(NONE, self.kinds[k] + (o.chance[k] - self.belief[task, k]))
            self.belief[task, k] = o.chance[k]

    cdef void move_learners(
        self, Row x, long long task, double t, double h, double V, Opinions* o, double* Sx
    ) noexcept nogil:
        """Learn the answer t, from the origin."""
        cdef Step[LEARNERS] step
        cdef double value, change, unit = self.unit()
        cdef double* own
        cdef double* f = &self.factor[task, 0]
        cdef Py_ssize_t k, j
        cdef int c
        for c in range(LEARNERS):
            step[c] = self.step(c, t - o.p[c], o.v[c], V, h, h)
        for k in range(x.n):
            j, value = column(x, k), measured(x.value[k], unit)
            if value == 0.0:  # stored or not, a zero says nothing
                continue
            own = self.personal.touch(task, j)
            change = move(own, own + 1, 1.0, step[ALONE], value)
            for c in range(RANK):  # F = W'B stays true while W moves
                f[c] += change * self.B[j, c]
            move(own + 2, own + 3, APART, step[TOGETHER], value)
            renew(own + 3, APART, h * SLOW_FORGETTING)
        self.move_levels(task, h, step)
        self.move_shared(x, 0, step[GLOBAL], 0.0, Sx)
        self.move_shared(x, 1, step[RECENT], h * FORGETTING, Sx + self.k)
        self.move_shared(x, 2, step[TOGETHER], h * SLOW_FORGETTING, Sx + 2 * self.k)

    cdef void move_levels(self, long long task, double h, const Step* step) noexcept nogil:
        cdef double* own = &self.own[task, 0]
        move(&self.common[0, 0], &self.common[0, 1], 1.0, step[ALONE], 1.0)
        move(own + TASK_ALONE, own + TASK_ALONE + 1, 1.0, step[ALONE], 1.0)
        move(&self.common[1, 0], &self.common[1, 1], 1.0, step[LEVEL], 1.0)
        move(own + TASK_LEVEL, own + TASK_LEVEL + 1, 1.0, step[LEVEL], 1.0)
        move(own + TASK_TOGETHER, own + TASK_TOGETHER + 1, 1.0, step[TOGETHER], 1.0)
        renew(own + TASK_TOGETHER + 1, 1.0, h * SLOW_FORGETTING)

    cdef void move_shared(
        self, Row x, int c, Step step, double rate, const double* Sx
    ) noexcept nogil:
        """w += a S x, S -= b (S x)(S x)'; then the variance of what occurred grows."""
        cdef Py_ssize_t i, j, k
        cdef double* spent
        if self.dense:
            for i in range(self.k):
                if Sx[i] != 0.0:
                    self.mean[c, i] += step.a * Sx[i]
                    spent = &self.full[c, i, 0]
                    for j in range(self.k):
                        spent[j] += step.b * Sx[i] * Sx[j]
        else:
            move_one(&self.mean[c, 0], &self.diagonal[c, 0], step, Sx[0])
            for k in range(x.n):
                if x.value[k] != 0.0:
                    j = column(x, k) + 1
                    move_one(&self.mean[c, j], &self.diagonal[c, j], step, Sx[j])
        if rate > 0.0:
            renew(self.left(c, 0), 1.0, rate)
            for k in range(x.n):
                if x.value[k] != 0.0:
                    renew(self.left(c, column(x, k) + 1), 1.0, rate)

    cdef inline double* left(self, int c, Py_ssize_t j) noexcept nogil:
        return &self.full[c, j, j] if self.dense else &self.diagonal[c, j]

    # --- residuals: how large errors are beside what was expected ----------------------------

    cdef void remember(self, double u, double h) noexcept nogil:
        """Count an error that was u times as large as expected; old ones fade."""
        cdef Py_ssize_t i, n = self.residuals.shape[0]
        for i in range(n):
            self.residuals[i] *= MEMORY
        self.residuals[place_of(u, n)] += h


cdef inline double measured(double x, double unit) noexcept nogil:
    """A value in units; one that would drown all others, and overflow in the end, is cut."""
    return max(-FARTHEST, min(FARTHEST, x * unit))


cdef inline Py_ssize_t place_of(double u, Py_ssize_t n) noexcept nogil:
    """The bin of a residual."""
    if not u > 0.0:
        return 0
    return <Py_ssize_t> min(max(floor((log2(u) + LOWEST) * OCTAVE), 0.0), n - 1.0)


cdef inline void move_one(double* mean, double* spent, Step step, double sx) noexcept nogil:
    mean[0] += step.a * sx
    spent[0] += step.b * sx * sx


cdef inline void renew(double* spent, double prior, double rate) noexcept nogil:
    """Let the variance that is left grow by a factor 1 + rate, up to the prior."""
    cdef double more = min(rate * (prior - spent[0]), spent[0])
    if more > 0.0:
        spent[0] -= more
