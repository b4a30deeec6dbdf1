"""The prequential loop and what it keeps score of."""

from romco.evaluation.delays import Delay
from romco.evaluation.metrics import (
    Confusion,
    MeanLoss,
    Metric,
    Seconds,
    Structure,
    answers,
)
from romco.evaluation.prequential import Record, prequential

__all__ = [
    "Confusion",
    "Delay",
    "MeanLoss",
    "Metric",
    "Record",
    "Seconds",
    "Structure",
    "answers",
    "prequential",
]
