"""romco-auto: no parameters; finds out by itself how much to share and how boldly to step."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from romco.kernels.auto import AutoKernel
from romco.learners.base import Arrays, CompiledLearner
from romco.learners.shared import load_with_store, personal_store

COPIES = (
    ("margin", "shared"),
    ("logistic", "shared"),
    ("margin", "alone"),
    ("logistic", "alone"),
    ("margin", "global"),
    ("logistic", "global"),
)
TRUST = 3.0  # prior weight of the first copy, and prior variance of all weights


class Auto(CompiledLearner):
    r"""Six simple learners side by side and a judge that learns whom to believe; no parameters.

    The six are two losses, squared hinge (AROW: bold, for clean data) and logistic
    (cautious, for noisy data), by three degrees of sharing: one vector for all tasks
    (*global*), one per task (*alone*), and the sum of both kinds (*shared*). Each is
    a Gaussian belief with diagonal covariance; logistic ones have intercepts.

    The judge is a Bayesian logistic regression on what the six say, z:

    .. math:: \text{log-odds} = \omega \cdot z + g_i (z_\text{alone} - z_\text{global})

    with one :math:`\omega` for all tasks and one leaning :math:`g_i` per task, so a task
    unlike the rest is found and left alone. Margins are log-odds averaged over the
    judge's uncertainty: comparable over time and tasks, and
    ``1 / (1 + exp(-margin))`` is a probability.

    Features are measured in units of the geometric mean of |x|, so their common
    scale does not matter. Cost: O(nnz) per event, whatever the number of tasks.

    >>> import numpy as np, romco
    >>> learner = romco.learner("romco-auto", n_features=2, n_tasks=3)
    >>> x, y = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([1.0, -1.0])
    >>> for _ in range(5):
    ...     learner.update(romco.Round(np.array([0, 1]), x, y))
    >>> bool((learner.predict(romco.Round(np.array([2, 2]), x, y)) * y > 1).all())  # a new task
    True
    """

    space: ClassVar = {}
    linear: ClassVar = False

    def __init__(self, n_features: int, n_tasks: int) -> None:
        super().__init__(n_features, n_tasks)
        self._personal = personal_store(n_features, n_tasks, 8)
        self._arrays = {
            "shared": np.zeros((n_features, 8)),  # four means, four spent variances
            "intercept": np.zeros((2, 2)),  # of the shared and global copy: mean, spent variance
            "own_intercept": np.zeros((n_tasks, 2, 2)),  # of the shared copy and the one alone
            "weight": np.zeros(len(COPIES)),  # the judge's trust in each copy: mean
            "covariance": TRUST * np.eye(len(COPIES)),  # and covariance
            "leaning": np.zeros((n_tasks, 2)),  # of each task: mean, spent variance
            "scale": np.zeros(2),  # sum of log |x|^2, number of events with features
        }
        self._arrays["weight"][0] = TRUST
        self.kernel = AutoKernel(personal=self._personal, **self._arrays)

    def weights(self) -> NDArray[np.float64]:
        """W (d, m): the linear part of the log-odds, before uncertainty and intercepts.

        Margins shrink where the learner is unsure, so they are not exactly W'x.
        """
        return self.shared() + self.personal()

    def shared(self) -> NDArray[np.float64]:
        """U (d, m): what vectors common to all tasks contribute to W."""
        mean, weight = self._arrays["shared"][:, :4], self._arrays["weight"]
        trust = np.tile(weight[[0, 1, 4, 5]], (self.n_tasks, 1))
        trust[:, 2] -= self.leaning()
        return self._unit() * mean @ trust.T

    def personal(self) -> NDArray[np.float64]:
        """V (d, m): what each task's own vectors contribute to W."""
        trust = np.tile(self._arrays["weight"][:4], (self.n_tasks, 1))
        trust[:, 2] += self.leaning()
        lanes = (self._personal.lane(c) * trust[:, [c]] for c in range(4))
        return self._unit() * sum(lanes).T  # type: ignore[union-attr]

    def trust(self) -> dict[str, dict[str, float]]:
        """The judge's weight of each copy, by degree of sharing and loss."""
        table: dict[str, dict[str, float]] = {}
        for (loss, sharing), weight in zip(COPIES, self._arrays["weight"], strict=True):
            table.setdefault(sharing, {})[loss] = float(weight)
        return table

    def leaning(self) -> NDArray[np.float64]:
        """How far each task (m,) leans to its own model (above 0) or to the common one (below)."""
        return self._arrays["leaning"][:, 0].copy()

    def arrays(self) -> Arrays:
        """Beliefs of the copies and of the judge."""
        return {**self._arrays, **self._personal.arrays()}

    def load(self, arrays: Arrays) -> None:
        """Take over another learner's arrays."""
        load_with_store(self._arrays, self._personal, arrays)

    def _unit(self) -> float:
        total, count = self._arrays["scale"]
        return float(np.exp(-0.5 * total / count)) if count else 1.0
