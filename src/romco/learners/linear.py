"""Baselines with one weight vector per task, or one for all."""

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from romco.kernels.baselines.linear import (
    ArowKernel,
    CollaborativeArowKernel,
    CollaborativeKernel,
    GradientKernel,
    PassiveAggressiveKernel,
)
from romco.learners.base import CompiledLearner
from romco.learners.capabilities import Start, Started
from romco.learners.sharing import Belief, Full, PerFeature, Sharing, Steps, Sum, Whole
from romco.parameters import choice, not_negative, positive


class ModelLearner(CompiledLearner):
    """A compiled learner that predicts with one row of ``w`` per task, or one for all (abstract).

    A subclass gets ``w`` from ``_keep``, which takes all other arrays that its kernel changes, and
    names in ``shapes`` those that grow.
    """

    def _keep(self, models: str = "unique", **others: NDArray[np.generic]) -> NDArray[np.float64]:
        """Return ``w``, zeros, one row per task or one for all; keep it and the others."""
        self.one_for_all = models == "global"
        if self.one_for_all:
            self.task_axes = {}
        w = np.zeros((1 if self.one_for_all else self.n_tasks, self.n_features))
        self._arrays = {"w": w, **others}
        return w

    def weights(self) -> NDArray[np.float64]:
        return np.broadcast_to(self._arrays["w"], (self.n_tasks, self.n_features)).T.copy()


class LinearLearner(ModelLearner):
    """A learner of two classes whose new tasks start from the others (abstract).

    ``u`` (d,) is a model of all tasks, towards which they are drawn, and ``G`` (m, m) are the inner
    products of the rows of ``w``.
    """

    shapes: ClassVar = {"w": "kd", "u": "d"}

    def common(self, started: Started) -> Start | None:
        """The model of all tasks, else the mean of their weights; O(m d)."""
        w = self._arrays["w"]
        if self.one_for_all:
            return None
        return Start(self._arrays["u"].copy() if "u" in self._arrays else mean_row(w, started))

    def start_task(self, task: int, started: Started) -> None:
        start = self.common(started)
        if start is not None:
            w = self._arrays["w"]
            w[task] = start.weights
            if "G" in self._arrays:
                self._arrays["G"][task] = self._arrays["G"][:, task] = w @ w[task]


def mean_row(w: NDArray[np.float64], started: Started) -> NDArray[np.float64]:
    """Mean (d,) of the started rows of w (m, d)."""
    return started.which.astype(np.float64) @ w / started.number


class Gradient(LinearLearner):
    r"""Online gradient descent on the hinge loss.

    .. math:: w \leftarrow w + \eta_t\, y\, x \quad \text{if } 1 - y\, w \cdot x > 0

    with one ``w`` per task (``unique``) or one for all (``global``); ``eta_t`` is
    ``eta`` or ``eta / sqrt(t)`` in round t. Events of a round are learned in order.

    Cost: O(nnz) per event. Source: the small-lambda limit of ROMCO
    (eta = eta1 + eta2), missing from the paper's comparison.
    """

    supports_sample_weight = True
    space: ClassVar = {
        "eta": tuple(10.0**k for k in np.arange(-3, 2.5, 0.5)),
        "step": ("constant", "inverse-sqrt"),
    }

    def __init__(
        self,
        n_features: int,
        n_tasks: int,
        *,
        models: str,
        eta: float = 1.0,
        step: str = "constant",
    ) -> None:
        super().__init__(n_features, n_tasks)
        choice("step", step, "constant", "inverse-sqrt")
        t = np.zeros(1, dtype=np.int64)
        w = self._keep(models, t=t)
        self.kernel = GradientKernel(w, t, positive("eta", eta), step == "inverse-sqrt")

    def sharing(self) -> Sharing:
        rounds = Whole("t", Sum())
        return (PerFeature("w", Steps()), rounds) if self.one_for_all else (rounds,)


class PassiveAggressive(LinearLearner):
    r"""Passive-aggressive: the smallest step that repairs the loss, if C allows it.

    With hinge loss l and s = \|x\|^2,

    .. math:: w \leftarrow w + \tau y x, \qquad
              \tau = \begin{cases} l/s & \text{PA} \\ \min(C, l/s) & \text{PA-I} \\
              l/(s + 1/2C) & \text{PA-II} \end{cases}

    with one ``w`` per task (``unique``) or one for all (``global``). Events of a round
    are learned in order, all predicted before; an event with x = 0 teaches nothing.

    Cost: O(nnz) per event. Source: Crammer, Dekel, Keshet, Shalev-Shwartz and Singer,
    JMLR 7 (2006); agrees with scikit-learn and River. Uncertain: the paper says
    "PA, C = 1", and C has a meaning in PA-I and PA-II only; PA-I is taken. C has the
    unit of 1/s: with rows of unit length C = 1 rarely binds.

    >>> import numpy as np, romco
    >>> pa = romco.learner("pa-unique", n_features=2, n_tasks=1, C=0.25)
    >>> pa.update(romco.Round(np.array([0]), np.array([[1.0, 1.0]]), np.array([-1.0])))
    >>> pa.weights()[:, 0]
    array([-0.25, -0.25])
    """

    supports_sample_weight = True
    space: ClassVar = {
        "C": tuple(10.0**k for k in np.arange(-3, 1.5, 0.5)),
        "variant": ("PA-I", "PA-II"),  # plain PA is PA-I with a large C
    }

    def __init__(
        self,
        n_features: int,
        n_tasks: int,
        *,
        models: Literal["unique", "global"],
        C: float = 1.0,
        variant: str = "PA-I",
    ) -> None:
        super().__init__(n_features, n_tasks)
        positive("C", C)
        choice("variant", variant, "PA", "PA-I", "PA-II")
        cap = C if variant == "PA-I" else np.inf
        ridge = 1.0 / (2.0 * C) if variant == "PA-II" else 0.0
        self.kernel = PassiveAggressiveKernel(self._keep(models), cap, ridge)

    def sharing(self) -> Sharing:
        return (PerFeature("w", Steps()),) if self.one_for_all else ()


class Collaborative(LinearLearner):
    r"""Collaborative online learning (COML): stay near the own past and near a global model.

    The global u takes a PA-I step on every event. If task k has a loss of its own,

    .. math:: w_k \leftarrow \arg\min_w \tfrac{\eta_1}{2}\|w-w_k\|^2
              + \tfrac{\eta_2}{2}\|w-u\|^2 + C\,\ell(w)

    which is a PA-I step from (eta1 w_k + eta2 u)/(eta1 + eta2) with
    C/(eta1 + eta2) in place of C. Only w_k predicts. Events are learned in order.

    Cost: O(d) per event with a loss, otherwise O(nnz). Source: Li, Chang, Hoi, Liu and
    Jain, CIKM 2011; Li, Hoi, Chang, Liu and Jain, TKDE 26 (2014). Uncertain: the objective is
    recalled, its solution derived; that u is the global model *after* its own step, and
    that w_k moves only when it has a loss, are choices. Class weights are left out.
    """

    space: ClassVar = {"eta2": (0.001, 0.01, 0.1, 1.0, 10.0), "C": (0.01, 0.1, 1.0, 10.0)}

    def __init__(
        self, n_features: int, n_tasks: int, *, eta1: float = 1.0, eta2: float = 1.0, C: float = 1.0
    ) -> None:
        super().__init__(n_features, n_tasks)
        u = np.zeros(n_features)
        strengths = positive("eta1", eta1), not_negative("eta2", eta2), positive("C", C)
        self.kernel = CollaborativeKernel(self._keep(u=u), u, *strengths)


SHAPES = {"w": "kd", "s": "kd", "S": "kdd", "u": "d", "su": "d", "Su": "dd"}
STRENGTHS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)


class Arow(LinearLearner):
    r"""Adaptive regularisation of weights (AROW): small steps where a feature is well known.

    With w Gaussian of mean w and covariance S (at first I), and l the hinge loss,

    .. math:: \beta = \frac{1}{x^\top S x + r}, \quad w \leftarrow w + \beta\, l\, y\, S x,
              \quad S \leftarrow S - \beta\, S x x^\top S \qquad \text{if } l > 0

    with one model per task (``unique``) or one for all (``global``). A diagonal S
    keeps the diagonal of the last step. Events of a round are learned in order.

    Cost: O(nnz) per event; O(d^2) time, and memory d^2 per model, with full covariance.
    Source: Crammer, Kulesza and Dredze, NeurIPS 2009. A control the paper lacks.

    >>> import numpy as np, romco
    >>> arow = romco.learner("arow-global", n_features=1, n_tasks=1)
    >>> arow.update(romco.Round(np.array([0]), np.array([[1.0]]), np.array([1.0])))
    >>> arow.weights().item(), arow.arrays()["s"].item()
    (0.5, 0.5)
    """

    supports_sample_weight = True
    space: ClassVar = {"r": STRENGTHS}
    shapes: ClassVar = SHAPES

    def __init__(
        self,
        n_features: int,
        n_tasks: int,
        *,
        models: Literal["unique", "global"],
        r: float = 1.0,
        covariance: str = "diagonal",
    ) -> None:
        super().__init__(n_features, n_tasks)
        full = choice("covariance", covariance, "diagonal", "full") == "full"
        k = n_tasks if models == "unique" else 1
        S = np.tile(np.eye(n_features), (k, 1, 1)) if full else np.ones((k, n_features))
        w = self._keep(models, **{"S" if full else "s": S})
        self.kernel = ArowKernel(w, S.reshape(k, -1), positive("r", r), full)

    def sharing(self) -> Sharing:
        if not self.one_for_all:
            return ()
        if "S" in self._arrays:
            return (Full("w", "S", None, ceiling=1.0),)
        return (PerFeature(("w", "s"), Belief(0, 1, spent=False)),)


class ConfidenceWeighted(LinearLearner):
    r"""Confidence-weighted collaborative learning (CW-COL): AROW drawn towards a global Gaussian.

    Global N(u, Su) and tasks N(w_k, S_k) all start at N(0, a I). The global one takes an
    AROW step on every event. If task k has a loss of its own, precisions are fused,

    .. math:: \bar S^{-1} = \frac{\eta_1 S_k^{-1} + \eta_2 S_u^{-1}}{\eta_1+\eta_2}, \qquad
              \bar w = \bar S\, \frac{\eta_1 S_k^{-1} w_k + \eta_2 S_u^{-1} u}{\eta_1+\eta_2}

    and (w_k, S_k) becomes one AROW step from there with r (eta1 + eta2) in place of r;
    that minimises eta1 KL(. \| N_k) + eta2 KL(. \| N_u) plus AROW's loss terms. Only
    w_k predicts. Events of a round are learned in order.

    Cost: O(d) per event with a loss, otherwise O(nnz); with full covariance O(d^3), and
    memory d^2 per task. Source: Li et al. 2011 by name; **the form is a reconstruction**,
    as the published one was not available. The AAAI 2019 "confidence weighted multitask
    learning" is another method.
    """

    shapes: ClassVar = SHAPES
    space: ClassVar = {"r": STRENGTHS, "eta2": (0.001, 0.01, 0.1, 1.0, 10.0), "a": (0.1, 1.0, 10.0)}

    def __init__(
        self,
        n_features: int,
        n_tasks: int,
        *,
        eta1: float = 1.0,
        eta2: float = 1.0,
        r: float = 1.0,
        a: float = 1.0,
        covariance: str = "diagonal",
    ) -> None:
        super().__init__(n_features, n_tasks)
        full = choice("covariance", covariance, "diagonal", "full") == "full"
        strengths = positive("eta1", eta1), not_negative("eta2", eta2), positive("r", r)
        positive("a", a)
        u = np.zeros(n_features)
        Su = a * np.eye(n_features) if full else np.full(n_features, float(a))
        S = np.tile(Su, (n_tasks, *[1] * Su.ndim))
        w = self._keep(S=S, u=u, Su=Su) if full else self._keep(s=S, u=u, su=Su)
        flat = S.reshape(n_tasks, -1), u, Su.reshape(-1)
        self.kernel = CollaborativeArowKernel(w, *flat, *strengths, full)
