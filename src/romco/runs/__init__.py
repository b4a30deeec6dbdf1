"""Learn, predict and evaluate files; ask people for labels."""

from romco.io.reader import Source
from romco.runs.learn import Progress, Stop, learn
from romco.runs.predict import Evaluation, evaluate, predict

__all__ = ["Evaluation", "Progress", "Source", "Stop", "evaluate", "learn", "predict"]
