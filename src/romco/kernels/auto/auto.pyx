"""romco-auto for two classes and for numbers: four Gaussian learners, the moment, two stacking models.

Two losses (squared hinge as in AROW, bold; logistic, cautious) by two degrees of sharing:

    global hinge        one vector for all tasks
    own hinge           one vector for each task
    global logistic     one vector for all tasks, learned as if there were no tasks
    mixed logistic      a shared vector, a level and slopes of each task, also of functions

Each is a Gaussian. Of frequent features, and of functions of columns (`functions`), the two shared
logistic vectors have full covariances (`covariances`); all other covariances are zero. Of the prior
variance that is stored which is spent, so that zeros are the prior. Of a task's level and slopes the
information and the precision are stored apart from the prior, whose variance is learned (`variances`):
a change of it acts on all tasks at once.

A stacking model, a Bayesian logistic regression on the four margins and on a low-rank part of the own
vectors (`subspace`), gives the log-odds. *The moment* is a level and slopes of frequent features that
follow a random walk on top of it; it takes part while it predicts better. That is the live prediction.
A second stacking model, without the moment, makes frozen predictions, after which no labels come. It learns from margins by old copies of the
weights: a copy is renewed at the first change after the stream has grown by COPY_GROWTH.

Of numbers both losses are Student's t, and there is no global hinge learner. Means are in the unit of the
answers, measured from the first one, variances in units of the answers' variance V. The stacking models
add to the mixed learner's prediction what the others say less that.
"""

import numpy as np
cimport numpy as cnp

from libc.math cimport INFINITY, NAN, exp, fabs, floor, isfinite, log, log1p, log2, sqrt, tanh
from libc.string cimport memcpy, memset
from romco.kernels.core.prefetch cimport soon
from romco.kernels.auto.stacking cimport StackedPrediction, StackingModel
from romco.kernels.auto.covariances cimport FIRST_FUNCTION, JOIN_SHARE, Covariances
from romco.kernels.auto.gaussians cimport (
    Personal, Step, Weight, arow, forget, log_sum, logistic, mean_of, moderate, move, move_weight, observe,
    softplus, variance_left,
)
from romco.kernels.auto.functions cimport FUNCTIONS, WAVES, Definition, Functions, Sketch, surprise
from romco.kernels.auto.scales cimport Scaled, Scales, SettledScales, alike, count_size, unit_of
from romco.kernels.auto.subspace cimport PROJECT, RANK, Subspace, make_orthonormal
from romco.kernels.auto.columns cimport Column, has_zeros
from romco.kernels.auto.variances cimport GRID, VarianceGrid, add_evidence, expected_variance
from romco.kernels.core.contract cimport Kernel
from romco.kernels.core.events cimport Events, Row, column
from romco.kernels.core.pairs cimport Pairs

from romco.kernels.auto import constants
from romco.kernels.auto.functions import SKETCH_FIELDS

cnp.import_array()

cdef enum:
    CONSTANT, OWN, MIXED, HINGE, GLOBAL        # inputs of the stacking models,
    DIRECTION                                  # then the directions of the low-rank part,
    RECENT = DIRECTION + RANK                  # and of numbers the task's last residual and answer
    INPUTS = RECENT + 2
    CONTEXT = 3                                # numbers kept of a prediction

cdef double SHARD_EVENTS = 1e299               # time of the next recomputation that marks a shard
cdef double VARIANCES_GROWTH = 1.02            # of the events between two estimates of variances
cdef double MAX_GAIN = 500.0                   # largest log-odds of one event
cdef double LEAST_VARIANCE = 1e-250            # of answers: below it, or
cdef double ROUNDING = 1e-12                   # by their squared mean, they are all alike
cdef double SURE_EVENTS = 256.0                # from which on it is known which features are frequent
cdef double TABLE_SHARE = 0.75                 # of entries that are of frequent features; in text less
cdef double WORTH_MARGIN = 4.0                 # by which a feature must say more to get another's place
cdef double FIRST_CHOICE = 64.0                # events at which functions are first chosen,
cdef double CHOICE_GROWTH = 1.3                # then whenever events have grown so much
cdef double FIRST_CROSSES = 256.0              # and products
cdef Py_ssize_t MOST_PLACES = 144              # of features and functions in a block
cdef Py_ssize_t CROSSES = 32                   # places that waves leave free
cdef Py_ssize_t CROSSES_AT_ONCE = 6
cdef double WAVES_THRESHOLD = 14.0             # numbers: chi-square of four waves from which on they join
cdef double CROSS_THRESHOLD = 4.0              # standard deviations from chance of a product that joins
cdef double LEAST_NOISE = 1e-10                # relative: smaller is rounding
cdef double MAX_NOISE_RATIO = 1e4              # by which all past events are reweighed at once
cdef double MAX_NOISE_RATE = 0.5               # by which an event moves the noise
cdef double MAX_LOG_NOISE = 50.0               # of noise, by that of all
cdef double TASK_NOISE_SHARE = 0.5             # of a task's events in the step of its noise,
cdef double NOISE_RISE_SHARE = 0.05            # and of all events in that of the rises
cdef double LOWEST_DOUBLING = 8.0              # its bins begin at 2^-8 of the expected error,
cdef double BINS_PER_DOUBLING = 8.0            # and each doubling has so many
cdef double MAX_ERROR = 1e140                  # sizes of an answer beyond which it is refused
cdef double MAX_RATIO = 3.0                    # of units of a feature beyond which its weights are forgotten
cdef double MAX_SHIFT = 10.0                   # and sizes by which its centre moves
cdef double NEARLY_ONE = 1.04                  # up to which four terms are a logarithm to rounding
cdef double VARIED = 1e9                       # stands for a value that has varied within a task
cdef unsigned long long HASH_FACTOR = 0x9E3779B97F4A7C15
cdef Py_ssize_t MAX_SEARCH = 1 << 16           # pairs that are searched for those of one feature


cdef struct FeatureState:
    Weight hinge, global_, mixed
    double copied_at


cdef struct PairState:
    Weight hinge
    Personal slope                 # in the mixed logistic learner
    double copied_at
    double value_hash              # of the feature's value in all events of the task, or VARIED


cdef struct FunctionState:         # of a function of columns
    FeatureState shared
    double evidence[GRID]          # log-likelihood of each variance of tasks' slopes,
    double variance                # which is expected; 0 before any estimate
    double information, precision  # of all tasks,
    double tasks                   # which are so many


cdef struct CurveState:            # of a task and a function
    Personal slope                 # in the mixed logistic learner
    double copied_at


cdef struct TaskState:
    Personal level
    double copied_at
    double factor_copy[RANK]       # row of F
    double evidence                # log-odds that the level and the slopes are not zero
    Weight own_level               # of numbers: intercept of the own learner,
    double own_level_spent_copy
    double residual, answer        # the last ones,
    double log_noise, noise_events # and logarithm of its noise by that of all, from so many events
    double agrees, opposes         # of two classes: evidence that others' labels hold, or the opposite,
    double shared_mean, shared_events  # and mean of the shared margin in its events


cdef struct PlaceState:            # of a feature with covariances
    double moment_mean, moment_spent
    double evidence[GRID]          # log-likelihood of each variance of its slopes
    double variance                # of its slopes; 0: as of all features
    Sketch sketch                  # of its values


cdef struct StreamState:
    double moment, moment_variance # level of the moment
    double tracking                # probability that the moment predicts better,
    double drift                   # and its mean over the last events
    double level_evidence[GRID]
    double slope_evidence[GRID]
    double level_variance, slope_variance
    double variances_due           # events at which variances are estimated again
    double directions_at           # events at which the low-rank part was last recomputed
    double functions_due           # events at which functions are chosen,
    double leaving_due             # and in shards at which rare features leave the blocks
    double answers                 # events learned
    double origin, total, squares  # of numbers: the first answer, sum and squares of all from there
    double own_noise, mixed_noise, global_noise, live_noise, frozen_noise
    double global_errors           # squared errors that its weights leave, by its noise
    double rise_below, rise_above  # of its logarithm, with the prediction's distance from the mean
    double unit                    # of rows


def _fields(state, prefix=""):
    """Return the names of a state's numbers, in order."""
    names = []
    for name, value in state.items():
        if isinstance(value, dict):
            names += _fields(value, f"{prefix}{name.strip("_")}_")
        elif isinstance(value, list):
            names += [f"{prefix}{name}_{k}" for k in range(len(value))]
        else:
            names.append(prefix + name)
    return tuple(names)


cdef FeatureState no_feature
cdef PairState no_pair
cdef FunctionState no_function
cdef CurveState no_curve
cdef TaskState no_task
cdef StreamState no_stream
FEATURE_FIELDS = _fields(no_feature)
PAIR_FIELDS = _fields(no_pair)
FUNCTION_FIELDS = _fields(no_function)
CURVE_FIELDS = _fields(no_curve)
TASK_FIELDS = _fields(no_task)
STREAM_FIELDS = _fields(no_stream)
PLACE_FIELDS = (
    "moment_mean", "moment_spent", *(f"evidence_{k}" for k in range(GRID)), "variance",
    *SKETCH_FIELDS,
)
MAX_HASH = 65536.0                             # of a value; beyond it the value has varied
INPUT_NAMES = (
    *("constant", "own hinge", "mixed logistic", "global hinge", "global logistic"),
    *(f"direction {k}" for k in range(1, RANK + 1)),
)
RECENT_NAMES = ("last residual", "last answer")


cdef struct Constants:             # see constants.py
    double arow_r, global_prior, copy_growth, frozen_min_events
    double level_grid, slope_grid, level_start, slope_start, grid_penalty, curve_start
    double moment_pace, moment_prior, moment_forgetting
    double tracking_prior, tracking_share, drift_rate, wave_prior, cross_prior, agreement_odds
    double degrees_of_freedom, stacking_degrees_of_freedom, noise_pace, noise_events, error_memory
    double number_prior, number_level_start, number_slope_grid, number_functions, global_noise_events


cdef struct Outputs:               # of an event
    double unit                    # one over the size of a row so far
    double x2                      # |x|^2 in that unit
    double offset                  # known part of the log-odds, of which nothing is learned
    double hinge_variance, own_variance, global_variance, mixed_variance
    double agreement               # of the task with others, from -1 to 1
    double level, level_variance   # of the task
    double without                 # the mixed learner's margin without what is the task's own,
    double slopes, slopes_variance # and with its slopes only: mean and variance
    double p[DIRECTION]            # margins of the learners,
    double base                    # what stacking adds to: of numbers that of the mixed learner,
    double z[INPUTS]               # and inputs of the stacking models;
    double copied_base             # by copies of the weights, too
    double copied[INPUTS]
    double V                       # unit of variances: of numbers the variance of the answers
    double variance                # of the stacked margin, in that unit
    StackedPrediction live, frozen
    double settled                 # log-odds without the moment, offset included,
    double moment, moment_variance # and what the moment adds


cdef class AutoKernel(Kernel):
    """Views of the learner's arrays, and the two verbs."""

    cdef double[:, ::1] features, tasks, places, factor
    cdef double[:, ::1] intercept_array
    cdef FeatureState* intercept   # of the two shared logistic vectors
    cdef double[::1] clock, stream_array
    cdef StreamState* stream
    cdef Pairs personal, curves
    cdef object rooms
    cdef Py_ssize_t* pair          # of each entry of the row that was last read: its number, or -1
    cdef Row coming                # the row that is read next, as far as it is known,
    cdef long long coming_task
    cdef void* coming_of           # and whose it is
    cdef Py_ssize_t coming_at
    cdef StackingModel live, frozen
    cdef readonly Subspace subspace
    cdef Scales scales
    cdef SettledScales settled     # the same, of numbers
    cdef readonly Covariances global_block, mixed_block
    cdef double[:, ::1] function_states
    cdef Functions functions
    cdef Py_ssize_t[FUNCTIONS] curve  # of each function that is active: the number of its pair, or -1
    cdef VarianceGrid level_grid, slope_grid, curve_grid
    cdef Constants c
    cdef Outputs outputs           # of the event that was read last
    cdef double residual           # of the mixed learner, in the last event
    cdef bint number               # whether answers are numbers
    cdef double[::1] errors, frozen_errors  # histograms of residuals, for intervals
    cdef Events late               # events that come late, or None,
    cdef const double[:, ::1] context  # and the context of their predictions

    def __init__(self, a, Pairs personal, Pairs curves):
        self.features, self.tasks, self.places = a["features"], a["tasks"], a["places"]
        self.factor, self.clock, self.stream_array = a["factor"], a["clock"], a["stream"]
        self.intercept_array, self.function_states = a["intercept"], a["functions"]
        self.intercept = <FeatureState*> &self.intercept_array[0, 0]
        self.stream = <StreamState*> &self.stream_array[0]
        self.personal, self.curves = personal, curves
        self.live = StackingModel(a["weight"], a["covariance"])
        self.frozen = StackingModel(a["frozen_weight"], a["frozen_covariance"])
        self.rooms = np.empty(len(self.features), np.intp)
        self.pair = <Py_ssize_t*> cnp.PyArray_DATA(<cnp.ndarray> self.rooms)
        self.coming.n, self.coming_of = 0, NULL
        self.late, self.context = None, np.zeros((1, CONTEXT))
        self.number = "errors" in a
        if self.number:
            self.settled = SettledScales(a["units"], a["typical"])
            self.errors, self.frozen_errors = a["errors"], a["frozen_errors"]
        self.scales = self.settled if self.number else Scales(a["units"], a["typical"])
        self.read_constants()
        prior = self.c.global_prior
        self.global_block = Covariances(a, a["global_joint"], a["frequent"], 3, prior, a["places"])
        self.mixed_block = Covariances(a, a["mixed_joint"], a["mixed_frequent"], 6, prior)
        share = self.c.number_functions if self.number else 1.0
        priors = share * self.c.wave_prior, share * self.c.cross_prior
        self.functions = Functions(a["places"], a["definitions"], a["scores"], *priors, prior)
        self.functions.place, self.functions.n_features = self.global_block.place, len(self.features)
        self.subspace = Subspace(a["directions"], a["factor"], personal, a["progress"])

    cdef read_constants(self):
        """Read the constants that the learner is made with."""
        cdef Constants* c = &self.c
        self.c = {name.lower(): value for name, value in vars(constants).items() if name.isupper()}
        self.level_grid = VarianceGrid(c.level_grid, c.level_start, c.grid_penalty)
        self.slope_grid = VarianceGrid(c.slope_grid, c.slope_start, c.grid_penalty)
        if self.number:
            c.global_prior = c.number_prior
            self.level_grid.start = c.number_level_start
            self.slope_grid.least = c.number_slope_grid
        self.curve_grid = VarianceGrid(
            c.slope_grid * c.global_prior, c.curve_start * c.global_prior, c.grid_penalty
        )

    # --- prediction --------------------------------------------------------------------------

    cdef double unit(self) noexcept nogil:
        """One over the size of a row so far; 0 before any: rows have no unit yet."""
        if self.number:
            return self.stream.unit
        return unit_of(&self.clock[0]) if self.clock[1] > 0.0 else 0.0

    cdef inline FeatureState* feature(self, Py_ssize_t j) noexcept nogil:
        return <FeatureState*> &self.features[j, 0]

    cdef inline FunctionState* function(self, Py_ssize_t f) noexcept nogil:
        return <FunctionState*> &self.function_states[f, 0]

    cdef inline TaskState* task(self, long long i) noexcept nogil:
        return <TaskState*> &self.tasks[i, 0]

    cdef inline PlaceState* place(self, Py_ssize_t k) noexcept nogil:
        return <PlaceState*> &self.places[k, 0]

    cdef inline double slope_variance(self, Py_ssize_t j) noexcept nogil:
        """Prior variance of tasks' slopes of a feature."""
        cdef Py_ssize_t k = self.global_block.place[j]
        cdef double variance = self.place(k).variance if k else 0.0
        return variance if variance > 0.0 else self.stream.slope_variance

    cdef inline double curve_variance(self, Py_ssize_t f) noexcept nogil:
        """Prior variance of tasks' slopes of a function."""
        cdef double variance = self.function(f).variance
        return variance if variance > 0.0 else self.curve_grid.start

    cdef double variance_of_answers(self) noexcept nogil:
        """Unit of variances: of numbers the variance of the answers, 0 until two of them differ."""
        cdef const StreamState* s = self.stream
        cdef double mean, V
        if not self.number:
            return 1.0
        if s.answers == 0.0:
            return 0.0
        mean = s.total / s.answers
        V = s.squares / s.answers - mean * mean
        return V if V > LEAST_VARIANCE and V > ROUNDING * mean * mean else 0.0

    cdef inline double offset_of(self, Events events, Py_ssize_t e) noexcept nogil:
        """Known part of a margin; whoever reads numbers has already taken theirs off."""
        return 0.0 if self.number else events.shift(e)

    cdef inline double moderated(self, double mean, double variance) noexcept nogil:
        """What is predicted by a Gaussian margin."""
        return mean if self.number else moderate(mean, variance)

    cdef void read(
        self, Row given, Scaled x, long long task, double offset, double unit, Outputs* o
    ) noexcept nogil:
        """Margins and variances of the learners, by the weights and by their copies.

        The offset is added to all that becomes a loss, and to no input of a stacking model.
        """
        cdef double hinge = 0.0, hinge_spent = 0.0, own = 0.0, own_spent = 0.0
        cdef double all_ = self.intercept.global_.mean, all_spent = 0.0
        cdef double mixed = self.intercept.mixed.mean, mixed_spent = 0.0, slopes = 0.0
        cdef double old_hinge = 0.0, old_own = 0.0, old_all = self.intercept.global_.copy
        cdef double old_mixed = self.intercept.mixed.copy, old_slopes = 0.0
        cdef double value, square, variance, personal = 0.0
        cdef double x2 = x.x2 * unit * unit, prior = self.c.global_prior
        cdef double[RANK] direction
        cdef int side = self.subspace.side(), c
        cdef Py_ssize_t k, j
        cdef const FeatureState* f
        cdef const PairState* p
        cdef const double* b
        cdef TaskState* t = self.task(task)
        for c in range(RANK):
            direction[c] = 0.0
        self.global_block.settle()
        if self.global_block.n_columns > 1:
            self.functions.read(given)
        else:
            self.functions.n_active = self.functions.n_listed = 0
        if not self.personal.dense:
            self.find_pairs(x, task)
        for k in range(x.n):
            self.ask_unit(k)
            j, value = x.index[k], x.value[k] * unit
            square = value * value
            f = self.feature(j)
            b = self.subspace.row(j, side)
            hinge += f.hinge.mean * value
            hinge_spent += f.hinge.spent * square
            all_ += f.global_.mean * value
            all_spent += f.global_.spent * square
            mixed += f.mixed.mean * value
            mixed_spent += f.mixed.spent * square
            old_hinge += f.hinge.copy * value
            old_all += f.global_.copy * value
            old_mixed += f.mixed.copy * value
            for c in range(RANK):
                direction[c] += b[c] * value
            variance = self.slope_variance(j)
            p = self.pair_state(k, task, j)
            if p == NULL:
                slopes += variance * square
                continue
            own += p.hinge.mean * value
            own_spent += p.hinge.spent * square
            variance = variance_left(&p.slope, variance)
            personal += p.slope.information * variance * value
            slopes += variance * square
            old_own += p.hinge.copy * value
            old_slopes += p.slope.copy * value
        o.level_variance = variance_left(&t.level, self.stream.level_variance)
        o.level = t.level.information * o.level_variance
        o.unit, o.x2, o.offset = unit, x2, offset
        o.hinge_variance, o.own_variance = x2 - hinge_spent, x2 - own_spent
        o.global_variance = max(0.0, self.read_block(self.global_block, x, unit) \
            + self.global_block.scale * (prior * x2 - all_spent))
        o.mixed_variance = max(0.0, self.read_block(self.mixed_block, x, unit) \
            + self.mixed_block.scale * (prior * x2 - mixed_spent))
        all_ += self.global_block.margin
        mixed += self.mixed_block.margin
        for k in range(self.functions.n_active):
            f = &self.function(self.functions.active[k]).shared
            old_all += f.global_.copy * self.functions.value[k]
            old_mixed += f.mixed.copy * self.functions.value[k]
        self.read_curves(task, &personal, &slopes, &old_slopes)
        o.V = self.variance_of_answers()
        o.without = self.moderated(mixed, o.mixed_variance)
        o.slopes, o.slopes_variance = mixed + personal, o.mixed_variance + slopes
        o.mixed_variance = o.slopes_variance + o.level_variance
        o.p[OWN], o.p[HINGE] = own, hinge
        o.p[MIXED] = self.moderated(mixed + personal + o.level, o.mixed_variance)
        o.p[GLOBAL] = self.moderated(all_, o.global_variance)
        if self.global_block.closed():  # without covariances it says nothing that others do not
            o.p[GLOBAL] = old_all = 0.0
        if self.number:
            o.own_variance += 1.0 - t.own_level.spent
            o.p[OWN] += self.intercept.mixed.mean + t.own_level.mean
            old_own += self.intercept.mixed.copy + t.own_level.copy
            o.base, o.agreement = o.p[MIXED], 1.0
            o.copied_base = old_mixed + old_slopes + t.level.copy
            own = t.own_level.spent * (o.p[OWN] - o.base)
            contrast(own, personal + o.level, o.p[GLOBAL] - o.base, sqrt(o.V), o.z)
            own = t.own_level_spent_copy * (old_own - o.copied_base)
            contrast(own, old_slopes + t.level.copy, old_all - o.copied_base, sqrt(o.V), o.copied)
        else:
            o.base = o.copied_base = 0.0
            o.z[CONSTANT], o.z[OWN], o.z[MIXED] = 1.0, own, o.p[MIXED]
            o.agreement = agreement(t, self.c.agreement_odds)
            o.z[HINGE], o.z[GLOBAL] = o.agreement * hinge, o.agreement * o.p[GLOBAL]
            o.copied[CONSTANT], o.copied[OWN] = 1.0, old_own
            o.copied[MIXED] = moderate(old_mixed + old_slopes + t.level.copy, o.mixed_variance)
            o.copied[HINGE] = o.agreement * old_hinge
            o.copied[GLOBAL] = o.agreement * moderate(old_all, o.global_variance)
        for c in range(RANK):
            o.z[DIRECTION + c] = direction[c] * self.factor[task, side * RANK + c]
            o.copied[DIRECTION + c] = o.z[DIRECTION + c]
            if t.copied_at > self.stream.directions_at:
                o.copied[DIRECTION + c] = direction[c] * t.factor_copy[c]

    cdef void read_curves(
        self, long long task, double* mean, double* variance, double* copied
    ) noexcept nogil:
        """Add a task's slopes of functions to a margin, to its variance and to that by copies."""
        cdef Py_ssize_t k, f
        cdef const Personal* slope
        cdef double value, left
        for k in range(self.functions.n_active):
            f, value = self.functions.active[k], self.functions.value[k]
            left = self.curve_variance(f)
            self.curve[k] = self.curves.find(task, f)
            if self.curve[k] >= 0:
                slope = &self.curve_state(k).slope
                left = variance_left(slope, left)
                mean[0] += slope.information * left * value
                copied[0] += slope.copy * value
            variance[0] += left * value * value

    cdef inline CurveState* curve_state(self, Py_ssize_t k) noexcept nogil:
        """Own numbers of the k-th active function of the row that was last read."""
        return (<CurveState*> self.curves.value) + self.curve[k]

    cdef void read_event(self, Events events, Py_ssize_t e, Outputs* o, bint frozen) noexcept nogil:
        """`read` of an event that is not counted; ``frozen``: in the units in use."""
        cdef Row x = events.row(e)
        self.scales.held = self.number and self.is_shard()
        self.read(
            x, self.scales.look(x, frozen), events.tasks[e], self.offset_of(events, e), self.unit(), o
        )

    cdef double read_block(self, Covariances block, Scaled x, double unit) noexcept nogil:
        """Read a row, and its functions, into a block."""
        return block.read(
            x, unit, self.functions.active, self.functions.value, self.functions.n_active
        )

    cdef void find_pairs(self, Scaled x, long long task) noexcept nogil:
        """Which pairs a row's own numbers are in; asks for them."""
        cdef Py_ssize_t k
        for k in range(x.n):
            self.pair[k] = self.personal.ask_pair(task, x.index[k])

    cdef void stack(self, long long task, Outputs* o) noexcept nogil:
        """The log-odds of a live prediction, without the moment and with what it adds."""
        cdef const TaskState* t = self.task(task)
        if self.number:
            o.z[RECENT] = t.residual
            o.z[RECENT + 1] = t.answer - o.base if t.own_level.spent > 0.0 else 0.0
        self.live.predict(o.base, o.z, &o.live)
        o.variance = o.live.variance / o.V
        o.settled = self.moderated(o.live.mean, o.variance) + o.offset
        self.read_moment(o)

    cdef void read_moment(self, Outputs* o) noexcept nogil:
        """What the moment adds to the log-odds, after one more event."""
        cdef Py_ssize_t k
        cdef const PlaceState* place
        cdef double value, mean = self.stream.moment
        cdef double variance = self.stream.moment_variance + self.c.moment_pace
        for k in range(1, self.global_block.n_active_columns):
            place, value = self.place(self.global_block.active[k]), self.global_block.value[k]
            mean += place.moment_mean * value
            variance += (self.c.moment_prior - place.moment_spent) * value * value
        o.moment_variance = max(0.0, variance) * self.moment_scale()
        o.moment = self.moderated(mean, o.moment_variance)

    cdef inline double moment_scale(self) noexcept nogil:
        """Unit of the variances of the moment: a logistic loss has a curvature of 1/4 at most."""
        return 0.25 * self.stream.live_noise if self.number else 1.0

    cdef double live_margin(self, const Outputs* o) noexcept nogil:
        """Log-odds of the mixture with and without the moment."""
        cdef double odds, w = self.stream.tracking
        if self.stream.drift <= self.c.tracking_prior or not 0.0 < w < 1.0:
            return o.settled
        if self.number:
            return o.settled + w * o.moment
        odds = w / (1.0 - w)
        return log_mixture(o.settled, odds, o.settled + o.moment)

    cdef double frozen_margin(self, double base, double* z, Outputs* o) noexcept nogil:
        """Margin by the stacking model of frozen predictions."""
        if self.number:
            z[RECENT] = z[RECENT + 1] = 0.0
        self.frozen.predict(base, z, &o.frozen)
        return self.moderated(o.frozen.mean, o.frozen.variance) + o.offset

    cdef int score(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, double* margins
    ) except -1 nogil:
        cdef Outputs* o = &self.outputs
        cdef Py_ssize_t e
        for e in range(begin, end):
            self.expect(events, e)
            self.read_event(events, e, o, self.frozen_predictions)
            if o.V == 0.0:  # no two answers differ
                margins[e] = o.offset
            elif self.frozen_predictions:
                margins[e] = self.frozen_margin(o.base, o.z, o)
            else:
                self.stack(events.tasks[e], o)
                margins[e] = self.live_margin(o)
            if self.number:
                margins[e] += self.stream.origin
            if not isfinite(o.x2):  # features whose squares overflow are refused before they are learned
                margins[e] = NAN
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
                self.ask_feature(k)
        self.coming_of, self.coming_at, self.coming.n = <void*> events, e + 1, 0
        if e + 1 < events.n:
            self.coming, self.coming_task = events.row(e + 1), events.tasks[e + 1]

    cdef inline void ask_unit(self, Py_ssize_t k) noexcept nogil:
        """Ask for the k-th entry's column, and for what tells where its own numbers are."""
        if k < self.coming.n:
            self.scales.ask(self.coming.index[k])
            self.personal.ask_table(self.coming_task, self.coming.index[k])

    cdef inline void ask_feature(self, Py_ssize_t k) noexcept nogil:
        """Ask for the k-th entry's shared numbers."""
        if k < self.coming.n:
            soon(&self.features[self.coming.index[k], 0])
            soon(&self.features[self.coming.index[k], 9])
            soon(self.subspace.row(self.coming.index[k], self.subspace.side()))

    # --- learning ----------------------------------------------------------------------------

    cdef int learn(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, const double* margins
    ) except -1 nogil:
        cdef Py_ssize_t e
        cdef bint noted = self.has_notes(events, begin, end)
        cdef const double* then = NULL
        for e in range(begin, end):
            if events.count(e) > 0.0:
                if <void*> events == <void*> self.late:
                    then = &self.context[e, 0]
                self.learn_one(
                    events.row(e), events.tasks[e], events.labels[e], events.count(e),
                    self.offset_of(events, e), noted, then,
                )
        if self.subspace.keep_up(self.clock[1], &self.clock[2], end - begin):
            self.stream.directions_at = self.stream.answers
        self.coming.n = 0
        return 0

    cdef int notice(self, Events events, Py_ssize_t begin, Py_ssize_t end) except -1 nogil:
        """Units are learned from all rows: those with labels may have been chosen."""
        cdef Py_ssize_t e
        for e in range(begin, end):
            count_size(&self.clock[0], self.scales.count(events.row(e)).x2, 1.0)
            if self.number:
                self.rebase_changed()
        return 0

    cdef int learn_one(
        self, Row x, long long task, double y, double h, double offset, bint noted,
        const double* then,
    ) except -1 nogil:
        """Learn an event that counts as h of them; ``then`` is the context of its prediction, if late."""
        cdef Outputs* o = &self.outputs
        cdef double unit, shift, common = self.scales.common()
        cdef bint first = self.clock[1] == 0.0
        cdef Scaled row
        if self.number:
            self.check_answer(y - offset, h)
        if not self.personal.dense:
            self.personal.reserve(task, self.scales.n_entries(x))  # first: there may be no memory
        self.curves.reserve(task, self.functions.used())
        if self.number:
            self.global_block.reserve()
        self.scales.held = self.number and self.is_shard()
        row = self.scales.count_seen(x) if noted else self.scales.count(x)
        if self.number and self.rebase_changed():
            noted = False
        if first:  # there is no unit yet, so the first event is its own
            count_size(&self.clock[0], row.x2, h)
        unit = o.unit if noted and not first else self.unit()
        if self.settle_blocks(row.index, row.n, self.is_shard(), False):
            noted = False
        if not noted or first or self.scales.common() != common:  # else no unit has changed since
            self.read(x, row, task, offset, unit, o)
            if o.V > 0.0:
                self.stack(task, o)
        if o.V > 0.0 and not (self.scales.held and unit == 0.0):  # two answers differ
            self.learn_event(
                x, row, task, y - self.stream.origin if self.number else y, h, unit, o, then
            )
        if not first:
            count_size(&self.clock[0], row.x2, h)
        if self.global_block.n_columns > 1:
            self.functions.held = self.is_shard()
            self.functions.count(x)
        if not self.is_shard():
            self.choose_functions()
        if self.number:
            self.count_answer(y - offset, h)
            if not self.scales.held:
                self.settle_unit()
        else:
            self.stream.answers += h
        return 0

    cdef void learn_event(
        self, Row given, Scaled row, long long task, double y, double h, double unit, Outputs* o,
        const double* then,
    ) noexcept nogil:
        """Let every part learn the event that was read last."""
        cdef double shift
        self.learn_frozen(task, y, h, o)
        shift = self.learn_moment(y, h, o, then)
        self.renew_copies(row, task, o)
        self.move_learners(given, row, task, y, h, unit, o)
        self.functions.score(self.residual)
        self.learn_stacking(task, y, h, shift, o)
        if self.stream.answers >= self.stream.variances_due:
            self.estimate_variances()

    cdef bint settle_blocks(
        self, const int* counted, Py_ssize_t n, bint keep, bint leave
    ) noexcept nogil:
        """Let features join and leave the blocks, unless the places are kept; true if any did."""
        cdef bint changed
        self.global_block.settle()
        self.mixed_block.settle()
        if keep:
            return False
        self.mixed_block.choose(counted, n, self.scales, leave)
        changed = self.global_block.choose(counted, n, self.scales, leave)
        if self.scales.events() >= SURE_EVENTS and (leave or have_doubled(self.scales.events())):
            changed = self.share_places() or changed
        self.restart_scores()
        return changed

    cdef void restart_scores(self) noexcept nogil:
        """Restart the sums of products, which are kept by place, where a place was taken from somebody."""
        if self.global_block.moved:
            self.functions.scores[:, :] = 0.0
            self.global_block.moved = False

    cdef bint share_places(self) noexcept nogil:
        """Give places to the features that say most, if more are frequent than there are places.

        Where a quarter of all entries are of rare features, as in text, all leave for good.
        """
        cdef double least = JOIN_SHARE * self.scales.events(), entries = 0.0, frequent = 0.0, count, bar
        cdef Py_ssize_t j, worst, waiting = 0, width = self.scales.width()
        cdef bint changed = False
        if self.global_block.closed() or self.variance_of_answers() == 0.0 \
                or self.global_block.n_columns < self.global_block.most_columns:
            return False
        for j in range(width):
            count = self.scales.count_of(j)
            entries += count
            if count >= least:
                frequent += count
                waiting += not self.global_block.place[j]
        if waiting == 0:
            return False
        if frequent < TABLE_SHARE * entries:
            self.mixed_block.close()
            self.global_block.close()
            for j in range(self.features.shape[0]):  # once for both: they may be very many
                self.mixed_block.close_weight(j)
                self.global_block.close_weight(j)
            return True
        worst = self.least_worthy(&bar)
        for j in range(width):
            if self.global_block.place[j] or self.scales.count_of(j) < least or self.worth(j) <= bar:
                continue
            self.mixed_block.remove(self.mixed_block.place[worst])
            self.global_block.remove(self.global_block.place[worst])
            self.mixed_block.add(j)
            self.global_block.add(j)
            worst = self.least_worthy(&bar)
            changed = True
        return changed

    cdef Py_ssize_t least_worthy(self, double* bar) noexcept nogil:
        """Return the feature with a place that says least, and what another must say to get it."""
        cdef Py_ssize_t k, worst = 1
        cdef double worth
        bar[0] = INFINITY
        for k in range(1, self.global_block.count):
            if self.global_block.has_column(k):
                worth = self.worth(<Py_ssize_t> self.global_block.frequent[k]) + WORTH_MARGIN
                if worth < bar[0]:
                    bar[0], worst = worth, k
        return <Py_ssize_t> self.global_block.frequent[worst]

    cdef double worth(self, Py_ssize_t j) noexcept nogil:
        """How many standard deviations a feature's weight is from 0, squared, and its waves likewise."""
        cdef const FeatureState* f = self.feature(j)
        cdef Py_ssize_t k = self.global_block.place[j]
        cdef double total = f.global_.mean**2 / (self.c.global_prior - f.global_.spent)
        if self.number:
            total /= self.variance_of_answers()
        return total + (curvature(self.functions.sketch(k)) if k else 0.0)

    cdef void learn_frozen(self, long long task, double y, double h, Outputs* o) noexcept nogil:
        """The stacking model of frozen predictions learns from margins by old weights."""
        cdef double margin
        cdef Step step
        if self.stream.answers <= self.c.frozen_min_events:
            return
        margin = self.frozen_margin(o.copied_base, o.copied, o)
        if self.number:
            self.learn_noise(task, y - margin, margin, h, o)
        step = self.stacking_step(
            y, margin, o.frozen.variance / o.V, h, o.V, &self.stream.frozen_noise
        )
        self.frozen.update(step, &o.frozen)

    cdef Step stacking_step(
        self, double y, double margin, double variance, double h, double V, double* noise
    ) noexcept nogil:
        """A step of a stacking model, whose inputs are margins."""
        cdef Step step
        if not self.number:
            return logistic(y, margin, variance, h)
        step = self.number_step(
            y - margin, variance, 1.0, h, V, noise, self.c.stacking_degrees_of_freedom
        )
        step.a /= V
        step.b /= V
        return step

    cdef Step number_step(
        self, double error, double variance, double size, double h, double V, double* noise,
        double nu,
    ) noexcept nogil:
        """A step on an error by Student's t of ``nu`` degrees of freedom, in units V.

        An error much larger than expected counts for little. The noise follows the gradient of its
        log-likelihood. ``size`` bounds rounding errors.
        """
        cdef double s2 = noise[0], total = variance + s2, e2 = error * error / V, trust, rate
        cdef Step step
        trust = (nu + 1.0) / (nu + e2 / total)
        step.b = 1.0 / (variance + max(s2 / (trust * h), LEAST_NOISE * size))
        step.a = step.b * error
        rate = max(2.0 / (self.stream.answers + self.c.noise_events), self.c.noise_pace)
        rate = min(MAX_NOISE_RATE, h * rate)
        noise[0] = max(LEAST_NOISE, s2 * (1.0 + rate * (trust * e2 / total - 1.0)))
        return step

    cdef inline double loss(
        self, double y, double margin, double variance, double noise, double V
    ) noexcept nogil:
        """Negative log-likelihood of an answer, but for what depends on the variance alone."""
        cdef double nu = self.c.degrees_of_freedom, error = y - margin
        if not self.number:
            return softplus(-y * margin)
        return 0.5 * (nu + 1.0) * log1p(error * error / V / (nu * (variance + noise)))

    cdef double learn_moment(
        self, double y, double h, const Outputs* o, const double* then
    ) noexcept nogil:
        """Weigh the moment by what it predicted, and let it step; return the offset it gives."""
        cdef StreamState* stream = self.stream
        cdef double settled = o.settled, moment = o.moment, weight, gain
        cdef double shift = 0.0
        cdef double noise = stream.live_noise, scale = self.moment_scale()
        cdef double forgetting = h * self.c.moment_forgetting
        cdef Step step
        cdef Py_ssize_t k
        cdef PlaceState* place
        if self.number:
            step = self.number_step(
                y - o.settled - o.moment, o.moment_variance, 1.0, h, o.V, &noise,
                self.c.stacking_degrees_of_freedom,
            )
        else:
            step = logistic(y, o.settled + o.moment, o.moment_variance, h)
        noise = stream.live_noise
        if then != NULL and stream.answers - then[0] > h:  # not NaN: else it is learned as at once
            settled, moment = then[1], then[2]
        if stream.tracking > 0.0:
            gain = h * (
                self.loss(y, settled, o.variance, noise, o.V)
                - self.loss(y, settled + moment, o.variance, noise, o.V)
            )
            weight = stream.tracking * exp(max(-MAX_GAIN, min(MAX_GAIN, gain)))
            weight /= weight + 1.0 - stream.tracking
            stream.tracking = weight + self.c.tracking_share * (self.c.tracking_prior - weight)
            stream.drift += self.c.drift_rate * (stream.tracking - stream.drift)
        if stream.drift > self.c.tracking_prior:
            shift = stream.tracking * o.moment
        step.a *= scale
        step.b *= scale
        stream.moment_variance += h * self.c.moment_pace
        stream.moment += step.a * stream.moment_variance
        stream.moment_variance -= step.b * stream.moment_variance * stream.moment_variance
        stream.moment_variance = max(0.0, stream.moment_variance)
        for k in range(1, self.global_block.n_active_columns):
            place = self.place(self.global_block.active[k])
            move(
                &place.moment_mean, &place.moment_spent, self.c.moment_prior, step,
                self.global_block.value[k],
            )
            forget(&place.moment_spent, self.c.moment_prior, forgetting)
        return shift

    cdef void renew_copies(self, Scaled x, long long task, const Outputs* o) noexcept nogil:
        """Copy weights whose copies are old, before they change."""
        cdef double now = self.stream.answers + 1.0, growth = self.c.copy_growth
        cdef TaskState* t = self.task(task)
        cdef PairState* p
        cdef CurveState* own
        cdef Py_ssize_t k, j
        copy_weights(self.intercept, now, growth)
        if now >= growth * t.copied_at or t.copied_at <= self.stream.directions_at:
            t.level.copy, t.copied_at = o.level, now
            t.own_level.copy, t.own_level_spent_copy = t.own_level.mean, t.own_level.spent
            for k in range(RANK):
                t.factor_copy[k] = self.factor[task, RANK * self.subspace.side() + k]
        for k in range(self.functions.n_active):
            j = self.functions.active[k]
            copy_weights(&self.function(j).shared, now, growth)
            own = self.curve_state(k)
            if self.curve[k] >= 0 and is_old(&own.copied_at, now, growth):
                own.slope.copy = mean_of(&own.slope, self.curve_variance(j))
        for k in range(x.n):
            j = x.index[k]
            copy_weights(self.feature(j), now, growth)
            p = self.pair_state(k, task, j)
            if p != NULL and is_old(&p.copied_at, now, growth):
                p.hinge.copy = p.hinge.mean
                p.slope.copy = mean_of(&p.slope, self.slope_variance(j))

    cdef inline PairState* pair_state(
        self, Py_ssize_t k, long long task, Py_ssize_t j
    ) noexcept nogil:
        """Own numbers of the k-th entry of the row that was last read; NULL where there are none."""
        if self.personal.dense:
            return (<PairState*> self.personal.dense_row(task)) + j
        if self.pair[k] < 0:
            return NULL
        return (<PairState*> self.personal.value) + self.pair[k]

    cdef void move_learners(
        self, Row given, Scaled x, long long task, double y, double h, double unit, Outputs* o
    ) noexcept nogil:
        """A step of each learner on its own loss."""
        cdef Step hinge, own, all_, mixed, shared
        cdef double scale = self.global_block.scale, prior = self.c.global_prior, value, change
        cdef double variance, size = 1.0 / sqrt(o.V)
        cdef double[GRID] products
        cdef double* F = &self.factor[task, RANK * self.subspace.side()]
        cdef const double* b
        cdef const unsigned char* place = self.global_block.place
        cdef FeatureState* f
        cdef PairState* p
        cdef Personal before
        cdef TaskState* t = self.task(task)
        cdef Py_ssize_t k, j
        cdef int c
        t.evidence += h * (
            self.loss(y, o.without + o.offset, o.mixed_variance, self.stream.mixed_noise, o.V)
            - self.loss(y, o.p[MIXED] + o.offset, o.mixed_variance, self.stream.mixed_noise, o.V)
        )
        self.add_level_evidence(&t.level, y, h, o)
        self.find_steps(y, h, o, &hinge, &own, &all_, &mixed)
        change = self.global_block.move(all_)
        if self.number:
            self.add_errors(1.0, all_.a * (y - o.offset - o.p[GLOBAL]) - change)
        else:
            self.learn_agreement(t, y, h, o)
        shared.a = max(0.0, o.agreement) * mixed.a
        shared.b = max(0.0, o.agreement) * mixed.b
        self.mixed_block.move(shared)
        if self.subspace.phase() == PROJECT:
            self.follow(x, task, unit, own.a)
        for c in range(GRID):
            products[c] = 1.0
        for k in range(x.n):
            self.ask_feature(k)
            value = x.value[k] * unit
            if value == 0.0 and t.level.precision > 0.0:  # at the feature's centre
                continue
            j = x.index[k]
            f = self.feature(j)
            p = self.pair_state(k, task, j)
            if p == NULL:
                self.pair[k] = self.personal.found(task, j)
                p = self.pair_state(k, task, j)
                p.copied_at = self.stream.answers + 1.0
            move_weight(&f.hinge, 1.0, hinge, value)
            if not place[j]:  # the blocks move the others
                move_scaled(&f.global_, prior, scale, all_, value)
                move_scaled(&f.mixed, prior, scale, shared, value)
            change = move_weight(&p.hinge, 1.0, own, value)
            b = self.subspace.row(j, self.subspace.side())
            for c in range(RANK):
                F[c] += change * b[c]
            before, variance = p.slope, self.slope_variance(j)
            observe(&p.slope, variance, mixed, value)
            add_evidence(
                self.stream.slope_evidence, products, self.slope_grid.least, size, before, p.slope
            )
            if place[j]:
                replace_evidence(
                    self.place(place[j]).evidence, self.slope_grid.least, size, before, p.slope
                )
        if self.global_block.n_columns > 1 or self.stream.answers == 0.0:  # no text
            self.note_values(given, task)
        finish_evidence(self.stream.slope_evidence, products)
        self.move_curves(task, size, mixed)
        observe(&t.level, self.stream.level_variance, mixed, 1.0)
        if self.number:
            move_weight(&t.own_level, 1.0, own, 1.0)

    cdef void learn_agreement(self, TaskState* t, double y, double h, const Outputs* o) noexcept nogil:
        """Log-likelihoods of the shared margin around its mean, and of its opposite, beyond that mean."""
        cdef double rise, level, loss
        if t.shared_events == 0.0:
            t.shared_mean = o.without
        rise, level = o.without - t.shared_mean, o.level + t.shared_mean + o.offset
        loss = softplus(-y * level)
        t.agrees += h * (loss - softplus(-y * (level + rise)))
        t.opposes += h * (loss - softplus(-y * (level - rise)))
        t.shared_events += h
        t.shared_mean += h * rise / t.shared_events

    cdef inline bint has_zeros(self, Py_ssize_t j) noexcept nogil:
        """Whether a zero is a value of a feature."""
        return has_zeros(<const Column*> &self.scales.columns[j, 0], self.scales.events())

    cdef void note_values(self, Row given, long long task) noexcept nogil:
        """Note the values of a row, to tell which vary within a task.

        The values themselves are not kept: they may be what the task is known by.
        """
        cdef bint first = self.task(task).level.precision == 0.0
        cdef unsigned long long bits
        cdef double value, hashed
        cdef PairState* p
        cdef Py_ssize_t e, f
        for e in range(given.n):
            f, value = column(given, e), given.value[e] + 0.0  # -0 is 0
            if given.index == NULL and value == 0.0 and not self.has_zeros(f):  # no value
                continue
            if not self.personal.dense and self.personal.find(task, f) < 0 \
                    and not (first and value != 0.0):
                continue
            p = <PairState*> self.personal.touch(task, f)
            memcpy(&bits, &value, sizeof(bits))
            hashed = 1.0 + <double> ((bits * HASH_FACTOR) >> 48)
            if p.value_hash == 0.0 and first:
                p.value_hash = hashed
            elif hashed != p.value_hash:  # earlier events of the task had another value, or none
                p.value_hash = VARIED

    cdef void find_steps(
        self, double y, double h, const Outputs* o, Step* hinge, Step* own, Step* all_, Step* mixed
    ) noexcept nogil:
        """Steps of the four learners, each on its own loss."""
        cdef double shift = tanh(0.5 * o.offset) if o.offset != 0.0 else 0.0  # 2 P - 1, as hinges estimate
        cdef double size = 1.0 + o.x2, V = o.V, nu = self.c.degrees_of_freedom
        cdef double noise = self.stream.global_noise  # estimated by its marginal likelihood
        cdef StreamState* s = self.stream
        cdef double count = h * fabs(o.agreement), side = 1.0 if o.agreement > 0.0 else -1.0
        if not self.number:
            hinge[0] = arow(
                side * y, o.p[HINGE] + side * shift, o.hinge_variance, self.c.arow_r / count
            )
            own[0] = arow(y, o.p[OWN] + shift, o.own_variance, self.c.arow_r / h)
            all_[0] = logistic(
                side * y, o.p[GLOBAL] + side * o.offset, o.global_variance, count
            )
            if self.global_block.closed():
                all_.a = all_.b = 0.0
            mixed[0] = logistic(y, o.p[MIXED] + o.offset, o.mixed_variance, h)
            self.residual = y / (1.0 + exp(y * (o.p[MIXED] + o.offset)))
            return
        y -= o.offset
        hinge.a = hinge.b = 0.0
        own[0] = self.number_step(y - o.p[OWN], o.own_variance, size, h, V, &s.own_noise, nu)
        all_[0] = self.number_step(y - o.p[GLOBAL], o.global_variance, size, h, V, &noise, nu)
        mixed[0] = self.number_step(y - o.p[MIXED], o.mixed_variance, size, h, V, &s.mixed_noise, nu)
        self.residual = mixed.a / sqrt(mixed.b * V)

    cdef void add_level_evidence(
        self, const Personal* level, double y, double h, const Outputs* o
    ) noexcept nogil:
        """Log-likelihood of the answer under each variance of tasks' levels."""
        cdef double prior = self.level_grid.least, variance, margin, loss
        cdef int c
        for c in range(GRID):
            variance = variance_left(level, prior)
            margin = o.slopes + variance * level.information
            variance += o.slopes_variance
            margin = self.moderated(margin, variance) + o.offset
            loss = self.loss(y, margin, variance, self.stream.mixed_noise, o.V)
            if self.number:
                loss += 0.5 * log(variance + self.stream.mixed_noise)
            self.stream.level_evidence[c] -= h * loss
            prior *= 10.0

    cdef void move_curves(self, long long task, double size, Step mixed) noexcept nogil:
        """A step of the task's slopes of functions."""
        cdef Py_ssize_t k, f
        cdef Personal* slope
        cdef Personal before
        cdef FunctionState* state
        for k in range(self.functions.n_active):
            f = self.functions.active[k]
            if self.curve[k] < 0:
                self.curve[k] = self.curves.found(task, f)
                self.curve_state(k).copied_at = self.stream.answers + 1.0
            slope, state = &self.curve_state(k).slope, self.function(f)
            before = slope[0]
            if before.precision == 0.0:
                state.tasks += 1.0
            observe(slope, self.curve_variance(f), mixed, self.functions.value[k])
            replace_evidence(state.evidence, self.curve_grid.least, size, before, slope[0])
            state.information += slope.information - before.information
            state.precision += slope.precision - before.precision

    cdef void follow(self, Scaled x, long long task, double unit, double a) noexcept nogil:
        """Let the next F know of a step of the own hinge learner."""
        cdef Py_ssize_t k
        cdef const PairState* p
        for k in range(x.n):
            p = self.pair_state(k, task, x.index[k])
            if p != NULL:
                self.subspace.follow(
                    task, x.index[k], self.pair[k], a * (1.0 - p.hinge.spent) * x.value[k] * unit
                )

    cdef void learn_stacking(
        self, long long task, double y, double h, double shift, const Outputs* o
    ) noexcept nogil:
        """A step of the stacking weights, given the moment."""
        cdef Step step = self.stacking_step(
            y, o.settled + shift, o.variance, h, o.V, &self.stream.live_noise
        )
        cdef double spread
        if self.number:
            spread = self.spread(task, o.settled, o.variance, self.stream.live_noise, o)
            remember(self.errors, fabs(y - o.settled - shift) / spread, h, self.c.error_memory)
            self.task(task).residual, self.task(task).answer = y - o.settled, y - o.offset
        self.live.update(step, &o.live)

    cdef void estimate_variances(self) noexcept nogil:
        """Variances of tasks' levels and slopes, by the evidence so far."""
        cdef StreamState* stream = self.stream
        cdef double centre = self.slope_grid.start
        cdef PlaceState* place
        cdef Py_ssize_t k
        stream.level_variance = expected_variance(
            stream.level_evidence, self.level_grid, self.level_grid.start
        )
        stream.slope_variance = expected_variance(stream.slope_evidence, self.slope_grid, centre)
        for k in range(1, self.global_block.count):
            if not self.global_block.has_column(k):
                continue
            place = self.place(k)
            place.variance = expected_variance(
                place.evidence, self.slope_grid, stream.slope_variance
            )
        for k in range(self.function_states.shape[0]):
            if self.functions.definition(k).used != 0.0 and self.function(k).tasks > 0.0:
                self.estimate_curve_variance(self.function(k))
        stream.variances_due = VARIANCES_GROWTH * stream.answers + 1.0
        if self.number and not self.is_shard():
            self.estimate_noise()

    cdef void estimate_noise(self) noexcept nogil:
        """Noise of the global learner by its marginal likelihood (MacKay), for all past events, too."""
        cdef StreamState* s = self.stream
        cdef double V = self.variance_of_answers(), old = s.global_noise, noise
        cdef double start = self.c.global_noise_events, change = 0.0
        if V == 0.0 or self.global_block.closed():
            return
        noise = start + old * max(0.0, s.global_errors) / V
        noise = min(1.0, noise / (start + max(0.0, s.answers - self.global_block.known())))
        noise = max(old / MAX_NOISE_RATIO, min(old * MAX_NOISE_RATIO, noise))
        if alike(noise, old) or not self.global_block.reweigh(old / noise, &change):
            return
        s.global_noise = noise
        self.add_errors(old / noise, change)

    cdef inline void add_errors(self, double ratio, double change) noexcept nogil:
        """Update the squared errors of the global learner; they begin anew where they overflow."""
        cdef double errors = ratio * self.stream.global_errors + change
        self.stream.global_errors = errors if isfinite(errors) else 0.0

    cdef void estimate_curve_variance(self, FunctionState* state) noexcept nogil:
        """Variance of tasks' slopes of a function, without what all tasks have in common."""
        cdef double square = state.information * state.information / self.variance_of_answers()
        cdef double prior = self.curve_grid.least
        cdef double[GRID] evidence
        cdef int c
        for c in range(GRID):
            evidence[c] = state.evidence[c] - 0.5 * prior * square / (state.tasks + prior * state.precision)
            prior *= 10.0
        state.variance = expected_variance(evidence, self.curve_grid, self.curve_grid.start)

    # --- functions of columns -----------------------------------------------------------------------

    cdef bint choose_functions(self) noexcept nogil:
        """Let waves of columns and the best products join, as long as there is room; true if due."""
        cdef Definition found
        cdef Py_ssize_t k, o, joined = 0
        cdef bint full = False
        if self.stream.answers < self.stream.functions_due or self.function_states.shape[0] == 0:
            return False
        self.stream.functions_due = max(FIRST_CHOICE, CHOICE_GROWTH * self.stream.answers)
        for k in range(self.function_states.shape[0]):  # their features may have left
            if self.functions.definition(k).used != 0.0 \
                    and not self.has_features(self.functions.definition(k)):
                self.drop_function(k)
        found.used, found.second, found.second_order = 1.0, -1.0, 0.0
        while not full and self.global_block.count < MOST_PLACES - CROSSES:
            k = self.best_curve()
            if k == 0:
                break
            found.feature = self.global_block.frequent[k]
            for o in range(WAVES):
                found.order = o + 1.0
                if self.global_block.count < MOST_PLACES - CROSSES:
                    full = not self.add_function(&found)
        if self.stream.answers >= FIRST_CROSSES:
            while joined < CROSSES_AT_ONCE and self.global_block.count < MOST_PLACES \
                    and self.functions.best_product(CROSS_THRESHOLD, &found):
                found.feature = self.global_block.frequent[<Py_ssize_t> found.feature]
                found.second = self.global_block.frequent[<Py_ssize_t> found.second]
                if not self.functions.is_known(&found):
                    self.add_function(&found)
                    joined += 1
        self.restart_scores()
        return True

    cdef Py_ssize_t best_curve(self) noexcept nogil:
        """Find the place of the number farthest from a line that has no waves yet, or 0."""
        cdef Definition wave
        cdef Py_ssize_t k, best = 0
        cdef double chi_square, most = WAVES_THRESHOLD if self.number else -1.0
        wave.order, wave.second, wave.second_order = 1.0, -1.0, 0.0
        for k in range(1, self.global_block.count):
            if not self.global_block.has_column(k) or self.functions.sketch(k).is_number == 0.0:
                continue
            wave.feature = self.global_block.frequent[k]
            chi_square = curvature(self.functions.sketch(k))
            if chi_square > most and not self.functions.is_known(&wave):
                most, best = chi_square, k
        return best

    cdef bint has_features(self, const Definition* d) noexcept nogil:
        """Whether the features of a function have places."""
        return self.has_place(d.feature) and (d.second < 0.0 or self.has_place(d.second))

    cdef bint has_place(self, double feature) noexcept nogil:
        """Whether there is such a feature, and it has a place."""
        return 0.0 <= feature < self.features.shape[0] \
            and self.global_block.place[<Py_ssize_t> feature] != 0

    cdef bint add_function(self, const Definition* d) noexcept nogil:
        """Let a function join both blocks; false if there is no room."""
        cdef Py_ssize_t f = self.functions.free()
        if f < 0 or self.mixed_block.count >= self.mixed_block.frequent.shape[0]:
            return False
        self.functions.definition(f)[0] = d[0]
        self.function_states[f, :] = 0.0
        self.global_block.add(FIRST_FUNCTION + f)
        self.mixed_block.add(FIRST_FUNCTION + f)
        self.functions.lose_track()
        return True

    cdef void drop_function(self, Py_ssize_t f) noexcept nogil:
        """Take a function out of both blocks."""
        if self.global_block.function_place[f]:
            self.global_block.remove(self.global_block.function_place[f])
        if self.mixed_block.function_place[f]:
            self.mixed_block.remove(self.mixed_block.function_place[f])
        self.functions.definition(f).used = 0.0
        self.functions.lose_track()
        self.forget_curves(f)

    cdef void forget_curves(self, Py_ssize_t f) noexcept nogil:
        """No task has a slope of a function any more."""
        cdef Py_ssize_t pair, task = 0, function = 0
        cdef double* own
        for pair in range(self.curves.used):
            own = self.curves.visit(pair, &task, &function)
            if function == f:
                memset(own, 0, sizeof(CurveState))

    # --- numbers ----------------------------------------------------------------------------------

    cdef int check_answer(self, double y, double h) except -1 nogil:
        """Raise where an answer is too far from the others to be learned."""
        cdef double V = self.variance_of_answers(), error = fabs(y - self.stream.origin)
        if self.stream.answers > 0.0 and (error > MAX_ERROR or (V > 0.0 and error > MAX_ERROR * sqrt(V))):
            with gil:
                raise FloatingPointError(
                    f"the target {y:g} with weight {h:g} is too far "
                    "from the others to be learned; scale it or drop the event"
                )
        return 0

    cdef void count_answer(self, double y, double h) noexcept nogil:
        """Count an answer, from the first of them."""
        cdef StreamState* s = self.stream
        if s.answers == 0.0:
            s.origin = y
        s.answers += h
        s.total += h * (y - s.origin)
        s.squares += h * (y - s.origin) * (y - s.origin)

    cdef bint rebase_changed(self) noexcept nogil:
        """Express weights in the units that the last row has changed; true if there are any."""
        cdef Py_ssize_t k
        for k in range(self.settled.n_changes):
            self.rebase(
                self.settled.changed[k], self.settled.ratio[k],
                self.stream.unit * self.settled.moved[k],
            )
        return self.settled.n_changes > 0

    cdef void settle_unit(self) noexcept nogil:
        """Replace the unit of rows where it is far off."""
        cdef double unit = unit_of(&self.clock[0])
        cdef Py_ssize_t j
        if self.clock[1] == 0.0 or alike(unit, self.stream.unit):
            return
        if self.stream.unit > 0.0:
            for j in range(self.features.shape[0]):
                self.rebase(j, self.stream.unit / unit, 0.0)
        self.stream.unit = unit

    cdef void rebase(self, Py_ssize_t j, double ratio, double shift) noexcept nogil:
        """Express the weights of a feature in a new unit and around a new centre.

        A weight times ``ratio`` and the intercept plus ``shift`` times the weight make the same
        predictions. Where the ratio is far from 1 the weights are forgotten.
        """
        cdef Py_ssize_t pair, task = 0, feature = 0
        cdef FeatureState* f = self.feature(j)
        cdef double* own
        if not fabs(shift) < MAX_SHIFT:  # values there were cut
            shift = ratio = 0.0
        if not 1.0 / MAX_RATIO < ratio < MAX_RATIO:
            ratio = 0.0
        self.intercept.global_.copy += shift * f.global_.copy
        self.intercept.mixed.copy += shift * f.mixed.copy
        f.global_.copy *= ratio
        f.mixed.copy *= ratio
        self.global_block.rebase(j, ratio, shift)
        self.mixed_block.rebase(j, ratio, shift)
        if self.personal.dense:
            for task in range(self.tasks.shape[0]):
                self.rebase_pair(task, j, self.personal.touch(task, j), ratio, shift)
        elif self.personal.used <= MAX_SEARCH:
            for pair in range(self.personal.used):
                own = self.personal.visit(pair, &task, &feature)
                if feature == j:
                    self.rebase_pair(task, j, own, ratio, shift)

    cdef void rebase_pair(
        self, Py_ssize_t task, Py_ssize_t j, double* own, double ratio, double shift
    ) noexcept nogil:
        """`rebase` of what a task has of its own."""
        cdef PairState* p = <PairState*> own
        cdef TaskState* t = self.task(task)
        cdef double variance, change = -p.hinge.mean
        cdef int c, side = self.subspace.side()
        cdef const double* b = self.subspace.row(j, side)
        if p.slope.precision == 0.0:  # never learned
            return
        variance = variance_left(&p.slope, self.slope_variance(j))
        shift_level(
            &t.level, shift * p.slope.information * variance, shift * shift * variance,
            self.stream.level_variance,
        )
        t.level.copy += shift * p.slope.copy
        t.own_level.copy += shift * p.hinge.copy
        rebase_own(&p.hinge, &t.own_level, ratio, shift)
        change += p.hinge.mean
        for c in range(RANK):
            self.factor[task, RANK * side + c] += change * b[c]
        if self.subspace.phase() == PROJECT:
            self.subspace.follow(
                task, j, (own - self.personal.value) // self.personal.width, change
            )
        p.hinge.copy *= ratio
        p.slope.copy *= ratio
        if ratio == 0.0:
            p.slope.information = p.slope.precision = 0.0
        else:
            p.slope.information /= ratio
            p.slope.precision /= ratio * ratio

    cdef inline double standing(self, double margin, const Outputs* o) noexcept nogil:
        """A prediction in standard deviations of the answers from their mean, within 3."""
        cdef double mean = self.stream.total / self.stream.answers
        return max(-3.0, min(3.0, (margin - o.offset - mean) / sqrt(o.V)))

    cdef double noise_factor(self, long long task, double standing) noexcept nogil:
        """Noise of a task's prediction by that of all."""
        cdef const StreamState* s = self.stream
        cdef double rise = s.rise_above if standing > 0.0 else s.rise_below
        cdef double found = self.task(task).log_noise + rise * fabs(standing)
        return exp(max(-MAX_LOG_NOISE, min(MAX_LOG_NOISE, found)))

    cdef double spread(
        self, long long task, double margin, double variance, double noise, const Outputs* o
    ) noexcept nogil:
        """Expected size of the error of a margin, whose variance is that of the stacking model."""
        if noise > 0.0:
            noise *= self.noise_factor(task, self.standing(margin, o))
        return sqrt(o.V * (variance + o.mixed_variance + noise))

    cdef void learn_noise(
        self, long long task, double error, double margin, double h, const Outputs* o
    ) noexcept nogil:
        """Learn how noise depends on the task and on the prediction, which is by copies."""
        cdef TaskState* t = self.task(task)
        cdef StreamState* s = self.stream
        cdef double standing = self.standing(margin, o)
        cdef double noise = s.frozen_noise * self.noise_factor(task, standing)
        cdef double variance = o.frozen.variance / o.V + o.mixed_variance + noise, larger, step
        cdef double known = t.own_level_spent_copy, prior = s.level_variance
        # A level that was less known when it was copied:
        variance += max(0.0, prior / (1.0 + prior * known / (1.0 - known)) - o.level_variance)
        larger = remember(
            self.frozen_errors, fabs(error) / sqrt(o.V * variance), h, 1.0 - self.c.noise_pace
        )
        step = h * (-log(larger) - 1.0) * noise / variance  # the logarithm has mean -1
        t.noise_events += h
        t.log_noise += step / (self.c.noise_events + TASK_NOISE_SHARE * t.noise_events)
        step /= self.c.noise_events + NOISE_RISE_SHARE * s.answers
        if standing > 0.0:
            s.rise_above += step * standing
        else:
            s.rise_below -= step * standing

    cdef double read_without_unseen(self, Events events, Py_ssize_t e, Outputs* o) noexcept nogil:
        """Read an event without the features that none had; return the variance of what they add.

        Their weights are expected to be as large as those of frequent features, and one by the prior.
        """
        cdef Py_ssize_t k, j, n = 1
        cdef double mean, value, prior = self.c.global_prior
        cdef double total = prior, squares = 0.0, slopes = 0.0
        self.read_event(events, e, o, False)
        for k in range(self.scales.n_seen):
            j = self.scales.index[k]
            if self.scales.count_of(j) == 0.0:
                value = self.scales.value[k] * o.unit
                squares += value * value
                slopes += self.slope_variance(j) * value * value
        if squares == 0.0 or o.V == 0.0:
            return 0.0
        for k in range(1, self.mixed_block.count):
            if self.mixed_block.has_column(k):
                mean = self.mixed_block.mean_of(k)[0]
                total += mean * mean / o.V + prior - self.mixed_block.spent[k, k]
                n += 1
        self.read_event(events, e, o, True)
        return total / n * squares * self.mixed_block.scale + slopes

    def spreads(self, Events events not None, bint frozen, bint with_noise):
        """Standard deviations (2, n) of each margin; ``with_noise`` expected sizes of its error.

        The first are without features that no event had. Without noise it is the error of the
        stacked mean by the posterior of *mixed*, which has another mean; where that is far off,
        as if classes are separable, it counts at most as much as the variance.
        """
        self.check_idle()
        self.drop_notes()
        cdef Outputs* o = &self.outputs
        cdef Py_ssize_t e
        cdef double margin, mean, variance, noise, unseen
        cdef double[:, ::1] spread = np.zeros((2, events.n))
        for e in range(events.n):
            unseen = self.read_without_unseen(events, e, o)
            if o.V == 0.0:
                continue
            if frozen:
                margin, noise = self.frozen_margin(o.base, o.z, o), self.stream.frozen_noise
                mean, variance = o.frozen.mean, o.frozen.variance / o.V
            else:
                self.stack(events.tasks[e], o)
                margin, noise, variance = o.settled, self.stream.live_noise, o.variance
                mean = o.live.mean
            if not with_noise:
                variance += min((mean - o.slopes - o.level) ** 2 / o.V, o.mixed_variance)
            noise = noise if with_noise else 0.0
            spread[0, e] = self.spread(events.tasks[e], margin, variance, noise, o)
            spread[1, e] = self.spread(events.tasks[e], margin, variance + unseen, noise, o)
        return np.asarray(spread)

    # --- answers that come late ---------------------------------------------------------------

    def answer_variance(self):
        """Variance of the answers of numbers; 0 until two of them differ."""
        return self.variance_of_answers()

    def prediction_context(self, Events events not None):
        """Return the number of events learned and two margins of each event (n, 3)."""
        self.check_idle()
        self.drop_notes()
        self.coming.n = 0
        cdef Py_ssize_t e
        cdef Outputs* o = &self.outputs
        cdef double[:, ::1] context = np.empty((events.n, CONTEXT))
        for e in range(events.n):
            self.read_event(events, e, o, False)
            o.settled = o.moment = 0.0
            if o.V > 0.0:
                self.stack(events.tasks[e], o)
            context[e, 0], context[e, 1], context[e, 2] = self.stream.answers, o.settled, o.moment
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

    # --- what lies behind a margin, for those who explain it -----------------------------------

    def entries(self, Events events not None):
        """Return what a frozen prediction reads of each event, entry by entry; zeros are left out.

        Where each event's entries start (n + 1,), their features (k,), their values in the learners'
        units (k,), their own hinge weights and slopes (k, 2); of each event the level of its task,
        the variances of the global, the mixed and the stacked margin, the task's own level, what is
        spent of its variance and the task's agreement (n, 7); values (n, f) of the functions of
        columns, and the task's slopes of these (n, f).
        """
        self.check_idle()
        self.coming.n = 0
        cdef Py_ssize_t e, k
        cdef Scaled x
        cdef Outputs* o = &self.outputs
        cdef const PairState* p
        cdef double unit = self.unit()
        cdef double[:, ::1] own, levels = np.empty((events.n, 7))
        cdef double[:, ::1] functions = np.zeros((events.n, self.function_states.shape[0]))
        cdef double[:, ::1] slopes = np.zeros((events.n, self.function_states.shape[0]))
        starts, features, values, owns = [0], [np.empty(0, np.int32)], [np.empty(0)], [np.empty((0, 2))]
        for e in range(events.n):
            x = self.scales.look(events.row(e), True)
            self.read(events.row(e), x, events.tasks[e], 0.0, unit, o)
            self.frozen_margin(o.base, o.z, o)
            levels[e, 0], levels[e, 1] = o.level, o.global_variance
            levels[e, 2], levels[e, 3] = o.mixed_variance, o.frozen.variance
            levels[e, 4] = self.task(events.tasks[e]).own_level.mean
            levels[e, 5] = self.task(events.tasks[e]).own_level.spent
            levels[e, 6] = o.agreement
            for k in range(self.functions.n_active):
                functions[e, self.functions.active[k]] = self.functions.value[k]
                if self.curve[k] >= 0:
                    slopes[e, self.functions.active[k]] = mean_of(
                        &self.curve_state(k).slope, self.curve_variance(self.functions.active[k])
                    )
            own = np.zeros((x.n, 2))
            for k in range(x.n):
                p = <const PairState*> self.personal.look(events.tasks[e], x.index[k])
                own[k, 0] = p.hinge.mean
                own[k, 1] = mean_of(&p.slope, self.slope_variance(x.index[k]))
            starts.append(starts[e] + x.n)
            features.append(np.array([x.index[k] for k in range(x.n)], np.int32))
            values.append(np.array([x.value[k] for k in range(x.n)]) * unit)
            owns.append(np.asarray(own))
        parts = (np.concatenate(part) for part in (features, values, owns))
        return np.array(starts), *parts, np.asarray(levels), np.asarray(functions), np.asarray(slopes)

    def slope_variances(self):
        """Return the prior variance (d,) of tasks' slopes of each feature."""
        cdef Py_ssize_t j
        cdef double[::1] found = np.empty(self.features.shape[0])
        self.global_block.settle()
        for j in range(found.shape[0]):
            found[j] = self.slope_variance(j)
        return np.asarray(found)

    def curve_variances(self):
        """Return the prior variance (f,) of tasks' slopes of each function."""
        cdef Py_ssize_t f
        cdef double[::1] found = np.empty(self.function_states.shape[0])
        for f in range(found.shape[0]):
            found[f] = self.curve_variance(f)
        return np.asarray(found)

    # --- shards -------------------------------------------------------------------------------

    cdef bint is_shard(self) noexcept nogil:
        """Whether this is one of several shards, which leaves the places and directions to barriers."""
        return self.clock[2] >= SHARD_EVENTS

    def others_change(self):
        """Somebody else changes the arrays: which of their rows are zero must be looked up anew."""
        self.check_idle()
        self.scales.lose_track()
        self.global_block.lose_track()
        self.mixed_block.lose_track()
        self.functions.lose_track()
        self.subspace.lose_track()

    def choose_after_merge(self, const int[::1] rows not None):
        """Choose the features with covariances and functions of them after a merge of rows.

        Of numbers units are found anew, too. Return whether any of this changed.
        """
        cdef Py_ssize_t i, n = rows.shape[0]
        cdef double events = self.scales.events()
        cdef bint changed, leave = events >= self.stream.leaving_due
        self.check_idle()
        for i in range(n):
            if not 0 <= rows[i] < self.features.shape[0]:
                raise ValueError(f"feature {rows[i]} is out of range")
        self.global_block.reserve()
        with nogil:
            if self.number:
                self.agree_on_units(rows)
                self.estimate_noise()
            if leave:
                self.stream.leaving_due = 2.0 * events
            changed = self.settle_blocks(&rows[0] if n else NULL, n, False, leave) or leave
            changed = self.choose_functions() or changed or self.number
        return changed

    cdef void agree_on_units(self, const int[::1] rows) noexcept nogil:
        """Find the units of features and of rows from what all shards counted.

        Without a unit of rows a shard learns nothing: answers have no common origin before.
        """
        self.global_block.settle()
        self.mixed_block.settle()
        self.settled.agree(rows)
        self.rebase_changed()
        self.settle_unit()
        if self.stream.unit == 0.0:  # no row has had a feature
            self.stream.unit = 1.0

    def restart_subspace(self):
        """Give up a recomputation of the subspace that is under way."""
        self.check_idle()
        self.subspace.restart()

    def gather_directions(self, const int[::1] rows not None):
        """Rows (t, 4) of W W'B, of these tasks, and the number of pairs; releases the GIL."""
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
            self.stream.directions_at = self.stream.answers
        finally:
            self.busy = False

    def orthogonalise_directions(self, double[:, ::1] values not None):
        """Make directions (t, 4) of all that is not zero orthonormal."""
        self.check_idle()
        make_orthonormal(values)


cdef inline double agreement(const TaskState* t, double odds) noexcept nogil:
    """Probability that a task's labels are like others', less that they are the opposite."""
    cdef double best = max(t.agrees, max(t.opposes, 0.0))
    cdef double agrees = odds * exp(t.agrees - best), opposes = exp(t.opposes - best)
    return (agrees - opposes) / (agrees + opposes + exp(-best))


cdef double curvature(const Sketch* s) noexcept nogil:
    """Chi-square of all waves of a column."""
    cdef double total = 0.0
    cdef Py_ssize_t o
    for o in range(WAVES):
        total += surprise(s.sums[o], s.squares[o])**2
    return total


cdef inline bint have_doubled(double events) noexcept nogil:
    """Whether the events have just doubled."""
    cdef Py_ssize_t whole = <Py_ssize_t> events
    return whole & (whole - 1) == 0


cdef inline bint is_old(double* copied_at, double now, double growth) noexcept nogil:
    """Return whether copies are old; they are made now."""
    if now < growth * copied_at[0]:
        return False
    copied_at[0] = now
    return True


cdef inline void copy_weights(FeatureState* f, double now, double growth) noexcept nogil:
    """Copy the weights of a feature, a function or the intercept if the copies are old."""
    if is_old(&f.copied_at, now, growth):
        f.hinge.copy, f.global_.copy, f.mixed.copy = f.hinge.mean, f.global_.mean, f.mixed.mean


cdef inline void shift_level(
    Personal* level, double change, double more, double prior
) noexcept nogil:
    """Move a task's level, whose variance becomes larger."""
    cdef double mean = mean_of(level, prior) + change
    cdef double variance = min(prior, variance_left(level, prior) + more)
    level.precision = 1.0 / variance - 1.0 / prior
    level.information = mean / variance


cdef inline void rebase_own(Weight* w, Weight* level, double ratio, double shift) noexcept nogil:
    """Express a weight of the own learner, and its intercept, in a new unit and around a new centre."""
    cdef double variance = max(0.0, 1.0 - w.spent), share
    level.mean += shift * w.mean
    level.spent = max(0.0, level.spent - shift * shift * variance)
    if ratio == 0.0:
        w.mean = w.spent = 0.0
        return
    variance *= ratio * ratio
    share = 1.0 / (1.0 + (1.0 - 1.0 / (ratio * ratio)) * variance)
    w.mean *= ratio * share
    w.spent = 1.0 - variance * share


cdef inline void contrast(
    double own, double personal, double all_, double size, double* z
) noexcept nogil:
    """Inputs of a stacking model of numbers: what others say less what the mixed learner says.

    What the own learner says is in proportion to how much it knows: nothing of a new task.
    """
    z[CONSTANT], z[OWN], z[MIXED] = size, own, personal
    z[HINGE], z[GLOBAL] = 0.0, all_


cdef inline double remember(
    double[::1] histogram, double error, double h, double memory
) noexcept nogil:
    """Add an error, in units of the expected one, to a decaying histogram.

    Return the share of its errors that are larger.
    """
    cdef Py_ssize_t k, n = histogram.shape[0], at = 0
    cdef double larger = 0.0, total = 0.0
    if error > 0.0:
        at = <Py_ssize_t> min(
            max(floor((log2(error) + LOWEST_DOUBLING) * BINS_PER_DOUBLING), 0.0), n - 1.0
        )
    for k in range(n):
        histogram[k] *= memory
    histogram[at] += h
    for k in range(n):
        total += histogram[k]
        if k > at:
            larger += histogram[k]
    return (larger + 0.5 * histogram[at]) / total


cdef inline void move_scaled(
    Weight* w, double prior, double scale, Step step, double value
) noexcept nogil:
    """`move` of a weight whose variance is ``scale`` times what is left of the prior."""
    step.a *= scale
    step.b *= scale
    move_weight(w, prior, step, value)


cdef inline void replace_evidence(
    double* evidence, double variance, double size, Personal before, Personal after
) noexcept nogil:
    """Replace one weight's term in evidence of its own."""
    cdef double[GRID] products
    cdef int c
    for c in range(GRID):
        products[c] = 1.0
    add_evidence(evidence, products, variance, size, before, after)
    finish_evidence(evidence, products)


cdef inline void finish_evidence(double* evidence, const double* products) noexcept nogil:
    """Take the logarithms of products of relative precisions, the last of which is the largest.

    Near 1, as nearly always, log r is 2 artanh z with z = (r - 1) / (r + 1).
    """
    cdef double z, square
    cdef int c
    if products[GRID - 1] < NEARLY_ONE:
        for c in range(GRID):
            z = (products[c] - 1.0) / (products[c] + 1.0)
            square = z * z
            evidence[c] -= z * (1.0 + square * (1.0 / 3.0 + square * (0.2 + square / 7.0)))
        return
    for c in range(GRID):
        evidence[c] -= 0.5 * log(products[c])


cdef double log_mixture(double margin, double odds, double other) noexcept nogil:
    """Log-odds of a mixture of two, the other with these odds."""
    cdef double weight = log(odds)
    return (
        log_sum(-softplus(-margin), weight - softplus(-other))
        - log_sum(-softplus(margin), weight - softplus(other))
    )
