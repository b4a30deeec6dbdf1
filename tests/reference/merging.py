"""What merging means, one feature at a time, in plain Python."""

from __future__ import annotations

import numpy as np


def merge_belief(start, parts, prior=1.0):
    """Mean and variance of parts (mean, variance), all from the same start."""
    m0, v0 = start
    precision = 1.0 / v0 + sum(1.0 / v - 1.0 / v0 for _, v in parts)
    precision = max(precision, 1.0 / prior)
    mean = m0 + sum((1.0 / v) / precision * (m - m0) for m, v in parts)
    return mean, 1.0 / precision


def merge_sum(start, parts):
    return start + sum(part - start for part in parts)


def latest(parts):
    """The value of the first part (value, touches) that has the most touches."""
    return max(parts, key=lambda part: part[1])[0]


def merge_steps(start, parts):
    """Vectors: start (d,), parts (n, d)."""
    changes = np.array(parts) - start
    apart, joint = (changes**2).sum(), (changes.sum(axis=0) ** 2).sum()
    return start + min(1.0, apart / joint if joint > 0 else 1.0) * changes.sum(axis=0)


def merge_full(mean, covariance, parts, events, forgetting, ceiling):
    """Parts are (mean, covariance); in terms of precision and precision x mean."""

    ceilings = np.broadcast_to(ceiling, mean.shape)

    def aged(n):
        growth = np.minimum((1.0 + forgetting) ** n, ceilings / np.diag(covariance))
        roots = np.sqrt(np.maximum(growth, 1.0))
        return np.linalg.inv(roots[:, None] * covariance * roots)

    total = aged(sum(events)) + sum(
        np.linalg.inv(own) - aged(n) for (_, own), n in zip(parts, events, strict=True)
    )
    values, vectors = np.linalg.eigh((total + total.T) / 2)
    least = 1.0 / max(ceilings.max(), np.linalg.eigvalsh(covariance).max())
    total = vectors @ np.diag(np.maximum(values, least)) @ vectors.T
    step = sum(np.linalg.inv(own) @ (m - mean) for m, own in parts)
    return mean + np.linalg.solve(total, step), np.linalg.inv(total)
