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
    counts = [sum(events), *events]
    inverses = np.linalg.inv(
        np.stack([*_aged(covariance, counts, renewal, ceiling), *(own for _, own in parts)])
    )  # all at once: they are small, and many
    precision, step = inverses[0], np.zeros(len(mean))
    for k, (own_mean, _) in enumerate(parts, start=1):
        own = inverses[len(parts) + k]
        precision = precision + (own - inverses[k])
        step += own @ (own_mean - mean)
    values, vectors = np.linalg.eigh(0.5 * (precision + precision.T))
    least = 1.0 / max(ceiling, float(np.linalg.norm(covariance, 2)))
    values = np.maximum(values, least)  # never less sure than at the start
    inverse = (vectors / values) @ vectors.T
    return mean + inverse @ step, 0.5 * (inverse + inverse.T)


def _aged(
    covariance: Floats, counts: Sequence[int], renewal: Floats, ceiling: float
) -> list[Floats]:
    """What the renewal of so many events makes of a covariance."""
    room = np.maximum(0.0, ceiling - covariance.diagonal())
    return [covariance + np.diag(np.minimum(room, renewal * n)) for n in counts]
