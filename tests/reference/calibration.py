"""Platt's scaling without an offset, event by event, as it is written."""

from math import exp


def scaled(margins, labels, log_a=0.0, curvature=1.0):
    """log a and the curvature after a stream of margins and labels."""
    for margin, y in zip(margins, labels, strict=True):
        z = min(max(y * exp(log_a) * margin, -500.0), 500.0)
        miss = 1.0 / (1.0 + exp(z))
        curvature = max(1.0, 0.999 * curvature + z * z * miss * (1.0 - miss))
        log_a += min(max(z * miss / curvature, -0.5), 0.5)
        log_a = min(max(log_a, -30.0), 30.0)
    return log_a, curvature
