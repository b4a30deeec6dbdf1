"""A weight vector that all tasks share plus one of each task's own."""

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from romco.kernels.auto.scales import aligned_zeros
from romco.kernels.auto.stacking import StackingModel
from romco.kernels.auto.subspace import PROGRESS
from romco.kernels.baselines.related import SharedArow, SharedPassiveAggressive
from romco.kernels.core.pairs import Pairs
from romco.learners.base import Arrays, CompiledLearner
from romco.learners.capabilities import Decomposed, Numbers
from romco.learners.sharing import Belief, PerFeature, PerPair, Sharing, Steps, stored_pairs
from romco.parameters import positive

if TYPE_CHECKING:
    from scipy.sparse import csc_array

    from romco.kernels.auto.auto import AutoKernel
    from romco.kernels.auto.numbers import AutoNumberKernel


OWN = PerPair("personal", "personal_keys")
DENSE = 2**20  # pairs of task and feature up to which an array beats a table of those that occurred

SCALED = ("units", "typical")  # arrays of the features' scales
STACKED = ("weight", "covariance", "renewal", "pair_", "drift_")  # arrays of stacking models
KIND_PRIOR = np.array([1.0, np.exp(-2.0), np.exp(-2.0)]) / (1.0 + 2.0 * np.exp(-2.0))
PAIRS = {"personal": "md*|**"}  # shape of what such a store holds: dense, or a list


def stored_columns(store: Pairs, lanes: NDArray[np.float64]) -> "csc_array":
    """Return the stored pairs as (d, m): numbers of a pair weighted by its task's ``lanes``.

    ``lanes`` is (m, k), for the first k numbers of a pair.
    """
    from scipy.sparse import csc_array  # here, so that `import romco` stays fast

    arrays = store.arrays()
    task, feature, values = stored_pairs(arrays["personal"], arrays.get("personal_keys"))
    numbers = (values[:, : lanes.shape[1]] * lanes[task]).sum(axis=1)
    return csc_array((numbers, (feature, task)), shape=(store.n_features, store.n_tasks))


class PairLearner(Decomposed, CompiledLearner):
    """U + V, where V is in ``pair_store`` (abstract).

    Other arrays with a row per task, as ``shapes`` has them, begin with zeros.
    """

    pair_store: Pairs
    supports_sample_weight = True

    def _keep(self, width: int, arrays: Arrays) -> None:
        """Keep the arrays, and a store of ``width`` numbers per task and feature."""
        m, d = self.n_tasks, self.n_features
        self.pair_store, self._arrays = Pairs(m, d, width, m * d <= DENSE), arrays

    def forget_task(self, task: int) -> None:
        self.kernel.check_idle()
        for name in self.task_axes or ():
            self._arrays[name][task] = 0.0
        self.pair_store.clear(task)


class BaseAuto(PairLearner):
    """Methods that ``romco-auto`` has for two classes and for numbers alike (abstract)."""

    kernel: "AutoKernel | AutoNumberKernel"
    supports_offset = True
    one_pass = True
    linear: ClassVar = False

    @abstractmethod
    def own_shares(self) -> Numbers:
        """Weights (m, k) of the first k numbers of a task's pairs in its predictions."""

    @abstractmethod
    def units(self) -> Numbers:
        """Factors (d,) that bring each feature to the learners' units."""

    def common_arrays(self) -> Arrays:
        """Return new arrays of the subspace, the features' scales and the kinds of tasks."""
        d, m = self.n_features, self.n_tasks
        return {
            "factor": np.zeros((m, 8)),  # F, of both sides
            "progress": np.zeros(PROGRESS),  # of a recomputation of B and F
            "units": aligned_zeros(d, 8),  # count, sum, squares; centre, size, factor; due
            "typical": np.zeros(5),  # events, common log size; times sizes were found, due; width
            "evidence": np.zeros((m, 3)),  # log-likelihood of each kind, 0 for the best
            "belief": np.zeros((m, 3)),  # chance of each kind; 0 before the first event
            "kinds": KIND_PRIOR.copy(),  # one task, and the beliefs about all there ever were
        }

    def kernel_parts(self, doubt: float) -> dict[str, Any]:
        """Return arguments of the kernel: pairs, arrays, stacking models of prior ``doubt``."""
        a = self._arrays
        renewals = a.get("pair_renewal", (None, None))
        pairs = zip(a["pair_weight"], a["pair_covariance"], renewals, strict=True)
        like_all, on_its_own = (StackingModel(w, cov, doubt, renewal) for w, cov, renewal in pairs)
        return {
            "personal": self.pair_store,
            "related": StackingModel(a["weight"], a["covariance"], doubt, a.get("renewal")),
            "like_all": like_all,
            "on_its_own": on_its_own,
            **{name: array for name, array in a.items() if not name.startswith(STACKED + SCALED)},
        }

    def personal_sparse(self) -> "csc_array":
        columns = stored_columns(self.pair_store, self.own_shares())
        columns.data *= self.units()[columns.indices]
        return columns

    def stored_numbers(
        self, k: int, features: NDArray[np.intp], tasks: NDArray[np.int64]
    ) -> Numbers:
        """Number k of pairs, of some features and tasks."""
        lanes = np.tile(np.eye(self.pair_store.width)[k], (self.n_tasks, 1))
        block: Any = stored_columns(self.pair_store, lanes).tocsr()[features][:, tasks]
        return np.asarray(block.toarray())

    def _side(self) -> int:
        """Return which of the two sides of the subspace is in use, 0 or 1."""
        return int(self._arrays["progress"][3] == 1.0)

    def _factor(self) -> Numbers:
        """F (m, 4), of the side of the subspace that is in use."""
        return self._arrays["factor"][:, 4 * self._side() :][:, :4]

    def chances(self) -> Numbers:
        """Probability (m, 3) that each task is related, like all others, on its own."""
        chance = self._arrays["kinds"] * np.exp(self._arrays["evidence"])
        return np.asarray(chance / chance.sum(axis=1, keepdims=True))

    def personal_tasks(self, sure: float = 0.9) -> NDArray[np.int64]:
        """Tasks unlike the rest: better off alone with probability ``sure`` or more."""
        return np.flatnonzero(self.chances()[:, 2] >= sure)

    def feature_moments(self) -> tuple[Numbers, Numbers]:
        rows = max(float(self._arrays["typical"][0]), 1.0)
        _, total, squares = self._arrays["units"][:, :3].T
        mean = total / rows
        return mean, np.sqrt(np.maximum(0.0, squares / rows - mean * mean))

    def load(self, arrays: Arrays) -> None:
        super().load(arrays)
        self.kernel.subspace.lose_track()
        if not self.pair_store.dense and "personal_keys" not in arrays:  # pairs have other numbers
            self.kernel.restart_subspace()


class SharedAndPersonal(PairLearner):
    """w_i = u + v_i: one vector that all tasks share, and one of each task's own (abstract).

    The array "u" holds u, with whatever else is kept of a feature beside it; pairs hold the same.
    """

    def shared_factors(self) -> tuple[Numbers, Numbers]:
        u = self._arrays["u"].reshape(self.n_features, -1)[:, :1]
        return u.copy(), np.ones((self.n_tasks, 1))

    def personal_sparse(self) -> "csc_array":
        return stored_columns(self.pair_store, np.ones((self.n_tasks, 1)))


class PassiveAggressiveShared(SharedAndPersonal):
    r"""PA-I with one shared and one personal vector: w_i = u + v_i.

    .. math:: u \leftarrow u + \tau y x, \quad v_i \leftarrow v_i + \tau y x, \qquad
              \tau = \min(C,\ \ell / 2\|x\|^2)

    where :math:`\ell = \max(0, 1 - y\, w_i \cdot x)`: the smallest change of (u, v_i)
    that mends the loss. Equals PA with the task kernel K = I + 11'.

    Cost: O(nnz) per event. C has units of 1/|x|^2.
    """

    space: ClassVar = {"C": tuple(10.0**k for k in np.arange(-3, 1.5, 0.5))}
    shapes: ClassVar = {"u": "d", **PAIRS}

    def __init__(self, n_features: int, n_tasks: int, *, C: float = 1.0) -> None:
        super().__init__(n_features, n_tasks)
        u = np.zeros(n_features)
        self._keep(1, {"u": u})
        self.kernel = SharedPassiveAggressive(u.reshape(-1, 1), self.pair_store, positive("C", C))

    def sharing(self) -> Sharing:
        return PerFeature("u", Steps()), OWN


class ArowShared(SharedAndPersonal):
    r"""AROW with one shared and one personal vector: w_i = u + v_i, diagonal covariance.

    .. math:: w \leftarrow w + \beta \ell\, y\, S x, \quad S \leftarrow S - \beta\,
              \mathrm{diag}(S x x^\top S), \qquad \beta = 1 / (x^\top S x + r)

    wherever :math:`\ell = 1 - y\, w_i \cdot x > 0`, with w = (u, v_i), S = I at the
    start, and x repeated for both parts. Features seen often move less.

    Cost: O(nnz) per event. r has units of |x|^2.
    """

    space: ClassVar = {"r": tuple(10.0**k for k in np.arange(-2, 3.5, 0.5))}
    shapes: ClassVar = {"u": "d*", **PAIRS}

    def __init__(self, n_features: int, n_tasks: int, *, r: float = 1.0) -> None:
        super().__init__(n_features, n_tasks)
        u = np.zeros((n_features, 2))
        self._keep(2, {"u": u})
        self.kernel = SharedArow(u, self.pair_store, positive("r", r))

    def sharing(self) -> Sharing:
        return PerFeature("u", Belief(0, 1)), OWN
