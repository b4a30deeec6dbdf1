"""What was learned: rank, what is shared and what is personal, which tasks are alike."""

from romco.explanations.explaining import explain, explain_task
from romco.explanations.explanation import Explanation
from romco.explanations.facts import TaskInsight
from romco.explanations.reasons import Reason, Reasons, reasons

__all__ = [
    "Explanation",
    "Reason",
    "Reasons",
    "TaskInsight",
    "explain",
    "explain_task",
    "reasons",
]
