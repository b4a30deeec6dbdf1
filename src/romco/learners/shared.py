"""A weight vector that all tasks share plus one of each task's own."""

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from romco.kernels.baselines.related import SharedArow, SharedPassiveAggressive
from romco.kernels.core.pairs import Pairs
from romco.learners.base import Arrays, CompiledLearner
from romco.learners.capabilities import Decomposed
from romco.learners.sharing import Belief, PerFeature, PerPair, Sharing, Steps, stored_pairs
from romco.parameters import positive
from romco.typing import Floats

if TYPE_CHECKING:
    from scipy.sparse import csc_array


OWN = PerPair("personal", "personal_keys")
DENSE = 2**21  # numbers up to which an array beats a table of the pairs that occurred

PAIRS = {"personal": "md*|**"}  # shape of what such a store holds: dense, or a list


class PairLearner(Decomposed, CompiledLearner):
    """U + V, where V is in ``pair_store`` (abstract).

    Other arrays with a row per task, as ``shapes`` has them, begin with zeros.
    """

    supports_sample_weight = True
    stores: dict[str, Pairs]

    def _keep(self, width: int, arrays: Arrays) -> None:
        """Keep the arrays, and a store of ``width`` numbers per task and feature."""
        m, d = self.n_tasks, self.n_features
        self.stores = {"personal": Pairs(m, d, width, m * d * width <= DENSE)}
        self._arrays = arrays

    @property
    def pair_store(self) -> Pairs:
        """The numbers of each task and feature."""
        return self.stores["personal"]

    def pair_numbers(self, k: int) -> "csc_array":
        """Return number k of each stored pair (d, m)."""
        from scipy.sparse import csc_array  # here, so that `import romco` stays fast

        arrays = self.pair_store.arrays()
        task, feature, values = stored_pairs(arrays["personal"], arrays.get("personal_keys"))
        return csc_array((values[:, k], (feature, task)), shape=(self.n_features, self.n_tasks))

    def forget_task(self, task: int) -> None:
        self.kernel.check_idle()
        for name in self.task_axes or ():
            self._arrays[name][task] = 0.0
        for store in self.stores.values():
            store.clear(task)


class SharedAndPersonal(PairLearner):
    """w_i = u + v_i: one vector that all tasks share, and one of each task's own (abstract).

    The array "u" holds u, with whatever else is kept of a feature beside it; pairs hold the same.
    """

    def shared_factors(self) -> tuple[Floats, Floats]:
        u = self._arrays["u"].reshape(self.n_features, -1)[:, :1]
        return u.copy(), np.ones((self.n_tasks, 1))

    def personal_sparse(self) -> "csc_array":
        return self.pair_numbers(0)


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
