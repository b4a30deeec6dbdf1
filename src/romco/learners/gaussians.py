"""Full Gaussians of shards that learned apart become one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from romco.learners.sharing import Floats


def merge_gaussians(
    mean: Floats,
    covariance: Floats,
    parts: Sequence[tuple[Floats, Floats]],
    events: Sequence[int],
    renewal: Floats,
    ceiling: float,
) -> tuple[Floats, Floats]:
    """Mean (n,) and covariance (n, n) merged of parts that all started at the given one.

    The start's covariance is aged by the renewal of a part's events when its change is formed,
    and by that of all events in the total: without, what was forgotten is counted as unlearned.
    """

    def aged(n: int) -> Floats:
        room = np.maximum(0.0, ceiling - np.diag(covariance))
        return np.linalg.inv(covariance + np.diag(np.minimum(room, renewal * n)))

    precision, step = aged(sum(events)), np.zeros(len(mean))
    for (own_mean, own_covariance), n in zip(parts, events, strict=True):
        own = np.linalg.inv(own_covariance)
        precision = precision + (own - aged(n))
        step += own @ (own_mean - mean)
    values, vectors = np.linalg.eigh(0.5 * (precision + precision.T))
    least = 1.0 / max(ceiling, float(np.linalg.norm(covariance, 2)))
    values = np.maximum(values, least)  # never less sure than at the start
    inverse = (vectors / values) @ vectors.T
    return mean + inverse @ step, 0.5 * (inverse + inverse.T)
