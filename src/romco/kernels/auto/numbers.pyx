"""romco-auto for numbers: four Gaussian linear models and three stacking regressions.

The models are one vector for all tasks (*global*), one for each task (*alone*), an intercept for
each task (*level*), and a shared plus a personal vector that forget slowly (*together*). Each is a
Gaussian over weights. Shared vectors keep their full covariance where there are few features,
else its diagonal. Errors follow Student's t with four degrees of freedom, so that an
outlier moves little; each model tracks the size of its own noise.

A first stacking regression combines the four models, with weights that sum to one, and four directions
of a low-rank U. One more input is what the personal slopes of *together* add: its weight shrinks them
where slopes vary less between tasks than the prior says. A second regression has the shared vectors
only, a third the task's own. Their mixture depends on nothing but features and task. For streams that
drift, one more regression predicts its residual from that of the task's last answer and the mean of
the last ones of all tasks. Where the mixture explains the answers, residuals are noise and the
correction vanishes: the model that was measured with answers at once is the one that predicts long
after the last answer.

Features have units of their own and are centred (`scales`). Answers are measured from the first
one, variances in units of the answers' variance: shifting or scaling the answers changes nothing.

    mean     (2, d + 1)            weights of global, together; the intercept comes first
    spent    (2, d + 1[, d + 1])   prior variance less posterior variance
    personal (m, d, 4)             mean and spent variance of alone, of together
    own      (m, 8)                a Task each
    common   (2, 2)                mean and spent variance of the intercepts of alone, level
    noise    (8, 2)                a Noise for each model and regression
    clock    (9,)                  a Clock
"""

import numpy as np
cimport numpy as cnp
from libc.math cimport NAN, exp, fabs, floor, isfinite, log, log1p, log2, sqrt
from libc.string cimport memset
from romco.kernels.auto.stacking cimport KINDS, LIKE_ALL, StackedPrediction, StackingModel, Kinds
from romco.kernels.auto.gaussians cimport Step, forget, move
from romco.kernels.auto.columns cimport FAR, Column, factor_of, scaled, spreads
from romco.kernels.auto.scales cimport Scaled, Scales, count_size, found, unit_of
from romco.kernels.auto.subspace cimport PROJECT, RANK, Subspace
from romco.kernels.core.memory cimport Scratch
from romco.kernels.core.contract cimport Kernel
from romco.kernels.core.events cimport Events, Row
from romco.kernels.core.pairs cimport Pairs

cnp.import_array()

cdef enum:
    GLOBAL, ALONE, LEVEL, TOGETHER, MODELS
    SLOPES = 3                                 # stacking inputs after GLOBAL, ALONE and LEVEL: what
    DIRECTION = 4                              # the task's own weights add to together; directions
    INPUTS = 8
    RELATED = 0                                # kinds of tasks; each has a regression
    ON_ITS_OWN = 2
    DRIFT = 7                                  # after the models and the kinds: the correction
    ESTIMATORS = 8                             # that track their noise
    SHARED = 2                                 # models with a shared vector
    BINS_PER_DOUBLING = 8                      # of residuals,
    LOWEST_DOUBLING = 8                        # from 2^-8 of the expected size

cdef double DEGREES_OF_FREEDOM = 4.0
cdef double PERSONAL_PRIOR = 0.3               # prior variance of a task's weight in together
cdef double FORGETTING = 3e-4                  # share of its variance that together regains per event
cdef double NOISE_PACE = 1e-3                  # least weight of an event in the noise estimate
cdef double DRIFT_PACE = 0.05                  # weight of an event in the mean residual
cdef Py_ssize_t LIVE_EVENTS = 100              # predictions without an answer that still track drift
cdef double INTERVAL_MEMORY = 0.993            # of residuals, per event
cdef double MAX_VALUE = 1e4                    # of a feature, in units of the usual row
cdef double SETTLED_SHIFT = 0.25               # sizes by which a centre may be off,
cdef double SETTLED_RATIO = 1.25               # and factor of a unit, before it is replaced
cdef Py_ssize_t MAX_SEARCH = 1 << 16           # pairs of task and feature that are searched for one
cdef double MAX_REBASE = 1e3                   # ratio of units beyond which weights are forgotten,
cdef double MAX_SHIFT = FAR                    # and move of a centre, in units: values there were cut
cdef double LEAST_NOISE = 1e-10                # relative: smaller is rounding
cdef double LEAST_VARIANCE = 1e-250            # of answers: below it they are all alike
cdef double MAX_STEP = 1e200                   # beyond it an event is refused


cdef struct Clock:
    double log_squares, rows       # sum of log |x|^2, and of how many events
    double next_subspace           # events at which the subspace is recomputed
    double events, origin, mean, squares  # of answers: count, the first, mean from there, spread
    double residual                # mean of the last ones
    double unit                    # one over the size of the usual row


cdef struct Task:                  # mean and spent variance of its intercepts; its last residual,
    double alone, alone_spent, level, level_spent, together, together_spent
    double residual, answer        # and answer, from the origin


cdef struct Noise:
    double variance, events        # in units of the answers' variance


cdef struct Prediction:
    double x2
    double p[MODELS]               # predictions from the origin
    double v[MODELS]               # their variances, in units
    double z[INPUTS]               # stacking inputs: differences from together, its slopes, directions
    StackedPrediction combined[KINDS]
    double chance[KINDS]
    double everybody               # shared part of together, from the origin
    double mean, spread            # of the mixture of kinds, from the mean
    double recent[3]               # last residual, mean residual, last answer less the mixture
    StackedPrediction correction   # for drift


cdef struct Plan:                  # steps of an event, computed before anything changes
    Step step[ESTIMATORS]
    double noise[ESTIMATORS]


cdef class AutoNumberKernel(Kernel):
    """Views of the learner's arrays, and its ``score`` and ``learn``."""

    cdef double[:, ::1] mean, own, common, noise, factor
    cdef double[:, :, ::1] full    # spent covariances, or nothing
    cdef double[:, ::1] diagonal   # spent variances, or nothing
    cdef double[::1] clocks, residuals
    cdef Clock* clock
    cdef Pairs personal
    cdef StackingModel related, like_all, on_its_own, drift
    cdef Kinds kinds
    cdef Scales scales
    cdef readonly Subspace subspace
    cdef Scratch room, columns
    cdef Prediction noted_prediction  # of the event that was read last,
    cdef Scaled row                # and its features
    cdef Py_ssize_t k              # weights of a shared vector
    cdef Py_ssize_t unanswered     # events predicted since the last answer
    cdef bint dense

    def __init__(
        self, mean, spent, Pairs personal, own, common, noise, factor, directions,
        StackingModel related, StackingModel like_all, StackingModel on_its_own,
        StackingModel drift, Scales scales, evidence, belief, kinds, clock, residuals, progress,
    ):
        self.mean, self.own, self.common, self.noise = mean, own, common, noise
        self.dense = spent.ndim == 3
        if self.dense:
            self.full = spent
        else:
            self.diagonal = spent
        self.personal, self.factor, self.scales = personal, factor, scales
        self.related, self.like_all, self.on_its_own = related, like_all, on_its_own
        self.drift = drift
        self.kinds = Kinds(evidence, belief, kinds)
        self.clocks, self.residuals = clock, residuals
        self.clock = <Clock*> &self.clocks[0]
        self.subspace = Subspace(directions, 0, RANK, factor, personal, 0, progress)
        self.k, self.unanswered = mean.shape[1], 0
        self.room, self.columns = Scratch(), Scratch()

    # --- units -------------------------------------------------------------------------------

    cdef Scaled measure(self, Row x) noexcept nogil:
        """Return a row in the units in use; new features get units from this row."""
        cdef Scaled row = self.scales.look(x)
        cdef const Column* c
        cdef Py_ssize_t k, n, n_fresh = self.scales.n_fresh
        cdef double value, x2 = 0.0
        if n_fresh == 0 or not isfinite(row.x2):
            return row
        for k in range(n_fresh):
            n = self.scales.fresh_at[k]
            c, value = <const Column*> &self.scales.columns[self.scales.index[n], 0], self.scales.given[n]
            self.scales.value[n] = scaled(c, value) if c.size > 0.0 \
                else value * factor_of(fabs(value), self.scales.common())
        for n in range(self.scales.n_seen):
            x2 += self.scales.value[n] * self.scales.value[n]
        return found(self.scales.n_seen, self.scales.index, self.scales.value, x2)

    cdef int count(self, Row x, double x2, double h) except -1 nogil:
        """Count the last row; replace units that are far off."""
        cdef Column* c
        cdef Column* old
        cdef Py_ssize_t k, n = self.scales.n_fresh
        cdef double unit
        old = <Column*> self.columns.take(n * sizeof(Column) // sizeof(double))
        for k in range(n):
            old[k] = (<Column*> &self.scales.columns[self.scales.index[self.scales.fresh_at[k]], 0])[0]
        self.scales.count_seen(x)
        for k in range(n):
            c = <Column*> &self.scales.columns[self.scales.index[self.scales.fresh_at[k]], 0]
            if not spreads(c):  # a constant or an indicator is not centred
                c.centre, c.size = 0.0, sqrt(c.square / c.count)
                c.factor = factor_of(c.size, self.scales.common())
            if old[k].size == 0.0:
                continue
            if fabs(c.centre - old[k].centre) <= SETTLED_SHIFT * old[k].size \
                    and alike(c.factor, old[k].factor):
                c.centre, c.size, c.factor = old[k].centre, old[k].size, old[k].factor
            elif c.centre != 0.0 and not spreads(&old[k]):  # constant so far
                self.rebase(
                    self.scales.index[self.scales.fresh_at[k]], 0.0,
                    self.clock.unit * old[k].factor * old[k].total / old[k].count,
                )
            else:
                self.rebase(
                    self.scales.index[self.scales.fresh_at[k]], old[k].factor / c.factor,
                    self.clock.unit * old[k].factor * (c.centre - old[k].centre),
                )
        for k in range(n):
            self.scales.list_size(self.scales.index[self.scales.fresh_at[k]])
        count_size(&self.clock.log_squares, x2, h)
        unit = unit_of(&self.clock.log_squares)
        if not alike(unit, self.clock.unit):
            if self.clock.unit > 0.0:
                self.rebase_all(self.clock.unit / unit)
            self.clock.unit = unit
        return 0

    cdef void rebase(self, Py_ssize_t j, double ratio, double shift) noexcept nogil:
        """Express weights in a new unit and centre of a feature; its prior is that of the new unit.

        In the old prior the weight times ``ratio`` and the intercept plus ``shift`` times the weight
        make the same predictions. A ``ratio`` of 0 forgets the weight. Where there are many pairs, the
        personal weights of the feature stay as they are.
        """
        cdef Py_ssize_t pair, task = 0, feature = 0
        cdef double* own
        cdef int c
        if not fabs(shift) < MAX_SHIFT or not fabs(log(ratio)) < log(MAX_REBASE):
            shift, ratio = shift if fabs(shift) < MAX_SHIFT else 0.0, 0.0
        for c in range(SHARED):
            self.rebase_shared(c, j + 1, ratio, shift)
        if self.personal.dense:
            for task in range(self.own.shape[0]):
                self.rebase_pair(task, j, self.personal.touch(task, j), ratio, shift)
        elif self.personal.used <= MAX_SEARCH:
            for pair in range(self.personal.used):
                own = self.personal.visit(pair, &task, &feature)
                if feature == j:
                    self.rebase_pair(task, j, own, ratio, shift)

    cdef void rebase_all(self, double ratio) noexcept nogil:
        """Express all weights in a new unit of rows."""
        cdef Py_ssize_t j, pair, task = 0, feature = 0
        cdef double* own
        cdef int c
        for c in range(SHARED):
            for j in range(1, self.k):
                self.rebase_shared(c, j, ratio, 0.0)
        for pair in range(self.personal.count()):
            own = self.personal.visit(pair, &task, &feature)
            self.rebase_pair(task, feature, own, ratio, 0.0)

    cdef void rebase_pair(
        self, Py_ssize_t task, Py_ssize_t j, double* pair, double ratio, double shift
    ) noexcept nogil:
        cdef Task* own = <Task*> &self.own[task, 0]
        cdef double before = pair[0]
        rebase_one(pair, pair + 1, &own.alone, &own.alone_spent, 1.0, ratio, shift)
        rebase_one(
            pair + 2, pair + 3, &own.together, &own.together_spent, PERSONAL_PRIOR, ratio, shift
        )
        self.follow(task, j, pair, pair[0] - before)

    cdef inline void follow(
        self, Py_ssize_t task, Py_ssize_t j, const double* pair, double change
    ) noexcept nogil:
        """Update F = W'B for a change of W."""
        cdef int c, side = self.subspace.side()
        cdef double* f = &self.factor[task, RANK * side]
        cdef const double* b = self.subspace.row(j, side)
        for c in range(RANK):
            f[c] += change * b[c]
        if self.subspace.phase() == PROJECT:
            self.subspace.follow(
                task, j, (pair - self.personal.value) // self.personal.width, change
            )

    cdef void rebase_shared(self, int c, Py_ssize_t j, double ratio, double shift) noexcept nogil:
        """Express a shared vector in a new unit: S becomes T S T', the prior precision of w_j 1."""
        cdef Py_ssize_t i, k
        cdef double variance, share, left
        cdef double* w = &self.mean[c, 0]
        cdef double* first
        cdef double* own
        if not self.dense:
            rebase_one(w + j, &self.diagonal[c, j], w, &self.diagonal[c, 0], 1.0, ratio, shift)
            return
        first, own = &self.full[c, 0, 0], &self.full[c, j, 0]  # rows of 1 - S
        if own[j] == 0.0:  # never learned
            return
        variance = 1.0 - own[j]
        w[0] += shift * w[j]
        w[j] *= ratio
        first[0] += shift * (2.0 * first[j] - shift * variance)
        own[0] = ratio * (first[j] - shift * variance)
        for i in range(1, self.k):
            if i != j:
                first[i] += shift * own[i]
                self.full[c, i, 0] = first[i]
                own[i] *= ratio
        if ratio == 0.0:
            for i in range(self.k):
                own[i] = self.full[c, i, j] = 0.0
            return
        variance *= ratio * ratio
        share = (1.0 - 1.0 / (ratio * ratio)) / (1.0 + (1.0 - 1.0 / (ratio * ratio)) * variance)
        left = 1.0 - share * variance
        for i in range(self.k):
            if i != j:
                w[i] += share * w[j] * own[i]
                for k in range(self.k):
                    if k != j:
                        self.full[c, i, k] += share * own[i] * own[k]
        w[j] *= left
        for i in range(self.k):
            own[i] *= left
            self.full[c, i, j] = own[i]
        own[j] = 1.0 - left * variance

    cdef double variance(self) noexcept nogil:
        """Variance of the answers so far; 0 until two of them differ."""
        cdef double V = self.clock.squares / self.clock.events if self.clock.events > 0.0 else 0.0
        return V if V > LEAST_VARIANCE else 0.0

    cdef void place(self, double y, double h) noexcept nogil:
        """Update mean and variance of the answers, from the first of them."""
        cdef double step
        if self.clock.events == 0.0:
            self.clock.origin = y
        step = y - self.clock.origin - self.clock.mean
        self.clock.events += h
        self.clock.mean += h * step / self.clock.events
        self.clock.squares += h * step * (y - self.clock.origin - self.clock.mean)

    # --- prediction --------------------------------------------------------------------------

    cdef int look(self, Events events, Py_ssize_t e, double V, Prediction* o) except -1 nogil:
        """Prediction and spread of an event, from the mean; the models' parts of it."""
        self.row = self.measure(events.row(e))
        o.x2 = self.row.x2
        if V == 0.0:  # no variance yet
            o.mean = o.spread = o.correction.mean = 0.0
            return 0
        self.read(self.row, events.tasks[e], self.clock.unit, o, self.room.take(SHARED * self.k))
        self.combine(events.tasks[e], V, o)
        return 0

    cdef void read(
        self, Scaled x, long long task, double unit, Prediction* o, double* Sx
    ) noexcept nogil:
        """Means and variances of the models; ``Sx`` (2, k) of the shared vectors."""
        cdef double value, square, alone = 0.0, left = 0.0, apart = 0.0, left_apart = 0.0
        cdef double[RANK] b
        cdef const double* pair
        cdef const double* directions
        cdef const Task* own = <const Task*> &self.own[task, 0]
        cdef Py_ssize_t k, j
        cdef int c, side = self.subspace.side()
        for c in range(RANK):
            b[c] = 0.0
        for k in range(x.n):
            j, value = x.index[k], measured(x.value[k], unit)
            square = value * value
            pair = self.personal.look(task, j)
            alone += value * pair[0]
            left += square * (1.0 - pair[1])
            apart += value * pair[2]
            left_apart += square * (PERSONAL_PRIOR - pair[3])
            directions = self.subspace.row(j, side)
            for c in range(RANK):
                b[c] += value * directions[c]
        self.read_shared(x, unit, GLOBAL, 0, o, Sx)
        self.read_shared(x, unit, TOGETHER, 1, o, Sx + self.k)
        o.everybody = o.p[TOGETHER]
        o.p[ALONE] = alone + self.common[0, 0] + own.alone
        o.v[ALONE] = max(0.0, left + 2.0 - self.common[0, 1] - own.alone_spent)
        o.p[LEVEL] = self.common[1, 0] + own.level
        o.v[LEVEL] = max(0.0, 2.0 - self.common[1, 1] - own.level_spent)
        o.p[TOGETHER] += apart + own.together
        o.v[TOGETHER] = max(0.0, o.v[TOGETHER] + left_apart + 1.0 - own.together_spent)
        for c in range(TOGETHER):
            o.z[c] = o.p[c] - o.p[TOGETHER]
        o.z[SLOPES] = apart
        for c in range(RANK):
            o.z[DIRECTION + c] = b[c] * self.factor[task, RANK * side + c]

    cdef void read_shared(
        self, Scaled x, double unit, int model, int c, Prediction* o, double* Sx
    ) noexcept nogil:
        """Mean w . x, S x and variance x . S x of the c-th shared vector, with an intercept."""
        cdef Py_ssize_t k, i, j
        cdef double value
        cdef const double* spent
        o.p[model] = self.mean[c, 0]
        if self.dense:
            for i in range(self.k):
                Sx[i] = -self.full[c, 0, i]
        else:
            memset(Sx, 0, self.k * sizeof(double))
            Sx[0] = -self.diagonal[c, 0]
        Sx[0] += 1.0
        for k in range(x.n):
            j, value = x.index[k] + 1, measured(x.value[k], unit)
            o.p[model] += self.mean[c, j] * value
            if self.dense:
                spent = &self.full[c, j, 0]
                for i in range(self.k):
                    Sx[i] -= spent[i] * value
                Sx[j] += value
            else:
                Sx[j] = (1.0 - self.diagonal[c, j]) * value
        o.v[model] = Sx[0]
        for k in range(x.n):
            o.v[model] += Sx[x.index[k] + 1] * measured(x.value[k], unit)
        o.v[model] = max(o.v[model], 0.0)

    cdef void combine(self, long long task, double V, Prediction* o) noexcept nogil:
        """Compute the regressions, the probability of each kind of task, and the mixture."""
        cdef const Task* own = <const Task*> &self.own[task, 0]
        cdef double other, variance = 0.0
        cdef double[KINDS] odds, chance
        cdef int k
        self.related.predict(o.p[TOGETHER] - self.clock.mean, o.z, &o.combined[RELATED])
        other = o.everybody - o.p[GLOBAL]
        self.like_all.predict(o.p[GLOBAL] - self.clock.mean, &other, &o.combined[LIKE_ALL])
        other = o.p[LEVEL] - o.p[ALONE]
        self.on_its_own.predict(o.p[ALONE] - self.clock.mean, &other, &o.combined[ON_ITS_OWN])
        self.kinds.find_odds(task, odds)
        self.kinds.find_chances(0.0, odds, o.chance)
        # A task without events has no personal part: it is predicted as one like all others.
        self.kinds.find_chances(1.0 if own.level_spent == 0.0 else 0.0, odds, chance)
        o.mean = 0.0
        for k in range(KINDS):
            o.mean += chance[k] * o.combined[k].mean
        o.recent[0], o.recent[1], o.recent[2] = own.residual, self.clock.residual, 0.0
        if own.level_spent > 0.0:
            o.recent[2] = own.answer - self.clock.mean - o.mean
        self.drift.predict(0.0, o.recent, &o.correction)
        for k in range(KINDS):
            variance += chance[k] * (
                o.combined[k].variance + self.noise[MODELS + k, 0] * V
                + (o.combined[k].mean - o.mean) * (o.combined[k].mean - o.mean)
            )
        o.spread = sqrt(variance)

    cdef int score(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, double* margins
    ) except -1 nogil:
        cdef Prediction* o = &self.noted_prediction
        cdef Py_ssize_t e
        cdef double V = self.variance(), share = self.correct(end - begin)
        for e in range(begin, end):
            self.look(events, e, V, o)
            # Features whose squares overflow must be refused before they are learned.
            margins[e] = NAN
            if isfinite(o.x2):
                margins[e] = self.clock.origin + (self.clock.mean + o.mean + share * o.correction.mean)
        if self.followed and end - begin == 1:
            self.keep_notes(events, begin, end)
        return 0

    cdef double correct(self, Py_ssize_t n) noexcept nogil:
        """Return the weight of the correction for drift: 0 after many predictions without a label."""
        if self.followed:
            return 1.0
        self.unanswered += n
        return 1.0 if self.unanswered <= LIVE_EVENTS else 0.0

    def restart_subspace(self):
        """Abandon a recomputation of the subspace under way."""
        self.check_idle()
        self.subspace.restart()

    def spreads(self, Events events not None):
        """Expected size (n,) of the error of each event."""
        self.check_idle()
        self.drop_notes()
        cdef Prediction o
        cdef Py_ssize_t e
        cdef double[::1] spread = np.empty(events.n)
        for e in range(events.n):
            self.look(events, e, self.variance(), &o)
            spread[e] = o.spread
        return np.asarray(spread)

    def entries(self, Events events not None):
        """Non-zero entries in units: ``starts`` (n + 1,), features (k,) and values (k,)."""
        self.check_idle()
        self.drop_notes()
        cdef Py_ssize_t e, k
        cdef Scaled x
        starts, features, values = [0], [], []
        for e in range(events.n):
            x = self.measure(events.row(e))
            starts.append(starts[e] + x.n)
            features += [x.index[k] for k in range(x.n)]
            values += [measured(x.value[k], self.clock.unit) for k in range(x.n)]
        return np.array(starts), np.array(features, np.int32), np.array(values, np.float64)

    # --- learning ----------------------------------------------------------------------------

    cdef int learn(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, const double* margins
    ) except -1 nogil:
        cdef Py_ssize_t e
        cdef bint noted = self.has_notes(events, begin, end)
        self.unanswered = 0
        for e in range(begin, end):
            if events.count(e) > 0.0:
                self.learn_one(events, e, noted)
        # As many features as directions: nothing is of low rank.
        if self.k - 1 > RANK \
                and self.subspace.keep_up(self.clock.rows, &self.clock.next_subspace, end - begin):
            self.related.reset_variances(DIRECTION)
        return 0

    cdef int learn_one(self, Events events, Py_ssize_t e, bint noted) except -1 nogil:
        """Learn an event; while all answers are equal, learn only their mean."""
        cdef Prediction* o = &self.noted_prediction
        cdef Plan plan
        cdef Row x = events.row(e)
        cdef long long task = events.tasks[e]
        cdef double y = events.labels[e], h = events.count(e), V = self.variance(), x2
        cdef double t = y - self.clock.origin
        cdef Task* own = <Task*> &self.own[task, 0]
        if not noted:
            self.look(events, e, V, o)
        x2 = o.x2
        if V > 0.0:
            self.personal.reserve(task, self.scales.n_entries(x))  # first: there may be no memory
            if not self.make_plan(t, h, V, o, &plan):
                with gil:
                    raise FloatingPointError(
                        f"event {e} (task {task}): the target {y:g} with weight {h:g} is too far "
                        "from the others to be learned; scale it or drop the event"
                    )
            self.update_stacking(task, t - self.clock.mean, h, V, o, &plan)
            self.move_models(task, h, &plan, self.room.take(SHARED * self.k))
            own.residual, own.answer = t - self.clock.mean - o.mean, t
            self.clock.residual += min(1.0, h * DRIFT_PACE) * (own.residual - self.clock.residual)
        self.count(x, x2, h)
        self.place(y, h)
        return 0

    cdef bint make_plan(
        self, double t, double h, double V, const Prediction* o, Plan* plan
    ) noexcept nogil:
        """Steps for the answer t, from the origin; false where one would overflow."""
        cdef double x2 = o.x2 * self.clock.unit * self.clock.unit, size
        cdef bint fine = True
        cdef int k
        for k in range(MODELS):
            self.plan_step(k, t - o.p[k], o.v[k], 1.0 + x2, V, h, h, plan)
        for k in range(KINDS):
            # Variances of stacking models are those of answers: in units here, and back there.
            size = o.combined[k].mean * o.combined[k].mean / V
            self.plan_step(
                MODELS + k, t - self.clock.mean - o.combined[k].mean, o.combined[k].variance / V,
                1.0 + size, V, h, h * o.chance[k] if k == RELATED else h, plan,
            )
        self.plan_step(
            DRIFT, t - self.clock.mean - o.mean - o.correction.mean, o.correction.variance / V,
            1.0 + o.correction.mean * o.correction.mean / V, V, h, h, plan,
        )
        for k in range(ESTIMATORS):
            fine = fine and fabs(plan.step[k].a) < MAX_STEP and plan.step[k].b < MAX_STEP
            fine = fine and plan.noise[k] < MAX_STEP
        return fine

    cdef void plan_step(
        self, int who, double e, double v, double size, double V, double h, double share,
        Plan* plan,
    ) noexcept nogil:
        """Step on an error e of variance v (in units V) by Student's t; noise follows the error.

        An error much larger than expected counts for little. ``size`` bounds rounding errors.
        """
        cdef double s2 = self.noise[who, 0], total = v + s2, trust, noise
        trust = (DEGREES_OF_FREEDOM + 1.0) / (DEGREES_OF_FREEDOM + e * e / V / total)
        plan.step[who].b = 1.0 / (v + max(s2 / (trust * share), LEAST_NOISE * size))
        plan.step[who].a = plan.step[who].b * e
        noise = trust * (e * e / V) * (s2 / total) * (s2 / total) + v * s2 / total
        noise = (noise - s2) * min(1.0, h * max(2.0 / (self.noise[who, 1] + h), NOISE_PACE))
        plan.noise[who] = max(LEAST_NOISE, s2 + noise)

    cdef void update_stacking(
        self, long long task, double t, double h, double V, Prediction* o, const Plan* plan
    ) noexcept nogil:
        """Update the stacking regressions and the task's kind by the answer t, from the mean."""
        cdef double e, total
        cdef double[KINDS] loss
        cdef Step[KINDS + 1] step
        cdef int k
        self.remember(fabs(t - o.mean - o.correction.mean) / o.spread, h)
        for k in range(KINDS):
            e = t - o.combined[k].mean
            total = o.combined[k].variance / V + self.noise[MODELS + k, 0]
            loss[k] = h * (
                0.5 * log(total) + 0.5 * (DEGREES_OF_FREEDOM + 1.0)
                * log1p(e * e / V / (DEGREES_OF_FREEDOM * total))
            )
        for k in range(KINDS + 1):
            step[k].a, step[k].b = plan.step[MODELS + k].a / V, plan.step[MODELS + k].b / V
        for k in range(ESTIMATORS):
            self.noise[k, 0] = plan.noise[k]
            self.noise[k, 1] += h
        self.related.update(step[RELATED], &o.combined[RELATED])
        self.like_all.update(step[LIKE_ALL], &o.combined[LIKE_ALL])
        self.on_its_own.update(step[ON_ITS_OWN], &o.combined[ON_ITS_OWN])
        self.drift.update(step[KINDS], &o.correction)
        self.kinds.learn(task, loss)

    cdef void move_models(
        self, long long task, double h, const Plan* plan, const double* Sx
    ) noexcept nogil:
        """Update the models by the event that was read last."""
        cdef double value, change, unit = self.clock.unit
        cdef const Step* step = &plan.step[0]
        cdef Task* own = <Task*> &self.own[task, 0]
        cdef double* pair
        cdef Py_ssize_t k, j
        for k in range(self.row.n):
            j, value = self.row.index[k], measured(self.row.value[k], unit)
            if value == 0.0:  # at the feature's centre
                continue
            pair = self.personal.touch(task, j)
            change = move(pair, pair + 1, 1.0, step[ALONE], value)
            self.follow(task, j, pair, change)
            move(pair + 2, pair + 3, PERSONAL_PRIOR, step[TOGETHER], value)
            forget(pair + 3, PERSONAL_PRIOR, h * FORGETTING)
        move(&self.common[0, 0], &self.common[0, 1], 1.0, step[ALONE], 1.0)
        move(&own.alone, &own.alone_spent, 1.0, step[ALONE], 1.0)
        move(&self.common[1, 0], &self.common[1, 1], 1.0, step[LEVEL], 1.0)
        move(&own.level, &own.level_spent, 1.0, step[LEVEL], 1.0)
        move(&own.together, &own.together_spent, 1.0, step[TOGETHER], 1.0)
        forget(&own.together_spent, 1.0, h * FORGETTING)
        self.move_shared(0, step[GLOBAL], Sx)
        self.move_shared(1, step[TOGETHER], Sx + self.k)
        forget(self.spent_of(0), 1.0, h * FORGETTING)
        for k in range(self.row.n):
            if self.row.value[k] != 0.0:
                forget(self.spent_of(self.row.index[k] + 1), 1.0, h * FORGETTING)

    cdef void move_shared(self, int c, Step step, const double* Sx) noexcept nogil:
        """w += a S x, S -= b (S x)(S x)'."""
        cdef Py_ssize_t i, j, k
        cdef double* spent
        if self.dense:
            for i in range(self.k):
                if Sx[i] != 0.0:
                    self.mean[c, i] += step.a * Sx[i]
                    spent = &self.full[c, i, 0]
                    for j in range(self.k):
                        spent[j] += step.b * Sx[i] * Sx[j]
            return
        move_one(&self.mean[c, 0], &self.diagonal[c, 0], step, Sx[0])
        for k in range(self.row.n):
            j = self.row.index[k] + 1
            move_one(&self.mean[c, j], &self.diagonal[c, j], step, Sx[j])

    cdef inline double* spent_of(self, Py_ssize_t j) noexcept nogil:
        """Spent variance of a shared weight of together."""
        return &self.full[1, j, j] if self.dense else &self.diagonal[1, j]

    cdef void remember(self, double u, double h) noexcept nogil:
        """Add an error, u times the expected one, to the decaying histogram."""
        cdef Py_ssize_t i, n = self.residuals.shape[0]
        for i in range(n):
            self.residuals[i] *= INTERVAL_MEMORY
        self.residuals[bin_of(u, n)] += h


cdef inline bint alike(double a, double b) noexcept nogil:
    """Whether two units are within a factor of each other."""
    return a <= SETTLED_RATIO * b and b <= SETTLED_RATIO * a


cdef inline void rebase_one(
    double* mean, double* spent, double* intercept, double* intercept_spent, double prior,
    double ratio, double shift,
) noexcept nogil:
    """Express a weight, and the intercept beside it, in a new unit and centre of its feature."""
    cdef double variance = max(0.0, prior - spent[0]), share
    if spent[0] == 0.0:  # never learned
        return
    intercept[0] += shift * mean[0]
    intercept_spent[0] = max(0.0, intercept_spent[0] - shift * shift * variance)
    if ratio == 0.0:
        mean[0] = spent[0] = 0.0
        return
    variance *= ratio * ratio
    share = 1.0 / (1.0 + (1.0 - 1.0 / (ratio * ratio)) / prior * variance)
    mean[0] *= ratio * share
    spent[0] = prior - variance * share


cdef inline double measured(double x, double unit) noexcept nogil:
    """Return a value in units of the usual row, clipped."""
    return max(-MAX_VALUE, min(MAX_VALUE, x * unit))


cdef inline Py_ssize_t bin_of(double u, Py_ssize_t n) noexcept nogil:
    """Bin of a residual."""
    if not u > 0.0:
        return 0
    return <Py_ssize_t> min(
        max(floor((log2(u) + LOWEST_DOUBLING) * BINS_PER_DOUBLING), 0.0), n - 1.0
    )


cdef inline void move_one(double* mean, double* spent, Step step, double sx) noexcept nogil:
    mean[0] += step.a * sx
    spent[0] += step.b * sx * sx
