"""Online gradient descent: the plain control that every claim of a gain must beat."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from romco.kernels.gradient import GradientKernel
from romco.learners.base import Arrays, CompiledLearner, choice, copy_arrays, positive


class Gradient(CompiledLearner):
    r"""Online gradient descent on the hinge loss.

    .. math:: w \leftarrow w + \eta_t\, y\, x \quad \text{if } 1 - y\, w \cdot x > 0

    with one ``w`` per task (``unique``) or one for all (``global``); ``eta_t`` is
    ``eta`` or ``eta / sqrt(t)`` in round t. Events of a round are learned in order.

    Cost: O(nnz) per event. Source: the small-lambda limit of ROMCO
    (eta = eta1 + eta2), missing from the paper's comparison.
    """

    space: ClassVar = {"eta": tuple(10.0**k for k in np.arange(-3, 2.5, 0.5))}

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
        self._w = np.zeros((n_tasks if models == "unique" else 1, n_features))
        self._t = np.zeros(1, dtype=np.int64)
        self.kernel = GradientKernel(self._w, self._t, positive("eta", eta), step == "inverse-sqrt")

    def weights(self) -> NDArray[np.float64]:
        """W (d, m) as a dense copy."""
        return np.broadcast_to(self._w, (self.n_tasks, self.n_features)).T.copy()

    def arrays(self) -> Arrays:
        """The weights and the number of rounds."""
        return {"w": self._w, "t": self._t}

    def load(self, arrays: Arrays) -> None:
        """Take over another learner's arrays."""
        copy_arrays(self.arrays(), arrays)
