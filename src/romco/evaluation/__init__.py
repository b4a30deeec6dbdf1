"""The prequential loop and what it keeps score of."""

from romco.evaluation.metrics import (
    Confusion,
    Decomposed,
    MeanLoss,
    Metric,
    Seconds,
    Structure,
    answers,
)
from romco.evaluation.prequential import Record, prequential

__all__ = [
    "Confusion",
    "Decomposed",
    "MeanLoss",
    "Metric",
    "Record",
    "Seconds",
    "Structure",
    "answers",
    "prequential",
]
