"""Online multi-task learning: one linear model per task, W = U + V.

U is low rank and shared by the tasks, V is personal and non-zero for few of them.
"""

from romco import batch, losses, penalties, steps, streams
from romco.evaluation import prequential
from romco.learners import LEARNERS, Learner, Method, grown, learner, restore
from romco.rounds import Round, Rounds

__version__ = "0.1.0"
__all__ = [
    "LEARNERS",
    "Learner",
    "Method",
    "Round",
    "Rounds",
    "batch",
    "grown",
    "learner",
    "losses",
    "penalties",
    "prequential",
    "restore",
    "steps",
    "streams",
]
