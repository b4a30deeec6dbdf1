"""From margins to probabilities, learned along the stream."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from romco.kernels.core.history import MEMORY, Scale

__all__ = ["MEMORY", "Scale", "logistic"]


def logistic(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 / (1 + exp(-z)) without overflow."""
    return 0.5 * (1.0 + np.tanh(0.5 * z))
