"""Learners of numbers: romco-auto, the paper's U + V, and the controls."""

from math import erf, sqrt
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array, hstack

from romco.kernels.auto import constants
from romco.kernels.auto.auto import INPUT_NAMES, RECENT_NAMES, STREAM_FIELDS
from romco.kernels.baselines.linear import GaussianNumber, GradientNumber, PassiveAggressiveNumber
from romco.learners.auto import DIRECTIONS, NO_VARIANCE, NOISES, RANK, BaseAuto, Shares, lanes
from romco.learners.base import Arrays, Learner, with_labels
from romco.learners.capabilities import Decomposed, Posterior
from romco.learners.frozen import FrozenPredictor, PairTable, Table, frozen_units
from romco.learners.linear import ModelLearner
from romco.learners.registry import forget
from romco.learners.romco import Romco
from romco.learners.sharing import Line, Tracked, Whole
from romco.losses import LOSSES
from romco.parameters import choice, not_negative, positive
from romco.rounds import Features, Round
from romco.typing import Floats

EDGES = 2.0 ** (np.arange(129) / 8.0 - 8.0)  # of residuals, in units of the expected error
# Inverse Fisher information of Student's t by its squared scale:
NOISE_FACTOR = (constants.DEGREES_OF_FREEDOM + 3.0) / (constants.DEGREES_OF_FREEDOM + 1.0)
PRIOR_EVENTS = 10.0  # whose residuals are normally distributed


class AutoNumber(BaseAuto):
    r"""``romco-auto`` for numbers: the same parts with another loss.

    In place of logistic and hinge losses errors follow Student's t with eight degrees of freedom,
    so that an outlier moves little, and each learner tracks the size of its noise. There is no
    global hinge learner. The stacking model adds to the mixed learner's prediction what the others
    say less that, and, live, what the task's last answer tells.

    Features have units of their own and are centred: a column times a or plus b changes little.
    Answers are measured from the first one and in units of their own spread: predictions for
    a y + b are a times the predictions plus b.
    :meth:`intervals` are as wide as past errors were, relative to what was expected of them. How
    much is expected depends on the task, on the size of the prediction and on how much is known.

    >>> import numpy as np, romco
    >>> learner = AutoNumber(n_features=1, n_tasks=1)
    >>> x = np.random.default_rng(0).normal(size=(200, 1))
    >>> rounds = romco.Rounds(np.zeros(200, dtype=int), x, 7.0 + 3.0 * x[:, 0], np.arange(201))
    >>> _ = learner.replay(rounds)
    >>> event = romco.Round(np.array([0]), np.ones((1, 1)), np.empty(0))
    >>> low, high = learner.intervals(event, level=0.9)[0]
    >>> bool(9.0 < low < 10.0 < high < 11.0)
    True
    """

    answers = 0
    inputs: ClassVar = (*INPUT_NAMES, *RECENT_NAMES)
    described: ClassVar = "frozen_weight"
    stacking_weights: ClassVar = {"own hinge": 0.2, "global logistic": 0.2}  # mixed: the rest of 1
    stacking_variance = constants.NUMBER_VARIANCE
    prior = constants.NUMBER_PRIOR
    start = constants.NUMBER_LEVEL_START
    function_share = constants.NUMBER_FUNCTIONS
    information_share = 1.0 / NOISE_FACTOR

    def _with_more(self, arrays: Arrays) -> Arrays:
        stream = dict(zip(STREAM_FIELDS, range(len(STREAM_FIELDS)), strict=True))
        arrays["stream"][[stream[name] for name in NOISES]] = 1.0
        arrays["frozen_covariance"][0, 0] = NO_VARIANCE  # the mixed learner has an intercept
        return arrays | {"errors": _normal_residuals(), "frozen_errors": _normal_residuals()}

    def sharing(self) -> tuple[Line, ...]:
        bins = tuple(range(len(EDGES) - 1))
        live = Whole("errors", Tracked(bins, 1.0 - constants.ERROR_MEMORY))
        return *super().sharing(), live, Whole("frozen_errors", Tracked(bins, constants.NOISE_PACE))

    def become_shard(self) -> None:
        super().become_shard()
        if self._of_stream("answers"):  # with an origin; rows without features have no unit
            unit = STREAM_FIELDS.index("unit")
            self._arrays["stream"][unit] = self._of_stream("unit") or 1.0

    def intervals(self, round: Round, level: float, frozen: bool = False) -> Floats:
        if not 0.0 < level < 1.0:
            raise ValueError(f"level must be between 0 and 1; got {level!r}")
        events = self.events_of(round)
        middle = self.kernel.predict(events, frozen=frozen)
        reach = self._reach(level, frozen) * self.kernel.spreads(events, frozen, True)[1]
        return np.column_stack([middle - reach, middle + reach])

    def _reach(self, level: float, frozen: bool = False) -> float:
        """Quantile of past errors, in units of the expected error."""
        name = "frozen_errors" if frozen else "errors"
        reached = np.concatenate([[0.0], np.cumsum(self._arrays[name])])
        return float(np.interp(level * reached[-1], reached, EDGES))

    def _shares(self, levels: Floats, weights: Floats) -> Shares:
        weight = dict(zip(self.inputs, weights.tolist(), strict=True))
        own = weight["own hinge"] * levels[:, 5]
        everybody = np.full_like(own, weight["global logistic"])
        mixed = 1.0 - own - everybody
        size = weight["constant"] * np.sqrt(self._variance())
        own_level = self._intercept("mixed") + levels[:, 4]
        return Shares(
            whole=np.ones(len(levels)),
            constant=self._of_stream("origin") + size + own * own_level,
            hinge=np.zeros(len(levels)),
            everybody=everybody,
            mixed=mixed,
            personal=mixed + weight["mixed logistic"],
            own=own,
        )

    def frozen_predictor(self) -> FrozenPredictor:
        """Return the stacked prediction as a sum, whose parts have no variances."""
        a, names = self._arrays, ("constant", "own", "mixed", "personal", "global")
        constant, own, mixed, personal, everybody = range(len(names))
        directions = range(len(names), len(names) + RANK)
        level, _ = self._levels()
        functions = self._used_functions()
        task, feature, read = self._own_weights(functions)

        def read_pairs(at: NDArray[np.int64]) -> Floats:
            weight, slope, _ = read(at).T
            return np.column_stack([weight - slope, slope, slope])

        intercepts = np.zeros(len(names) + RANK)
        intercepts[constant] = 1.0
        intercepts[mixed] = self._intercept("mixed")
        intercepts[everybody] = self._intercept("global")
        means = [self.field("features", f"{name}_mean") for name in ("mixed", "global")]
        own_level, known = (self.field("tasks", f"own_level_{part}") for part in ("mean", "spent"))
        curves = [self.function_weights(name)[functions] for name in ("mixed", "global")]
        no_directions = np.zeros((len(functions), RANK))
        unit = self._of_stream("unit")
        return FrozenPredictor(
            inputs=(*names, *INPUT_NAMES[DIRECTIONS]),
            intercepts=intercepts,
            weights=self._frozen_weights(),
            covariance=np.zeros((len(intercepts), len(intercepts))),
            units=frozen_units(a["units"], a["typical"][0], unit),
            features=Table(
                lanes("weight", own, mixed, everybody, *directions),
                np.column_stack([-means[0], *means, self.directions()]),
            ),
            tasks=Table(
                (*lanes("weight", own, mixed, personal), *lanes("factor", own, *directions)),
                np.column_stack([own_level - level, level, level, known, self._factor()]),
            ),
            new_task=np.zeros(4 + RANK),
            pairs=PairTable(lanes("weight", own, mixed, personal), task, feature, read_pairs),
            functions=self._frozen_functions(
                functions, np.column_stack([-curves[0], *curves, no_directions])
            ),
        )

    def _frozen_weights(self) -> Floats:
        """Return the weights of the inputs of :meth:`frozen_predictor`."""
        V, origin = self._variance(), self._of_stream("origin")
        frozen = self._arrays["frozen_weight"]
        weight = dict(zip(self.inputs, frozen.tolist(), strict=True))
        everybody = weight["global logistic"]
        constant = origin + weight["constant"] * sqrt(V)
        four = [weight["own hinge"], 1.0 - everybody, weight["mixed logistic"], everybody]
        learned = np.array([*four, *frozen[DIRECTIONS]])
        return np.array([constant, *(learned if V > 0.0 else 0.0 * learned)])

    def task_posterior(
        self, tasks: NDArray[np.int64], features: NDArray[np.intp]
    ) -> list[Posterior]:
        shared = self.field("features", "mixed_mean") * self.units()
        found = super().task_posterior(tasks, features)
        common = [self._of_stream("origin") + found[0].common, *shared[features].tolist()]
        return [p._replace(common=c) for p, c in zip(found, common, strict=True)]

    def residual_variance(self) -> float:
        """Return the variance of what is not explained."""
        # The first is too low where weights vary less than a priori; the second is too high, for
        # it holds what is not yet learned.
        noise = np.sqrt(self._of_stream("mixed_noise") * self._of_stream("live_noise"))
        return float(NOISE_FACTOR * noise * self._variance())

    def _variance(self) -> float:
        """Return the variance of the answers, the unit of all variances; 0: they are all alike."""
        return self.kernel.answer_variance()

    def units(self) -> Floats:
        return np.asarray(self._of_stream("unit") * self._arrays["units"][:, 5])


def _normal_residuals() -> Floats:
    """Residuals of a normal distribution, for the first intervals."""
    below = np.array([erf(edge / sqrt(2.0)) for edge in EDGES])
    below[0], below[-1] = 0.0, 1.0
    return PRIOR_EVENTS * np.diff(below)


MEASURED = {"squared": "least-squares", "epsilon-insensitive": "epsilon-insensitive"}
COUNT, MEAN, SPREAD, SIZE = range(4)  # places in the clock
FARTHEST = 3.0  # spreads of the answers that an error counts as at most, and sizes of a row


class DecomposedNumbers(Decomposed, Learner):
    r"""ROMCO's U + V for numbers: the same steps and penalties on another loss.

    Answers are measured from their running mean in units of their running spread, rows in units
    of their usual length and with a constant, so that neither place nor unit matters. Of the
    answer z and the prediction p, ``loss="squared"`` is :math:`(p - z)^2 / 2`, and
    ``"epsilon-insensitive"`` :math:`\max(0, |p - z| - 0.1)`. An answer more than three spreads off
    counts as three. The first event only places the answers. A step costs what ROMCO's does with
    a loss that is not compiled.

    >>> import romco
    >>> learner = romco.learner("romco-nucl-number", n_features=1, n_tasks=2)
    >>> x = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> rounds = romco.Rounds(np.arange(200) % 2, x, 50.0 + 3.0 * x[:, 0], np.arange(201))
    >>> _ = learner.replay(rounds)
    >>> found = learner.predict(romco.Round(np.zeros(1, int), np.ones((1, 1)), np.empty(0)))
    >>> bool(51.0 < found[0] < 54.0)
    True
    """

    answers = 0
    linear: ClassVar = False
    space: ClassVar = Romco.space

    def __init__(
        self,
        n_features: int,
        n_tasks: int,
        *,
        shared: str = "nuclear",
        loss: str = "squared",
        eta1: float = 0.1,
        eta2: float = 0.1,
        lambda1: float = 0.01,
        lambda2: float = 0.01,
    ) -> None:
        super().__init__(n_features, n_tasks)
        name = MEASURED[choice("loss", loss, *MEASURED)]
        self._inner = Romco(
            n_features + 1,
            n_tasks,
            shared=shared,
            loss=LOSSES[name],
            eta1=eta1,
            eta2=eta2,
            lambda1=lambda1,
            lambda2=lambda2,
        )
        self._inner.answers = 0
        self._clock = np.zeros(4)

    def predict(self, round: Round) -> Floats:
        self.events_of(round)  # checks it
        margins = self._inner.predict(round._replace(x=self._scaled(round.x)))
        return np.asarray(self._clock[MEAN] + self._unit() * margins)

    def update(self, round: Round) -> None:
        known = with_labels(self, round)
        if known is None:
            return
        self.events_of(known, labelled=True)
        before = self.predict(known)
        placed = self._clock[COUNT] > 0.0
        self._count(known)
        if not placed or self._unit() == 0.0:
            return
        unit = self._unit()
        off = np.clip((np.asarray(known.y) - before) / unit, -FARTHEST, FARTHEST)
        answers = (before - self._clock[MEAN]) / unit + off
        self._inner.update(known._replace(x=self._scaled(known.x), y=answers))

    def shared_factors(self) -> tuple[Floats, Floats]:
        left, right = self._inner.shared_factors()
        return left[1:] * self._factor(), right

    def personal_sparse(self) -> csc_array:
        return csc_array(self._inner.personal_sparse()[1:] * self._factor())

    def arrays(self) -> Arrays:
        return {**self._inner.arrays(), "numbers": self._clock}

    def load(self, arrays: Arrays) -> None:
        clock = np.asarray(arrays.get("numbers"))
        if clock.shape != (4,) or clock.dtype != np.float64 or not np.isfinite(clock).all():
            raise ValueError("state array 'numbers' must be four finite numbers")
        self._inner.load({name: one for name, one in arrays.items() if name != "numbers"})
        self._clock[:] = clock

    def forget_task(self, task: int) -> None:
        forget(self._inner, task)

    def _count(self, round: Round) -> None:
        """Running mean and spread of the answers (Welford), and the rows' mean square length."""
        for y, square in zip(np.asarray(round.y).tolist(), _squares(round.x).tolist(), strict=True):
            self._clock[COUNT] += 1.0
            step = y - self._clock[MEAN]
            self._clock[MEAN] += step / self._clock[COUNT]
            self._clock[SPREAD] += step * (y - self._clock[MEAN])
            self._clock[SIZE] += (square - self._clock[SIZE]) / self._clock[COUNT]

    def _unit(self) -> float:
        return float(np.sqrt(self._clock[SPREAD] / max(self._clock[COUNT], 1.0)))

    def _length(self) -> float:
        return float(np.sqrt(self._clock[SIZE])) or 1.0

    def _factor(self) -> float:
        return self._unit() / self._length()

    def _scaled(self, x: Features) -> Any:
        """Rows after a constant, none longer than three usual ones."""
        lengths = np.sqrt(_squares(x)) / self._length()
        cut = (1.0 / self._length() / np.maximum(1.0, lengths / FARTHEST))[:, None]
        if isinstance(x, csr_array):
            return csr_array(hstack([np.ones((x.shape[0], 1)), x.multiply(cut)]))
        return np.hstack([np.ones((len(x), 1)), x * cut])


def _squares(x: Features) -> Floats:
    """Squared lengths (n,) of rows."""
    return np.asarray((x.multiply(x) if isinstance(x, csr_array) else np.square(x)).sum(axis=1))


Models = Literal["unique", "global"]


class NumberLearner(ModelLearner):
    """prediction = mean of the answers + w_i . x + b_i, one (w, b) per task or for all (abstract).

    Answers are measured from their running mean and in units of their running spread, so their
    place and unit do not matter. ``clock`` counts events, and holds what tells mean and spread.
    """

    supports_sample_weight = True
    supports_offset = True
    answers = 0
    shapes: ClassVar = {"w": "kd", "b": "k", "s": "k*"}

    def _keep_all(self, models: Models, **others: Floats) -> tuple[Floats, Floats, Floats]:
        """Return ``w``, ``b`` and ``clock``; keep them and the others."""
        b, clock = np.zeros(1 if models == "global" else self.n_tasks), np.zeros(4)
        return self._keep(models, b=b, clock=clock, **others), b, clock


class PassiveAggressiveNumbers(NumberLearner):
    r"""Passive-aggressive regression (PA-I): the smallest step that mends the error, up to C.

    .. math:: w \leftarrow w + \tau\, \mathrm{sign}(e)\, x, \qquad
              \tau = \min(C u, (|e| - \epsilon u) / \|x\|^2)

    where e is the error and u the spread of the answers so far; x has a 1 for the intercept.
    Source: Crammer, Dekel, Keshet, Shalev-Shwartz and Singer, JMLR 7 (2006), with C and epsilon
    in units of u.
    """

    space: ClassVar = {"C": tuple(10.0**k for k in np.arange(-3, 1.5, 0.5))}

    def __init__(
        self, n_features: int, n_tasks: int, *, models: Models, C: float = 0.1, epsilon: float = 0.1
    ) -> None:
        super().__init__(n_features, n_tasks)
        kept = self._keep_all(models)
        self.kernel = PassiveAggressiveNumber(
            *kept, positive("C", C), not_negative("epsilon", epsilon)
        )


class GradientNumbers(NumberLearner):
    r"""Online gradient descent on the squared error: w += e (1 - exp(-h eta |x|^2)) / |x|^2 x.

    That is many small steps of eta in all, so that no step goes beyond the answer; h is the
    event's weight. Source: Karampatziakis and Langford, UAI 2011.
    """

    space: ClassVar = {"eta": tuple(10.0**k for k in np.arange(-4, 1.0, 0.5))}

    def __init__(self, n_features: int, n_tasks: int, *, models: Models, eta: float = 0.03) -> None:
        super().__init__(n_features, n_tasks)
        self.kernel = GradientNumber(*self._keep_all(models), positive("eta", eta))


class GaussianNumbers(NumberLearner):
    r"""Bayesian linear regression with diagonal covariance, as AROW: b = 1 / (x'Sx + r / h).

    .. math:: w \leftarrow w + b\, e\, S x, \qquad S \leftarrow S - b\,\mathrm{diag}(S x x^\top S)
    """

    space: ClassVar = {"r": (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)}

    def __init__(self, n_features: int, n_tasks: int, *, models: Models, r: float = 1.0) -> None:
        super().__init__(n_features, n_tasks)
        s = np.ones((1 if models == "global" else n_tasks, n_features + 1))
        kept = self._keep_all(models, s=s)
        self.kernel = GaussianNumber(*kept, s, positive("r", r))
