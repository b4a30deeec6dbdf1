"""Baselines with one weight vector per task, or one for all; some know how tasks are related."""

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
from romco.kernels.baselines.related import (
    ExponentialKernel,
    FixedKernel,
    LogDetKernel,
    SharedLossKernel,
    TruncatedKernel,
    VonNeumannKernel,
)
from romco.learners.base import Arrays, CompiledLearner
from romco.learners.capabilities import Start, StartedTasks
from romco.learners.sharing import Belief, Full, PerFeature, Sharing, Steps, Sum, Whole
from romco.parameters import choice, not_negative, positive, whole


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

    def common(self, started: StartedTasks) -> Start | None:
        """The model of all tasks, else the mean of their weights; O(m d)."""
        w = self._arrays["w"]
        if self.one_for_all:
            return None
        if "u" in self._arrays:
            return Start(self._arrays["u"].copy())
        return Start(mean_row(w, started))

    def start_task(self, task: int, started: StartedTasks) -> None:
        start = self.common(started)
        if start is not None:
            w = self._arrays["w"]
            w[task] = start.weights
            if "G" in self._arrays:
                self._arrays["G"][task] = self._arrays["G"][:, task] = w @ w[task]


def mean_row(w: NDArray[np.float64], started: StartedTasks) -> NDArray[np.float64]:
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
        if self.one_for_all:
            return (PerFeature("w", Steps()), rounds)
        return (rounds,)


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
        if self.one_for_all:
            return (PerFeature("w", Steps()),)
        return ()


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
            return (Full("w", "S", 0.0, ceiling=1.0),)
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


# Baselines that learn or assume how tasks are related


def coupling(n_tasks: int, b: float) -> NDArray[np.float64]:
    """B (m, m) of Cavallanti et al.: (I + b 11'/m) / (1 + b); b = 0 couples nothing."""
    return (np.eye(n_tasks) + b / n_tasks) / (1.0 + b)


TRIGGERS = ("mistake", "margin")
STEPS = ("constant", "pa")
SIZES = (0.01, 0.1, 1.0, 10.0)
WEAK_TO_STRONG = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


def _rule(C: float, trigger: str, step: str) -> tuple[float, bool, bool]:
    choice("trigger", trigger, *TRIGGERS)
    choice("step", step, *STEPS)
    return positive("C", C), trigger == "margin", step == "pa"


class CoupledPerceptron(LinearLearner):
    r"""Multi-task perceptron with a fixed relation: each error moves every task a little.

    On an error in task i, with B the inverse of the interaction matrix,

    .. math:: w_j \leftarrow w_j + \tau\, y\, B_{ji}\, x \quad \text{for all } j, \qquad
              B = \frac{1}{1+b}\Big(I + \frac{b}{m} 11^\top\Big)

    b = 0 gives independent perceptrons, b = m the "half update", large b one perceptron
    for all. ``trigger="mistake"`` (as published) learns from wrong signs; a margin of 0 predicts
    +1, so at 0 only y = -1 is one. ``trigger="margin"`` learns from every margin y w_i.x below 1.
    tau is ``C``, which matters only with margins, or, with ``step="pa"``, the passive-aggressive
    step in the metric of B, the least that brings the margin to 1, at most C:
    min(C, (1 - y w_i.x) / (B_ii |x|^2)). Events of a round are learned in order.

    Cost: O(m nnz) per error, otherwise O(nnz). Source: Cavallanti, Cesa-Bianchi and
    Gentile, JMLR 11 (2010). A control the paper lacks.
    """

    space: ClassVar = {"b": WEAK_TO_STRONG, "C": SIZES, "trigger": TRIGGERS, "step": STEPS}

    def __init__(
        self,
        n_features: int,
        n_tasks: int,
        *,
        b: float = 1.0,
        trigger: str = "mistake",
        step: str = "constant",
        C: float = 1.0,
    ) -> None:
        super().__init__(n_features, n_tasks)
        B = coupling(n_tasks, not_negative("b", b))
        self.kernel = FixedKernel(self._keep(), B, *_rule(C, trigger, step))


class LearnedRelation(LinearLearner):
    r"""Multi-task perceptron that learns its task relation (OMTLVON, OMTLLOG).

    On an error in task i, after the first ``prime`` events also the relation B moves, by
    the weights W from before the event (LOG and VON rule):

    .. math:: w_j \leftarrow w_j + \tau y B_{ji} x, \qquad
              B \leftarrow B + \eta W^\top W \quad\text{or}\quad
              B \leftarrow \exp(\log B + \eta W^\top W)

    then scaled to trace m, else larger B makes larger W makes larger B. At first B is that of
    ``perceptron-coupled`` with ``b``; ``trigger``, ``step`` and ``C`` are as there.
    ``refresh="round"`` moves B once after a round with an error, by the weights after it, not
    at every error. Events of a round are learned in order.

    Cost: O(m nnz + m^2) per error, VON O(m nnz + m^3), otherwise O(nnz); W'W is kept
    up to date, not recomputed. Source: Saha, Rai, Daume and Venkatasubramanian, AISTATS
    2011. Uncertain: both rules are recalled and derived, not read; that B moves only on
    errors and by the old W; ``prime`` (published: half the stream, unknown online);
    the normalisation, margins and their steps are ours.

    >>> import romco
    >>> romco.learner("omtlvon", n_features=3, n_tasks=2).relation()
    array([[1., 0.],
           [0., 1.]])
    """

    space: ClassVar = {
        "eta": tuple(10.0**k for k in range(-6, 1)),
        "b": WEAK_TO_STRONG,
        "C": SIZES,
        "trigger": TRIGGERS,
        "step": STEPS,
        "refresh": ("round", "event"),
    }
    shapes: ClassVar = {"w": "md", "B": "mm", "L": "mm", "G": "mm"}

    def __init__(
        self,
        n_features: int,
        n_tasks: int,
        *,
        divergence: Literal["von Neumann", "log det"],
        eta: float = 1e-4,
        b: float = 0.0,
        prime: int = 0,
        trigger: str = "mistake",
        step: str = "constant",
        C: float = 1.0,
        refresh: str = "event",
    ) -> None:
        super().__init__(n_features, n_tasks)
        by_round = choice("refresh", refresh, "event", "round") == "round"
        rule = positive("eta", eta), whole("prime", prime, 0), by_round, *_rule(C, trigger, step)
        B = coupling(n_tasks, not_negative("b", b))
        G = np.zeros((n_tasks, n_tasks))
        seen = np.zeros(1, dtype=np.int64)
        if divergence == "log det":
            w = self._keep(B=B, G=G, seen=seen)
            self.kernel = LogDetKernel(w, B, B, G, seen, *rule)
        else:
            L = -np.log1p(b) * (np.eye(n_tasks) - 1.0 / n_tasks)  # log B
            w = self._keep(B=B, L=L, G=G, seen=seen)
            self.kernel = VonNeumannKernel(w, B, L, G, seen, *rule)

    def relation(self) -> NDArray[np.float64]:
        """B (m, m): entry [j, i] is how far an error of task i moves task j."""
        return self._arrays["B"].copy()


class SharedLoss(LinearLearner):
    r"""Online multi-task learning (OMTL): one norm of all losses of a round is the loss.

    With the round's losses l, s_j = \|x_j\|^2 and a norm with dual \|.\|_*,

    .. math:: w_j \leftarrow w_j + a_j y_j x_j, \qquad
              a = \arg\max_{a \ge 0,\ \|a\|_* \le C}
              \begin{cases} \sum_j a_j l_j - a_j^2 s_j / 2 & \text{implicit} \\
              \sum_j a_j l_j & \text{finite} \end{cases}

    ``scaled`` is ``finite`` with min(C, \|l\| / (R rho)^2) in place of C, R the
    longest x so far and rho the norm's remoteness (L1: sqrt m, r-max: sqrt r, else 1).
    Norms: "L1", "L2", "Linf", and "r-max", the sum of the ``r`` largest losses. Tasks
    absent from a round, and events with x = 0, have no loss. A task with several events in
    a round has several entries of l, each with its own a; ties go to the earlier event.

    Cost: O(nnz + log m) per event. Source: Dekel, Long and Singer, COLT 2006 and JMLR 8
    (2007). Uncertain: which update the paper ran (implicit, L2 is taken), and the
    published form of ``scaled``. In a round of one event, implicit is PA-I.

    >>> import numpy as np, romco
    >>> omtl = romco.learner("omtl", n_features=1, n_tasks=2, C=1.0, norm="L2")
    >>> omtl.update(romco.Round(np.array([0, 1]), np.array([[1.0], [1.0]]), np.array([1.0, -1.0])))
    >>> omtl.weights().round(6)
    array([[ 0.707107, -0.707107]])
    """

    space: ClassVar = {
        "C": tuple(10.0**k for k in np.arange(-3, 1.5, 0.5)),
        "norm": ("L2", "L1", "Linf", "r-max"),
        "update": ("implicit", "finite", "scaled"),
    }

    def __init__(
        self,
        n_features: int,
        n_tasks: int,
        *,
        C: float = 1.0,
        norm: str = "L2",
        update: str = "implicit",
        r: int = 2,
    ) -> None:
        super().__init__(n_features, n_tasks)
        choice("norm", norm, "L1", "L2", "Linf", "r-max")
        choice("update", update, "implicit", "finite", "scaled")
        positive("C", C)
        largest = {"L2": 0.0, "L1": np.inf, "Linf": 1.0, "r-max": float(whole("r", r))}
        radius = np.zeros(1)
        w = self._keep(radius=radius)
        rule = C, largest[norm], update == "implicit", update == "scaled"
        self.kernel = SharedLossKernel(w, radius, *rule)


class Smoothed(LinearLearner):
    r"""Online smoothed multi-task learning (OSMTL): learn from peers on whose events one does well.

    L_jk is the hinge loss of model k on the event of task j, and p_k (sum 1, p_kk = 0)
    how much task k trusts its peers. For each task k of a round that has a loss of its own
    (``trigger="margin"``) or errs (``"mistake"``),

    .. math:: w_k \leftarrow w_k + C\Big(\alpha y_k x_k
              + (1-\alpha) \sum_{j \ne k,\, L_{jk} > 0} p_{kj} y_j x_j\Big)

    and then, for OSMTL-e and OSMTL-t,

    .. math:: p_{kj} \propto p_{kj} \exp(-\tfrac{C}{\lambda} L_{jk}), \qquad
              p_k \leftarrow \Pi_{\mathrm{simplex}}(p_k - \tfrac{C}{\lambda} L_{\cdot k})

    All tasks use the weights and relations from before the round. Peers absent from a
    round keep their p. A task with several events in a round learns from all of them
    that are lost, and is judged as a peer by its mean loss.

    Cost: O(m nnz) per event of a round of m tasks. Source: Murugesan, Liu, Carbonell and
    Yang, NeurIPS 2016. Uncertain: the trigger; that p moves by the losses of the old w_k; that
    p leaves out the own task; what becomes of absent peers. In OSMTL-e no p falls
    below 1e-12, from where it could not return.

    >>> import romco
    >>> romco.learner("osmtl-e", n_features=3, n_tasks=3).relation()
    array([[0. , 0.5, 0.5],
           [0.5, 0. , 0.5],
           [0.5, 0.5, 0. ]])
    """

    space: ClassVar = {
        "alpha": (0.1, 0.3, 0.5, 0.7, 0.9, 0.99),
        "lambda_": (0.01, 0.1, 1.0, 10.0, 100.0),
        "C": (0.01, 0.1, 1.0, 10.0),
        "trigger": ("margin", "mistake"),
    }
    shapes: ClassVar = {"w": "md", "p": "mm"}

    def __init__(
        self,
        n_features: int,
        n_tasks: int,
        *,
        trust: Literal["exponential", "truncated"],
        C: float = 1.0,
        alpha: float = 0.5,
        lambda_: float = 1.0,
        trigger: str = "margin",
    ) -> None:
        super().__init__(n_features, n_tasks)
        choice("trigger", trigger, "margin", "mistake")
        if not 0.0 <= alpha <= 1.0:
            raise ValueError(f"alpha must be between 0 and 1; got {alpha!r}")
        rate = positive("C", C) / positive("lambda_", lambda_)
        p = (1.0 - np.eye(n_tasks)) / max(n_tasks - 1, 1)
        kernel = ExponentialKernel if trust == "exponential" else TruncatedKernel
        self.kernel = kernel(self._keep(p=p), p, C, alpha, rate, trigger == "mistake")

    def relation(self) -> NDArray[np.float64]:
        """P (m, m): entry [k, j] is how much task k trusts task j."""
        return self._arrays["p"].copy()

    def load(self, arrays: Arrays) -> None:
        """Take over another learner's arrays; peers it did not know start with an equal share."""
        super().load(arrays)
        old = len(arrays["p"])
        if old < self.n_tasks:
            self._arrays["p"][:old, :old] *= (old - 1) / (self.n_tasks - 1)
