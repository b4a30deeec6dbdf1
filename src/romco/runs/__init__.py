"""Learning from files, answering from files."""

from romco.runs.answers import predict
from romco.runs.evaluating import Evaluation, evaluate
from romco.runs.learning import Progress, learn
from romco.runs.session import Session
from romco.runs.source import Source
from romco.runs.stopping import Stop

__all__ = ["Evaluation", "Progress", "Session", "Source", "Stop", "evaluate", "learn", "predict"]
