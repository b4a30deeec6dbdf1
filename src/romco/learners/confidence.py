"""Learners that know how sure they are of each weight: AROW and CW-COL."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from romco.kernels.baselines.confidence import (
    DiagonalArowKernel,
    DiagonalCollaborativeKernel,
    FullArowKernel,
    FullCollaborativeKernel,
)
from romco.learners.base import choice, not_negative, positive
from romco.learners.linear import LinearLearner
from romco.learners.sharing import Belief, Full, PerFeature, Sharing

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

    weighs = True
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
        choice("covariance", covariance, "diagonal", "full")
        k = n_tasks if models == "unique" else 1
        w = np.zeros((k, n_features))
        if covariance == "diagonal":
            s = np.ones((k, n_features))
            self._keep(w, models == "global", s=s)
            self.kernel = DiagonalArowKernel(w, s, positive("r", r))
        else:
            S = np.tile(np.eye(n_features), (k, 1, 1))
            self._keep(w, models == "global", S=S)
            self.kernel = FullArowKernel(w, S, positive("r", r))

    def sharing(self) -> Sharing:
        """Of what kind each array is that is not one task's."""
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

    >>> import romco
    >>> romco.learner("cw-col", n_features=3, n_tasks=2, r=0.1).weights().shape
    (3, 2)
    """

    shapes: ClassVar = SHAPES
    space: ClassVar = {
        "r": STRENGTHS,
        "eta2": (0.001, 0.01, 0.1, 1.0, 10.0),
        "a": (0.1, 1.0, 10.0),
    }

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
        choice("covariance", covariance, "diagonal", "full")
        strengths = positive("eta1", eta1), not_negative("eta2", eta2), positive("r", r)
        positive("a", a)
        w, u = np.zeros((n_tasks, n_features)), np.zeros(n_features)
        if covariance == "diagonal":
            s, su = np.full((n_tasks, n_features), float(a)), np.full(n_features, float(a))
            self._keep(w, s=s, u=u, su=su)
            self.kernel = DiagonalCollaborativeKernel(w, s, u, su, *strengths)
        else:
            Su = a * np.eye(n_features)
            S = np.tile(Su, (n_tasks, 1, 1))
            self._keep(w, S=S, u=u, Su=Su)
            self.kernel = FullCollaborativeKernel(w, S, u, Su, *strengths)
