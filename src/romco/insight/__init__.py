"""What was learned: rank, what is shared and what is personal, which tasks are alike."""

from romco.insight.explaining import explain, explain_task
from romco.insight.explanation import Explanation
from romco.insight.facts import TaskInsight
from romco.insight.reasons import Reason, Reasons, reasons

__all__ = [
    "Explanation",
    "Reason",
    "Reasons",
    "TaskInsight",
    "explain",
    "explain_task",
    "reasons",
]
