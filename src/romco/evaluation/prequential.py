"""The loop: predict each round, score it, learn it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from romco.evaluation.metrics import Metric
from romco.learners import Learner
from romco.rounds import Round, Rounds


class Record(NamedTuple):
    """Where a stream stands after some rounds."""

    rounds: int
    events: int
    metrics: dict[str, Any]


def prequential(
    learner: Learner, rounds: Iterable[Round], metrics: Mapping[str, Metric], every: int = 100
) -> Iterator[Record]:
    """Yield the running metrics every ``every`` rounds, and once at the end.

    Each round is predicted before it is learned, ``every`` rounds in one call of
    ``learner.replay``; metrics are counted after each such call.

    >>> import romco
    >>> from romco.evaluation import Confusion
    >>> stream = romco.streams.simulated(n_tasks=3, n_features=10, n_events=50)
    >>> rounds = romco.streams.synchronous(stream, seed=0)
    >>> learner = romco.learner("ogd-unique", n_features=10, n_tasks=3)
    >>> for record in prequential(learner, rounds, {"all": Confusion(3)}, every=25):
    ...     print(record.rounds, record.events)
    25 75
    50 150
    """
    if every < 1:
        raise ValueError(f"every must be at least 1; got {every}")
    done = events = 0
    for part in _parts(rounds, every):
        scores = learner.replay(part)
        for metric in metrics.values():
            metric.add(part.events, scores)
        done, events = done + len(part), events + len(scores)
        yield Record(done, events, {name: metric.value() for name, metric in metrics.items()})


def _parts(rounds: Iterable[Round], every: int) -> Iterator[Rounds]:
    """Runs of ``every`` rounds; the last may be shorter."""
    if isinstance(rounds, Rounds):
        for first in range(0, len(rounds), every):
            yield rounds[first : first + every]
    else:
        waiting = iter(rounds)
        while part := list(islice(waiting, every)):
            yield Rounds.pack(part)
