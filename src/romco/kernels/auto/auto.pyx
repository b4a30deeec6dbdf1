"""romco-auto: five Gaussian linear learners, and three stacking models on their margins.

Four of the learners are two losses (squared hinge, as AROW; logistic) by two
degrees of sharing (*global*: one vector for all tasks; *alone*: one for each
task). The fifth learns a shared and a personal vector *together* on the squared
hinge. Each has a Gaussian posterior of diagonal covariance over its weights; kept is how much of the
prior variance is spent. From the alone logistic vectors a low-rank U = B F' is computed from time to
time.

The first stacking model has all of them as inputs, one more the two global ones, and one the two alone
ones. The mixture of the three depends on the posterior of the task's kind. Features have units of
their own (scales). A task, or all of them, whose labels became their opposite is reset. The global
logistic learner has the covariances of frequent features. Numbers that are read together lie
together:

    shared   (d, 16)    means and spent variances of margin, logistic, together; row of B (4);
                        mean and spent variance of the learner that forgets; row of B, other side
    factor   (m, 8)     row of F of both sides (subspace)
    personal (m, d, 6)  means and spent variances of margin, logistic, together
    own_intercept (m, 4)   mean and spent variance of alone logistic, and of the task's level
    joint    (n, n)     what is spent of the covariances of the global logistic learner,
    frequent (n,)       and of which features; the first is the intercept
    change   (m, 3)     a TaskChange of each task
    turn     (11,)      a StreamState
"""

import numpy as np
cimport numpy as cnp

from libc.math cimport NAN, exp, fabs, isfinite, log, log1p, tanh
from libc.string cimport memcpy, memset
from romco.kernels.core.prefetch cimport soon
from romco.kernels.auto.stacking cimport KINDS, LIKE_ALL, StackedPrediction, StackingModel, Kinds
from romco.kernels.auto.covariances cimport Covariances
from romco.kernels.auto.gaussians cimport (
    Step, arow, forget, log_sum, logistic, moderate, move, softplus, step_by,
)
from romco.kernels.auto.lanes cimport (
    Steps, Sums, accumulate, accumulate_own, both, clear, load, store, store_sums, update,
)
from romco.kernels.auto.scales cimport Scaled, Units, count_size, unit_of
from romco.kernels.auto.subspace cimport PROJECT, RANK, Subspace, make_orthonormal
from romco.kernels.core.contract cimport Kernel
from romco.kernels.core.events cimport Events, Row
from romco.kernels.core.pairs cimport Pairs

cnp.import_array()

cdef enum:
    MARGIN, LOGISTIC, TOGETHER                 # places of means; spent variances lie WIDTH on
    WIDTH                                      # of means in a row
    GLOBAL = 0                                 # places of outputs: two global ones,
    ALONE = 2                                  # two alone ones,
    BOTH = 4                                   # the one of both vectors,
    DIRECTION = 5                              # the directions of U,
    LEVEL = 9                                  # and the task's level
    CONTEXT = 3                                # numbers kept of a prediction: events before it,
    SETTLED = 1                                # and places of the margins of stacking models,
    FORGETFUL = 2                              # and of the learner that forgets
    OWN_LEVEL = 2                              # place of a task's level in own_intercept
    FORGETS = 2 * WIDTH + 4                    # place of the mean of the learner that forgets
    DIRECTIONS = 2 * WIDTH                     # places of a row of B, on either side
    OTHER_DIRECTIONS = 2 * WIDTH + 6
    ROW = 2 * WIDTH + 10                       # numbers that are shared, of a feature
    TIMES = 2                                  # place in change

cdef double AROW_R = 0.3                       # AROW's r
cdef double AROW_R_JOINT = 1.0                 # the same where both vectors learn together
GLOBAL_PRIOR = 10.0                            # prior variance of the global logistic learner's weights;
                                               # where features are too many for covariances, 1
cdef double global_prior = GLOBAL_PRIOR
cdef double OWN_PRIOR = 0.3                    # prior variance of its personal vector, not 1
TRACKING_FORGETTING = 1e-2                     # share by which the learner that forgets regains variance,
cdef double tracking_forgetting = TRACKING_FORGETTING
TRACKING_PRIOR = 0.2                           # how likely it is to be right before any event,
cdef double tracking_prior = TRACKING_PRIOR
cdef double TRACKING_SHARE = 1e-2              # and the chance per event that this is open again
cdef double MAX_GAIN = 500.0                    # largest log-odds of one event
cdef double DRIFT_PACE = 3e-3                  # of its mean: it is used while that is above the prior
cdef Py_ssize_t LIVE_EVENTS = 100              # predictions without an answer up to which it is used
cdef double SUBSPACE_FIRST_EVENTS = 32.0       # events before U is first computed,
cdef double SHARD_GROWTH = 4.0                 # of all events between two recomputations in shards
cdef double SHARD_EVENTS = 1e299               # time of the next recomputation that marks a shard
cdef double MIN_PROBABILITY = 1e-290           # of an answer, below which only its logarithm is used
cdef double NEWCOMER_EVENTS = 3.0              # events for which a task is held to be like all,
cdef double NEWCOMER_RATE = 0.5                # to begin with: found from tasks that are young,
cdef double NEWCOMER_LOG_RANGE = 3.0           # within this of its logarithm,
cdef double NEWCOMER_MIN_SHARE = 0.02          # and it matters no more below this share
cdef double NEWCOMER_MAX_STEP = 0.5            # of the logarithm of their factor, which is above
cdef double NEWCOMER_MIN_LOG_FACTOR = -5.0     # this
cdef double CUSUM_MAX_STEP = 3.0               # largest log-odds of a turn by one event
cdef double TASK_TURN_LOG_ODDS = 14.0          # log-odds at which a task has turned,
cdef double ALL_TURN_LOG_ODDS = 25.0           # or all of them
cdef double TURN_MIN_TASK_EVENTS = 20.0        # events before which a task cannot turn,
cdef double TURN_MIN_EVENTS = 200.0            # or of all
cdef double TURN_MEAN_RATE = 0.02              # of the means that go along with the stream


cdef struct TaskChange:
    double seen                    # events since the task began,
    double turned                  # log-odds that its answers are the opposite since,
    double times                   # and how often they were found to be


cdef struct StreamState:
    double seen, turned, times     # the same of all tasks
    double mean_margin             # of the last events,
    double mean_wrong              # and how likely the opposite was, in log-odds
    double newness                 # log of how long newcomers are like all, in units of NEWCOMER_EVENTS
    double tracking                # probability that the learner that forgets is right; 0: never
    double drift                   # mean of that over the last events
    double newcomer_log_factor     # of the margins of newcomers, at most 0,
    double lateness                # events between the last answer's prediction and its learning
    double newcomer_curvature      # of the loss by the factor's logarithm, of all newcomers


cdef struct EventOutputs:
    double unit                    # one over the size of a row so far
    double x2                      # |x|^2 in that unit
    double p[5]                    # margins of the learners
    double v[5]                    # their variances
    double z[10]                   # inputs of the stacking models
    StackedPrediction stacked[KINDS]   # predictions of the stacking models
    double margin[KINDS]           # as log-odds,
    double tail[KINDS]             # and the exponential of its size, which is below 1
    double odds[KINDS]             # exponentials of the evidence
    double chance[KINDS]           # probability of each kind of task
    double share                   # how much of the task is a newcomer
    double forgets, forgets_variance   # margin of the learner that forgets, and its variance
    double offset                  # known part of the log-odds, of which nothing is learned


cdef class AutoKernel(Kernel):
    """Views of the learner's arrays and the two verbs; the learner tells what the arrays mean."""

    cdef double[:, ::1] shared, factor, intercept, level, own_intercept, change
    cdef double[::1] clock, turn
    cdef StreamState* stream       # `turn`
    cdef Py_ssize_t unanswered     # predictions since an answer was learned
    cdef Pairs personal
    cdef object places
    cdef Py_ssize_t* pair          # of each entry of the row that was last read: its number, or -1
    cdef Row coming                # the row that is read next, as far as it is known,
    cdef long long coming_task
    cdef void* coming_of           # and whose it is
    cdef Py_ssize_t coming_at
    cdef StackingModel related, like_all, on_its_own
    cdef Kinds kinds
    cdef readonly Subspace subspace
    cdef Units scales
    cdef Covariances covariances
    cdef EventOutputs outputs         # of the event that was read last
    cdef Events late               # events that come late, or None,
    cdef const double[:, ::1] context  # and the context of their predictions

    def __init__(
        self, shared, Pairs personal, Units scales, factor, intercept, level, own_intercept,
        StackingModel related, StackingModel like_all, StackingModel on_its_own, evidence, belief,
        kinds, clock, change, turn, joint, frequent, progress,
    ):
        self.shared, self.personal, self.factor = shared, personal, factor
        self.intercept, self.level, self.own_intercept = intercept, level, own_intercept
        self.related, self.like_all, self.on_its_own = related, like_all, on_its_own
        self.kinds, self.clock = Kinds(evidence, belief, kinds), clock
        self.scales, self.change, self.turn = scales, change, turn
        self.stream, self.unanswered = <StreamState*> &self.turn[0], 0
        self.places = np.empty(len(shared), np.intp)
        self.pair = <Py_ssize_t*> cnp.PyArray_DATA(<cnp.ndarray> self.places)
        self.coming.n, self.coming_of = 0, NULL
        self.late, self.context = None, np.zeros((1, CONTEXT))
        self.covariances = Covariances(
            joint, frequent, shared, intercept, LOGISTIC, WIDTH + LOGISTIC, global_prior
        )
        self.subspace = Subspace(
            shared, DIRECTIONS, OTHER_DIRECTIONS, factor, personal, LOGISTIC, progress
        )

    # --- units -------------------------------------------------------------------------------

    cdef double unit(self) noexcept nogil:
        """One over the size of a row so far; 0 before any: rows have no unit yet."""
        return unit_of(&self.clock[0]) if self.clock[1] > 0.0 else 0.0

    # --- prediction --------------------------------------------------------------------------

    cdef void read(
        self, Scaled x, long long task, double offset, double unit, EventOutputs* o
    ) noexcept nogil:
        """Margins and variances of the learners, and the directions of U.

        The offset is added to all that becomes a loss, and to no input of a stacking model.
        """
        cdef Sums sums
        cdef double[4 * WIDTH + RANK + 2] total
        cdef double* b = total + 2 * WIDTH
        cdef double* v = total + 2 * WIDTH + RANK + 2
        cdef int side = self.subspace.side()
        cdef const double* directions = self.subspace.row(0, side)
        cdef double x2 = x.x2 * unit * unit
        cdef Py_ssize_t k, j, pair
        cdef int c
        cdef const double* all_ = &self.shared[0, 0]
        cdef const double* row = self.personal.dense_row(task)
        cdef const double* stored = self.personal.value
        cdef const Py_ssize_t* pairs = self.pair
        clear(&sums)
        if row != NULL:
            for k in range(x.n):
                j = x.index[k]
                accumulate(&sums, all_ + j * ROW, directions + j * ROW, x.value[k] * unit)
                accumulate_own(&sums, row + j * 2 * WIDTH, x.value[k] * unit)
        else:
            self.find_pairs(x, task)
            for k in range(x.n):
                self.ask_unit(k)
                j, pair = x.index[k], pairs[k]
                accumulate(&sums, all_ + j * ROW, directions + j * ROW, x.value[k] * unit)
                if pair >= 0:  # else it is zeros
                    accumulate_own(&sums, stored + pair * (2 * WIDTH), x.value[k] * unit)
        store_sums(&sums, total)
        o.unit, o.x2, o.offset = unit, x2, offset
        for c in range(TOGETHER):
            o.p[GLOBAL + c], o.v[GLOBAL + c] = total[c], x2 - total[WIDTH + c]
            o.p[ALONE + c], o.v[ALONE + c] = v[c], x2 - v[WIDTH + c]
        o.v[GLOBAL + LOGISTIC] = self.covariances.read(x, unit) \
            + self.covariances.scale * (global_prior * x2 - total[WIDTH + LOGISTIC])
        o.v[GLOBAL + LOGISTIC] = max(0.0, o.v[GLOBAL + LOGISTIC])  # it may be rounding
        o.p[BOTH] = total[TOGETHER] + v[TOGETHER]
        o.v[BOTH] = (1.0 + OWN_PRIOR) * x2 - total[WIDTH + TOGETHER] - v[WIDTH + TOGETHER]
        for c in range(RANK):
            o.z[DIRECTION + c] = b[c] * self.factor[task, side * RANK + c]
        o.forgets = total[FORGETS] + self.level[0, 0]
        o.forgets_variance = x2 - total[FORGETS + 1] + 1.0 - self.level[0, 1]
        o.forgets = moderate(o.forgets, o.forgets_variance) + offset
        self.add_intercepts(task, o)

    cdef void find_pairs(self, Scaled x, long long task) noexcept nogil:
        """Which pairs a row's own numbers are in; asks for them."""
        cdef Py_ssize_t k
        for k in range(x.n):
            self.pair[k] = self.personal.ask_pair(task, x.index[k])

    cdef void add_intercepts(self, long long task, EventOutputs* o) noexcept nogil:
        """The logistic learners have them: global one, alone a common one and one for each task."""
        o.p[GLOBAL + LOGISTIC] += self.intercept[0, 0]
        o.p[ALONE + LOGISTIC] += self.intercept[1, 0] + self.own_intercept[task, 0]
        o.v[ALONE + LOGISTIC] += 2.0 - self.intercept[1, 1] - self.own_intercept[task, 1]

    cdef void combine(self, long long task, EventOutputs* o) noexcept nogil:
        """Compute the stacking models, and the probability of each kind of task."""
        cdef int c
        for c in range(0, 4, 2):  # global, alone
            o.z[c] = o.p[c]
            o.z[c + LOGISTIC] = moderate(o.p[c + LOGISTIC], o.v[c + LOGISTIC])
        o.z[BOTH], o.z[LEVEL] = o.p[BOTH], self.own_intercept[task, OWN_LEVEL]
        self.related.predict(0.0, o.z, &o.stacked[0])
        self.like_all.predict(0.0, o.z + GLOBAL, &o.stacked[1])
        self.on_its_own.predict(0.0, o.z + ALONE, &o.stacked[2])
        for c in range(KINDS):
            o.margin[c] = moderate(o.stacked[c].mean, o.stacked[c].variance) + o.offset
            o.tail[c] = exp(-fabs(o.margin[c]))
        self.kinds.find_odds(task, o.odds)
        self.kinds.find_chances(0.0, o.odds, o.chance)
        o.share = self.newcomer_share(task)

    cdef inline TaskChange* change_of(self, long long task) noexcept nogil:
        return <TaskChange*> &self.change[task, 0]

    cdef double newcomer_share(self, long long task) noexcept nogil:
        """How much of a task of n events is a newcomer: c / (n + c)."""
        cdef double c = NEWCOMER_EVENTS * exp(self.stream.newness)
        return max(0.0, c / (self.change_of(task).seen + c))

    cdef double settled(self, const EventOutputs* o) noexcept nogil:
        """Log-odds of the mixture of kinds; a newcomer's are multiplied by a factor.

        Only what is found out may be less sure of a newcomer, not what is known, the offset.
        """
        cdef double[KINDS] chance
        self.kinds.find_chances(o.share, o.odds, chance)
        return o.offset \
            + (mixed(o, chance) - o.offset) * exp(o.share * self.stream.newcomer_log_factor)

    cdef void learn_newcomers(self, double y, double h, const EventOutputs* o) noexcept nogil:
        """Steps on the log-likelihood of a young task's answer.

        A Newton step of the logarithm of the newcomers' factor; then one up the gradient by the
        logarithm of ``newness``, which is how much likelier the answer makes it that the task
        is a newcomer like all, rather than of the kind that tasks in general are.
        """
        cdef StreamState* stream = self.stream
        cdef double share = o.share, like_all, by_kind = 0.0, total = 0.0
        cdef double likely = 0.0, before, z, miss
        cdef int k
        if share < NEWCOMER_MIN_SHARE:
            return
        z = y * (self.settled(o) - o.offset)
        miss = 1.0 / (1.0 + exp(z + y * o.offset))
        stream.newcomer_curvature = max(
            1.0, stream.newcomer_curvature + h * share * share * z * z * miss * (1.0 - miss)
        )
        z = h * share * z * miss / stream.newcomer_curvature
        z = stream.newcomer_log_factor + max(-NEWCOMER_MAX_STEP, min(NEWCOMER_MAX_STEP, z))
        stream.newcomer_log_factor = max(NEWCOMER_MIN_LOG_FACTOR, min(0.0, z))
        if share >= 1.0:  # nothing tells a newcomer from others yet
            return
        for k in range(KINDS):
            total += self.kinds.count[k]
            by_kind += self.kinds.count[k] * o.odds[k]
            likely += o.chance[k] * likelihood(o, k, y)
        like_all, by_kind = share * o.odds[LIKE_ALL], (1.0 - share) * by_kind / total
        before = like_all / (like_all + by_kind)
        like_all, by_kind = like_all * likelihood(o, LIKE_ALL, y), by_kind * likely
        share = stream.newness + h * NEWCOMER_RATE * (like_all / (like_all + by_kind) - before)
        stream.newness = max(-NEWCOMER_LOG_RANGE, min(NEWCOMER_LOG_RANGE, share))

    cdef int score(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, double* margins
    ) except -1 nogil:
        cdef EventOutputs* o = &self.outputs
        cdef Py_ssize_t e
        cdef double unit = self.unit()
        cdef bint late = not self.followed and self.is_late(end - begin)
        if not self.followed:
            self.unanswered += end - begin
        for e in range(begin, end):
            self.expect(events, e)
            self.read(self.scales.look(events.row(e)), events.tasks[e], events.shift(e), unit, o)
            self.combine(events.tasks[e], o)
            # Features whose squares overflow must be refused before they are learned.
            margins[e] = self.margin(late, o) if isfinite(o.x2) else NAN
        if self.followed and end - begin == 1:  # `learn` need not read it all again
            self.keep_notes(events, begin, end)
        if not self.followed:
            self.coming.n = 0  # the events may be gone before the next row is read
        return 0

    # Memory is asked for while something else is computed: what comes first of the next row, its
    # units and tables, while this one is read; its shared numbers while this one is learned.

    cdef void expect(self, Events events, Py_ssize_t e) noexcept nogil:
        """Event e is read now, and then the one after it; ask for what is not yet asked for."""
        cdef Py_ssize_t k
        cdef bint come = self.coming_of == <void*> events and self.coming_at == e
        self.coming.n = 0
        if events.index == NULL:  # a row after the other is fast by itself
            return
        if not come:
            self.coming, self.coming_task = events.row(e), events.tasks[e]
            for k in range(self.coming.n):
                self.ask_unit(k)
                soon(&self.shared[self.coming.index[k], 0])
                soon(&self.shared[self.coming.index[k], ROW // 2])
        self.coming_of, self.coming_at, self.coming.n = <void*> events, e + 1, 0
        if e + 1 < events.n:
            self.coming, self.coming_task = events.row(e + 1), events.tasks[e + 1]

    cdef inline void ask_unit(self, Py_ssize_t k) noexcept nogil:
        """Ask for the k-th entry's column, and for what tells where its own numbers are."""
        if k < self.coming.n:
            self.scales.ask(self.coming.index[k])
            self.personal.ask_table(self.coming_task, self.coming.index[k])

    # --- learning ----------------------------------------------------------------------------

    cdef int learn(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, const double* margins
    ) except -1 nogil:
        cdef Py_ssize_t e
        cdef bint noted = self.has_notes(events, begin, end)
        cdef const double* then = NULL
        self.unanswered = 0
        for e in range(begin, end):
            if events.count(e) > 0.0:
                if <void*> events == <void*> self.late:
                    then = &self.context[e, 0]
                self.learn_one(
                    events.row(e), events.tasks[e], events.labels[e], events.count(e),
                    events.shift(e), noted, then,
                )
        self.subspace.keep_up(self.clock[1], &self.clock[2], end - begin)
        self.coming.n = 0
        return 0

    cdef int notice(self, Events events, Py_ssize_t begin, Py_ssize_t end) except -1 nogil:
        """Units are learned from all rows: those with labels may have been chosen."""
        cdef Py_ssize_t e
        for e in range(begin, end):
            count_size(&self.clock[0], self.scales.count(events.row(e)).x2, 1.0)
        return 0

    cdef int learn_one(
        self, Row x, long long task, double y, double h, double offset, bint noted,
        const double* then,
    ) except -1 nogil:
        """Learn an event that counts as h of them; ``then`` is the context of its prediction, if late."""
        cdef EventOutputs* o = &self.outputs
        cdef double unit, margin, missed, common = self.scales.common()
        cdef bint first = self.clock[1] == 0.0
        cdef Scaled row
        if not self.personal.dense:
            self.personal.reserve(task, self.scales.n_entries(x))  # first: there may be no memory
        row = self.scales.count_seen(x) if noted else self.scales.count(x)
        if first:  # there is no unit yet, so the first event is its own
            count_size(&self.clock[0], row.x2, h)
        unit = o.unit if noted and not first else self.unit()
        if self.is_shard():
            self.covariances.settle()
        elif self.choose_frequent(row.index, row.n, False):
            noted = False
        if not noted or first or self.scales.common() != common:  # else no unit has changed since
            self.read(row, task, offset, unit, o)
            self.combine(task, o)
        self.move_learners(row, task, y, h, unit, o)
        margin = mixed(o, o.chance)
        missed = softplus(-y * margin)
        if then != NULL and self.clock[1] - then[0] > h:  # not NaN: else it is learned as at once
            self.stream.lateness = self.clock[1] - then[0]
            self.weigh_tracking(h, softplus(-y * then[SETTLED]), softplus(-y * then[FORGETFUL]))
        else:
            self.stream.lateness = 0.0
            self.weigh_tracking(h, missed, softplus(-y * o.forgets))
        self.learn_newcomers(y, h, o)
        self.update_stacking(task, y, h, o)
        self.move_level(task, y, h, margin)
        self.watch(task, y, h, margin, missed, offset)
        if not first:
            count_size(&self.clock[0], row.x2, h)
        return 0

    cdef bint choose_frequent(
        self, const int* counted, Py_ssize_t n, bint leave
    ) noexcept nogil:
        """Choose anew which features have covariances, after n were counted; true if any changed."""
        self.covariances.settle()
        return self.covariances.choose(counted, n, self.scales, leave)

    cdef void move_learners(
        self, Scaled x, long long task, double y, double h, double unit, EventOutputs* o
    ) noexcept nogil:
        cdef Step[5] step
        cdef Step forgets = logistic(y, o.forgets, o.forgets_variance, h)
        cdef Steps steps
        cdef double value
        cdef double hinge = tanh(0.5 * o.offset) if o.offset != 0.0 else 0.0  # 2 P - 1, as it estimates
        cdef const unsigned char* place  # of features with covariances
        cdef double* all_ = &self.shared[0, 0]
        cdef double* row = self.personal.dense_row(task)
        cdef double* stored = self.personal.value
        cdef const Py_ssize_t* pairs = self.pair
        cdef double* own
        cdef double* f
        cdef const int* coming = self.coming.index
        cdef Py_ssize_t n_coming = self.coming.n
        cdef const double* directions = self.subspace.row(0, self.subspace.side())
        cdef Py_ssize_t k, j, pair
        cdef int c
        for c in range(0, 4, 2):  # global, alone
            step[c] = arow(y, o.p[c] + hinge, o.v[c], AROW_R / h)
            step[c + LOGISTIC] = logistic(y, o.z[c + LOGISTIC] + o.offset, o.v[c + LOGISTIC], h)
        step[BOTH] = arow(y, o.p[BOTH] + hinge, o.v[BOTH], AROW_R_JOINT / h)
        place = self.covariances.place if self.covariances.count > 1 else NULL
        self.covariances.move(step[GLOBAL + LOGISTIC])
        if self.subspace.phase() == PROJECT:
            self.follow(x, task, unit, step[ALONE + LOGISTIC].a)
        steps = prepared(step, forgets, h, self.covariances.scale)
        f = &self.factor[task, RANK * self.subspace.side()]
        steps.f[0], steps.f[1] = load(f), load(f + 2)
        for k in range(x.n):
            if k < n_coming:
                soon(all_ + coming[k] * ROW)
                soon(all_ + coming[k] * ROW + ROW // 2)
            value = x.value[k] * unit
            if value == 0.0:  # at the feature's centre
                continue
            j = x.index[k]
            if row != NULL:
                own = row + j * 2 * WIDTH
            else:
                pair = pairs[k] if pairs[k] >= 0 else self.personal.found(task, j)
                own = stored + pair * (2 * WIDTH)
            update(
                &steps, all_ + j * ROW, directions + j * ROW, own, value,
                place != NULL and place[j] > 0,
            )
        store(f, steps.f[0])
        store(f + 2, steps.f[1])
        self.move_intercepts(task, step)
        move(&self.level[0, 0], &self.level[0, 1], 1.0, forgets, 1.0)
        forget(&self.level[0, 1], 1.0, h * tracking_forgetting)

    cdef void follow(self, Scaled x, long long task, double unit, double a) noexcept nogil:
        """Let the next F know of a step of the alone logistic learner."""
        cdef Py_ssize_t k, pair
        cdef double value
        cdef const double* own
        for k in range(x.n):
            value, pair = x.value[k] * unit, self.pair[k]
            if self.personal.dense or pair >= 0:
                own = self.personal.value + (
                    task * self.personal.n_features + x.index[k] if self.personal.dense else pair
                ) * (2 * WIDTH)
                self.subspace.follow(
                    task, x.index[k], pair, a * (1.0 - own[WIDTH + LOGISTIC]) * value
                )

    cdef void move_intercepts(self, long long task, const Step* step) noexcept nogil:
        move(&self.intercept[1, 0], &self.intercept[1, 1], 1.0, step[ALONE + LOGISTIC], 1.0)
        move(
            &self.own_intercept[task, 0], &self.own_intercept[task, 1], 1.0,
            step[ALONE + LOGISTIC], 1.0,
        )

    cdef void move_level(self, long long task, double y, double h, double margin) noexcept nogil:
        """A step of the task's level: by how much its answers exceed the predictions."""
        cdef double* level = &self.own_intercept[task, OWN_LEVEL]
        cdef double v = 1.0 - level[1]
        move(level, level + 1, 1.0, logistic(y, moderate(margin + level[0], v), v, h), 1.0)

    cdef void update_stacking(
        self, long long task, double y, double h, EventOutputs* o
    ) noexcept nogil:
        """The first stacking model learns an event by the probability of its kind, the others whole."""
        cdef double[KINDS] loss
        cdef int k
        for k in range(KINDS):
            loss[k] = h * (log1p(o.tail[k]) + max(0.0, -y * o.margin[k]))
        self.update_one(self.related, y, h * o.chance[0], h, 0, o)
        self.update_one(self.like_all, y, h, h, 1, o)
        self.update_one(self.on_its_own, y, h, h, 2, o)
        self.kinds.learn(task, loss)

    cdef void update_one(
        self, StackingModel model, double y, double share, double h, int k, const EventOutputs* o
    ) noexcept nogil:
        model.update(step_by(y, likelihood(o, k, -y), o.stacked[k].variance, share), &o.stacked[k])
        model.renew(h)

    # --- answers at once, and answers that come late -------------------------------------------

    cdef bint is_late(self, Py_ssize_t n) noexcept nogil:
        """Whether the answers to n events that are predicted now will come late, if at all.

        They do if the last one did, or if none has come for many predictions.
        """
        return self.stream.lateness > LIVE_EVENTS or self.unanswered + n > LIVE_EVENTS

    cdef double margin(self, bint late, const EventOutputs* o) noexcept nogil:
        """Log-odds of an event whose answer comes at once, or late.

        At once the learner that forgets may know better than the stacking models: it knows the last
        answers best.
        """
        cdef double settled = self.settled(o), weight = self.tracking_weight(late)
        return with_other(settled, weight, o.forgets) if weight > 0.0 else settled

    cdef double tracking_weight(self, bint late) noexcept nogil:
        """Weight of the learner that forgets, if the stream drifts and answers come at once."""
        if late or self.stream.drift <= tracking_prior:
            return 0.0
        return self.stream.tracking

    def drift(self):
        """Mean probability, over the last events, that the learner that forgets is right."""
        return self.stream.drift

    cdef void weigh_tracking(self, double h, double missed, double forgets) noexcept nogil:
        """Update the probability that the learner that forgets is right, by both losses."""
        cdef StreamState* stream = self.stream
        stream.tracking = reweighted(stream.tracking, h * (missed - forgets))
        stream.drift += DRIFT_PACE * (stream.tracking - stream.drift)

    def prediction_context(self, Events events not None):
        """Return the number of events learned and two margins of each event (n, 3)."""
        self.check_idle()
        self.drop_notes()
        self.coming.n = 0
        cdef Py_ssize_t e
        cdef EventOutputs o
        cdef double unit = self.unit()
        cdef double[:, ::1] context = np.empty((events.n, CONTEXT))
        for e in range(events.n):
            self.read(self.scales.look(events.row(e)), events.tasks[e], events.shift(e), unit, &o)
            self.combine(events.tasks[e], &o)
            context[e, 0], context[e, SETTLED], context[e, FORGETFUL] = \
                self.clock[1], self.settled(&o), o.forgets
        return np.asarray(context)

    def set_context(self, Events events not None, const double[:, ::1] context not None):
        """Set the context that :meth:`prediction_context` returned for events that are learned next.

        An event whose context is NaN is learned as if its answer came at once.
        """
        self.check_idle()
        if context.shape[0] != events.n or context.shape[1] != CONTEXT:
            raise ValueError(
                f"context must have shape {(events.n, CONTEXT)}; "
                f"got {(context.shape[0], context.shape[1])}"
            )
        self.late, self.context = events, context

    # --- shards -------------------------------------------------------------------------------

    cdef bint is_shard(self) noexcept nogil:
        """Whether this is one of several shards: it sees few tasks, whose errors go together.

        So it cannot tell whether all tasks turn, and neither computes directions nor chooses features
        with covariances alone.
        """
        return self.clock[2] >= SHARD_EVENTS

    # --- tasks whose answers turn -------------------------------------------------------------

    cdef int watch(
        self, long long task, double y, double h, double margin, double missed, double offset
    ) except -1 nogil:
        """Add up evidence that a task, or all of them, answers the opposite of the predictions.

        The opposite of a margin is likelier by the factor exp(-y margin); of all tasks, the
        margin turned about its mean. What turns is the margin without the offset. Sums that fall
        below zero start again at zero (Page's test), and a sum that is large enough means a turn. What goes wrong in all tasks at
        once is no evidence about one.
        """
        cdef TaskChange* one = self.change_of(task)
        cdef StreamState* all_ = self.stream
        cdef double own = margin - offset, wrong = -y * own, gain
        if offset != 0.0:
            wrong = missed - softplus(-y * (offset - own))
        wrong = max(-CUSUM_MAX_STEP, min(CUSUM_MAX_STEP, wrong))
        one.seen += h
        all_.seen += h
        if one.seen > TURN_MIN_TASK_EVENTS:
            one.turned = max(0.0, one.turned + h * (wrong - max(0.0, all_.mean_wrong)))
        if all_.seen > TURN_MIN_EVENTS and not self.is_shard():
            gain = missed - softplus(-y * (2.0 * all_.mean_margin - own + offset))
            all_.turned = max(0.0, all_.turned + h * max(-CUSUM_MAX_STEP, min(CUSUM_MAX_STEP, gain)))
        all_.mean_wrong += TURN_MEAN_RATE * (wrong - all_.mean_wrong)
        all_.mean_margin += TURN_MEAN_RATE * (own - all_.mean_margin)
        if all_.turned > ALL_TURN_LOG_ODDS:
            self.begin_all_anew()
        elif one.turned > TASK_TURN_LOG_ODDS:
            with gil:
                self.begin_anew(task)
        return 0

    def begin_anew(self, long long task):
        """Forget what a task has taught about itself; how it differs from others is learned anew."""
        self.personal.clear(task)
        self.factor[task, :] = 0.0
        self.own_intercept[task, :] = 0.0
        self.kinds.evidence[task, :] = 0.0
        self.change[task, :TIMES] = 0.0
        self.change[task, TIMES] += 1.0

    cdef void begin_all_anew(self) noexcept nogil:
        """Forget all but the units, and the stacking weights."""
        cdef Py_ssize_t pair, task = 0, feature = 0
        cdef double* own
        cdef double times
        cdef int c
        self.shared[:, :] = 0.0
        self.subspace.forget()
        self.covariances.distrust()
        for pair in range(self.personal.count()):
            own = self.personal.visit(pair, &task, &feature)
            for c in range(2 * WIDTH):
                own[c] = 0.0
        self.intercept[:, :] = 0.0
        self.level[:, :] = 0.0
        self.own_intercept[:, :] = 0.0
        self.kinds.evidence[:, :] = 0.0
        self.change[:, :TIMES] = 0.0
        times = self.stream.times + 1.0
        memset(self.stream, 0, sizeof(StreamState))
        self.stream.times, self.stream.tracking = times, tracking_prior
        if not self.is_shard():  # which computes no directions by itself
            self.clock[2] = self.clock[1] + SUBSPACE_FIRST_EVENTS

    # --- what lies behind a margin, for those who explain it -----------------------------------

    def entries(self, Events events not None):
        """What `predict` reads of an event, entry by entry; zeros are left out.

        The chances (n, 5) of the tasks' kinds and of the learner that forgets, and the factor of
        newcomers; where each
        event's entries start (n + 1,), their features (k,), their values in the learners' units
        (k,), and the numbers of their pairs of task and feature (k, 6); last the variances (n, 3) of
        what the logistic learners say, global, alone, and that forgets.
        """
        self.check_idle()
        self.coming.n = 0
        cdef Py_ssize_t e, k
        cdef Scaled x
        starts, features, values, pairs = [0], [], [], []
        cdef double[:, ::1] chances = np.zeros((events.n, KINDS + 2))
        cdef double[:, ::1] variances = np.empty((events.n, 3))
        cdef double share, other = self.tracking_weight(self.is_late(events.n))
        cdef cnp.ndarray own
        cdef EventOutputs o
        for e in range(events.n):
            x = self.scales.look(events.row(e))
            own = np.empty((x.n, 2 * WIDTH))
            for k in range(x.n):
                memcpy(
                    <double*> cnp.PyArray_DATA(own) + k * 2 * WIDTH,
                    self.personal.look(events.tasks[e], x.index[k]), 2 * WIDTH * sizeof(double),
                )
            self.kinds.find_odds(events.tasks[e], o.odds)
            share = self.newcomer_share(events.tasks[e])
            self.kinds.find_chances(share, o.odds, &chances[e, 0])
            chances[e, KINDS] = other
            chances[e, KINDS + 1] = exp(share * self.stream.newcomer_log_factor)
            self.read(x, events.tasks[e], 0.0, self.unit(), &o)
            variances[e, 0] = o.v[GLOBAL + LOGISTIC]
            variances[e, 1] = o.v[ALONE + LOGISTIC]
            variances[e, 2] = o.forgets_variance
            starts.append(starts[e] + x.n)
            features.append(np.array([x.index[k] for k in range(x.n)], np.int32))
            values.append(np.array([x.value[k] for k in range(x.n)]) * self.unit())
            pairs.append(own)
        parts = (np.concatenate(part) for part in (features, values, pairs))
        return np.asarray(chances), np.array(starts), *parts, np.asarray(variances)

    # --- directions of the tasks of all shards: the steps of a recomputation, one by one -------

    def others_change(self):
        """Somebody else changes the arrays: which of their rows are zero must be looked up anew."""
        self.check_idle()
        self.scales.lose_track()
        self.covariances.lose_track()

    def invalidate_caches(self, const int[::1] rows not None):
        """Others have changed rows of what is shared; releases the GIL."""
        self.check_rows(rows)
        self.covariances.distrust()
        with nogil:
            self.scales.invalidate_caches(rows)

    cdef check_rows(self, const int[::1] rows):
        """Raise where a feature is out of range, or the kernel is at work."""
        cdef Py_ssize_t i
        self.check_idle()
        for i in range(rows.shape[0]):
            if not 0 <= rows[i] < self.shared.shape[0]:
                raise ValueError(f"feature {rows[i]} is out of range")

    def read_block(self):
        """Means and spent covariances (1 + n, n) of the global logistic learner's frequent features."""
        self.check_idle()
        return self.covariances.read_block()

    def put_block(self, const double[:, ::1] block not None):
        """Replace what :meth:`read_block` returned."""
        self.check_idle()
        self.covariances.put_block(block)

    def choose_after_merge(self, const int[::1] rows not None):
        """Choose the features with covariances from merged rows; return whether any changed."""
        cdef Py_ssize_t n = rows.shape[0]
        cdef bint changed
        self.check_rows(rows)
        with nogil:
            changed = self.choose_frequent(&rows[0] if n else NULL, n, True)
        return changed

    def restart_subspace(self):
        """Give up a recomputation of the subspace that is under way."""
        self.check_idle()
        self.subspace.restart()

    def gather_directions(self, const int[::1] rows not None):
        """Rows (t, 4) of W W'B, of these tasks; releases the GIL."""
        self.check_idle()
        self.busy = True
        try:
            return self.subspace.gather(rows)
        finally:
            self.busy = False

    def put_directions(self, const int[::1] rows not None, const double[:, ::1] values not None):
        """Replace B by these rows and F by W'B, of these tasks; releases the GIL."""
        self.check_idle()
        self.busy = True
        try:
            self.subspace.put(rows, values)
        finally:
            self.busy = False

    def orthogonalise_directions(self, double[:, ::1] values not None):
        """Directions (t, 4) of all that is not zero made orthonormal; sets when to recompute next."""
        self.check_idle()
        make_orthonormal(values)
        self.clock[2] = SHARD_GROWTH * self.clock[1]


cdef Steps prepared(
    const Step* step, Step forgets, double h, double scale
) noexcept nogil:
    """The steps of the learners along each entry, side by side.

    Where covariances are known, they move the global logistic learner.
    """
    cdef Steps t
    t.a_all[0] = both(step[GLOBAL + MARGIN].a, step[GLOBAL + LOGISTIC].a * scale)
    t.b_all[0] = both(step[GLOBAL + MARGIN].b, step[GLOBAL + LOGISTIC].b * scale)
    t.a_all[1] = both(step[GLOBAL + MARGIN].a, 0.0)
    t.b_all[1] = both(step[GLOBAL + MARGIN].b, 0.0)
    t.a_own = both(step[ALONE + MARGIN].a, step[ALONE + LOGISTIC].a)
    t.b_own = both(step[ALONE + MARGIN].b, step[ALONE + LOGISTIC].b)
    t.a_both, t.b_both = both(step[BOTH].a, step[BOTH].a), both(step[BOTH].b, step[BOTH].b)
    t.prior_all, t.prior_own = both(1.0, global_prior), both(1.0, 1.0)
    t.prior_both = both(1.0, OWN_PRIOR)
    t.a_forgets, t.b_forgets, t.forgetting = forgets.a, forgets.b, h * tracking_forgetting
    return t


cdef inline double likelihood(const EventOutputs* o, int k, double y) noexcept nogil:
    """Probability of an answer by a stacking model."""
    return (1.0 if y * o.margin[k] > 0.0 else o.tail[k]) / (1.0 + o.tail[k])


cdef double mixed(const EventOutputs* o, const double* chance) noexcept nogil:
    """Log-odds of the mixture of the stacking models."""
    cdef double yes = 0.0, no = 0.0
    cdef int k
    for k in range(KINDS):
        yes += chance[k] * likelihood(o, k, 1.0)
        no += chance[k] * likelihood(o, k, -1.0)
    if yes > MIN_PROBABILITY and no > MIN_PROBABILITY:
        return log(yes / no)
    yes, no = log(chance[0]) - softplus(-o.margin[0]), log(chance[0]) - softplus(o.margin[0])
    for k in range(1, KINDS):
        yes = log_sum(yes, log(chance[k]) - softplus(-o.margin[k]))
        no = log_sum(no, log(chance[k]) - softplus(o.margin[k]))
    return yes - no


cdef double with_other(double margin, double weight, double other) noexcept nogil:
    """Log-odds of a mixture of two, the other with this probability."""
    cdef double odds = log(weight / (1.0 - weight))
    return (
        log_sum(-softplus(-margin), odds - softplus(-other))
        - log_sum(-softplus(margin), odds - softplus(other))
    )


cdef double reweighted(double weight, double gain) noexcept nogil:
    """Probability that the other is right, whose loss is less by this: Bayes' rule, fixed share."""
    cdef double right = weight * exp(min(gain, MAX_GAIN))
    if weight <= 0.0:
        return 0.0
    weight = right / (right + 1.0 - weight)
    return weight + TRACKING_SHARE * (tracking_prior - weight)
