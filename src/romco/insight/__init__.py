"""What was learned: rank, what is shared and what is personal, which tasks are alike."""

from romco.insight.explanation import Explanation, TaskInsight, explain, explain_task

__all__ = ["Explanation", "TaskInsight", "explain", "explain_task"]
