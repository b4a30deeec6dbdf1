"""Online smoothed multi-task learning: tasks borrow events from peers they have come to trust."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from romco.kernels.baselines.smoothed import ExponentialKernel, TruncatedKernel
from romco.learners.base import (
    Arrays,
    CompiledLearner,
    choice,
    copy_arrays,
    positive,
)
from romco.learners.capabilities import Start, Started
from romco.learners.linear import mean_row


class Smoothed(CompiledLearner):
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
        self._w = np.zeros((n_tasks, n_features))
        self._p = (1.0 - np.eye(n_tasks)) / max(n_tasks - 1, 1)
        kernel = ExponentialKernel if trust == "exponential" else TruncatedKernel
        self.kernel = kernel(self._w, self._p, C, alpha, rate, trigger == "mistake")

    def weights(self) -> NDArray[np.float64]:
        """W (d, m) as a dense copy."""
        return self._w.T.copy()

    def common(self, started: Started) -> Start:
        """The mean of the tasks' weights; O(m d)."""
        return Start(mean_row(self._w, started))

    def start_task(self, task: int, started: Started) -> None:
        """Set the task's weights to that mean; it trusts all peers equally, as a new task does."""
        self._w[task] = mean_row(self._w, started)

    def relation(self) -> NDArray[np.float64]:
        """P (m, m): entry [k, j] is how much task k trusts task j."""
        return self._p.copy()

    def arrays(self) -> Arrays:
        """The weights and the relation."""
        return {"w": self._w, "p": self._p}

    def load(self, arrays: Arrays) -> None:
        """Take over another learner's arrays; peers it did not know start with an equal share."""
        old = len(arrays["p"]) if "p" in arrays else 0
        copy_arrays(self.arrays(), arrays)
        if 0 < old < self.n_tasks:
            self._p[:old, :old] *= (old - 1) / (self.n_tasks - 1)
