"""Other systems on the same events, each fed in the form it likes best, made beforehand."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gram import features
from benchmarks.systems import Margins, System, Unavailable
from benchmarks.workloads import Workload
from romco import Round, Rounds


class RiverPerTask(System):
    """River's PAClassifier, one model per task, dicts."""

    name = "River PA, one per task"

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit

    def start(self, workload: Workload) -> None:
        try:
            from river.linear_model import PAClassifier
        except ImportError as error:
            raise Unavailable(f"River is not installed: {error}") from None
        self.models = [PAClassifier(C=1.0, mode=1) for _ in range(workload.n_tasks)]

    def prepare(self, rounds: Rounds) -> list[tuple[int, dict[int, float], bool]]:
        prepared = []
        for i, x, y in _rows(rounds):
            at = np.arange(len(x)) if isinstance(i[1], slice) else i[1]
            prepared.append((i[0], dict(zip(at.tolist(), x.tolist(), strict=True)), y > 0))
        return prepared

    def run(self, prepared: list[tuple[int, dict[int, float], bool]]) -> Margins:
        models = self.models
        answers = []
        for task, x, y in prepared:
            model = models[task]
            answers.append(model.predict_one(x))
            model.learn_one(x, y)
        return np.where(np.array(answers, dtype=bool), 1.0, -1.0)


class VowpalCalls(System):
    """Vowpal Wabbit from Python, one text line per event; shared and per-task weights."""

    name = "VW from Python, -q tf"

    def __init__(self, bits: int = 18) -> None:
        self.bits = bits

    def start(self, workload: Workload) -> None:
        self.model = _vowpal()(f"{OPTIONS} -b {self.bits}")

    def prepare(self, rounds: Rounds) -> list[str]:
        return lines(rounds)

    def run(self, prepared: list[str]) -> Margins:
        model = self.model
        margins = np.empty(len(prepared))
        for e, line in enumerate(prepared):
            example = model.parse(line)
            model.learn(example)  # keeps the prediction made before learning
            margins[e] = example.get_simplelabel_prediction()
            model.finish_example(example)
        return margins


class VowpalFile(System):
    """Vowpal Wabbit's engine reading its own text file; margins stay inside."""

    name = "VW engine on a file, -q tf"
    note = "parses in a second thread; starts anew for each file"

    def __init__(self, bits: int = 18, limit: int | None = None) -> None:
        self.bits, self.limit = bits, limit
        self.seen = 0
        self.path = Path()

    def start(self, workload: Workload) -> None:
        self.workspace = _vowpal()

    def prepare(self, rounds: Rounds) -> Path:
        handle, name = tempfile.mkstemp(suffix=".vw")
        os.close(handle)
        self.finish()
        self.path = Path(name)
        self.path.write_text("\n".join(lines(rounds)) + "\n")
        return self.path

    def finish(self) -> None:
        if self.path.is_file():
            self.path.unlink()

    def run(self, prepared: Path) -> Margins:
        model = self.workspace(f"{OPTIONS} -b {self.bits} --data {prepared}")
        self.seen = int(model.get_weighted_examples())
        model.finish()
        return np.empty(0)


class SklearnGlobal(System):
    """scikit-learn's SGDClassifier with the PA-I step, one model for all tasks."""

    def __init__(self, batch: int, limit: int | None = None) -> None:
        self.batch, self.limit = batch, limit
        self.name = f"scikit-learn PA, global, batch {batch}"

    def start(self, workload: Workload) -> None:
        import sklearn
        from sklearn.linear_model import SGDClassifier

        if tuple(int(part) for part in sklearn.__version__.split(".")[:2]) < (1, 8):
            raise Unavailable("the PA step needs scikit-learn 1.8 or later")
        self.model = SGDClassifier(
            loss="hinge", penalty=None, learning_rate="pa1", eta0=1.0, shuffle=False
        )
        x = np.zeros((2, workload.n_features))  # so that prediction works from the first event
        self.model.partial_fit(x, [-1.0, 1.0], classes=[-1.0, 1.0])

    def prepare(self, rounds: Rounds) -> list[Round]:
        task, x, y, *_ = rounds.events
        cuts = range(0, len(y), self.batch)
        return [
            Round(task[k:][: self.batch], x[k : k + self.batch], y[k:][: self.batch]) for k in cuts
        ]

    def run(self, prepared: list[Round]) -> Margins:
        margins = []
        for batch in prepared:
            margins.append(self.model.decision_function(batch.x))
            self.model.partial_fit(batch.x, batch.y)
        return np.concatenate(margins)


OPTIONS = "--quiet --no_stdin --loss_function hinge -q tf"


def lines(rounds: Rounds) -> list[str]:
    """Vowpal Wabbit's text form: the task in one namespace, the features in another."""
    text = []
    for (task, at), x, y in _rows(rounds):
        places = range(len(x)) if isinstance(at, slice) else at.tolist()
        pairs = " ".join(f"{j}:{value:.6g}" for j, value in zip(places, x.tolist(), strict=True))
        text.append(f"{int(y)} |t {task} |f {pairs}")
    return text


def _rows(rounds: Rounds) -> Any:
    """(task, places), values, label of each event."""
    whole = rounds.events
    for e in range(len(whole.y)):
        at, x = features(whole, e)
        yield (int(whole.task[e]), at), x, float(whole.y[e])


def _vowpal() -> Any:
    try:
        from vowpalwabbit import Workspace
    except Exception as error:  # a wheel for another platform fails in its own ways
        raise Unavailable(f"Vowpal Wabbit cannot be imported: {error}") from None
    return Workspace
