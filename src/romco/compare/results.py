"""Results of runs: written by :func:`records`, read back by :func:`read` and :func:`rows`."""

import base64
import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romco.compare.controls import class_numbers, known_labels, predict, title_of
from romco.compare.run import Run, delay_of, place, shortened, versions
from romco.compare.sources import about, shuffled, stream_of
from romco.evaluation import Score
from romco.evaluation.score import log_loss, most_likely
from romco.rounds import Round, Rounds
from romco.streams import ORDERS, Stream
from romco.streams.stream import count_earlier
from romco.typing import Floats


@dataclass(frozen=True)
class Finished:
    """Contents of one results file."""

    run: Run
    stream: dict[str, Any]
    versions: dict[str, str]
    records: list[dict[str, Any]]
    end: dict[str, Any]
    failed: str | None

    @property
    def last(self) -> dict[str, Any]:
        """Last record along the stream."""
        return self.records[-1]

    def error(self) -> float:
        """Return the error at the end; infinite for a run that broke down."""
        if self.failed:
            return float("inf")
        return float(self.last["scores"]["error"])


@dataclass(frozen=True, eq=False)
class Row:
    """One row of the table: all its shuffles."""

    name: str
    runs: list[Finished]
    task: NDArray[np.int64]  # (n,) of each event, in the stream's own order

    @property
    def stream(self) -> dict[str, Any]:
        """Description of the stream."""
        return self.runs[0].stream

    @property
    def title(self) -> str:
        """Name as tables print it."""
        return title_of(self.name, number=self.stream["answers"] == 0)

    @property
    def failed(self) -> str | None:
        """Reason why a shuffle broke down, if one did."""
        return next(filter(None, map(attrgetter("failed"), self.runs)), None)

    @cached_property
    def losses(self) -> Floats:
        """Losses (shuffles, n) of each event: -log probability, or squared error; NaN unscored."""
        codes = [base64.b64decode(run.end["losses"]) for run in self.runs]
        return np.array(list(map(partial(np.frombuffer, dtype="<f8"), codes)))

    @cached_property
    def loss(self) -> float:
        """Mean loss over events and shuffles; infinite where no event could be scored."""
        scored = self.losses[~np.isnan(self.losses)]
        if len(scored):
            return float(scored.mean())
        return np.inf

    @property
    def measure(self) -> float:
        """Figure that decides: log loss, or the root of the mean squared error."""
        if self.stream["answers"] == 0:
            return self.loss**0.5
        return self.loss

    @property
    def measure_text(self) -> str:
        """Figure that decides, as tables print it; a dash where no event could be scored."""
        if np.isinf(self.measure):
            return "-"
        if self.stream["answers"] == 0:
            return f"{self.measure:.4g}"
        return f"{self.measure:.4f}"

    def mean(self, name: str) -> float | None:
        """Mean of a figure over shuffles; None where it is not known."""
        values = [run.end[name] for run in self.runs if run.end.get(name) is not None]
        if values:
            return float(np.mean(values))
        return None

    def by_experience(self) -> tuple[Floats, Floats, Floats]:
        """First event, events and mean loss for 1, 2, 3-4, 5-8, ... events of a task."""
        counts = np.sum([run.end["experience"]["events"] for run in self.runs], axis=0)
        sums = np.sum([run.end["experience"]["loss"] for run in self.runs], axis=0)
        first = np.concatenate([[1], 2 ** np.arange(len(counts) - 1) + 1]).astype(float)
        return first, counts, sums / np.maximum(counts, 1)


def rows(runs: Iterable[Run], results: Path, task: NDArray[np.int64]) -> list[Row]:
    """Read the files of finished runs, by row in the order first seen; ``task`` (n,) of events."""
    files: dict[str, list[Finished]] = {}
    for run in dict.fromkeys(runs):
        files.setdefault(run.learner, []).append(read(place(run, results)))
    return [Row(name, data, task) for name, data in files.items()]


def read(path: Path) -> Finished:
    """Read one results file."""
    with path.open() as lines:
        head, *records, end = map(json.loads, lines)
    fields = head["run"]
    for name in ("parameters", "labels"):
        fields[name] = tuple(map(tuple, fields[name]))
    run = Run(**fields)
    failed = end.get("failed")
    return Finished(run, head["stream"], head["versions"], records, end["end"], failed)


def records(run: Run, data_dir: Path | None = None) -> Iterator[dict[str, Any]]:
    """Yield the lines of a run: a head and an end with all figures."""
    yield {"run": asdict(run), "stream": about(run.dataset, data_dir), "versions": versions()}
    stream = stream_of(run.dataset, data_dir)
    rounds = shuffled(run.dataset, run.order, run.seed, data_dir)[: run.rounds]
    try:
        begin = time.process_time()
        delay = delay_of(run, stream)
        values = predict(run.learner, stream, rounds, dict(run.parameters), delay)
        seconds = time.process_time() - begin
        yield {"end": {**_figures(run, stream, rounds, values), "seconds": shortened(seconds)}}
    except (ArithmeticError, ValueError) as error:  # a setting that breaks down is a result too
        yield {"end": {}, "failed": f"{type(error).__name__}: {error}"}


def _figures(run: Run, stream: Stream, rounds: Rounds, values: Floats) -> dict[str, Any]:
    events = rounds.events
    known = known_labels(rounds, delay_of(run, stream))
    losses, wrong = event_losses(stream, events.y, values, known)
    scored = ~np.isnan(losses)
    figures = _score(stream, events, values, scored)
    if stream.answers:
        counts = np.bincount(events.task, minlength=stream.n_tasks)
        some = counts > 0
        by_task = np.bincount(events.task, wrong, stream.n_tasks)
        figures["error"] = float(wrong.mean())
        figures["error_of_tasks"] = float((by_task[some] / counts[some]).mean())
    in_order = losses[np.argsort(_order(run, stream)[: len(losses)])]
    return {
        **shortened(figures),
        "experience": _by_experience(events.task, losses),
        "losses": base64.b64encode(in_order.astype("<f8").tobytes()).decode(),
    }


def event_losses(
    stream: Stream, y: Floats, values: Floats, known: NDArray[np.intp]
) -> tuple[Floats, Floats]:
    """Loss and error (n,) of each event, predicted from the first ``known`` (n,) labels.

    The loss is NaN where nobody could predict: a number before any is known, or a class that is
    not known; the latter is an error.
    """
    if stream.answers == 0:
        losses = np.square(values - y)
        losses[known == 0] = np.nan
        return losses, losses
    classes = class_numbers(stream, y)
    answers = most_likely(values)
    losses = log_loss(values[np.arange(len(y)), classes])
    wrong = answers != classes
    if stream.answers > 1:
        _, firsts, numbers = np.unique(classes, return_index=True, return_inverse=True)
        new = firsts[numbers] >= known
        losses[new] = np.nan
        wrong |= new
    return losses, wrong


def _score(
    stream: Stream, events: Round, values: Floats, scored: NDArray[np.bool_]
) -> dict[str, Any]:
    if stream.answers == 0:
        score = Score("number")
        score.add(events, np.where(scored, values, np.nan))
        return {name: score.summary()[name] for name in ("mae", "r2")}
    logs = np.log(np.maximum(values, np.finfo(float).tiny))
    if stream.answers > 1:
        score = Score("classes")
        score.add(events, logs)
        summary = score.summary()
        table = np.zeros((stream.answers, stream.answers), dtype=int)
        for truth, row in summary["table"].items():
            for answer, count in row.items():
                table[int(truth), int(answer)] = count
        return {"f1": score.f1, "ece": score.calibration, "table": table.tolist()}
    score = Score()
    score.add_binary(events.y, values[:, 1] - values[:, 0], values[:, 1])
    return {"auc": score.auc, "f1": score.f1, "ece": score.calibration}


def _order(run: Run, stream: Stream) -> NDArray[np.intp]:
    """Numbers of the events in the stream's own order, as the run read them."""
    numbers = np.arange(stream.n_events, dtype=np.float64)[:, None]
    return ORDERS[run.order](replace(stream, x=numbers), run.seed).x[:, 0].astype(np.intp)


def _by_experience(task: NDArray[np.int64], losses: Floats) -> dict[str, list[float]]:
    """Events and summed losses by how many events of the task came before: 0, 1, 2-3, 4-7 ..."""
    bins = np.frexp(count_earlier(task))[1]
    scored = ~np.isnan(losses)
    n = int(bins.max(initial=0)) + 1
    events = np.bincount(bins[scored], None, n)
    sums = np.bincount(bins, np.nan_to_num(losses), n)
    return {"events": events.tolist(), "loss": sums.tolist()}
