"""Learning from files, answering from files."""

from romco.sessions.answers import Evaluation, evaluate, predict
from romco.sessions.run import Progress, learn
from romco.sessions.score import Score
from romco.sessions.source import Source
from romco.sessions.stopping import Stop

__all__ = ["Evaluation", "Progress", "Score", "Source", "Stop", "evaluate", "learn", "predict"]
