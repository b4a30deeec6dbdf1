"""A model in shards: the verbs of ``Model``, with tasks dealt out to several learners."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, Self, final

import numpy as np
from numpy.typing import NDArray

from romco.closing import Closing
from romco.io.modelfile import load_state, save_state
from romco.io.validation import refusing
from romco.learners.merging import mergeable
from romco.model import Features, Model
from romco.model.engine import check_lengths, check_sequence, read_weights
from romco.model.features import Dense, Rows, cut, take_rows
from romco.model.lock import Locks
from romco.model.names import Id, identities, identity
from romco.model.target import Predictions, target_from_json
from romco.parameters import whole
from romco.shards import checkpoints, sections, states
from romco.shards.coordinators import Coordinator
from romco.shards.engines import Arguments, Verb
from romco.shards.owners import Owners
from romco.shards.rows import pick
from romco.shards.schedules import EVERY, Schedule
from romco.shards.shard import Shard

PIECE = 1000  # events per shard learned before waiting readers get a turn


@final
class Shards(Closing):
    """A :class:`romco.Model` whose tasks are dealt out to ``n`` shards that learn side by side.

    A task belongs to one shard, by a stable hash of its name, and what is known of it alone is
    never stale. What tasks share is merged at *barriers*: when the stream has grown by ``growth``
    since the last one, and after ``every`` events per shard. The same events, ``n``, ``growth``
    and ``every`` give the same bits, whatever the ``engine``, the timing, and how many
    workers were lost on the way; one shard gives those of a ``Model``.

    >>> shards = Shards("romco-auto", 2, engine="threads", classes=("ham", "spam"))
    >>> for _ in range(20):
    ...     _ = shards.learn([{"free": 1}, {"lunch": 1}], ["spam", "ham"], ["ann", "bob"])
    >>> shards.predict([{"free": 1}, {"lunch": 1}], ["bob", "somebody new"]).tolist()
    ['spam', 'ham']
    >>> shards.model().events  # one model of all tasks
    40

    Parameters
    ----------
    learner:
        A name from ``romco.LEARNERS`` of a learner that can be sharded; its parameters follow.
    n:
        How many shards.
    features, classes, positive, new_task:
        As in ``Model``; the target must be two classes. With files that the shards read
        themselves, features must be hashed or given columns: shards cannot agree on growing
        names.
    engine:
        "serial", "threads", or "ray" (``pip install 'romco[ray]'``); ``address`` is that of a
        running Ray cluster, else one is started here.
    growth, every:
        Shards meet when the stream has grown by this share since the last time, and after so many
        events per shard.
    checkpoint:
        A folder to go on from: what it holds is taken up, and every ``checkpoint_every`` barriers
        all shards are saved there. See ``docs/scaling.md``.
    target:
        "two classes", or None, which is the same.
    parameters:
        Of the learner, by name.

    Raises
    ------
    ValueError
        Where the learner cannot be sharded, the target is another, or the checkpoint is of other
        settings.

    """

    def __init__(
        self,
        learner: str = "romco-auto",
        n: int = 2,
        features: Features | None = None,
        *,
        engine: str = "serial",
        growth: float = 0.1,
        every: int = EVERY,
        checkpoint: str | Path | None = None,
        checkpoint_every: int = 10,
        address: str | None = None,
        target: str | None = None,
        classes: Sequence[Any] | None = None,
        positive: Any = None,
        new_task: Literal["mean", "zero"] = "mean",
        **parameters: Any,
    ) -> None:
        _check_target(target or "two classes")
        front = Model(
            learner, features, classes=classes, positive=positive, new_task=new_task, **parameters
        )
        mergeable(front.engine.learner)
        schedule = Schedule(n, growth, every)
        folder = None if checkpoint is None else Path(checkpoint)
        found = None if folder is None else checkpoints.find(folder)
        if found is not None:
            checkpoints.check_same(found, front)
            begun = found.begun(schedule)
        else:
            begun = states.Begun(front, [None] * n, states.At(0, 0, schedule.after(0)))
        often = whole("checkpoint_every", checkpoint_every)
        self._begin(Coordinator(schedule, begun, engine, address, folder, often))

    def _begin(self, leader: Coordinator) -> None:
        self.leader, self._front = leader, leader.front  # who leads the shards; names
        self._owners = Owners(leader.n)
        self._locks = Locks()

    # What is known

    @property
    def schedule(self) -> Schedule:
        """Where the shards meet."""
        return self.leader.schedule

    @property
    def n(self) -> int:
        """How many shards."""
        return self.leader.n

    @property
    def events(self) -> int:
        """How many events were learned."""
        return self.leader.events

    @property
    def features(self) -> Features:
        """Names of the features."""
        return self._front.features

    @property
    def classes(self) -> tuple[Id, ...]:
        """The labels known so far, the negative one first."""
        return self._front.classes

    @property
    def engine(self) -> Shards:
        """Itself: it has the methods of a model's engine that a run calls."""
        return self

    @property
    def positive(self) -> Id | None:
        """The label that a probability is of, and a margin above 0 speaks for; None if unknown."""
        return self._front.engine.positive

    @property
    def notes(self) -> dict[str, Any]:
        """Yours: anything JSON can hold, kept in the file."""
        return self._front.notes

    @property
    def session(self) -> dict[str, Any]:
        """What the program must know to go on, kept in the file."""
        return self._front.session

    @property
    def tasks(self) -> list[Id]:
        """Names of the tasks, shard by shard."""
        with self._locks.step:
            return [task for own in self.leader.engine.all(Shard.tasks) for task in own]

    def events_of(self, task: Any) -> int:
        """How many events of a task were learned.

        Parameters
        ----------
        task:
            Its name.

        Returns
        -------
        :
            How many; 0 if it is not known.

        """
        return int(self._ask(task, Shard.events_of))

    def personal_since(self, task: Any) -> int | None:
        """After about how many events of all tasks this one was found to be personal.

        Parameters
        ----------
        task:
            Its name.

        Returns
        -------
        :
            How many; None if the task is not personal.

        """
        since: int | None = self._ask(task, Shard.personal_since)
        return since

    def label_of(self, margin: float) -> Id:
        """The label that a margin predicts; None before any label is known.

        Parameters
        ----------
        margin:
            As :meth:`margins` gives it.

        Returns
        -------
        :
            The label; None before any is known.

        """
        return self._front.engine.label_of(margin)

    def side(self, label: Any) -> float:
        """-1 or +1: the side of margin 0 on which a label is.

        Parameters
        ----------
        label:
            One of :attr:`classes`.

        Returns
        -------
        :
            +1 for the positive label, -1 for the other.

        Raises
        ------
        ValueError
            Where the label is unknown.

        """
        return self._front.engine.side(label)

    # Predicting

    def margins(self, x: Any, task: Iterable[Any]) -> Dense:
        """Margins (n,) of rows ``x``; changes nothing that was learned.

        Parameters
        ----------
        x:
            Rows, as the features read them: mappings, an array, a CSR matrix or a frame.
        task:
            The task of each row.

        Returns
        -------
        :
            Margins (n,), above 0 for the positive label.

        Raises
        ------
        ValueError
            Where a row cannot be read, or there are not as many tasks as rows.

        """
        return self._answers(x, task).margins

    def predict(self, x: Any, task: Iterable[Any]) -> NDArray[Any]:
        """Labels (n,) of rows ``x``.

        Parameters
        ----------
        x:
            Rows, as the features read them: mappings, an array, a CSR matrix or a frame.
        task:
            The task of each row.

        Returns
        -------
        :
            Labels (n,).

        Raises
        ------
        ValueError
            Where a row cannot be read, or there are not as many tasks as rows.

        """
        return self._front.engine.labels_of(self.margins(x, task))

    def probabilities(self, x: Any, task: Iterable[Any]) -> Dense:
        """Probability (n,) of the positive label.

        Parameters
        ----------
        x:
            Rows, as the features read them: mappings, an array, a CSR matrix or a frame.
        task:
            The task of each row.

        Returns
        -------
        :
            Probabilities (n,).

        Raises
        ------
        ValueError
            Where a row cannot be read, or there are not as many tasks as rows.

        """
        return self._answers(x, task).probabilities

    def margin_one(self, x: Any, task: Any) -> float:
        """Margin of one event.

        Parameters
        ----------
        x:
            The event's features, as one such row.
        task:
            Its task.

        Returns
        -------
        :
            The margin, above 0 for the positive label.

        """
        return float(self.margins([x], [task])[0])

    def probability_one(self, x: Any, task: Any) -> float:
        """Probability of the positive label of one event.

        Parameters
        ----------
        x:
            The event's features, as one such row.
        task:
            Its task.

        Returns
        -------
        :
            The probability.

        """
        return float(self.probabilities([x], [task])[0])

    def predict_one(self, x: Any, task: Any) -> Id:
        """Label of one event; None before any label is known.

        Parameters
        ----------
        x:
            The event's features, as one such row.
        task:
            Its task.

        Returns
        -------
        :
            The label; None before any is known.

        """
        return self._front.engine.label_of(float(self.margins([x], [task])[0]))

    # Learning

    def learn_one(self, x: Any, y: Any, task: Any, weight: float = 1.0) -> float:
        """Learn one event; gives the margin that was predicted just before.

        Parameters
        ----------
        x:
            The event's features, as one such row.
        y:
            Its label.
        task:
            Its task.
        weight:
            What it counts: as so many events; 0 only predicts it.

        Returns
        -------
        :
            The margin that was predicted just before.

        Raises
        ------
        ValueError
            Where the event is bad; then nothing changes.

        """
        weights = None if weight == 1.0 else [weight]
        return float(self.learn([x], [y], [task], weight=weights)[0])

    def learn(self, x: Any, y: Iterable[Any], task: Iterable[Any], *, weight: Any = None) -> Dense:
        """Learn rows; those of a task one after the other, in the order of the stream.

        Nothing changes if any row is bad.

        Parameters
        ----------
        x:
            Rows, as the features read them: mappings, an array, a CSR matrix or a frame.
        y:
            The label of each row.
        task:
            The task of each row.
        weight:
            What each row counts: as so many events; 0 only predicts it; None counts each as one.

        Returns
        -------
        :
            Margins (n,) that were predicted just before.

        Raises
        ------
        ValueError
            Where a row, a label or a weight is bad, or lengths differ; then nothing changes.

        """
        return self.predict_and_learn(x, y, task, weight=weight).margins

    def predict_and_learn(
        self, x: Any, y: Iterable[Any], task: Iterable[Any], *, weight: Any = None
    ) -> Predictions:
        """:meth:`learn`, giving also the probabilities that were predicted just before.

        Parameters
        ----------
        x:
            Rows, as the features read them: mappings, an array, a CSR matrix or a frame.
        y:
            The label of each row.
        task:
            The task of each row.
        weight:
            What each row counts: as so many events; 0 only predicts it; None counts each as one.

        Returns
        -------
        :
            Margins (n,) and probabilities (n,) that were predicted just before.

        Raises
        ------
        ValueError
            Where a row, a label or a weight is bad, or lengths differ; then nothing changes.

        """
        weights = None if weight is None else read_weights(weight, self._front.engine.learner)
        if weights is not None and not weights.all():
            return self._counting(x, list(y), list(check_sequence(task)), weights)
        with self._locks.writing:
            labels = self._front.engine.two_classes
            rows, signs, ids, sides, new = self._read(x, y, task, weights)
            before = labels.turn
            with self._locks.step:
                labels.adopt(sides)
                self.features.add(new)
            answers = self._learn(rows, signs, ids, weights)
            return _turned(answers, labels.outward(np.ones(len(ids)), signs, before))

    def _read(
        self, x: Any, y: Iterable[Any], task: Iterable[Any], weights: Dense | None
    ) -> tuple[Rows, Dense, list[Id], dict[Id, float], dict[Id, int]]:
        """Rows, signs, tasks, and what is new of labels and of features; changes nothing."""
        signs, sides = self._front.engine.two_classes.read(y)
        ids = identities("task", check_sequence(task))
        new: dict[Id, int] = {}
        rows = self.features.read(x, new)
        weighed = {} if weights is None else {"weight": weights}
        check_lengths(rows, task=ids, y=signs, **weighed)
        return rows, signs, ids, sides, new

    def _counting(self, x: Any, y: list[Any], task: list[Any], weights: Dense) -> Predictions:
        """Learn the rows that count; those of weight 0 are only predicted, each in its turn."""
        if not len(y) == len(task) == len(weights):
            raise ValueError(
                f"weight has {len(weights)} entries but y has {len(y)} and task {len(task)}"
            )

        def some(at: NDArray[np.intp]) -> tuple[Any, list[Any], list[Any]]:
            return take_rows(x, at), [y[i] for i in at], [task[i] for i in at]

        self._read(*some(np.flatnonzero(weights)), None)  # all of it, before any is learned
        parts = []
        for at in np.split(np.arange(len(weights)), _turns(weights > 0.0)):
            rows, labels, tasks = some(at)
            parts.append(
                self.predict_and_learn(rows, labels, tasks, weight=weights[at])
                if weights[at[0]]
                else self._answers(rows, tasks)
            )
        margins, chances = zip(*parts, strict=True)
        return Predictions(np.concatenate(margins), np.concatenate(chances))

    def _learn(self, rows: Rows, signs: Dense, ids: list[Id], weights: Dense | None) -> Predictions:
        owners, begin = self._owners.of(ids), 0
        answers = Predictions(np.empty(len(ids)), np.empty(len(ids)))
        while begin < len(ids):
            left = self.leader.next - self.leader.place
            end = min(len(ids), begin + left, begin + PIECE * self.n)
            part = slice(begin, end)
            with self._locks.step:
                weighed = [] if weights is None else [weights[part]]
                columns = cut(rows, begin, end), signs[part], ids[part], *weighed
                verb, given = self._given(owners[part], columns)
                found = self.leader.ask(verb, given, end - begin)
                _fill(answers, begin, owners[part], found)
                self.leader.passed(end - begin, end - begin)
            begin = end
        return answers

    def _given(self, owners: NDArray[np.int64], columns: tuple[Any, ...]) -> tuple[Verb, Arguments]:
        """How shards learn rows: dealt out, or, where they all see them, told which are theirs."""
        if self.leader.engine.here is None or self.n == 1:
            return Shard.learn, _dealt(self.n, owners, *columns)
        places = [np.flatnonzero(owners == k) for k in range(self.n)]
        return Shard.learn_own, [(own, *columns) if len(own) else None for own in places]

    def forget(self, task: Any) -> None:
        """Forget a task: its name, its weights, its history. Others stay as they are.

        Parameters
        ----------
        task:
            Its name.

        """
        with self._locks.writing:
            self._ask(task, Shard.forget)

    # State

    def state(self) -> dict[str, Any]:
        """The state of one :class:`romco.Model` of all tasks, from which shards can go on, too.

        Returns
        -------
        :
            As of ``Model.state``, with what shards need to go on.

        """
        with self._locks.writing, self._locks.step:
            return self.leader.state()

    def model(self) -> Model:
        """One model of all tasks, with what shards have learned up to now.

        Returns
        -------
        :
            A plain model, which goes its own way from here.

        """
        return Model.from_state(self.state())

    def save(self, path: str | Path) -> None:
        """Write one model file of all tasks; :func:`romco.load` opens it as a plain ``Model``.

        Parameters
        ----------
        path:
            Where; what is there is replaced.

        Raises
        ------
        OSError
            Where it cannot be written; what was there stays.

        """
        save_state(self.state(), path)

    @classmethod
    def load(cls, path: str | Path, n: int | None = None, **settings: Any) -> Self:
        """Shards from a model file, whoever saved it; see :meth:`of` for the settings.

        Parameters
        ----------
        path:
            A model file.
        n:
            How many shards; None is as many as it was saved from.
        settings:
            As of :meth:`of`, by name.

        Returns
        -------
        :
            The shards.

        Raises
        ------
        ValueError
            Where the file is no model of two classes, or damaged.

        """
        state = load_state(path)
        with refusing(Path(path)):
            sections.check(state)
        return cls.of(state, n, **settings)

    @classmethod
    def of(
        cls,
        model: Model | dict[str, Any],
        n: int | None = None,
        *,
        engine: str = "serial",
        growth: float | None = None,
        every: int | None = None,
        address: str | None = None,
        checkpoint: str | Path | None = None,
        checkpoint_every: int = 10,
    ) -> Self:
        """A model, or its state, dealt out to shards.

        Where the state is that of shards, as many, with the same schedule, are the default and go
        on as if they had never stopped.

        Parameters
        ----------
        model:
            A model of two classes, or the state of one.
        n:
            How many shards; None is as many as the state is of.
        engine:
            "serial", "threads" or "ray".
        growth, every:
            When shards meet, as in the class; None is as before.
        address:
            Of a running Ray cluster.
        checkpoint:
            A folder in which all shards are saved.
        checkpoint_every:
            Barriers between two such saves.

        Returns
        -------
        :
            The shards.

        Raises
        ------
        ValueError
            Where the model is not of two classes, or its learner cannot be sharded.

        """
        state = model.state() if isinstance(model, Model) else model
        _check_target(target_from_json(state["labels"]).kind)
        schedule = states.schedule_of(state, n, growth, every)
        made = cls.__new__(cls)
        folder = None if checkpoint is None else Path(checkpoint)
        begun = states.begun(state, schedule)
        made._begin(Coordinator(schedule, begun, engine, address, folder, checkpoint_every))
        return made

    def close(self) -> None:
        """End the threads or the workers; what was not saved is gone."""
        self.leader.close()

    # Within

    def _answers(self, x: Any, task: Iterable[Any]) -> Predictions:
        with self._locks.step:
            rows = self.features.read(x)
            ids = identities("task", check_sequence(task))
            check_lengths(rows, task=ids)
            owners = self._owners.of(ids)
            answers = Predictions(np.empty(len(ids)), np.empty(len(ids)))
            given = _dealt(self.n, owners, rows, ids)
            _fill(answers, 0, owners, self.leader.engine.each(Shard.answers, given))
            return _turned(answers, np.full(len(ids), self._front.engine.turn))

    def _ask(self, task: Any, verb: Any) -> Any:
        """Ask the owner of a task."""
        with self._locks.step:
            (owner,) = self._owners.of([identity("task", task)])
            return self.leader.engine.one(int(owner), verb, task)


def _check_target(kind: str) -> None:
    if kind != "two classes":
        raise ValueError(
            f"shards learn two classes, not {kind!r}: of the learners of classes and of numbers "
            "it is not known how beliefs that were learned apart become one; take a plain Model"
        )


def _turns(some: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Places that differ from the one before."""
    return np.flatnonzero(some[1:] != some[:-1]) + 1


def _dealt(n: int, owners: NDArray[np.int64], *columns: Any) -> list[tuple[Any, ...] | None]:
    """What each shard gets of rows, and of arrays or lists with an entry per row."""
    if n == 1:
        return [columns] if len(owners) else [None]
    given: list[tuple[Any, ...] | None] = []
    for k in range(n):
        at = np.flatnonzero(owners == k)
        given.append(tuple(_taken(column, at) for column in columns) if len(at) else None)
    return given


def _taken(column: Any, at: NDArray[np.int64]) -> Any:
    if type(column) is list:
        return list(map(column.__getitem__, at.tolist()))
    return pick(column, at)


def _fill(
    answers: Predictions, begin: int, owners: NDArray[np.int64], found: Sequence[Predictions | None]
) -> None:
    """Put what the shards answered where it belongs."""
    for k, one in enumerate(found):
        if one is not None:
            at = begin + np.flatnonzero(owners == k)
            answers.margins[at], answers.probabilities[at] = one


def _turned(answers: Predictions, turn: Dense) -> Predictions:
    """Answers as people see them, where the learner's +1 may be their negative label."""
    margins, chances = answers
    return Predictions(turn * margins, np.where(turn > 0.0, chances, 1.0 - chances))
