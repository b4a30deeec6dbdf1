"""Prequential evaluation: the loop, metrics, scores and baselines."""

from romco.evaluation import baselines
from romco.evaluation.metrics import Brier, Confusion, Coverage, MeanLoss, Metric, Structure
from romco.evaluation.prequential import Delay, Record, prequential
from romco.evaluation.score import Score

__all__ = [
    "Brier",
    "Confusion",
    "Coverage",
    "Delay",
    "MeanLoss",
    "Metric",
    "Record",
    "Score",
    "Structure",
    "baselines",
    "prequential",
]
