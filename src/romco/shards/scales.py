"""What shards learned of how margins become probabilities, made one."""

from __future__ import annotations

from collections.abc import Sequence

from romco.kernels.core.history import MEMORY
from romco.model import Scale

Numbers = tuple[float, float]  # log a, and its curvature


def merge_scales(start: Numbers, parts: Sequence[Numbers], events: Sequence[int]) -> Numbers:
    """Scales merged as beliefs about log a whose precision is the curvature.

    An event leaves ``MEMORY`` of what was known before; a curvature is 1 at least.

    >>> merge_scales((0.0, 1.0), [(0.5, 9.0), (0.0, 1.0)], [10, 0])
    (0.5, 9.0)
    """
    active = [(part, n) for part, n in zip(parts, events, strict=True) if n]
    if len(active) < 2:
        return active[0][0] if active else start
    log_a, curvature = start
    total = max(1.0, curvature * MEMORY ** sum(n for _, n in active))
    step = 0.0
    for (own, precision), n in active:
        total += precision - max(1.0, curvature * MEMORY**n)
        step += precision * (own - log_a)
    total = max(1.0, total)
    return log_a + step / total, total


def numbers(scale: Scale) -> Numbers:
    """The two numbers of a scale."""
    return scale.log_a, scale.curvature
