"""What was learned: rank, what is shared and what is personal, which tasks are alike."""

from romco.insight.explaining import explain, explain_task
from romco.insight.explanation import Explanation
from romco.insight.facts import TaskInsight

__all__ = ["Explanation", "TaskInsight", "explain", "explain_task"]
