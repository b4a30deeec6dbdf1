"""A weight vector that all tasks share plus one of each task's own."""

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from romco.kernels.baselines.related import SharedArow, SharedPassiveAggressive
from romco.kernels.core.pairs import Pairs
from romco.learners.base import Arrays, CompiledLearner, copy_arrays
from romco.learners.capabilities import Decomposed, Numbers, personal_of, shared_of
from romco.learners.sharing import Belief, PerFeature, PerPair, Sharing, Steps
from romco.parameters import positive

if TYPE_CHECKING:
    from scipy.sparse import csc_array

ROUNDING = 1e-12  # of the largest singular value: below it there is nothing


def spectrum(left: Numbers, right: Numbers) -> Numbers:
    """Singular values of U = L R', above rounding, largest first; O((d + m) r^2)."""
    if not left.size or not right.size:
        return np.empty(0)
    small: Any = np.linalg.qr(left, mode="r") @ np.transpose(np.linalg.qr(right, mode="r"))
    s = np.linalg.svd(small, compute_uv=False)
    return s[s > ROUNDING * s.max(initial=0.0)]


def feature_moments(arrays: Arrays) -> tuple[Numbers, Numbers]:
    """Mean and standard deviation (d,) of each feature over all rows, from ``Scales``' sums.

    A feature that is absent from a row counts as 0.
    """
    rows = max(float(arrays["typical"][0]), 1.0)
    _, total, squares = arrays["units"][:, :3].T
    mean = total / rows
    return mean, np.sqrt(np.maximum(0.0, squares / rows - mean * mean))


def column_lengths(own: "csc_array") -> Numbers:
    """Length (m,) of each column of V (d, m)."""
    column = np.repeat(np.arange(own.shape[1]), np.diff(own.indptr))
    return np.sqrt(np.bincount(column, own.data**2, minlength=own.shape[1]))


class DecomposedLearner(CompiledLearner, Decomposed):
    """W = U + V, from ``shared_factors`` and ``personal_sparse`` of the learner (abstract)."""

    def weights(self) -> Numbers:
        return self.shared() + self.personal()

    def shared(self) -> Numbers:
        """U (d, m), what tasks have in common."""
        return shared_of(self)

    def personal(self) -> Numbers:
        """V (d, m), what is personal to single tasks."""
        return personal_of(self)

    def singular_values(self) -> Numbers:
        return spectrum(*self.shared_factors())

    def personal_norms(self) -> Numbers:
        return column_lengths(self.personal_sparse())


OWN = PerPair("personal", "personal_keys")
DENSE = 2**20  # pairs of task and feature up to which an array beats a table of those that occurred

PAIRS = {"personal": "md*|**"}  # shape of what such a store holds: dense, or a list


def personal_store(n_features: int, n_tasks: int, width: int) -> Pairs:
    """Room for ``width`` numbers per task and feature: dense where that is small."""
    return Pairs(n_tasks, n_features, width, n_tasks * n_features <= DENSE)


def load_with_store(learner_arrays: Arrays, store: Pairs, arrays: Arrays) -> None:
    """Take over ``arrays``, part of which belong to the store; check all before touching any.

    ``arrays["personal"]`` may be another store, which is taken over as it is.
    """
    kept = {name: array for name, array in arrays.items() if not name.startswith("personal")}
    if "personal" not in arrays:
        raise ValueError(f"state holds arrays {sorted(arrays)}, 'personal' is missing")
    personal: Any = arrays["personal"]
    if isinstance(personal, Pairs):
        copy_arrays(learner_arrays, kept)
        store.take(personal)
        return
    store.check(arrays.get("personal_keys"), np.asarray(personal))
    copy_arrays(learner_arrays, kept)
    store.load(arrays)


def stored_columns(store: Pairs, lanes: NDArray[np.float64]) -> "csc_array":
    """Return the stored pairs as (d, m): numbers of a pair weighted by its task's ``lanes``.

    ``lanes`` is (m, k), for the first k numbers of a pair.
    """
    from scipy.sparse import csc_array  # here, so that `import romco` stays fast

    arrays = store.arrays()
    values, keys = arrays["personal"], arrays.get("personal_keys")
    if keys is None:
        task, feature = np.nonzero(values.any(axis=2))
        values = values[task, feature]
    else:
        task, feature = keys >> 32, keys & 0xFFFFFFFF
    numbers = (values[:, : lanes.shape[1]] * lanes[task]).sum(axis=1)
    return csc_array((numbers, (feature, task)), shape=(store.n_features, store.n_tasks))


class SharedAndPersonal(DecomposedLearner):
    """w_i = u + v_i: one vector that all tasks share, and one of each task's own (abstract).

    ``_u`` holds u, with whatever else is kept of a feature beside it; ``_v`` the same of pairs.
    """

    supports_sample_weight = True
    _u: NDArray[np.float64]
    _v: Pairs

    def shared_factors(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        u = self._u.reshape(self.n_features, -1)[:, :1]
        return u.copy(), np.ones((self.n_tasks, 1))

    def personal_sparse(self) -> "csc_array":
        return stored_columns(self._v, np.ones((self.n_tasks, 1)))

    def forget_task(self, task: int) -> None:
        self.kernel.check_idle()
        self._v.clear(task)

    def arrays(self) -> Arrays:
        return {"u": self._u, **self._v.arrays()}

    def load(self, arrays: Arrays) -> None:
        load_with_store({"u": self._u}, self._v, arrays)


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
        self._u = np.zeros(n_features)
        self.pair_store = self._v = personal_store(n_features, n_tasks, 1)
        self.kernel = SharedPassiveAggressive(self._u.reshape(-1, 1), self._v, positive("C", C))

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
        self._u = np.zeros((n_features, 2))
        self.pair_store = self._v = personal_store(n_features, n_tasks, 2)
        self.kernel = SharedArow(self._u, self._v, positive("r", r))

    def sharing(self) -> Sharing:
        return PerFeature("u", Belief(0, 1)), OWN
