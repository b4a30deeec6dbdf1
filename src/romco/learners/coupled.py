"""Perceptrons that share their steps through a task relation, fixed or learned."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from romco.kernels.baselines.coupled import FixedKernel, LogDetKernel, VonNeumannKernel
from romco.learners.base import choice, not_negative, positive, whole
from romco.learners.linear import LinearLearner


def coupling(n_tasks: int, b: float) -> NDArray[np.float64]:
    """B (m, m) of Cavallanti et al.: (I + b 11'/m) / (1 + b); b = 0 couples nothing.

    >>> coupling(2, 1.0)
    array([[0.75, 0.25],
           [0.25, 0.75]])
    """
    return (np.eye(n_tasks) + b / n_tasks) / (1.0 + b)


TRIGGERS = ("mistake", "margin")
STEPS = ("constant", "pa")
SIZES = (0.01, 0.1, 1.0, 10.0)
WEAK_TO_STRONG = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


def _rule(C: float, trigger: str, step: str) -> tuple[float, bool, bool]:
    """What every kernel here is told about its steps."""
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

    >>> import numpy as np, romco
    >>> coupled = romco.learner("perceptron-coupled", n_features=1, n_tasks=2)
    >>> coupled.update(romco.Round(np.array([0]), np.array([[1.0]]), np.array([-1.0])))
    >>> coupled.weights()
    array([[-0.75, -0.25]])
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
        w, B = np.zeros((n_tasks, n_features)), coupling(n_tasks, not_negative("b", b))
        self._keep(w)
        self.kernel = FixedKernel(w, B, *_rule(C, trigger, step))


class LearnedRelation(LinearLearner):
    r"""Multi-task perceptron that learns its task relation (OMTLVON, OMTLLOG).

    On an error in task i, after the first ``prime`` events also the relation B moves, by
    the weights W from before the event (LOG and VON rule):

    .. math:: w_j \leftarrow w_j + \tau y B_{ji} x, \qquad
              B \leftarrow B + \eta W^\top W \quad\text{or}\quad
              B \leftarrow \exp(\log B + \eta W^\top W)

    and ``normalize="trace"`` then scales B to trace m. At first B is that of
    ``perceptron-coupled`` with ``b``; ``trigger``, ``step`` and ``C`` are as there.
    ``refresh="round"`` moves B once after a round with an error, by the weights after it, not
    at every error. Without normalisation larger B makes larger W makes
    larger B; ``normalize="none"`` raises FloatingPointError when trace B would exceed e^50, and
    leaves the learner as it was before that round. Events of a round are learned in order.

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
        normalize: str = "trace",
        trigger: str = "mistake",
        step: str = "constant",
        C: float = 1.0,
        refresh: str = "event",
    ) -> None:
        super().__init__(n_features, n_tasks)
        choice("normalize", normalize, "trace", "none")
        choice("refresh", refresh, "event", "round")
        rule = (
            *(positive("eta", eta), whole("prime", prime, 0), normalize == "none"),
            *(refresh == "round", *_rule(C, trigger, step)),
        )
        w, B = np.zeros((n_tasks, n_features)), coupling(n_tasks, not_negative("b", b))
        G, seen = np.zeros((n_tasks, n_tasks)), np.zeros(1, dtype=np.int64)
        if divergence == "log det":
            self._keep(w, B=B, G=G, seen=seen)
            self.kernel = LogDetKernel(w, B, B, G, seen, *rule)
        else:
            L = -np.log1p(b) * (np.eye(n_tasks) - 1.0 / n_tasks)  # log B
            self._keep(w, B=B, L=L, G=G, seen=seen)
            self.kernel = VonNeumannKernel(w, B, L, G, seen, *rule)

    def relation(self) -> NDArray[np.float64]:
        """B (m, m): entry [j, i] is how far an error of task i moves task j."""
        return self._arrays["B"].copy()
