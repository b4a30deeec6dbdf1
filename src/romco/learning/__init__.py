"""Learning from files, answering from files."""

from romco.learning.answers import evaluate, predict
from romco.learning.run import Progress, learn
from romco.learning.score import Score
from romco.learning.source import Source

__all__ = ["Progress", "Score", "Source", "evaluate", "learn", "predict"]
