"""Runs of learners where answers are one of many classes, or numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from romco.compare.plan import Parameters, Run, complete
from romco.compare.run import StopWatch, shortened, versions
from romco.compare.sources import about, digest_of, shuffled, stream_of
from romco.evaluation import (
    Brier,
    Coverage,
    Metric,
    Score,
    baselines,
    prequential,
)
from romco.learners import Learner, known, learner
from romco.learners.capabilities import GivesIntervals
from romco.learners.registry import OTHER_TARGETS, number_learner
from romco.parameters import setting
from romco.rounds import Round, Rounds
from romco.streams import Stream

LEVEL = 0.9  # of the intervals whose coverage is counted
PLACING = 5  # first events that are not counted for numbers: nobody knows their place yet
FOR_CLASSES = (
    *("romco-auto", "arow-shared", "pa-shared", "ogd-unique", "pa-unique", "pa-global"),
    *("arow-unique", "arow-global"),
)
FOR_NUMBERS = tuple(
    name.removesuffix("-number") for name in OTHER_TARGETS if name.endswith("-number")
)


@dataclass(frozen=True)
class OtherComparison:
    """What is compared where answers are no two classes: fixed before anything runs."""

    dataset: str
    learners: tuple[str, ...]
    shuffles: int
    order: str
    settings: Mapping[str, Parameters]
    data_dir: Path | None = None

    @property
    def stream(self) -> Stream:
        """The events."""
        return stream_of(self.dataset, self.data_dir)

    def runs(self) -> list[Run]:
        """All runs, shuffle by shuffle."""
        digest, answers = digest_of(self.dataset, self.data_dir), self.stream.answers
        chosen = {
            name: complete(method_for(name, answers), self.settings.get(name, {}))
            for name in self.learners
        }
        return [
            Run(self.dataset, digest, name, chosen[name], self.order, seed)
            for seed in range(self.shuffles)
            for name in self.learners
        ]


def method_for(name: str, answers: int) -> str:
    """Whose parameters a learner has where it answers one of ``answers`` classes, or numbers."""
    return number_learner(name) if answers == 0 else name


def made_for(stream: Stream, name: str, parameters: Parameters) -> Learner:
    """The learner of this name for the answers of a stream; classes are known beforehand."""
    shape = (stream.n_features, stream.n_tasks)
    if stream.answers == 0:
        return learner(number_learner(name), *shape, **parameters)
    return learner(
        "classes", *shape, inner=name, n_classes=stream.answers, parameters=dict(parameters)
    )


def chosen_others(text: str | None, answers: int) -> tuple[str, ...]:
    """Names from ``a,b``; None or ``all`` for those that can, checked.

    >>> chosen_others("romco-auto, pa-unique", 0)
    ('romco-auto', 'pa-unique')
    """
    if text is None or text == "all":
        return FOR_NUMBERS if answers == 0 else FOR_CLASSES
    names = dict.fromkeys(part.strip().removesuffix("-number") for part in text.split(","))
    for name in names:
        if answers == 0:
            number_learner(name)
        else:
            learner("classes", 2, 2, inner=known(name).name)  # refuses what cannot
    return tuple(names)


def other_settings(texts: Sequence[str], answers: int) -> dict[str, dict[str, Any]]:
    """Settings from texts such as ``pa-unique.C=0.5``, checked against the learner."""
    settings: dict[str, dict[str, Any]] = {}
    for text in texts:
        name, value = setting(text, "learner.parameter=value")
        short, dot, parameter = name.rpartition(".")
        if not dot:
            raise ValueError(f"--set {text}: expected learner.parameter=value")
        settings.setdefault(short.removesuffix("-number"), {})[parameter] = value
    for short, parameters in settings.items():
        learner(method_for(short, answers), 2, 2, **parameters)
    return settings


def other_records(run: Run, data_dir: Path | None = None) -> Iterator[dict[str, Any]]:
    """The lines of a run: a head, records along the stream, and an end."""
    stream = stream_of(run.dataset, data_dir)
    rounds = shuffled(run.dataset, run.order, run.seed, data_dir)[: run.rounds]
    told = {**about(run.dataset, data_dir), "answers": stream.answers}
    told["baselines"] = shortened(usual(rounds, stream.answers))
    yield {"run": asdict(run), "stream": told, "versions": versions()}
    every = max(1, -(-len(rounds) // run.records))
    try:
        model, watch = made_for(stream, run.learner, dict(run.parameters)), StopWatch()
        metrics: dict[str, Metric] = {"seconds": watch, **_metrics(stream.answers)}
        watch.start()
        for record in prequential(model, rounds, metrics, every):
            yield {"rounds": record.rounds, "events": record.events, **_told(record.metrics)}
            watch.start()
        yield {"end": shortened(_end(stream, run, rounds, metrics))}
    except (ArithmeticError, ValueError) as error:  # a setting that breaks down is a result too
        yield {"end": {}, "failed": f"{type(error).__name__}: {error}"}


def usual(rounds: Rounds, answers: int) -> dict[str, float]:
    """Error of what anyone could predict: a share of classes, a root mean square of numbers."""
    y, task = rounds.events.y, rounds.events.task.tolist()
    if answers:
        named = {
            "majority": baselines.majority(y.tolist()),
            "last of task": baselines.last(y.tolist(), task),
        }
        return {
            name: float(np.mean([a != b for a, b in zip(said, y, strict=True)]))
            for name, said in named.items()
        }
    last = [np.nan if one is None else one for one in baselines.last(y.tolist(), task)]
    means = baselines.mean(y), baselines.task_mean(y, task)
    said = {
        "mean": means[0],
        "mean of task": means[1],
        "last of task": np.where(np.isnan(last), means[0], last),
    }
    return {
        name: float(np.sqrt(np.mean(np.square((one - y)[PLACING:])))) for name, one in said.items()
    }


@final
class _AfterFirst:
    """A metric that does not count the first events of a stream."""

    def __init__(self, metric: Score, first: int) -> None:
        self.metric, self.left = metric, first

    def add(self, round: Round, scores: Any) -> None:
        """Count a round without what is still to be left out."""
        skipped = min(self.left, len(round.y))
        self.left -= skipped
        if skipped < len(round.y):
            self.metric.add(round._replace(y=round.y[skipped:]), scores[skipped:])

    def value(self) -> dict[str, float]:
        """What was counted; the error is the root mean square."""
        found = self.metric.value()
        return {**found, "error": found["rmse"]}


def _metrics(answers: int) -> dict[str, Metric]:
    if answers == 0:
        return {"scores": _AfterFirst(Score("number"), PLACING)}
    return {
        "scores": Score("classes"),
        "brier": Brier(),
    }


def _told(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Of a record; the table of all classes comes at the end."""
    scores = {name: value for name, value in metrics["scores"].items() if name != "table"}
    found: dict[str, Any] = shortened({**metrics, "scores": scores})
    return found


def _end(stream: Stream, run: Run, rounds: Rounds, metrics: Mapping[str, Metric]) -> dict[str, Any]:
    """The table of classes, or how many numbers were within their intervals."""
    if stream.answers:
        table, classes = metrics["scores"].value()["table"], list(map(str, range(stream.answers)))
        return {"table": [[table.get(k, {}).get(j, 0) for j in classes] for k in classes]}
    model = made_for(stream, run.learner, dict(run.parameters))
    if not isinstance(model, GivesIntervals):
        return {}
    coverage = Coverage()
    for e, round in enumerate(rounds):
        if e >= PLACING:
            coverage.add_bounds(round.y, model.intervals(round, LEVEL))
        model.update(round)
    return coverage.value()
