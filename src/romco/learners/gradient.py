"""Online gradient descent: the plain control that every claim of a gain must beat."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from romco.kernels.baselines.gradient import GradientKernel
from romco.learners.base import choice, positive
from romco.learners.linear import LinearLearner
from romco.learners.sharing import PerFeature, Sharing, Steps, Sum, Whole


class Gradient(LinearLearner):
    r"""Online gradient descent on the hinge loss.

    .. math:: w \leftarrow w + \eta_t\, y\, x \quad \text{if } 1 - y\, w \cdot x > 0

    with one ``w`` per task (``unique``) or one for all (``global``); ``eta_t`` is
    ``eta`` or ``eta / sqrt(t)`` in round t. Events of a round are learned in order.

    Cost: O(nnz) per event. Source: the small-lambda limit of ROMCO
    (eta = eta1 + eta2), missing from the paper's comparison.
    """

    weighs = True
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
        w = np.zeros((n_tasks if models == "unique" else 1, n_features))
        t = np.zeros(1, dtype=np.int64)
        self._keep(w, models == "global", t=t)
        self.kernel = GradientKernel(w, t, positive("eta", eta), step == "inverse-sqrt")

    def sharing(self) -> Sharing:
        """Of what kind each array is that is not one task's; the rounds of all shards count."""
        rounds = Whole("t", Sum())
        return (PerFeature("w", Steps()), rounds) if self.one_for_all else (rounds,)
