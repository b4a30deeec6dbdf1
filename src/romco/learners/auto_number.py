"""romco-auto for numbers: no parameters, an interval with every prediction."""

from __future__ import annotations

from collections.abc import Mapping
from math import erf, sqrt
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from romco.kernels.auto.numbers import AutoNumberKernel, NumberCombiner
from romco.kernels.core.events import Events
from romco.learners.base import Arrays, CompiledLearner, State, Upgrade
from romco.learners.shared import (
    PAIRS,
    column_lengths,
    load_with_store,
    personal_store,
    spectrum,
    stored_columns,
)
from romco.rounds import Round

if TYPE_CHECKING:
    from scipy.sparse import csc_array

HEARD = (
    "global",
    "recent",
    "alone",
    "level",
    "together",
    *(f"direction {k}" for k in range(1, 5)),
    "last",
)
FULL = 64  # features up to which the shared vectors know their covariances
TRUST = (0.2, 0.0, 0.2, 0.0, 0.6, 0.0, 0.0, 0.0, 0.0, 0.0)  # prior weights of what is heard
PAIR_TRUST = ((1.0, 0.0), (0.5, 0.5))
DOUBT = 0.1  # prior variance of a combiner's weight
RENEWAL = 3e-5  # variance that each event adds to it
COMMON = np.array([1.0, np.exp(-2.0), np.exp(-2.0)]) / (1.0 + 2.0 * np.exp(-2.0))  # kinds, a priori
EDGES = 2.0 ** (np.arange(129) / 8.0 - 8.0)  # of residuals, in units of what was expected
PRIOR_EVENTS = 10.0  # whose residuals are as a normal distribution has them


def with_last_answers(state: State) -> State:
    """A state of version 1 as one of version 2: no task has a last answer that is known."""
    arrays = dict(state["arrays"])
    arrays["own"] = np.pad(arrays["own"], ((0, 0), (0, 2)))
    arrays["weight"] = np.append(arrays["weight"], 0.0)
    arrays["covariance"] = np.pad(arrays["covariance"], (0, 1))
    arrays["covariance"][-1, -1] = DOUBT
    return {**state, "arrays": arrays}


class AutoNumber(CompiledLearner):
    r"""Five simple learners of numbers, a low-rank U between them, three combiners; no parameters.

    Two learners have one vector for all tasks (*global*; *recent* forgets fast), two know each task
    *alone*, by its features or by its *level* only, and the fifth a shared and a personal
    vector *together*. Beside them the task's *last* answer is heard, for streams that drift.
    Each learner is a Gaussian over weights with an intercept; shared vectors keep
    their full covariance up to 64 features. The noise is Student's t with four degrees
    of freedom, of a size followed by each learner, so that wild answers move little.
    Combiners, kinds of tasks and directions are those of ``romco-auto``, with linear regressions in
    place of logistic ones and the density of an answer as evidence.

    Answers are measured from the first one and in units of their own spread: predictions for
    a y + b are a times the predictions plus b. Until two answers differ they are only placed.
    :meth:`intervals` are as wide as errors of the past were, beside what was expected of them.

    >>> import numpy as np, romco
    >>> learner = AutoNumber(n_features=1, n_tasks=1)
    >>> x = np.random.default_rng(0).normal(size=(200, 1))
    >>> rounds = romco.Rounds(np.zeros(200, dtype=int), x, 7.0 + 3.0 * x[:, 0], np.arange(201))
    >>> _ = learner.replay(rounds)
    >>> asked = romco.Round(np.array([0]), np.ones((1, 1)), np.empty(0))
    >>> low, high = learner.intervals(asked, level=0.9)[0]
    >>> bool(9.0 < low < 10.0 < high < 11.0)
    True
    """

    weighs = True
    one_pass = True
    space: ClassVar = {}
    answers = 0
    version: ClassVar = 2  # it hears the task's last answer
    upgrades: ClassVar[Mapping[int, Upgrade]] = {1: with_last_answers}
    shapes: ClassVar = {
        "own": "m*",
        "factor": "m*",
        "evidence": "m*",
        "belief": "m*",
        "directions": "d*",
        **PAIRS,
    }

    def __init__(self, n_features: int, n_tasks: int) -> None:
        super().__init__(n_features, n_tasks)
        k = n_features + 1
        self._personal = personal_store(n_features, n_tasks, 4)
        self._arrays: Arrays = {
            "mean": np.zeros((3, k)),
            "spent": np.zeros((3, k, k) if n_features <= FULL else (3, k)),
            "own": np.zeros((n_tasks, 8)),
            "common": np.zeros((2, 2)),
            "noise": np.tile([1.0, 2.0], (8, 1)),  # as large as the answers' variance, twice seen
            "factor": np.zeros((n_tasks, 4)),
            "directions": np.zeros((n_features, 4)),
            "weight": np.array(TRUST),
            "covariance": DOUBT * np.eye(len(TRUST)),
            "pair_weight": np.array(PAIR_TRUST),
            "pair_covariance": np.tile(DOUBT * np.eye(2), (2, 1, 1)),
            "evidence": np.zeros((n_tasks, 3)),
            "belief": np.zeros((n_tasks, 3)),
            "kinds": COMMON.copy(),
            "clock": np.array([0.0, 0.0, 32.0, 0.0, 0.0, 0.0, 0.0]),
            "residuals": _normal_residuals(),
        }
        self.kernel: AutoNumberKernel = self._kernel()

    def _kernel(self) -> AutoNumberKernel:
        a = self._arrays
        like_all, on_its_own = (
            NumberCombiner(weight, covariance, DOUBT, RENEWAL)
            for weight, covariance in zip(a["pair_weight"], a["pair_covariance"], strict=True)
        )
        return AutoNumberKernel(
            personal=self._personal,
            related=NumberCombiner(a["weight"], a["covariance"], DOUBT, RENEWAL),
            like_all=like_all,
            on_its_own=on_its_own,
            **{
                name: array
                for name, array in a.items()
                if not name.startswith(("weight", "covariance", "pair_"))
            },
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
        """L (d, 7) and R (m, 7) with U = L R'."""
        related, like_all, _ = self.chances().T[:, :, None]
        weight, pair = self._arrays["weight"], self._arrays["pair_weight"][0]
        right = [
            related * weight[:2] + like_all * pair,
            related * weight[4],
            related * weight[5:9] * self._arrays["factor"],
        ]
        vectors = np.hstack([self._arrays["mean"][:, 1:].T, self._arrays["directions"]])
        return self._unit() * vectors, np.hstack(right)

    def personal_sparse(self) -> csc_array:
        """V (d, m), only what is stored."""
        related, _, alone = self.chances().T[:, :, None]
        weight = self._arrays["weight"]
        nothing = np.zeros_like(related)
        lanes = [related * weight[2] + alone * self._arrays["pair_weight"][1, 0], nothing]
        lanes += [related * weight[4], nothing]
        return stored_columns(self._personal, self._unit() * np.hstack(lanes))

    def singular_values(self) -> NDArray[np.float64]:
        """Of U, above rounding, largest first."""
        return spectrum(*self.shared_factors())

    def personal_norms(self) -> NDArray[np.float64]:
        """Length (m,) of each task's column of V."""
        return column_lengths(self.personal_sparse())

    def trust(self) -> dict[str, float]:
        """The first combiner's weight of what it hears."""
        return dict(zip(HEARD, self._arrays["weight"].tolist(), strict=True))

    def chances(self) -> NDArray[np.float64]:
        """Probability (m, 3) that each task is related, like all others, on its own."""
        chance = self._arrays["kinds"] * np.exp(self._arrays["evidence"])
        return np.asarray(chance / chance.sum(axis=1, keepdims=True))

    def personal_tasks(self, sure: float = 0.9) -> NDArray[np.int64]:
        """Tasks unlike the rest: better off alone with probability ``sure`` or more."""
        return np.flatnonzero(self.chances()[:, 2] >= sure)

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

    def _unit(self) -> float:
        total, count = self._arrays["clock"][:2]
        return float(np.exp(-0.5 * total / count)) if count else 1.0


def _normal_residuals() -> NDArray[np.float64]:
    """What is expected of residuals before there are any."""
    below = np.array([erf(edge / sqrt(2.0)) for edge in EDGES])
    below[0], below[-1] = 0.0, 1.0
    return PRIOR_EVENTS * np.diff(below)
