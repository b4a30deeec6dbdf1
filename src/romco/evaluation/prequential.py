"""Prequential evaluation: predict each round, score it, learn it."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from romco.evaluation.delay import Delay, LabelLoop
from romco.evaluation.metrics import Metric
from romco.labels import Policy
from romco.learners import Learner
from romco.rounds import Round, Rounds


class Record(NamedTuple):
    """Rounds and events so far, and the value of each metric by name.

    >>> Record(25, 75, {"error": 0.2}).metrics["error"]
    0.2
    """

    rounds: int
    events: int
    metrics: dict[str, Any]


def prequential(
    learner: Learner,
    rounds: Iterable[Round],
    metrics: Mapping[str, Metric],
    every: int = 100,
    *,
    labels: Policy | None = None,
    delay: int | Delay = 0,
) -> Iterator[Record]:
    """Yield the running metrics every so many rounds, and once at the end.

    Each round is predicted before it is learned, ``every`` rounds in one call of
    ``learner.replay``; metrics are counted after each such call. Every event is predicted and
    scored. With a policy ``labels`` of :mod:`romco.labels`, only the labels that it asks for are
    learned; with ``delay`` they arrive after so many events, or as a
    :class:`romco.evaluation.Delay` defines. The metric "labels" then holds how many were asked for
    and learned, and the estimates of the audit.

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
    _check(rounds)
    loop = None
    if labels is not None or delay:
        loop = LabelLoop(learner, labels, delay if isinstance(delay, Delay) else Delay(delay))
    done = events = 0
    for part in _parts(rounds, every):
        scores = learner.replay(part) if loop is None else loop.run(part)
        done, events = done + len(part), events + len(scores)
        for metric in metrics.values():
            metric.add(part.events, scores)
        values = {name: metric.value() for name, metric in metrics.items()}
        yield Record(done, events, values if loop is None else {**values, "labels": loop.summary()})


def _check(rounds: Any) -> None:
    """Raise TypeError where arrays were given that are to be made to rounds first."""
    if isinstance(rounds, Round):
        raise TypeError("rounds must be a sequence of them: write [round] for a single one")
    if isinstance(rounds, (tuple, list)) and rounds and not isinstance(rounds[0], Round):
        raise TypeError(
            f"rounds must be of romco.Round, but the first is of {type(rounds[0]).__name__}; for "
            "arrays X, y and task write [romco.Round(task[i:i+1], X[i:i+1], y[i:i+1]) for i in "
            "range(len(y))], with tasks as numbers from 0 and labels -1 or +1; or let "
            "romco.Model().learn(X, y, task) read names and labels of any kind"
        )


def _parts(rounds: Iterable[Round], every: int) -> Iterator[Rounds]:
    """Parts of ``every`` rounds; the last may be shorter."""
    if isinstance(rounds, Rounds):
        for first in range(0, len(rounds), every):
            yield rounds[first : first + every]
    else:
        rest = iter(rounds)
        while part := list(islice(rest, every)):
            yield Rounds.pack(part)
