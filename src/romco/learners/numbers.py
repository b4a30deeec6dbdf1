"""Numbers by plain linear models: the controls."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from romco.kernels.baselines.linear import (
    GaussianNumber,
    GradientNumber,
    PassiveAggressiveNumber,
)
from romco.learners.base import Arrays, CompiledLearner, copy_arrays, not_negative, positive

Models = Literal["unique", "global"]
Numbers = NDArray[np.float64]
Kept = tuple[Numbers, Numbers, Numbers]


class NumberLearner(CompiledLearner):
    """prediction = mean of the answers + w_i . x + b_i, one (w, b) per task or for all (abstract).

    Answers are measured from their running mean and in units of their running spread, so their
    place and unit do not matter. ``clock`` counts events, and holds what tells mean and spread.
    """

    weighs = True
    answers = 0
    shapes: ClassVar = {"w": "kd", "b": "k", "s": "k*"}

    def _keep(self, models: Models, **others: NDArray[np.float64]) -> Kept:
        self.one_for_all = models == "global"
        if self.one_for_all:
            self.task_axes = {}  # nothing is a task's own
        k = 1 if self.one_for_all else self.n_tasks
        self._arrays: Arrays = {
            "w": np.zeros((k, self.n_features)),
            "b": np.zeros(k),
            "clock": np.zeros(4),
            **others,
        }
        return self._arrays["w"], self._arrays["b"], self._arrays["clock"]

    def weights(self) -> NDArray[np.float64]:
        """W (d, m) as a dense copy, without intercepts."""
        return np.broadcast_to(self._arrays["w"], (self.n_tasks, self.n_features)).T.copy()

    def arrays(self) -> Arrays:
        """Weights, intercepts, and what places the answers."""
        return dict(self._arrays)

    def load(self, arrays: Arrays) -> None:
        """Take over another learner's arrays."""
        copy_arrays(self._arrays, arrays)


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
        kept = self._keep(models)
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
        self.kernel = GradientNumber(*self._keep(models), positive("eta", eta))


class GaussianNumbers(NumberLearner):
    r"""Bayesian linear regression with diagonal covariance, as AROW: b = 1 / (x'Sx + r / h).

    .. math:: w \leftarrow w + b\, e\, S x, \qquad S \leftarrow S - b\,\mathrm{diag}(S x x^\top S)
    """

    space: ClassVar = {"r": (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)}

    def __init__(self, n_features: int, n_tasks: int, *, models: Models, r: float = 1.0) -> None:
        super().__init__(n_features, n_tasks)
        s = np.ones((1 if models == "global" else n_tasks, n_features + 1))
        kept = self._keep(models, s=s)
        self.kernel = GaussianNumber(*kept, s, positive("r", r))
