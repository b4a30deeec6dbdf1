"""Online multi-task learning with a shared loss: tasks compete within a round."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from romco.kernels.baselines.linear import LinearKernel
from romco.kernels.baselines.shared_loss import (
    ExplicitEuclideanKernel,
    ExplicitLargestKernel,
    ImplicitEuclideanKernel,
    ImplicitLargestKernel,
)
from romco.learners.base import choice, positive, whole
from romco.learners.linear import LinearLearner


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
        largest = {"L1": np.inf, "Linf": 1.0, "r-max": float(whole("r", r))}
        w, radius = np.zeros((n_tasks, n_features)), np.zeros(1)
        self._keep(w, radius=radius)
        self.kernel = _kernel(w, radius, C, largest.get(norm), update)


def _kernel(
    w: NDArray[np.float64], radius: NDArray[np.float64], C: float, r: float | None, update: str
) -> LinearKernel:
    """The kernel of an update; r is how many of the largest losses count, None for L2."""
    if update == "implicit":
        return ImplicitEuclideanKernel(w, C) if r is None else ImplicitLargestKernel(w, C, r)
    scaled = update == "scaled"
    if r is None:
        return ExplicitEuclideanKernel(w, radius, C, scaled)
    return ExplicitLargestKernel(w, radius, C, r, scaled)
