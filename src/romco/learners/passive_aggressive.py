"""Passive-aggressive learners: the plain baselines of the paper, and the collaborative one."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from romco.kernels.baselines.passive_aggressive import CollaborativeKernel, PassiveAggressiveKernel
from romco.learners.base import choice, not_negative, positive
from romco.learners.linear import LinearLearner
from romco.learners.sharing import PerFeature, Sharing, Steps


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

    weighs = True
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
        w = np.zeros((n_tasks if models == "unique" else 1, n_features))
        self._keep(w, models == "global")
        self.kernel = PassiveAggressiveKernel(w, cap, ridge)

    def sharing(self) -> Sharing:
        """Of what kind each array is that is not one task's."""
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

    >>> import numpy as np, romco
    >>> coml = romco.learner("coml", n_features=1, n_tasks=2)
    >>> coml.update(romco.Round(np.array([0]), np.array([[1.0]]), np.array([1.0])))
    >>> coml.weights()
    array([[1., 0.]])
    """

    space: ClassVar = {"eta2": (0.001, 0.01, 0.1, 1.0, 10.0), "C": (0.01, 0.1, 1.0, 10.0)}

    def __init__(
        self,
        n_features: int,
        n_tasks: int,
        *,
        eta1: float = 1.0,
        eta2: float = 1.0,
        C: float = 1.0,
    ) -> None:
        super().__init__(n_features, n_tasks)
        w, u = np.zeros((n_tasks, n_features)), np.zeros(n_features)
        self._keep(w, u=u)
        self.kernel = CollaborativeKernel(
            w, u, positive("eta1", eta1), not_negative("eta2", eta2), positive("C", C)
        )
