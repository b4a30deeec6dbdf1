"""Learning from files, answering from files."""

from romco.sessions.answers import predict
from romco.sessions.evaluating import Evaluation, evaluate
from romco.sessions.learning import Progress, learn
from romco.sessions.session import Session
from romco.sessions.source import Source
from romco.sessions.stopping import Stop

__all__ = ["Evaluation", "Progress", "Session", "Source", "Stop", "evaluate", "learn", "predict"]
