"""Learning from files, answering from files."""

from romco.sessions.answers import Evaluation, evaluate, predict
from romco.sessions.run import Progress, learn
from romco.sessions.score import Score
from romco.sessions.source import Source

__all__ = ["Evaluation", "Progress", "Score", "Source", "evaluate", "learn", "predict"]
