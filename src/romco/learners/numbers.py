"""Learners of numbers: romco-auto, the paper's U + V, and the controls."""

from math import erf, sqrt
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array, hstack

from romco.kernels.auto.numbers import AutoNumberKernel
from romco.kernels.auto.scales import Scales
from romco.kernels.auto.stacking import StackingModel
from romco.kernels.baselines.linear import GaussianNumber, GradientNumber, PassiveAggressiveNumber
from romco.learners.base import Arrays, Learner, with_labels
from romco.learners.capabilities import Contributions, Decomposed, Numbers, Posterior
from romco.learners.linear import ModelLearner
from romco.learners.registry import forget
from romco.learners.romco import Romco
from romco.learners.shared import PAIRS, BaseAuto, stored_columns
from romco.losses import LOSSES
from romco.parameters import choice, not_negative, positive
from romco.rounds import Features, Round

INPUTS = ("global", "alone", "level", "slopes", *(f"direction {k}" for k in range(1, 5)))
RECENT = ("last residual", "mean residual", "last answer")  # inputs of the correction for drift
MAX_FULL_FEATURES = 64  # up to which the shared vectors keep their full covariance
PRIOR_WEIGHTS = (0.2, 0.2, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)  # of inputs; together has the rest of 1
PAIR_PRIOR_WEIGHTS = ((0.0,), (0.5,))  # shared part of together, not global; level, not alone
WEIGHT_VARIANCE = 0.1  # prior variance of a stacking weight
PER_TASK = ("own", "factor", "evidence", "belief")  # arrays with a row per task
EDGES = 2.0 ** (np.arange(129) / 8.0 - 8.0)  # of residuals, in units of the expected error
PERSONAL_PRIOR = 0.3  # prior variance of a task's weight
NOISE_FACTOR = 7.0 / 5.0  # inverse Fisher information of Student's t by its squared scale
PRIOR_EVENTS = 10.0  # whose residuals are normally distributed


class AutoNumber(BaseAuto):
    r"""Four linear models of a number, a low-rank U between them, three stacking regressions.

    No parameters. *Global* is one vector for all tasks, *alone* one for each task, *level* an
    intercept for each task, *together* a shared plus a personal vector. Each is a Gaussian over
    weights with an intercept; shared vectors keep their full covariance up to 64 features. Noise
    is Student's t with four degrees of freedom, so that outliers move little. Stacking, kinds of
    tasks and directions are those of ``romco-auto``, with linear regressions in place of
    logistic ones. For streams that drift, one more regression corrects the prediction by the
    task's last answer and the residuals of the last answers, while answers come.

    Features have units of their own and are centred: a column times a or plus b changes little.
    Answers are measured from the first one and in units of their own spread: predictions for
    a y + b are a times the predictions plus b.
    :meth:`intervals` are as wide as past errors were, relative to what was expected of them.

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
    shapes: ClassVar = {"directions": "d*", "units": "d*", **dict.fromkeys(PER_TASK, "m*"), **PAIRS}
    kernel: AutoNumberKernel

    def __init__(self, n_features: int, n_tasks: int) -> None:
        super().__init__(n_features, n_tasks)
        k = n_features + 1
        a: Arrays = {
            "mean": np.zeros((2, k)),
            "spent": np.zeros((2, k, k) if n_features <= MAX_FULL_FEATURES else (2, k)),
            "own": np.zeros((n_tasks, 8)),
            "common": np.zeros((2, 2)),
            "noise": np.tile([1.0, 2.0], (8, 1)),  # the answers' variance, seen twice
            "directions": np.zeros((n_features, 8)),
            "weight": np.array(PRIOR_WEIGHTS),
            "covariance": WEIGHT_VARIANCE * np.eye(len(INPUTS)),
            "pair_weight": np.array(PAIR_PRIOR_WEIGHTS),
            "pair_covariance": np.full((2, 1, 1), WEIGHT_VARIANCE),
            "drift_weight": np.zeros(3),
            "drift_covariance": WEIGHT_VARIANCE * np.eye(3),
            "clock": np.array([0.0, 0.0, 32.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
            "residuals": _normal_residuals(),
            **self.common_arrays(),
        }
        self._keep(4, a)
        self.kernel = AutoNumberKernel(
            scales=Scales(a["units"], a["typical"]),
            drift=StackingModel(a["drift_weight"], a["drift_covariance"], WEIGHT_VARIANCE),
            **self.kernel_parts(WEIGHT_VARIANCE),
        )

    def intervals(self, round: Round, level: float) -> Numbers:
        if not 0.0 < level < 1.0:
            raise ValueError(f"level must be between 0 and 1; got {level!r}")
        events = self.events_of(round)
        middle = self.kernel.predict(events)
        reach = self._reach(level) * self.kernel.spreads(events)
        return np.column_stack([middle - reach, middle + reach])

    def _reach(self, level: float) -> float:
        """Quantile of past errors, in units of the expected error."""
        reached = np.concatenate([[0.0], np.cumsum(self._arrays["residuals"])])
        return float(np.interp(level * reached[-1], reached, EDGES))

    def shared_factors(self) -> tuple[Numbers, Numbers]:
        return self.units()[:, None] * self._vectors(), self._shares()

    def contributions(self, round: Round) -> Contributions:
        events = self.events_of(round)
        starts, features, values = self.kernel.entries(events)
        shape = (events.n, self.n_features)
        x = csr_array((values, features, starts), shape=shape)
        task = np.asarray(round.task)
        row = np.repeat(np.arange(events.n), np.diff(starts))
        shared = x.copy()
        shared.data = values * (self._vectors()[features] * self._shares()[task[row]]).sum(axis=1)
        personal = x * stored_columns(self.pair_store, self.own_shares()).T.tocsr()[task]
        total = shared.sum(axis=1) + personal.sum(axis=1)
        return Contributions(shared, csr_array(personal), self.kernel.predict(events) - total)

    def _vectors(self) -> Numbers:
        """Shared vectors (d, 6): global, together, directions."""
        at = 4 * self._side()
        return np.hstack(
            [self._arrays["mean"][:, 1:].T, self._arrays["directions"][:, at : at + 4]]
        )

    def _shares(self) -> Numbers:
        """Weights (m, 6) of the shared vectors in the prediction of each task."""
        related, like_all, _ = self.chances().T[:, :, None]
        weight, pair = self._arrays["weight"], self._arrays["pair_weight"][0]
        everybody = related * weight[0] + like_all * (1.0 - pair)
        together = related * (1.0 - weight[:3].sum()) + like_all * pair
        return np.hstack([everybody, together, related * weight[4:] * self._factor()])

    def own_shares(self) -> Numbers:
        """Weights (m, 4) of a task's own numbers: means and spent variances, by turns."""
        related, _, alone = self.chances().T[:, :, None]
        weight, nothing = self._arrays["weight"], np.zeros_like(related)
        own = related * weight[1] + alone * (1.0 - self._arrays["pair_weight"][1])
        apart = related * (1.0 - weight[:3].sum() + weight[3])
        return np.hstack([own, nothing, apart, nothing])

    def chances(self) -> Numbers:
        """Probability (m, 3) of the kind of each task; one without events is like all others."""
        return np.where(self._arrays["own"][:, 3:4] == 0.0, [0.0, 1.0, 0.0], super().chances())

    def trust(self) -> dict[str, float]:
        """Weights of the models and directions in the first regression, and of residuals."""
        weights = dict(zip(INPUTS, self._arrays["weight"].tolist(), strict=True))
        weights["together"] = 1.0 - sum(self._arrays["weight"][:3].tolist())
        return weights | dict(zip(RECENT, self._arrays["drift_weight"].tolist(), strict=True))

    def task_posterior(
        self, tasks: NDArray[np.int64], features: NDArray[np.intp]
    ) -> list[Posterior]:
        own, shared = self._arrays["own"][tasks], self._arrays["mean"][1]
        one, units = np.ones(len(tasks)), self.units()
        level = self._arrays["clock"][4] + shared[0]
        posteriors = [self._posterior(own[:, 4], own[:, 5], one, level)]
        mean, spent = (self.stored_numbers(k, features, tasks) for k in (2, 3))
        for row, j in enumerate(features.tolist()):
            unit = units[j]
            belief = unit * mean[row], unit**2 * spent[row], PERSONAL_PRIOR * unit**2 * one
            posteriors.append(self._posterior(*belief, unit * shared[j + 1]))
        return posteriors

    def feature_posterior(self, features: NDArray[np.intp]) -> Posterior:
        """Return the posterior of the weights of indicators that all tasks share."""
        spent, units, at = self._arrays["spent"][1], self.units()[features], features + 1
        spent = spent[at, at] if spent.ndim == 2 else spent[at]
        return self._posterior(units * self._arrays["mean"][1][at], units**2 * spent, units**2, 0.0)

    def residual_variance(self) -> float:
        """Return the variance of what is not explained."""
        # The first is too low where weights vary less than a priori; the second is too high, for
        # it holds what is not yet learned.
        together, related = self._arrays["noise"][[3, 4], 0]
        return float(NOISE_FACTOR * np.sqrt(together * related) * self._variance())

    def _posterior(self, mean: Numbers, spent: Numbers, prior: Numbers, common: float) -> Posterior:
        V = self._variance()
        return Posterior(mean, V * (prior - spent), V * prior, float(common), 1.0 / NOISE_FACTOR)

    def _variance(self) -> float:
        """Return the variance of the answers, which is the unit of all variances."""
        events, squares = self._arrays["clock"][[3, 6]]
        return float(squares / events) if events else 0.0

    def load(self, arrays: Arrays) -> None:
        """Take over another learner's arrays; covariances end where features become many."""
        spent = np.asarray(arrays.get("spent"))
        if spent.ndim == 3 and self._arrays["spent"].ndim == 2:
            arrays = {**arrays, "spent": np.diagonal(spent, axis1=1, axis2=2).copy()}
        super().load(arrays)

    def units(self) -> Numbers:
        return np.asarray(self._arrays["clock"][8] * self._arrays["units"][:, 5])


def _normal_residuals() -> Numbers:
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

    def predict(self, round: Round) -> Numbers:
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

    def shared_factors(self) -> tuple[Numbers, Numbers]:
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


def _squares(x: Features) -> Numbers:
    """Squared lengths (n,) of rows."""
    return np.asarray((x.multiply(x) if isinstance(x, csr_array) else np.square(x)).sum(axis=1))


Models = Literal["unique", "global"]
Kept = tuple[Numbers, Numbers, Numbers]


class NumberLearner(ModelLearner):
    """prediction = mean of the answers + w_i . x + b_i, one (w, b) per task or for all (abstract).

    Answers are measured from their running mean and in units of their running spread, so their
    place and unit do not matter. ``clock`` counts events, and holds what tells mean and spread.
    """

    supports_sample_weight = True
    supports_offset = True
    answers = 0
    shapes: ClassVar = {"w": "kd", "b": "k", "s": "k*"}

    def _keep_all(self, models: Models, **others: Numbers) -> Kept:
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
