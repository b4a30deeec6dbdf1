"""romco-auto: no parameters; finds out by itself how much to share and how boldly to step."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from romco.kernels.auto import AutoKernel
from romco.learners.base import Arrays, CompiledLearner
from romco.learners.shared import load_with_store, personal_store, stored_columns

if TYPE_CHECKING:
    from scipy.sparse import csc_array

VOICES = (
    "global margin",
    "global logistic",
    "alone margin",
    "alone logistic",
    *(f"direction {k}" for k in range(1, 5)),
)
TRUST = 2.0  # prior weight of each margin learner
DOUBT = 3.0  # prior variance of all weights of the judges
ODD = -2.0  # prior log-odds that a task has nothing in common with the others, as in the kernel


class Auto(CompiledLearner):
    r"""Four simple learners, a low-rank U between them, and two judges; no parameters.

    The four are two losses, squared hinge (AROW: bold, for clean data) and logistic
    (cautious, for noisy data), by two degrees of sharing, one vector for all tasks
    (*global*) and one per task (*alone*). Each is a Gaussian belief with diagonal
    covariance; the logistic ones have intercepts. From the tasks' own vectors W a
    low-rank :math:`B F^\top` of rank four is drawn whenever the stream has grown by
    half: what groups of tasks have in common.

    A judge, which is a Bayesian logistic regression with one weight vector for all
    tasks, turns what these say of an event into log-odds; a second judge does so from
    the two that are alone. Whether a task is *independent*, best left to the second
    judge, is decided by the evidence of its own events (Bayes' rule). A margin is the
    log-odds of the mixture: comparable over time and tasks, and
    ``1 / (1 + exp(-margin))`` is a probability.

    Features are measured in units of the geometric mean of \|x\|, so their common
    scale does not matter. Cost: O(nnz) per event, whatever the number of tasks.

    >>> import numpy as np, romco
    >>> learner = romco.learner("romco-auto", n_features=2, n_tasks=3)
    >>> x, y = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([1.0, -1.0])
    >>> for _ in range(5):
    ...     learner.update(romco.Round(np.array([0, 1]), x, y))
    >>> bool((learner.predict(romco.Round(np.array([2, 2]), x, y)) * y > 0.5).all())  # a new task
    True
    """

    space: ClassVar = {}
    linear: ClassVar = False

    def __init__(self, n_features: int, n_tasks: int) -> None:
        super().__init__(n_features, n_tasks)
        self._personal = personal_store(n_features, n_tasks, 4)
        self._arrays = {
            "shared": np.zeros((n_features, 8)),  # two means, two spent variances, row of B
            "factor": np.zeros((n_tasks, 4)),  # F
            "intercept": np.zeros((2, 2)),  # of global and alone: mean, spent variance
            "own_intercept": np.zeros((n_tasks, 2)),  # what a task adds to it
            "weight": np.array([TRUST, 0.0, TRUST, 0.0, 0.0, 0.0, 0.0, 0.0]),  # of the judge
            "covariance": DOUBT * np.eye(len(VOICES)),  # of the weight
            "own_weight": np.array([1.5 * TRUST, 0.0]),  # of the second judge
            "own_covariance": DOUBT * np.eye(2),
            "evidence": np.zeros(n_tasks),  # log-odds gained for a task being independent
            "clock": np.array([0.0, 0.0, 32.0]),  # sum of log |x|^2, events, when to draw next
        }
        self.kernel = AutoKernel(personal=self._personal, **self._arrays)

    def weights(self) -> NDArray[np.float64]:
        """W = U + V (d, m): the linear part of the log-odds.

        Margins also have intercepts and shrink where the learner is unsure, so they are
        not exactly W'x.
        """
        return self.shared() + self.personal()

    def shared(self) -> NDArray[np.float64]:
        """U (d, m), of rank six at most: what the common vectors contribute to W."""
        left, right = self.shared_factors()
        return left @ right.T

    def shared_factors(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """L (d, 6) and R (m, 6) with U = L R'."""
        vectors, weight = self._arrays["shared"], self._arrays["weight"]
        trust = np.tile(weight[:2], (self.n_tasks, 1))
        low_rank = self._arrays["factor"] * weight[4:]
        parts = np.hstack([trust, low_rank]) * (1.0 - self.independence())[:, None]
        return self._unit() * vectors[:, [0, 1, 4, 5, 6, 7]], parts

    def personal(self) -> NDArray[np.float64]:
        """V (d, m): what each task's own vectors contribute to W."""
        return self.personal_sparse().toarray()

    def personal_sparse(self) -> csc_array:
        """V (d, m), only what is stored."""
        odd = self.independence()[:, None]
        trust = (1.0 - odd) * self._arrays["weight"][2:4] + odd * self._arrays["own_weight"]
        return stored_columns(self._personal, self._unit() * trust)

    def trust(self) -> dict[str, float]:
        """The judge's weight of each voice."""
        return dict(zip(VOICES, self._arrays["weight"].tolist(), strict=True))

    def independence(self) -> NDArray[np.float64]:
        """Probability (m,) that each task is better off alone."""
        return 1.0 / (1.0 + np.exp(-ODD - self._arrays["evidence"]))

    def personal_tasks(self, sure: float = 0.9) -> NDArray[np.int64]:
        """Tasks unlike the rest: better off alone with probability ``sure`` or more."""
        return np.flatnonzero(self.independence() >= sure)

    def similarity(self) -> NDArray[np.float64]:
        """The task kernel (m, m): cosine of what each task alone has learned; 0 if nothing yet."""
        w = self._personal.lane(1)
        length = np.linalg.norm(w, axis=1, keepdims=True)
        w = w / np.where(length > 0.0, length, 1.0)
        cosine = w @ w.T
        np.fill_diagonal(cosine, 1.0)
        return cosine

    def groups(self, alike: float = 0.3) -> NDArray[np.int64]:
        """A group number for each task (m,): joined while similar by ``alike`` on average."""
        from scipy.cluster.hierarchy import fcluster, linkage  # here: slow to import
        from scipy.spatial.distance import squareform

        if self.n_tasks == 1:
            return np.zeros(1, dtype=np.int64)
        distance = squareform(1.0 - np.clip(self.similarity(), -1.0, 1.0), checks=False)
        tree = linkage(distance, method="average")
        return fcluster(tree, 1.0 - alike, criterion="distance").astype(np.int64) - 1

    def arrays(self) -> Arrays:
        """Beliefs of the learners and of the judge."""
        return {**self._arrays, **self._personal.arrays()}

    def load(self, arrays: Arrays) -> None:
        """Take over another learner's arrays."""
        load_with_store(self._arrays, self._personal, arrays)

    def _unit(self) -> float:
        total, count = self._arrays["clock"][:2]
        return float(np.exp(-0.5 * total / count)) if count else 1.0
