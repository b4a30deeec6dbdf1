"""What a model answers: a learner's scores as people see them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from romco.model.calibration import Scale, logistic
from romco.model.labels import Labels
from romco.model.rows import Dense
from romco.model.targets import ManyClasses, Target


class Answers(NamedTuple):
    """What was predicted for some events."""

    margins: Dense  # (n,) above 0 for the positive label
    probabilities: Dense  # (n,) of the positive label


def room(target: Target, n: int, n_classes: int) -> Dense:
    """Room for the margins of n events; classes that are not known yet have no chance."""
    if isinstance(target, ManyClasses):
        return np.full((n, max(2, n_classes)), -np.inf)
    return np.empty(n)


def seen(target: Target, margins: Dense, y: Dense, before: float) -> Dense:
    """Margins as people see them; ``before`` was the turn before the rows were learned."""
    return target.outward(margins, y, before) if isinstance(target, Labels) else margins


def chances(target: Target, margins: Dense, scales: Dense) -> Dense:
    """Probabilities of margins as people see them; of numbers there are none (NaN).

    ``scales`` (n,) is log a before each row.
    """
    if isinstance(target, Labels):
        return logistic(np.exp(scales) * margins)
    if isinstance(target, ManyClasses):
        return target.probabilities(margins)
    return np.full(len(margins), np.nan)


def probabilities(target: Target, scale: Scale, margins: Dense) -> Dense:
    """Of the positive label (n,), or of each class (n, K); ValueError for numbers."""
    if isinstance(target, ManyClasses):
        return target.probabilities(margins)
    if target.kind == "number":
        raise ValueError("a number has no probability: use intervals")
    return scale.probability(margins)
