"""ROMCO-NuCl in plain NumPy, as one would write it first: dense U and V, one prox per update."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from romco import Round


class PlainRomco:
    """The paper's Algorithm 1 with the prox by eigenvectors of U'U or by a full SVD of U."""

    def __init__(
        self, d: int, m: int, parameters: Mapping[str, float], prox: Literal["gram", "svd"]
    ) -> None:
        self.u, self.v = np.zeros((d, m)), np.zeros((d, m))
        self.eta1, self.eta2 = parameters["eta1"], parameters["eta2"]
        self.shrink1 = self.eta1 * parameters["lambda1"]
        self.shrink2 = self.eta2 * parameters["lambda2"]
        self.prox = self._gram if prox == "gram" else self._svd

    def learn(self, round: Round) -> NDArray[np.float64]:
        """Margins before the update."""
        parts = [features(round, e) for e in range(len(round.y))]
        margins = np.array(
            [x @ (self.u[j, i] + self.v[j, i]) for (j, x), i in zip(parts, round.task, strict=True)]
        )
        active = np.flatnonzero(1.0 - round.y * margins > 0.0)
        for e in active:
            (j, x), i = parts[e], round.task[e]
            self.u[j, i] += self.eta1 * round.y[e] * x
            self.v[j, i] += self.eta2 * round.y[e] * x
        if len(active):
            self.u = self.prox(self.u)
            norms = np.sqrt(np.einsum("dm,dm->m", self.v, self.v))
            self.v *= np.maximum(0.0, 1.0 - self.shrink2 / np.maximum(norms, 1e-300))
        return margins

    def _gram(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        squares, right = np.linalg.eigh(u.T @ u)
        s = np.sqrt(np.maximum(squares, 1e-300))
        return u @ ((right * np.maximum(0.0, 1.0 - self.shrink1 / s)) @ right.T)

    def _svd(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        left, s, right = np.linalg.svd(u, full_matrices=False)
        return (left * np.maximum(0.0, s - self.shrink1)) @ right


def features(round: Round, e: int) -> tuple[slice | NDArray[np.int32], NDArray[np.float64]]:
    """Where event e has features, and which."""
    if isinstance(round.x, np.ndarray):
        return slice(None), round.x[e]
    begin, end = round.x.indptr[e], round.x.indptr[e + 1]
    return round.x.indices[begin:end], round.x.data[begin:end]
