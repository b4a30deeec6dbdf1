"""romco-auto: five Gaussian linear learners, and three combiners (regressions on what they say).

Four of the learners are two losses (squared hinge, as AROW; logistic) by two
degrees of sharing (*global*: one vector for all tasks; *alone*: one for each
task). The fifth learns a shared and a personal vector *together* on the squared
hinge, and forgets. Each believes in weights with a Gaussian of diagonal
covariance, part of whose prior variance is spent as events come in. From the
alone logistic vectors a low-rank U = B F' is drawn from time to time.

The first combiner hears all of them, one more hears the two global ones, and one
the two alone ones. Each task is believed by evidence to be of the kind that
one of the combiners knows best. Numbers that are read together lie together:

    shared   (d, 10)    means and spent variances of margin, logistic, together; row of B (4)
    personal (m, d, 6)  means and spent variances of margin, logistic, together
"""

from libc.math cimport NAN, exp, isfinite, log
from romco.kernels.auto.combiners cimport Combination, Combiner
from romco.kernels.auto.gaussians cimport Step, arow, forget, log_sum, logistic, moderate, move, softplus
from romco.kernels.contract cimport Kernel
from romco.kernels.auto.subspace cimport RANK, Subspace
from romco.kernels.events cimport Events, Row, column, square
from romco.kernels.stores.pairs cimport Pairs

cdef enum:
    MARGIN, LOGISTIC, TOGETHER                 # places of means; spent variances lie WIDTH on
    WIDTH                                      # of means in a row
    GLOBAL = 0                                 # places of opinions: two global ones,
    ALONE = 2                                  # two alone ones,
    BOTH = 4                                   # the one of both vectors,
    DIRECTION = 5                              # the directions of U,
    LEVEL = 9                                  # and a constant
    KINDS = 3                                  # of tasks: related, like all others, on their own

cdef double SLACK = 0.3                        # AROW's r
cdef double PATIENCE = 1.0                     # the same where both vectors learn together
cdef double APART = 0.3                        # prior variance of its personal vector, not 1
FORGETTING = 3e-4                              # share of its variance that comes back
cdef double forgetting = FORGETTING
cdef double SURE = 20.0                        # evidence is kept within this: a task may change
cdef double NONE = 1e-300                      # least number of tasks of a kind, for rounding
cdef double FIRST_DRAWING = 32.0               # events before U is first drawn,
cdef double GROWTH = 1.25                      # then whenever there are so many times as many;
cdef double MANY = 10000.0                     # later, when tasks' vectors have settled,
cdef double SLOW_GROWTH = 2.0                  # less often


cdef struct Opinions:
    double x2                      # |x|^2 in units of the stream
    double p[5]                    # margins of the learners
    double v[5]                    # their variances
    double z[10]                   # what the combiners hear
    Combination said[KINDS]            # what they say
    double chance[KINDS]           # that the task is of the kind each combiner knows best


cdef class AutoKernel(Kernel):
    """Views of the learner's arrays and the two verbs; the learner tells what the arrays mean."""

    cdef double[:, ::1] shared, factor, intercept, own_intercept, evidence, belief
    cdef double[::1] kinds, clock
    cdef Pairs personal
    cdef Combiner related, like_all, on_its_own
    cdef Subspace subspace

    def __init__(
        self, shared, Pairs personal, factor, intercept, own_intercept, Combiner related,
        Combiner like_all, Combiner on_its_own, evidence, belief, kinds, clock,
    ):
        self.shared, self.personal, self.factor = shared, personal, factor
        self.intercept, self.own_intercept = intercept, own_intercept
        self.related, self.like_all, self.on_its_own = related, like_all, on_its_own
        self.evidence, self.belief, self.kinds, self.clock = evidence, belief, kinds, clock
        self.subspace = Subspace(shared[:, 2 * WIDTH:], factor, personal, LOGISTIC)

    # --- units -------------------------------------------------------------------------------

    cdef double unit(self) noexcept nogil:
        """One over the geometric mean of |x| so far; a single odd event cannot move it far."""
        return exp(-0.5 * self.clock[0] / self.clock[1]) if self.clock[1] > 0.0 else 1.0

    cdef void count(self, double x2, double h) noexcept nogil:
        if x2 > 0.0:
            self.clock[0] += h * log(x2)
            self.clock[1] += h

    # --- what is said about an event ---------------------------------------------------------

    cdef void read(self, Row x, long long task, double unit, Opinions* o) noexcept nogil:
        """Margins and variances of the learners, and the directions of U."""
        cdef double[WIDTH] u, v, su, sv
        cdef double[RANK] b
        cdef double value, value2, x2 = 0.0
        cdef const double* all_
        cdef const double* own
        cdef Py_ssize_t k, j
        cdef int c
        for c in range(WIDTH):
            u[c] = v[c] = su[c] = sv[c] = 0.0
        for c in range(RANK):
            b[c] = 0.0
        for k in range(x.n):
            j = column(x, k)
            value = x.value[k] * unit
            value2 = value * value
            x2 += value2
            all_, own = &self.shared[j, 0], self.personal.look(task, j)
            for c in range(WIDTH):
                u[c] += value * all_[c]
                v[c] += value * own[c]
                su[c] += value2 * all_[WIDTH + c]
                sv[c] += value2 * own[WIDTH + c]
            for c in range(RANK):
                b[c] += value * all_[2 * WIDTH + c]
        o.x2 = x2
        for c in range(TOGETHER):
            o.p[GLOBAL + c], o.v[GLOBAL + c] = u[c], x2 - su[c]
            o.p[ALONE + c], o.v[ALONE + c] = v[c], x2 - sv[c]
        o.p[BOTH] = u[TOGETHER] + v[TOGETHER]
        o.v[BOTH] = (1.0 + APART) * x2 - su[TOGETHER] - sv[TOGETHER]
        for c in range(RANK):
            o.z[DIRECTION + c] = b[c] * self.factor[task, c]
        self.add_intercepts(task, o)

    cdef void add_intercepts(self, long long task, Opinions* o) noexcept nogil:
        """The logistic learners have them: global one, alone a common one and one for each task."""
        o.p[GLOBAL + LOGISTIC] += self.intercept[0, 0]
        o.v[GLOBAL + LOGISTIC] += 1.0 - self.intercept[0, 1]
        o.p[ALONE + LOGISTIC] += self.intercept[1, 0] + self.own_intercept[task, 0]
        o.v[ALONE + LOGISTIC] += 2.0 - self.intercept[1, 1] - self.own_intercept[task, 1]

    cdef void combine(self, long long task, Opinions* o) noexcept nogil:
        """What the combiners say, and how much each of them matters for the task."""
        cdef int c
        for c in range(0, 4, 2):  # global, alone
            o.z[c] = o.p[c]
            o.z[c + LOGISTIC] = moderate(o.p[c + LOGISTIC], o.v[c + LOGISTIC])
        o.z[BOTH], o.z[LEVEL] = o.p[BOTH], 1.0
        self.related.combine(o.z, &o.said[0])
        self.like_all.combine(o.z + GLOBAL, &o.said[1])
        self.on_its_own.combine(o.z + ALONE, &o.said[2])
        self.chances(task, o.chance)

    cdef void chances(self, long long task, double* chance) noexcept nogil:
        """Bayes' rule: a kind is likely if many tasks are of it and if it explains this one."""
        cdef double total = 0.0
        cdef int k
        for k in range(KINDS):
            chance[k] = self.kinds[k] * exp(self.evidence[task, k])
            total += chance[k]
        for k in range(KINDS):
            chance[k] /= total

    cdef int score(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, double* margins
    ) except -1 nogil:
        cdef Opinions o
        cdef Py_ssize_t e
        cdef double unit = self.unit()
        for e in range(begin, end):
            self.read(events.row(e), events.tasks[e], unit, &o)
            self.combine(events.tasks[e], &o)
            # Features whose squares overflow must be refused before they are learned.
            margins[e] = mixed(&o) if isfinite(o.x2) else NAN
        return 0

    # --- learning ----------------------------------------------------------------------------

    cdef int learn(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, const double* margins
    ) except -1 nogil:
        cdef Py_ssize_t e
        for e in range(begin, end):
            if events.count(e) > 0.0:
                self.learn_one(
                    events.row(e), events.tasks[e], events.labels[e], events.count(e)
                )
        if self.clock[1] >= self.clock[2]:
            self.subspace.draw()
            self.wait()
        return 0

    cdef void wait(self) noexcept nogil:
        """Set when to draw next."""
        self.clock[2] = self.clock[1] * (GROWTH if self.clock[1] < MANY else SLOW_GROWTH)

    cdef int learn_one(self, Row x, long long task, double y, double h) except -1 nogil:
        """Learn an event that counts as h of them."""
        cdef Opinions o
        cdef double unit, x2 = square(x)
        cdef bint first = self.clock[1] == 0.0
        if first:  # there is no unit yet, so the first event is its own
            self.count(x2, h)
        unit = self.unit()
        self.read(x, task, unit, &o)
        self.combine(task, &o)
        self.personal.reserve(x.n)
        self.move_learners(x, task, y, h, unit, &o)
        self.move_combiners(task, y, h, &o)
        if not first:
            self.count(x2, h)
        return 0

    cdef void move_learners(
        self, Row x, long long task, double y, double h, double unit, Opinions* o
    ) noexcept nogil:
        cdef Step[5] step
        cdef double value, change
        cdef double* all_
        cdef double* own
        cdef double* f = &self.factor[task, 0]
        cdef Py_ssize_t k, j
        cdef int c
        for c in range(0, 4, 2):  # global, alone
            step[c] = arow(y, o.p[c], o.v[c], SLACK / h)
            step[c + LOGISTIC] = logistic(y, o.p[c + LOGISTIC], o.v[c + LOGISTIC], h)
        step[BOTH] = arow(y, o.p[BOTH], o.v[BOTH], PATIENCE / h)
        for k in range(x.n):
            j = column(x, k)
            value = x.value[k] * unit
            if value == 0.0:  # stored or not, a zero says nothing
                continue
            all_, own = &self.shared[j, 0], self.personal.touch(task, j)
            for c in range(TOGETHER):
                move(all_ + c, all_ + WIDTH + c, 1.0, step[GLOBAL + c], value)
            move(own + MARGIN, own + WIDTH + MARGIN, 1.0, step[ALONE + MARGIN], value)
            change = move(
                own + LOGISTIC, own + WIDTH + LOGISTIC, 1.0, step[ALONE + LOGISTIC], value
            )
            for c in range(RANK):  # F = W'B stays true while W moves
                f[c] += change * all_[2 * WIDTH + c]
            move(all_ + TOGETHER, all_ + WIDTH + TOGETHER, 1.0, step[BOTH], value)
            move(own + TOGETHER, own + WIDTH + TOGETHER, APART, step[BOTH], value)
            forget(all_ + WIDTH + TOGETHER, 1.0, h * forgetting)
            forget(own + WIDTH + TOGETHER, APART, h * forgetting)
        self.move_intercepts(task, step)

    cdef void move_intercepts(self, long long task, const Step* step) noexcept nogil:
        move(&self.intercept[0, 0], &self.intercept[0, 1], 1.0, step[GLOBAL + LOGISTIC], 1.0)
        move(&self.intercept[1, 0], &self.intercept[1, 1], 1.0, step[ALONE + LOGISTIC], 1.0)
        move(
            &self.own_intercept[task, 0], &self.own_intercept[task, 1], 1.0,
            step[ALONE + LOGISTIC], 1.0,
        )

    cdef void move_combiners(
        self, long long task, double y, double h, Opinions* o
    ) noexcept nogil:
        """The first combiner learns an event by the chance of its kind, the others whole."""
        self.related.learn(y, h, h * o.chance[0], &o.said[0])
        self.like_all.learn(y, h, h, &o.said[1])
        self.on_its_own.learn(y, h, h, &o.said[2])
        self.weigh(task, y, h, o)

    cdef void weigh(self, long long task, double y, double h, Opinions* o) noexcept nogil:
        """How well each combiner did is evidence of the task's kind, and of kinds in general."""
        cdef double best = -1e300
        cdef int k
        for k in range(KINDS):
            self.evidence[task, k] -= h * softplus(-y * o.said[k].margin)
            best = max(best, self.evidence[task, k])
        for k in range(KINDS):
            self.evidence[task, k] = max(-SURE, self.evidence[task, k] - best)
        self.chances(task, o.chance)
        for k in range(KINDS):
            self.kinds[k] = max(NONE, self.kinds[k] + (o.chance[k] - self.belief[task, k]))
            self.belief[task, k] = o.chance[k]

    # --- drawing with the tasks of other shards: the steps of a drawing, one by one ----------

    def seed_directions(self):
        """Whether some directions start anew."""
        self.check_idle()
        return self.subspace.seed()

    def gather_directions(self):
        """B = W F, of these tasks."""
        self.check_idle()
        self.subspace.gather()

    def orthogonalise_directions(self):
        """B made orthonormal; sets when to draw next."""
        self.check_idle()
        self.subspace.orthogonalise()
        self.wait()

    def project_directions(self):
        """F = W'B, of these tasks."""
        self.check_idle()
        self.subspace.project()


cdef double mixed(const Opinions* o) noexcept nogil:
    """Log-odds of an answer that comes from one of the combiners, by chance."""
    cdef double yes, no
    cdef int k
    yes = log(o.chance[0]) - softplus(-o.said[0].margin)
    no = log(o.chance[0]) - softplus(o.said[0].margin)
    for k in range(1, KINDS):
        yes = log_sum(yes, log(o.chance[k]) - softplus(-o.said[k].margin))
        no = log_sum(no, log(o.chance[k]) - softplus(o.said[k].margin))
    return yes - no
