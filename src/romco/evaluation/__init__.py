"""The prequential loop and what it keeps score of."""

from romco.evaluation import baselines
from romco.evaluation.class_scores import ClassScore
from romco.evaluation.classes import Brier, Calibration, ClassTable, LogLoss
from romco.evaluation.delays import Delay
from romco.evaluation.metrics import (
    Confusion,
    MeanLoss,
    Metric,
    Seconds,
    Structure,
    answers,
)
from romco.evaluation.numbers import Coverage, NumberErrors
from romco.evaluation.prequential import Record, prequential
from romco.evaluation.two_classes import TwoClassScore

__all__ = [
    "Brier",
    "Calibration",
    "ClassScore",
    "ClassTable",
    "Confusion",
    "Coverage",
    "Delay",
    "LogLoss",
    "MeanLoss",
    "Metric",
    "NumberErrors",
    "Record",
    "Seconds",
    "Structure",
    "TwoClassScore",
    "answers",
    "baselines",
    "prequential",
]
