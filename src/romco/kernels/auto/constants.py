"""Constants of romco-auto: every number that changes its predictions.

The kernel reads them when a learner is made; `docs/romco-auto.md` says what each is for.
"""

AROW_R = 0.3  # AROW's r of both hinge learners
GLOBAL_PRIOR = 10.0  # prior variance of shared logistic weights; 1 where features are too many
LEVEL_GRID = 0.01  # smallest variance of tasks' levels that is considered; the others are x10
SLOPE_GRID = 0.003  # the same of tasks' slopes
LEVEL_START = 0.1  # variance of tasks' levels before any event
SLOPE_START = 0.3  # variance of tasks' slopes before any event
GRID_PENALTY = 1.0  # log-odds by which a variance ten times off the expected one is less likely
STACKING_VARIANCE = 2.0  # prior variance of a stacking weight
COPY_GROWTH = 1.2  # of the stream, after which a weight's copy for frozen predictions is renewed
FROZEN_MIN_EVENTS = 50.0  # events before the stacking model of frozen predictions learns
MOMENT_PACE = 1e-2  # variance that each event adds to the level of the moment
MOMENT_PRIOR = 1.0  # variance of the slopes of the moment,
MOMENT_FORGETTING = 1e-2  # and the share by which an event lets it grow, up to that
TRACKING_PRIOR = 0.2  # probability that the moment predicts better, before any event,
TRACKING_SHARE = 1e-2  # the share by which each event returns to it,
DRIFT_RATE = 3e-3  # and the rate of its mean, above which the moment takes part
AGREEMENT_ODDS = 1000.0  # that a task's labels are like others', not unlike, before any event
WAVE_PRIOR = 0.3  # prior variance of a wave of a column,
CROSS_PRIOR = 0.2  # and of a product of two columns
CURVE_START = 0.1  # variance of tasks' slopes of functions before any event, by that of shared ones

# Of numbers
DEGREES_OF_FREEDOM = 8.0  # of Student's t, which errors follow: a median resists outliers,
STACKING_DEGREES_OF_FREEDOM = 20.0  # and of the stacking models, which predict nearly means
NOISE_PACE = 1e-3  # least weight of an event in an estimate of noise
NOISE_EVENTS = 10.0  # events by which first steps of noise are smaller
GLOBAL_NOISE_EVENTS = 2.0  # events of variance V in the noise of the global learner
NUMBER_VARIANCE = 0.1  # prior variance of a stacking weight
NUMBER_PRIOR = 1.0  # prior variance of shared weights, in units of the answers' variance
NUMBER_LEVEL_START = 1.0  # variance of tasks' levels before any event
NUMBER_SLOPE_GRID = 0.03  # smallest variance of tasks' slopes that is considered
ERROR_MEMORY = 0.993  # of the histogram of live errors, per event
NUMBER_FUNCTIONS = 0.03  # by which the prior variances of waves and products are smaller

# Of many classes
COVARIANCE_PRIOR_EVENTS = 5.0  # events of variance 1 in each covariance of a discriminant
MEAN_PRIOR_EVENTS = 3.0  # by which a task's class mean is shrunk to that of the class, at first
GROUP_PRIOR_WEIGHT = 30.0  # weight of that in an estimate,
MAX_MEAN_PRIOR = 100.0  # which is at most this
CLASS_PRIOR_EVENTS = 0.1  # events by which a class mean is shrunk to the origin
NORMAL = 0.9  # least normality (Shapiro-Francia) at which a number is no normal score
NEARLY_ALWAYS = 0.9  # share of the events from which on an absent number is missing
SHRINKAGE_EVENTS = 5.0  # events of all tasks added to a task's class counts
