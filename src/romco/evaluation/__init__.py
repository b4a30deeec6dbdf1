"""Prequential evaluation: the loop, metrics, scores and baselines."""

from romco.evaluation import baselines
from romco.evaluation.metrics import Confusion, MeanLoss, Structure
from romco.evaluation.prequential import Delay, Metric, Record, prequential
from romco.evaluation.score import Score

__all__ = [
    "Confusion",
    "Delay",
    "MeanLoss",
    "Metric",
    "Record",
    "Score",
    "Structure",
    "baselines",
    "prequential",
]
