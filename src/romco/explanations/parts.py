"""W = U + V by its parts: factors of U, columns of V, never a (d, m) array of either."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from romco.learners import Learner
from romco.learners.capabilities import Decomposed
from romco.learners.shared import column_lengths, spectrum

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Parts:
    """W = ``left`` @ ``right``.T + ``own`` of some tasks, and what can be said of them.

    All costs are those of the numbers held: with rank r, O(d r + m r) and the non-zeros
    of ``own``.
    """

    left: Numbers  # (d, r)
    right: Numbers  # (m, r)
    own: csc_array  # (d, m)
    spectrum: Numbers  # singular values of U, largest first
    note: str | None = None
    per_feature: int = 1  # rows of each feature: one for each of many classes

    def shared(self) -> Numbers:
        """Length (m,) of each column of U."""
        return np.sqrt(np.maximum(0.0, ((self.right @ self._gram()) * self.right).sum(axis=1)))

    def personal(self) -> Numbers:
        """Length (m,) of each column of V."""
        return column_lengths(self.own)

    def cosines(self, some: NDArray[np.int64]) -> Numbers:
        """Cosines (k, m) of some tasks' weights with those of all; 0 where weights are 0."""
        gram, across = self.right @ self._gram(), self.own.T @ self.left  # both (m, r)
        squares = ((gram + 2.0 * across) * self.right).sum(axis=1) + self.personal() ** 2
        lengths = np.sqrt(np.maximum(squares, 0.0))
        inner = (gram + across)[some] @ self.right.T + self.right[some] @ across.T
        inner += (self.own[:, some].T @ self.own).toarray()
        scale = np.outer(lengths[some], lengths)
        return np.divide(inner, scale, out=np.zeros_like(inner), where=scale > 0.0)

    def largest(self, task: int, n: int) -> list[tuple[int, float]]:
        """The ``n`` largest entries of a task's column of V, with their rows.

        Of many classes, row f * ``per_feature`` + k is that of feature f and class k.
        """
        begin, end = self.own.indptr[task : task + 2]
        values, features = self.own.data[begin:end], self.own.indices[begin:end]
        order = np.lexsort((features, -np.abs(values)))[:n]
        return [(int(features[k]), float(values[k])) for k in order if values[k] != 0.0]

    def _gram(self) -> Numbers:
        return self.left.T @ self.left


def parts(learner: Learner, tasks: NDArray[np.int64]) -> Parts:
    """The parts of some tasks' weights; the learner's own, or split at the mean."""
    if isinstance(learner, Decomposed):
        left, right = learner.shared_factors()
        own = learner.personal_sparse()
        return Parts(left, right[tasks], own[:, tasks], learner.singular_values())
    W = learner.weights()[:, tasks]
    per_feature = W.shape[2] if W.ndim == 3 else 1
    if per_feature > 1:  # a task's weights of all classes, as one column
        W = W.transpose(0, 2, 1).reshape(-1, len(tasks))
    W = W.reshape(len(W), len(tasks))
    mean = W.mean(axis=1, keepdims=True) if W.size else np.zeros((len(W), 1))
    right = np.ones((len(tasks), 1))
    note = f"{learner.name} keeps no parts: shared is the mean of all tasks' weights."
    return Parts(mean, right, csc_array(W - mean), spectrum(mean, right), note, per_feature)
