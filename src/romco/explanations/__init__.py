"""Explanations: what a model has learned, and why one event is answered as it is."""

from romco.explanations.attribution import Reason, Reasons, reasons
from romco.explanations.curves import Cross, Curve, PersonalCurve
from romco.explanations.effects import Effects, effects
from romco.explanations.explanation import Overview, explain
from romco.explanations.text import Explanation, TaskInsight

__all__ = [
    "Cross",
    "Curve",
    "Effects",
    "Explanation",
    "Overview",
    "PersonalCurve",
    "Reason",
    "Reasons",
    "TaskInsight",
    "effects",
    "explain",
    "reasons",
]
