"""Full Gaussians of shards that learned apart become one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from romco.kernels.merge.joint import merge_joint
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

    Of each part the change of its precision is added, less what the renewal of its events
    forgot; no direction becomes less sure than it was at the start, or than ``ceiling``.
    """
    means, covariances = ([part[i] for part in parts] for i in (0, 1))
    counts = np.array(events, dtype=np.int64)
    return merge_joint(mean, covariance, means, covariances, counts, renewal, ceiling)
