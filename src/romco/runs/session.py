"""A session: one model, and what is kept while it learns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol, final

from romco.evaluation import Score
from romco.io.blocks import Block
from romco.model.answers import Answers
from romco.runs.answers import LabelNames, Named, told
from romco.runs.log import Log
from romco.runs.records import SourceRecord


class Learns(LabelNames, Protocol):
    """What learns: a model, or one in shards."""

    @property
    def session(self) -> dict[str, Any]:
        """What is kept in the file to go on by; its notes are the user's."""

    def predict_and_learn(
        self, x: Any, y: Iterable[Any], task: Iterable[Any], *, weight: Any = None
    ) -> Answers:
        """What was predicted of events before they were learned."""


class EventRows(Named, Protocol):
    """EventRows with their features; as a block of a file has them."""

    @property
    def features(self) -> Any:
        """Rows, in a form that the model's features read."""

    def __len__(self) -> int: ...

    def rows(self, begin: int, end: int) -> EventRows:
        """Some of them."""


@final
class Session:
    """EventRows are predicted, then learned, then scored, logged and counted: always in this order.

    ``score`` says how good the predictions were, ``log`` has each of them as a line, ``record``
    counts what was read; without a log nothing is written.

    Parameters
    ----------
    model:
        Who learns: a :class:`romco.Model`, or one in shards.
    score:
        What is kept of how good it is; None begins anew.
    log:
        Where predictions go; None writes none.
    record:
        What was read before; None begins anew.

    >>> from types import SimpleNamespace
    >>> from romco import Model
    >>> session = Session(Model("pa-unique", classes=("ham", "spam")))
    >>> rows = [{"free": 1}, {"lunch": 1}, {"free": 1}]
    >>> columns = {"tasks": ["ann"] * 3, "labels": ["spam", "ham", "spam"], "lines": [1, 2, 3]}
    >>> answers = session.learn(SimpleNamespace(features=rows, **columns))
    >>> session.record.events, session.score.summary()["error"]
    (3, 0.3333333333333333)

    """

    def __init__(
        self,
        model: Learns,
        score: Score | None = None,
        log: Log | None = None,
        record: SourceRecord | None = None,
    ) -> None:
        self.model = model
        self.score = Score.of(model) if score is None else score
        self.log = Log(None) if log is None else log
        self.record = SourceRecord() if record is None else record

    def learn(self, events: Any) -> Answers:
        """Learn events, all or none.

        Parameters
        ----------
        events:
            n events: ``features``, ``labels``, ``tasks`` and ``lines``, as a block of a file has
            them.

        Returns
        -------
        :
            What was predicted of them before: margins and probabilities (n,).

        Raises
        ------
        ValueError
            Where an event is bad, or weights are given to who does not carry them; nothing changes.

        """
        given = events.features, events.labels, events.tasks
        weight = events.weights if isinstance(events, Block) else None
        answers = self.model.predict_and_learn(*given, weight=weight)
        self.record.events += len(events.tasks)
        self.score.count(self.model, events.labels, answers)
        if self.log.wanted:
            for row in told(self.model, events, answers):
                self.log.write(row)
        return answers

    def learn_good(self, events: EventRows) -> Iterator[tuple[int, ValueError]]:
        """Learn events, all if that can be; else one by one, telling which cannot, and why.

        Whoever asks for the next one has the bad one counted as refused.

        Parameters
        ----------
        events:
            As for :meth:`learn`; they can be cut into ``rows``.

        Yields
        ------
        :
            The place of a bad event among them, and what is wrong with it.

        """
        try:
            self.learn(events)
            return
        except ValueError:
            pass
        for at in range(len(events)):
            try:
                self.learn(events.rows(at, at + 1))
            except ValueError as error:
                yield at, error
                self.record.events += 1
                self.record.refused += 1
