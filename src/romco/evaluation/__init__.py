"""Prequential evaluation: the loop, metrics, scores and baselines."""

from romco.evaluation import baselines
from romco.evaluation.prequential import Delay, Metric, Record, prequential
from romco.evaluation.score import Score

__all__ = [
    "Delay",
    "Metric",
    "Record",
    "Score",
    "baselines",
    "prequential",
]
