"""What learners with plain weights share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from romco.learners.base import Arrays, CompiledLearner, copy_arrays


class LinearLearner(CompiledLearner):
    """A compiled learner that predicts with one row of ``w`` per task, or one for all (abstract).

    A subclass calls ``_keep`` with ``w`` and all other arrays that its kernel changes.
    """

    def _keep(self, w: NDArray[np.float64], **others: NDArray[np.generic]) -> None:
        self._arrays: Arrays = {"w": w, **others}

    def weights(self) -> NDArray[np.float64]:
        """W (d, m) as a dense copy."""
        w = self._arrays["w"]
        return np.broadcast_to(w, (self.n_tasks, self.n_features)).T.copy()

    def arrays(self) -> Arrays:
        """The weights and all else that changes."""
        return dict(self._arrays)

    def load(self, arrays: Arrays) -> None:
        """Take over another learner's arrays."""
        copy_arrays(self._arrays, arrays)
