"""romco-auto for numbers: no parameters, an interval with every prediction."""

from __future__ import annotations

from collections.abc import Mapping
from math import erf, sqrt
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from romco.kernels.auto.numbers import AutoNumberKernel, NumberCombiner
from romco.kernels.auto.scales import Scales, columns
from romco.kernels.core.events import Events
from romco.learners.base import Arrays, CompiledLearner, State, Upgrade
from romco.learners.contributions import Contributions
from romco.learners.shared import (
    PAIRS,
    column_lengths,
    feature_moments,
    load_with_store,
    personal_store,
    spectrum,
    stored_columns,
)
from romco.rounds import Round

if TYPE_CHECKING:
    from scipy.sparse import csc_array

INPUTS = ("global", "alone", "level", *(f"direction {k}" for k in range(1, 5)))
RECENT = ("last residual", "mean residual", "last answer")  # inputs of the correction for drift
MAX_FULL_FEATURES = 64  # up to which the shared vectors keep their full covariance
PRIOR_WEIGHTS = (0.2, 0.2, 0.0, 0.0, 0.0, 0.0, 0.0)  # of the inputs; together has the rest of 1
PAIR_PRIOR_WEIGHTS = ((0.0,), (0.5,))  # shared part of together, not global; level, not alone
WEIGHT_VARIANCE = 0.1  # prior variance of a stacking weight
KIND_PRIOR = np.array([1.0, np.exp(-2.0), np.exp(-2.0)]) / (1.0 + 2.0 * np.exp(-2.0))
EDGES = 2.0 ** (np.arange(129) / 8.0 - 8.0)  # of residuals, in units of the expected error
PRIOR_EVENTS = 10.0  # whose residuals are normally distributed
NEVER = 1e300  # events that no stream will see


def with_last_answers(state: State) -> State:
    """A state of version 1 as one of version 2: no task has a last answer that is known."""
    arrays = dict(state["arrays"])
    arrays["own"] = np.pad(arrays["own"], ((0, 0), (0, 2)))
    arrays["weight"] = np.append(arrays["weight"], 0.0)
    arrays["covariance"] = np.pad(arrays["covariance"], (0, 1))
    arrays["covariance"][-1, -1] = WEIGHT_VARIANCE
    return {**state, "arrays": arrays}


def with_units(state: State) -> State:
    """Upgrade a state of version 2: its features keep the unit that they had in common.

    The model that forgot fast and the last answers are dropped; the global model gets its weight.
    """
    arrays = dict(state["arrays"])
    log_squares, rows, *_ = arrays["clock"]
    size = np.exp(0.5 * log_squares / rows) if rows else 1.0
    spent = arrays["spent"]
    known = np.diagonal(spent[0])[1:] > 0.0 if spent.ndim == 3 else spent[0, 1:] > 0.0
    units = np.zeros((len(known), 8))  # sums, then centre 0, a size that cuts nothing, factor 1
    units[known] = [1.0, size, size * size, 0.0, 1e3 * size, 1.0, NEVER, NEVER]
    width = np.flatnonzero(known).max(initial=-1) + 1.0
    arrays["typical"] = np.array([rows, np.log(size), 0.0, NEVER if rows else 0.0, width])
    arrays["units"] = units
    slow = [0, 2]
    arrays["mean"], arrays["spent"] = arrays["mean"][slow], spent[slow]
    arrays["own"] = np.column_stack(
        [arrays["own"][:, :6], np.zeros(len(arrays["own"])), arrays["own"][:, 6]]
    )
    arrays["noise"] = np.append(np.delete(arrays["noise"], 1, axis=0), [[1.0, 2.0]], axis=0)
    arrays["clock"] = np.append(arrays["clock"], [0.0, 1.0 / size if rows else 0.0])
    kept, weight = [0, 2, 3, 5, 6, 7, 8], arrays["weight"].copy()
    weight[0] += weight[1]
    arrays["weight"], arrays["covariance"] = weight[kept], arrays["covariance"][np.ix_(kept, kept)]
    arrays["drift_weight"], arrays["drift_covariance"] = np.zeros(3), WEIGHT_VARIANCE * np.eye(3)
    arrays["pair_weight"] = np.array([[0.0], [arrays["pair_weight"][1, 1]]])
    arrays["pair_covariance"] = np.full((2, 1, 1), WEIGHT_VARIANCE)
    return {**state, "arrays": arrays}


class AutoNumber(CompiledLearner):
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

    weighs = True
    one_pass = True
    space: ClassVar = {}
    answers = 0
    linear: ClassVar = False  # a feature that is 0 is absent, and not at a distance from its mean
    version: ClassVar = 3  # 2: the task's last answer; 3: units of features, residuals
    upgrades: ClassVar[Mapping[int, Upgrade]] = {1: with_last_answers, 2: with_units}
    shapes: ClassVar = {
        "own": "m*",
        "factor": "m*",
        "evidence": "m*",
        "belief": "m*",
        "directions": "d*",
        "units": "d*",
        **PAIRS,
    }

    def __init__(self, n_features: int, n_tasks: int) -> None:
        super().__init__(n_features, n_tasks)
        k = n_features + 1
        self._personal = personal_store(n_features, n_tasks, 4)
        self._arrays: Arrays = {
            "mean": np.zeros((2, k)),
            "spent": np.zeros((2, k, k) if n_features <= MAX_FULL_FEATURES else (2, k)),
            "own": np.zeros((n_tasks, 8)),
            "common": np.zeros((2, 2)),
            "noise": np.tile([1.0, 2.0], (8, 1)),  # the answers' variance, seen twice
            "factor": np.zeros((n_tasks, 4)),
            "directions": np.zeros((n_features, 4)),
            "weight": np.array(PRIOR_WEIGHTS),
            "covariance": WEIGHT_VARIANCE * np.eye(len(INPUTS)),
            "pair_weight": np.array(PAIR_PRIOR_WEIGHTS),
            "pair_covariance": np.full((2, 1, 1), WEIGHT_VARIANCE),
            "drift_weight": np.zeros(3),
            "drift_covariance": WEIGHT_VARIANCE * np.eye(3),
            "units": columns(n_features),
            "typical": np.zeros(5),
            "evidence": np.zeros((n_tasks, 3)),
            "belief": np.zeros((n_tasks, 3)),
            "kinds": KIND_PRIOR.copy(),
            "clock": np.array([0.0, 0.0, 32.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
            "residuals": _normal_residuals(),
        }
        a = self._arrays
        related, like_all, on_its_own, drift = (
            NumberCombiner(weight, covariance, WEIGHT_VARIANCE)
            for weight, covariance in (
                (a["weight"], a["covariance"]),
                *zip(a["pair_weight"], a["pair_covariance"], strict=True),
                (a["drift_weight"], a["drift_covariance"]),
            )
        )
        self.kernel: AutoNumberKernel = AutoNumberKernel(
            mean=a["mean"],
            spent=a["spent"],
            personal=self._personal,
            own=a["own"],
            common=a["common"],
            noise=a["noise"],
            factor=a["factor"],
            directions=a["directions"],
            related=related,
            like_all=like_all,
            on_its_own=on_its_own,
            drift=drift,
            scales=Scales(a["units"], a["typical"]),
            evidence=a["evidence"],
            belief=a["belief"],
            kinds=a["kinds"],
            clock=a["clock"],
            residuals=a["residuals"],
        )

    def intervals(self, round: Round, level: float) -> NDArray[np.float64]:
        """Bounds (n, 2) that hold the answers of a share ``level`` of events."""
        if not 0.0 < level < 1.0:
            raise ValueError(f"level must be between 0 and 1; got {level!r}")
        events = Events(round, self.n_features, self.n_tasks, False)
        middle = self.kernel.predict(events)
        reach = self._reach(level) * self.kernel.spreads(events)
        return np.column_stack([middle - reach, middle + reach])

    def _reach(self, level: float) -> float:
        """How many times the expected size a share ``level`` of errors does not exceed."""
        reached = np.concatenate([[0.0], np.cumsum(self._arrays["residuals"])])
        return float(np.interp(level * reached[-1], reached, EDGES))

    def weights(self) -> NDArray[np.float64]:
        """W (d, m): the linear part of the prediction; there are intercepts beside."""
        left, right = self.shared_factors()
        personal: NDArray[np.float64] = self.personal_sparse().toarray()
        return left @ right.T + personal

    def shared_factors(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """L (d, 6) and R (m, 6) with U = L R'."""
        return self._units()[:, None] * self._vectors(), self._shares()

    def personal_sparse(self) -> csc_array:
        """V (d, m), only what is stored."""
        found = stored_columns(self._personal, self._own_shares())
        found.data *= self._units()[found.indices]
        return found

    def contributions(self, round: Round) -> Contributions:
        """Parts of each prediction: through what tasks share, the task's own, and the rest."""
        from scipy.sparse import csr_array  # here, so that `import romco` stays fast

        events = Events(round, self.n_features, self.n_tasks, False)
        starts, features, values = self.kernel.entries(events)
        shape = (events.n, self.n_features)
        x = csr_array((values, features, starts), shape=shape)
        task = np.asarray(round.task)
        row = np.repeat(np.arange(events.n), np.diff(starts))
        shared = x.copy()
        shared.data = values * (self._vectors()[features] * self._shares()[task[row]]).sum(axis=1)
        personal = x * stored_columns(self._personal, self._own_shares()).T.tocsr()[task]
        total = shared.sum(axis=1) + personal.sum(axis=1)
        return Contributions(shared, csr_array(personal), self.kernel.predict(events) - total)

    def _vectors(self) -> NDArray[np.float64]:
        """Shared vectors (d, 6): global, together, directions."""
        return np.hstack([self._arrays["mean"][:, 1:].T, self._arrays["directions"]])

    def _shares(self) -> NDArray[np.float64]:
        """Weights (m, 6) of the shared vectors in the prediction of each task."""
        related, like_all, _ = self.chances().T[:, :, None]
        weight, pair = self._arrays["weight"], self._arrays["pair_weight"][0]
        everybody = related * weight[0] + like_all * (1.0 - pair)
        together = related * (1.0 - weight[:3].sum()) + like_all * pair
        return np.hstack([everybody, together, related * weight[3:] * self._arrays["factor"]])

    def _own_shares(self) -> NDArray[np.float64]:
        """Weights (m, 4) of a task's own numbers: means and spent variances, by turns."""
        related, _, alone = self.chances().T[:, :, None]
        weight, nothing = self._arrays["weight"], np.zeros_like(related)
        own = related * weight[1] + alone * (1.0 - self._arrays["pair_weight"][1])
        return np.hstack([own, nothing, related * (1.0 - weight[:3].sum()), nothing])

    def singular_values(self) -> NDArray[np.float64]:
        """Of U, above rounding, largest first."""
        return spectrum(*self.shared_factors())

    def personal_norms(self) -> NDArray[np.float64]:
        """Length (m,) of each task's column of V."""
        return column_lengths(self.personal_sparse())

    def trust(self) -> dict[str, float]:
        """Weights of the models and directions in the first regression, and of residuals."""
        found = dict(zip(INPUTS, self._arrays["weight"].tolist(), strict=True))
        found["together"] = 1.0 - sum(self._arrays["weight"][:3].tolist())
        return found | dict(zip(RECENT, self._arrays["drift_weight"].tolist(), strict=True))

    def chances(self) -> NDArray[np.float64]:
        """Probability (m, 3) that each task is related, like all others, on its own."""
        chance = self._arrays["kinds"] * np.exp(self._arrays["evidence"])
        return np.asarray(chance / chance.sum(axis=1, keepdims=True))

    def personal_tasks(self, sure: float = 0.9) -> NDArray[np.int64]:
        """Tasks unlike the rest: better off alone with probability ``sure`` or more."""
        return np.flatnonzero(self.chances()[:, 2] >= sure)

    def feature_moments(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return mean and standard deviation (d,) of each feature over all rows."""
        return feature_moments(self._arrays)

    def forget_task(self, task: int) -> None:
        """Make the task as if it had never been; what the others learned from it stays."""
        self.kernel.check_idle()
        for name in ("own", "factor", "evidence", "belief"):
            self._arrays[name][task] = 0.0
        self._personal.clear(task)

    def arrays(self) -> Arrays:
        """Beliefs of the learners and of the combiners."""
        return {**self._arrays, **self._personal.arrays()}

    def load(self, arrays: Arrays) -> None:
        """Take over another learner's arrays; covariances end where features become many."""
        spent = np.asarray(arrays.get("spent"))
        if spent.ndim == 3 and self._arrays["spent"].ndim == 2:
            arrays = {**arrays, "spent": np.diagonal(spent, axis1=1, axis2=2).copy()}
        load_with_store(self._arrays, self._personal, arrays)

    def _units(self) -> NDArray[np.float64]:
        """Factors (d,) by which features are multiplied."""
        return np.asarray(self._arrays["clock"][8] * self._arrays["units"][:, 5])


def _normal_residuals() -> NDArray[np.float64]:
    """What is expected of residuals before there are any."""
    below = np.array([erf(edge / sqrt(2.0)) for edge in EDGES])
    below[0], below[-1] = 0.0, 1.0
    return PRIOR_EVENTS * np.diff(below)
