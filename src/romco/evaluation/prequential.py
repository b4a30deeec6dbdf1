"""The loop: predict each round, score it, learn it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from romco.evaluation.delays import Delay
from romco.evaluation.labelling import Labelling
from romco.evaluation.metrics import Metric
from romco.evaluation.predicted import Predicted
from romco.labels import Policy
from romco.learners import Learner
from romco.rounds import Round, Rounds


class Record(NamedTuple):
    """Where a stream stands after some rounds.

    Parameters
    ----------
    rounds:
        How many rounds were predicted and learned.
    events:
        How many events they held.
    metrics:
        What each metric says, by name.

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
    scored, whether its label is learned or not.

    Parameters
    ----------
    learner:
        Learns on the way.
    rounds:
        The stream, see :class:`romco.Rounds`.
    metrics:
        By name, see :mod:`romco.evaluation`.
    every:
        Rounds between two records.
    labels:
        A policy of :mod:`romco.labels`: only the labels that it asks for are learned.
    delay:
        Labels are learned when they arrive: after so many events, or as a
        :class:`romco.evaluation.Delay` says.

    Yields
    ------
    :
        Rounds and events so far, and what each metric says; with ``labels`` or ``delay`` also,
        under "labels", how many were asked for and learned, and what the audit tells.

    Raises
    ------
    TypeError
        Where the rounds are no rounds.

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
    rounds = _rounds(rounds)
    if labels is not None or delay:
        late = delay if isinstance(delay, Delay) else Delay(delay)
        outcomes = _labelled(Labelling(learner, labels, late), rounds, every)
    else:
        outcomes = _replayed(learner, rounds, every)
    yield from records(outcomes, metrics, every)


def records(
    outcomes: Iterable[Predicted], metrics: Mapping[str, Metric], every: int
) -> Iterator[Record]:
    """Keep score of outcomes: a record every ``every`` rounds, and once at the end."""
    done = events = 0
    told: dict[str, Any] = {}
    for rounds, round, scores, told in outcomes:
        for metric in metrics.values():
            metric.add(round, scores)
        done, events = done + rounds, events + len(scores)
        if done % every == 0:
            yield _record(done, events, metrics, told)
    if done % every:
        yield _record(done, events, metrics, told)


def _replayed(learner: Learner, rounds: Iterable[Round], every: int) -> Iterator[Predicted]:
    """What became of ``every`` rounds at a time; the last may be fewer."""
    for part in _parts(rounds, every):
        yield Predicted(len(part), part.events, learner.replay(part))


def _labelled(loop: Labelling, rounds: Iterable[Round], every: int) -> Iterator[Predicted]:
    """The same where labels cost or come late."""
    for part in _parts(rounds, every):
        yield Predicted(len(part), part.events, loop.run(part), loop.told())


def _rounds(rounds: Any) -> Iterable[Round]:
    """The rounds, or TypeError where arrays were given that are to be made to rounds first."""
    if isinstance(rounds, Round):
        raise TypeError("rounds must be a sequence of them: write [round] for a single one")
    if isinstance(rounds, (tuple, list)) and rounds and not isinstance(rounds[0], Round):
        raise TypeError(
            f"rounds must be of romco.Round, but the first is of {type(rounds[0]).__name__}; for "
            "arrays X, y and task write [romco.Round(task[i:i+1], X[i:i+1], y[i:i+1]) for i in "
            "range(len(y))], with tasks as numbers from 0 and labels -1 or +1; or let "
            "romco.Model().learn(X, y, task) read names and labels of any kind"
        )
    return rounds


def _record(done: int, events: int, metrics: Mapping[str, Metric], told: dict[str, Any]) -> Record:
    values = {name: metric.value() for name, metric in metrics.items()}
    return Record(done, events, {**values, "labels": told} if told else values)


def _parts(rounds: Iterable[Round], every: int) -> Iterator[Rounds]:
    """Runs of ``every`` rounds; the last may be shorter."""
    if isinstance(rounds, Rounds):
        for first in range(0, len(rounds), every):
            yield rounds[first : first + every]
    else:
        waiting = iter(rounds)
        while part := list(islice(waiting, every)):
            yield Rounds.pack(part)
