"""What learners with plain weights share."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from romco.learners.base import Arrays, CompiledLearner, copy_arrays
from romco.learners.capabilities import Start, Started


class LinearLearner(CompiledLearner):
    """A compiled learner that predicts with one row of ``w`` per task, or one for all (abstract).

    A subclass calls ``_keep`` with ``w`` and all other arrays that its kernel changes, and names in
    ``shapes`` those that grow. Two names
    mean something here: ``u`` (d,) is a model of all tasks, towards which they are
    drawn, and ``G`` (m, m) are the inner products of the rows of ``w``.
    """

    shapes: ClassVar = {"w": "kd", "u": "d"}

    def _keep(
        self, w: NDArray[np.float64], one_for_all: bool = False, **others: NDArray[np.generic]
    ) -> None:
        self._arrays: Arrays = {"w": w, **others}
        self.one_for_all = one_for_all
        if one_for_all:
            self.task_axes = {}

    def weights(self) -> NDArray[np.float64]:
        """W (d, m) as a dense copy."""
        w = self._arrays["w"]
        return np.broadcast_to(w, (self.n_tasks, self.n_features)).T.copy()

    def common(self, started: Started) -> Start | None:
        """The model of all tasks, else the mean of their weights; O(m d)."""
        w = self._arrays["w"]
        if self.one_for_all:
            return None
        return Start(self._arrays["u"].copy() if "u" in self._arrays else mean_row(w, started))

    def start_task(self, task: int, started: Started) -> None:
        """Set the task's weights to ``common(started)``; all else stays as in a new task."""
        start = self.common(started)
        if start is not None:
            w = self._arrays["w"]
            w[task] = start.weights
            if "G" in self._arrays:
                self._arrays["G"][task] = self._arrays["G"][:, task] = w @ w[task]

    def arrays(self) -> Arrays:
        """The weights and all else that changes."""
        return dict(self._arrays)

    def load(self, arrays: Arrays) -> None:
        """Take over another learner's arrays."""
        copy_arrays(self._arrays, arrays)


def mean_row(w: NDArray[np.float64], started: Started) -> NDArray[np.float64]:
    """Mean (d,) of the started rows of w (m, d).

    >>> started = Started(np.array([True, True, False]), 2)
    >>> mean_row(np.array([[1.0, 2.0], [3.0, 4.0], [0.0, 0.0]]), started)
    array([2., 3.])
    """
    return started.which.astype(np.float64) @ w / started.number
