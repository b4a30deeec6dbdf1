"""The model: names in, labels out; one writer, any number of readers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, Self, final

import numpy as np
from numpy.typing import NDArray

from romco.kernels.core.history import surely
from romco.kernels.io.mappings import Mappings
from romco.labels import Policy
from romco.labels import restore as restore_policy
from romco.learners import Learner
from romco.model import pieces
from romco.model.answers import Answers, chances, probabilities, room, seen
from romco.model.asking import ask
from romco.model.batches import check_lengths, many, read_batch
from romco.model.calibration import Scale
from romco.model.fairlock import Held, Locks, holding
from romco.model.features import Features, Names, features_from_json
from romco.model.growing import GrowingLearner, doubled
from romco.model.labels import Labels
from romco.model.making import check_size, fixed_width, learner_for, memories
from romco.model.names import Id, identity, known_as
from romco.model.noticing import noticing
from romco.model.rows import NONE, Dense, Sparse
from romco.model.singles import Singles
from romco.model.targets import ManyClasses, Target, target_from_json, target_of, widened
from romco.model.tasks import Tasks
from romco.model.waiting import Waiting, said_of
from romco.model.weights import counting, weights_of
from romco.parameters import choice


@final
class Model:
    """One linear classifier per task, for tasks, features and labels of any name.

    Tasks and features may appear at any time. A task not yet seen is predicted
    from what the tasks have in common, and starts there (``new_task="mean"``; docs/methods.md
    tells what that is for each learner); with ``"zero"`` it starts as in the paper.

    One thread may learn while others predict: they see the model between two
    steps, never within one. To look at the learner itself, use :meth:`at_rest`.

    >>> model = Model("romco-nucl", eta1=0.5)
    >>> for _ in range(3):
    ...     _ = model.learn_one({"word:free": 1, "length": 0.2}, "spam", task="ann")
    ...     _ = model.learn_one({"word:lunch": 1, "length": 0.3}, "ham", task="bob")
    >>> model.predict_one({"word:free": 1}, task="ann")
    'spam'
    >>> model.predict_one({"word:lunch": 1}, task="somebody new")
    'ham'

    Parameters
    ----------
    learner:
        A name from ``romco.LEARNERS``; its parameters follow by name.
    features:
        :class:`Names` (grow as they come), :class:`Hashed` or :class:`Columns`.
    target:
        "two classes", "classes" (any number of them, new ones at any time), or "number".
    classes:
        The labels, of two the negative one first; else they are taken as they come, see
        :class:`romco.model.labels.Labels`.
    positive:
        The label that is positive, where the other is not known yet.
    tasks:
        Tasks known from the beginning; they start at zero.
    new_task:
        Where a task that comes later starts: "mean", at what tasks have in common, or "zero".
    labels:
        Who decides which labels to :meth:`ask` for, for example ``romco.labels.Budget(0.05)``;
        kept in the file.
    waiting:
        How many events that were predicted with an id may wait for their :meth:`answer`; not
        kept in the file.
    parameters:
        Of the learner, by name.

    """

    def __init__(
        self,
        learner: str = "romco-auto",
        features: Features | None = None,
        *,
        target: Literal["two classes", "classes", "number"] | None = None,
        classes: Sequence[Any] | None = None,
        positive: Any = None,
        tasks: Iterable[Any] = (),
        new_task: Literal["mean", "zero"] = "mean",
        labels: Policy | None = None,
        waiting: int = 10_000,
        **parameters: Any,
    ) -> None:
        self.features: Features = Names() if features is None else features
        self.new_task = choice("new_task", new_task, "mean", "zero")
        self.notes: dict[str, Any] = {}  # yours: anything JSON can hold, kept in the file
        self.session: dict[str, Any] = {}  # the program's: what it must know to go on
        self.labels, self.waiting = labels, Waiting(waiting)
        self._target: Target = target_of(target, classes, positive)
        self._tasks, self._scale = Tasks(), Scale()
        for task in dict.fromkeys(tasks):
            self._tasks.add(identity("task", task))
        d = fixed_width(self.features) or doubled(64, self.features.width)
        inner = learner_for(self._target, learner, d, len(self._tasks) or 8, parameters)
        self._inside = GrowingLearner(inner, new_task == "mean")
        self._singles = Singles(self.features)
        self._locks = Locks()

    # What is known

    @property
    def learner(self) -> Learner:
        """The learner inside, to which tasks and features are numbers.

        It is replaced when it grows. While another thread learns, look at it by :meth:`at_rest`.
        """
        return self._inside.learner

    def at_rest(self) -> Held[Learner]:
        """The learner between two steps: ``with model.at_rest() as learner``.

        Whoever learns or predicts waits meanwhile, so only read the learner within.

        Returns
        -------
        :
            What to enter, which gives the learner inside.

        >>> with Model("pa-unique").at_rest() as learner:
        ...     learner.name
        'pa-unique'

        """
        return Held(self._locks.step, lambda: self._inside.learner)

    def count_once(self, passes: int) -> None:
        """Count every event once, after all were learned several times over.

        Parameters
        ----------
        passes:
            How often each was learned.

        """
        holding(self._locks.step, self._inside.count_once, passes)

    @property
    def events(self) -> int:
        """How many events were learned."""
        return self._inside.events

    @property
    def tasks(self) -> list[Id]:
        """Names of the tasks, by number where none was forgotten."""
        return [task for task, _ in sorted(self._tasks.items(), key=lambda item: item[1])]

    @property
    def classes(self) -> tuple[Id, ...]:
        """The labels known so far, of two the negative one first; none for numbers."""
        return self._target.classes

    @property
    def target(self) -> str:
        """What is predicted: "two classes", "classes" or "number"."""
        return self._target.kind

    @property
    def positive(self) -> Id | None:
        """The label that a probability is of, and a margin above 0 speaks for; None if unknown."""
        return self._target.positive if isinstance(self._target, Labels) else None

    @property
    def turn(self) -> float:
        """-1 where the learner's +1 is the negative label, else +1; see ``romco.model.labels``."""
        return self._target.turn if isinstance(self._target, Labels) else 1.0

    def numbers(self, tasks: Iterable[Any]) -> NDArray[np.int64]:
        """The learner's number of each task.

        Parameters
        ----------
        tasks:
            Names of tasks.

        Returns
        -------
        :
            Numbers (n,), -1 where a task is not known.

        >>> Model(tasks=["ann"]).numbers(["ann", "bob"])
        array([ 0, -1])

        """
        return self._tasks.numbers(tasks)

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
        number = self._tasks.find(task)
        return int(self._inside.history.seen[number]) if number >= 0 else 0

    def personal_since(self, task: Any) -> int | None:
        """After how many events of all tasks this one was found to be personal, and stayed so.

        Looked at every 1000 events.

        Parameters
        ----------
        task:
            Its name.

        Returns
        -------
        :
            How many; None if the task is not personal.

        """
        number = self._tasks.find(task)
        since = int(self._inside.history.since[number]) if number >= 0 else -1
        return since if since >= 0 else None

    # For models that learn one stream together, as shards do

    @property
    def sides(self) -> Labels:
        """The two labels, where there are two; else ValueError."""
        if not isinstance(self._target, Labels):
            raise ValueError(f"expected a model of two classes; this one predicts {self.target}")
        return self._target

    @property
    def scale(self) -> Scale:
        """How margins become probabilities."""
        return self._scale

    def take_over(self, scale: Scale, events: int | None = None) -> None:
        """Go on with what was agreed among several models.

        Parameters
        ----------
        scale:
            How margins become probabilities.
        events:
            How many events were learned by all; None leaves the own count.

        """
        self._scale = scale
        if events is not None:
            self._inside.events = events

    def make_room(self, n_features: int) -> None:
        """Room for at least so many features, before they come.

        Parameters
        ----------
        n_features:
            How many.

        """
        self._inside.make_room(n_features, 0)

    # Predicting

    def margins(self, x: Any, task: Iterable[Any]) -> Dense:
        """What the learner says of rows; changes nothing that was learned.

        Parameters
        ----------
        x:
            Rows, as the model's features read them: mappings, an array, a CSR matrix or a frame.
        task:
            The task of each row.

        Returns
        -------
        :
            Margins (n,) of two classes, above 0 for the positive label; log-probabilities (n, K)
            of many classes; predicted numbers (n,).

        Raises
        ------
        ValueError
            Where a row cannot be read, or there are not as many tasks as rows.

        >>> model = Model("pa-unique")
        >>> _ = model.learn([{"a": 1}, {"b": 1}], ["yes", "no"], ["ann", "ann"])
        >>> model.margins([{"a": 1}, {"b": 1}], ["ann", "ann"])
        array([ 1., -1.])

        """
        return holding(self._locks.step, self._margins, x, task)

    def opinions(self, x: Any, task: Iterable[Any]) -> Dense | None:
        """What the learner says of rows, to be handed to :meth:`learn` if answers come late.

        With ids, :meth:`predict` and :meth:`answer` do so by themselves.

        Parameters
        ----------
        x:
            Rows, as the model's features read them: mappings, an array, a CSR matrix or a frame.
        task:
            The task of each row.

        Returns
        -------
        :
            Numbers (n, k), all finite; None where the learner learns no more by being told.

        Raises
        ------
        ValueError
            Where a row cannot be read, or there are not as many tasks as rows.

        >>> model = Model()
        >>> _ = model.learn([{"a": 1}, {"b": 1}], ["yes", "no"], ["ann", "ann"])
        >>> said = model.opinions([{"a": 1}], ["ann"])
        >>> said.shape
        (1, 11)
        >>> _ = model.learn([{"a": 1}], ["yes"], ["ann"], opinions=said)
        >>> model.predict_one({"a": 1}, "ann")
        'yes'

        """
        return holding(self._locks.step, self._opinions, x, task)

    def predict(
        self, x: Any, task: Iterable[Any], *, id: Iterable[Any] | None = None
    ) -> NDArray[Any]:
        """Labels, or numbers, of rows.

        Parameters
        ----------
        x:
            Rows, as the model's features read them: mappings, an array, a CSR matrix or a frame.
        task:
            The task of each row.
        id:
            An id for each row, by which the events wait until :meth:`answer` tells their labels.

        Returns
        -------
        :
            What is predicted (n,).

        Raises
        ------
        ValueError
            Where a row cannot be read, or lengths differ.

        >>> model = Model("pa-unique")
        >>> _ = model.learn([{"a": 1}, {"b": 1}], ["yes", "no"], ["ann", "ann"])
        >>> model.predict([{"a": 1}, {"b": 1}], ["ann", "bob"]).tolist()
        ['yes', 'no']

        """
        if id is None:
            return self._target.answers(self.margins(x, task))
        task = list(many(task))
        margins, said = holding(self._locks.step, self._margins_and_opinions, x, task)
        self.waiting.put_all(list(id), x, task, margins, said)
        return self._target.answers(margins)

    def ask(self, x: Any, task: Iterable[Any]) -> NDArray[np.bool_]:
        """Whose labels to ask for, as the policy ``labels`` decides.

        Parameters
        ----------
        x:
            Rows, as the model's features read them: mappings, an array, a CSR matrix or a frame.
        task:
            The task of each row.

        Returns
        -------
        :
            Whether to ask (n,).

        Raises
        ------
        ValueError
            Where the model has no policy.

        >>> import romco
        >>> model = Model(labels=romco.labels.Budget(1.0, seed=0))
        >>> model.ask([{"a": 1}], ["ann"])
        array([ True])

        """
        return ask(self.labels, self, x, task)

    def probabilities(self, x: Any, task: Iterable[Any]) -> Dense:
        """Probability of the positive label, see :class:`romco.model.Scale`; or of each class.

        Parameters
        ----------
        x:
            Rows, as the model's features read them: mappings, an array, a CSR matrix or a frame.
        task:
            The task of each row.

        Returns
        -------
        :
            Probabilities (n,); of many classes (n, K), in the order of :attr:`classes`, each row of
            sum one.

        Raises
        ------
        ValueError
            Where the target is a number.

        >>> model = Model("pa-unique")
        >>> _ = model.learn([{"a": 1}, {"b": 1}], ["yes", "no"], ["ann", "ann"])
        >>> model.probabilities([{"a": 1}], ["ann"]) > 0.5
        array([ True])

        """
        return self.probability_of(self.margins(x, task))

    def probability_of(self, margins: Dense) -> Dense:
        """The probabilities that margins of this model stand for.

        Parameters
        ----------
        margins:
            What :meth:`margins` gave.

        Returns
        -------
        :
            As :meth:`probabilities`.

        Raises
        ------
        ValueError
            Where the target is a number.

        """
        return probabilities(self._target, self._scale, margins)

    def intervals(self, x: Any, task: Iterable[Any], level: float = 0.9) -> Dense:
        """Bounds within which a share ``level`` of the numbers of such rows will be.

        Parameters
        ----------
        x:
            Rows, as the model's features read them: mappings, an array, a CSR matrix or a frame.
        task:
            The task of each row.
        level:
            Between 0 and 1.

        Returns
        -------
        :
            Lower and upper bounds (n, 2).

        Raises
        ------
        ValueError
            Where the learner predicts no numbers.

        >>> model = Model(target="number")
        >>> for k in range(20):
        ...     _ = model.learn_one({"rooms": k % 4}, 3.0 * (k % 4), task="Rome")
        >>> low, high = model.intervals([{"rooms": 2}], ["Rome"])[0]
        >>> bool(low < 6.0 < high)
        True

        """
        return holding(self._locks.step, self._intervals, x, task, level)

    def margin_one(self, x: Any, task: Any) -> float:
        """Margin of one event of two classes, or the number predicted.

        Parameters
        ----------
        x:
            The event's features; or what ``features.mappings()`` gave, which has read them.
        task:
            Its task.

        Returns
        -------
        :
            A number.

        """
        return holding(self._locks.step, self._margin_one, x, task)

    def answer_read(self, row: Mappings, task: Any) -> tuple[Any, float, float] | None:
        """Label, probability and margin of one event of two classes, at the least cost.

        Parameters
        ----------
        row:
            What ``features.mappings()`` gave, which has read the event's features.
        task:
            Its task.

        Returns
        -------
        :
            What :meth:`predict_one`, :meth:`probability_one` and :meth:`margin_one` give; None
            where these must be asked: the task is new, or the learner is not compiled.

        >>> model = Model("pa-unique", classes=("no", "yes"), tasks=["ann"])
        >>> row = model.features.mappings()
        >>> _ = row.read([{"a": 1}])
        >>> model.answer_read(row, "ann")
        ('yes', 0.5, 0.0)

        """
        target, singles = self._target, self._singles
        single = singles.single
        if single is None or singles.features is not self.features or type(target) is not Labels:
            return None
        known, scale = self._tasks.number, self._scale
        return single.answer(self._locks.step, known, self._inside, target, scale, row, task)

    def predict_one(self, x: Any, task: Any, *, id: Any = None) -> Any:
        """Label or number of one event.

        Parameters
        ----------
        x:
            The event's features.
        task:
            Its task.
        id:
            By which the event waits until :meth:`answer` tells its label.

        Returns
        -------
        :
            What is predicted; None before any label is known.

        >>> model = Model("pa-unique")
        >>> _ = model.learn([{"a": 1}, {"b": 1}], ["yes", "no"], ["ann", "ann"])
        >>> model.predict_one({"a": 1}, "somebody new")
        'yes'

        """
        if id is None and isinstance(self._target, Labels):
            return self.label_of(self.margin_one(x, task))
        if id is None:
            return self.label_of(self.margins([x], [task])[0])
        margins, said = holding(self._locks.step, self._margins_and_opinions, [x], [task])
        self.waiting.put_all([id], [x], [task], margins, said)
        return self.label_of(margins[0])

    def probability_one(self, x: Any, task: Any) -> float:
        """Probability of the positive label of one event.

        Parameters
        ----------
        x:
            The event's features.
        task:
            Its task.

        Returns
        -------
        :
            Between 0 and 1.

        Raises
        ------
        ValueError
            Where the target is a number.

        """
        if not isinstance(self._target, Labels):
            return float(self.probabilities([x], [task])[0])
        return self._scale.probability_of_one(self.margin_one(x, task))

    def probabilities_one(self, x: Any, task: Any) -> dict[Id, float]:
        """Probability of each label that is known.

        Parameters
        ----------
        x:
            The event's features.
        task:
            Its task.

        Returns
        -------
        :
            By label; they add up to 1.

        >>> model = Model("pa-unique")
        >>> _ = model.learn([{"a": 1}, {"b": 1}], ["yes", "no"], ["ann", "ann"])
        >>> sorted(model.probabilities_one({"a": 1}, "ann"))
        ['no', 'yes']

        """
        if isinstance(self._target, Labels):
            positive, classes = self.probability_one(x, task), self.classes
            chances = (1.0 - positive, positive) if len(classes) == 2 else (1.0,) * len(classes)
            return dict(zip(classes, chances, strict=True))
        found = self.probabilities([x], [task])[0]
        return dict(zip(self.classes, found.tolist(), strict=True))

    def label_of(self, margin: Any) -> Any:
        """What a margin predicts.

        Parameters
        ----------
        margin:
            A number; of many classes a row of log-probabilities.

        Returns
        -------
        :
            A label, or the number; None before labels are known.

        """
        return self._target.answer(margin)

    def answers(self, margins: Dense) -> NDArray[Any]:
        """What margins of n events predict.

        Parameters
        ----------
        margins:
            As :meth:`margins` gives them.

        Returns
        -------
        :
            Labels or numbers (n,).

        """
        return self._target.answers(margins)

    def side(self, label: Any) -> float:
        """The side of margin 0 on which a label is.

        Parameters
        ----------
        label:
            One of :attr:`classes`.

        Returns
        -------
        :
            -1 or +1.

        Raises
        ------
        ValueError
            Where the label is not known, or there are no two classes.

        >>> Model(classes=("ham", "spam")).side("spam")
        1.0

        """
        return self.sides.known_side(label)

    def number(self, label: Any) -> float:
        """An answer as a number.

        Parameters
        ----------
        label:
            A label, or a number.

        Returns
        -------
        :
            Its side, its place in :attr:`classes`, or the number itself.

        Raises
        ------
        ValueError
            Where the label is not known, or no number.

        """
        if isinstance(self._target, ManyClasses):
            return self._target.number(label)
        if isinstance(self._target, Labels):
            return self._target.known_side(label)
        return float(self._target.read([label])[0][0])

    # Learning

    def answer(self, id: Any, y: Any, weight: float = 1.0) -> Any:
        """Learn an event that was predicted with this id.

        Parameters
        ----------
        id:
            That :meth:`predict` or :meth:`predict_one` was given.
        y:
            Its label or number.
        weight:
            How much it counts.

        Returns
        -------
        :
            The margin that was predicted then.

        Raises
        ------
        KeyError
            Where no such event waits.
        ValueError
            Where it cannot be learned; it then waits on.

        >>> model = Model()
        >>> _ = model.learn([{"a": 1}, {"b": 1}] * 2, ["yes", "no"] * 2, ["ann"] * 4)
        >>> model.predict_one({"a": 1}, "ann", id="mail 7")
        'yes'
        >>> bool(model.answer("mail 7", "yes") > 0), model.events
        (True, 5)

        """
        with self.waiting.answering(id) as event:
            counts = None if weight == 1.0 else [weight]
            self.learn(event.x, [y], [event.task], weight=counts, opinions=event.said)
        return event.margin

    def learn_one(self, x: Any, y: Any, task: Any, weight: float = 1.0) -> Any:
        """Learn one event.

        Parameters
        ----------
        x:
            The event's features.
        y:
            Its label or number.
        task:
            Its task.
        weight:
            How much it counts.

        Returns
        -------
        :
            The margin (of many classes: all) predicted just before.

        Raises
        ------
        ValueError
            Where the event is bad; nothing changes then.

        >>> model = Model("pa-unique")
        >>> [model.learn_one({"a": 1}, "yes", task="ann") for _ in range(2)]
        [0.0, 1.0]

        """
        found = self.learn([x], [y], [task], weight=None if weight == 1.0 else [weight])[0]
        return found if isinstance(self._target, ManyClasses) else float(found)

    def learn(
        self,
        x: Any,
        y: Iterable[Any],
        task: Iterable[Any],
        *,
        together: bool = False,
        weight: Any = None,
        opinions: Any = None,
    ) -> Dense:
        """Learn rows one after the other, exactly as a loop of ``learn_one`` would.

        Parameters
        ----------
        x:
            Rows, as the model's features read them: mappings, an array, a CSR matrix or a frame.
        y:
            The label, or number, of each row.
        task:
            The task of each row.
        together:
            Whether they are one round instead: all are predicted, then all are learned in one step.
        weight:
            How much each row counts: h as h events; one of weight 0 is only predicted.
        opinions:
            Where answers come late, what :meth:`opinions` gave for each row when it was predicted,
            None for a row of which that was not kept.

        Returns
        -------
        :
            The margins predicted just before, as :meth:`margins`.

        Raises
        ------
        ValueError
            Where any row is bad; nothing changes then.

        Where learning is broken off, by Ctrl-C or by numbers that grew too large, a part of the
        rows is learned, each wholly: ``events`` counts them, and a note of the exception tells.

        >>> model = Model("pa-unique")
        >>> model.learn([{"a": 1}, {"a": 1}], ["yes", "yes"], ["ann", "ann"])
        array([0., 1.])

        """
        return self._predict_and_learn(x, y, task, together, weight, False, opinions).margins

    def predict_and_learn(
        self,
        x: Any,
        y: Iterable[Any],
        task: Iterable[Any],
        *,
        together: bool = False,
        weight: Any = None,
        opinions: Any = None,
    ) -> Answers:
        """:meth:`learn`, giving also the probabilities that were predicted just before.

        Parameters
        ----------
        x, y, task, together, weight, opinions:
            As for :meth:`learn`.

        Returns
        -------
        :
            Margins and probabilities; of numbers there are none (NaN).

        Raises
        ------
        ValueError
            Where any row is bad; nothing changes then.

        >>> Model("pa-unique").predict_and_learn([{"a": 1}, {"a": 1}], [1, 0], ["ann", "ann"])
        Answers(margins=array([0., 1.]), probabilities=array([0.5       , 0.73105858]))

        """
        return self._predict_and_learn(x, y, task, together, weight, True, opinions)

    def notice(self, x: Any, task: Iterable[Any]) -> None:
        """Learn from rows without labels what needs none: new features, new tasks, their sizes.

        For rows whose labels will not come; those that will come are noticed when they are learned.

        Parameters
        ----------
        x:
            n rows, in a form that :attr:`features` reads.
        task:
            n tasks.

        Raises
        ------
        ValueError
            If a row is bad; nothing has changed then.

        >>> model = Model()
        >>> model.notice([{"length": 300.0}], ["ann"])
        >>> model.tasks, model.features.width, model.events
        (['ann'], 1, 0)

        """
        holding(self._locks.writing, self._notice, x, task)

    def widen_for(self, labels: Iterable[Any]) -> None:
        """Become a model of many classes if there are more than two, with what was learned so far.

        Two classes are learned alike by both, so nothing else changes; margins are then
        log-probabilities of the classes.

        Parameters
        ----------
        labels:
            That are to come.

        >>> model = Model()
        >>> for label in ("bus", "car", "train"):
        ...     model.widen_for([label])
        ...     _ = model.learn_one({"minutes": 7}, label, "ann")
        >>> model.target, model.classes
        ('classes', ('bus', 'car', 'train'))

        """
        if not isinstance(self._target, Labels):
            return
        names = {known_as(identity("label", label)) for label in [*self.classes, *labels]}
        if len(names) > 2:
            holding(self._locks.writing, holding, self._locks.step, surely, self._widen)

    def check(self, x: Any, y: Iterable[Any], task: Iterable[Any]) -> None:
        """See whether rows could be learned; changes nothing.

        Parameters
        ----------
        x, y, task:
            As for :meth:`learn`.

        Raises
        ------
        ValueError
            Where they could not.

        """
        holding(self._locks.writing, self._read, x, y, task, False, None)

    def forget(self, task: Any) -> None:
        """Forget a task: its name, its weights, its history. Others stay as they are.

        Parameters
        ----------
        task:
            Its name.

        Raises
        ------
        KeyError
            Where it is not known.

        >>> model = Model("pa-unique")
        >>> _ = model.learn([{"a": 1}, {"b": 1}], ["yes", "no"], ["ann", "ann"])
        >>> model.forget("ann")
        >>> model.tasks
        []

        """
        if self._tasks.find(task) < 0:
            raise KeyError(f"no task {task!r} is known")
        holding(self._locks.writing, holding, self._locks.step, surely, self._forget, task)

    # State

    def state(self) -> dict[str, Any]:
        """A copy of everything.

        Returns
        -------
        :
            JSON-able values, and NumPy arrays under ``"arrays"``.

        """
        return holding(self._locks.step, self._state)

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The model that gave a state.

        Parameters
        ----------
        state:
            What :meth:`state` gave.

        Returns
        -------
        :
            A model that goes on as if it had never stopped.

        Raises
        ------
        ValueError
            Where the state does not hold together.

        >>> Model.from_state(Model("pa-unique").state()).learner.name
        'pa-unique'

        """
        made = cls.__new__(cls)
        made.features = features_from_json(state["features"])
        made.new_task = choice("new_task", state["new_task"], "mean", "zero")
        made.notes, made.session = memories(state)
        asking = state.get("asking")
        made.labels = None if asking is None else restore_policy(asking)
        made.waiting = Waiting(10_000)
        made._tasks = Tasks.from_json(state["tasks"])
        made._target = target_from_json(state["labels"])
        made._scale = Scale.from_json(state["scale"])
        made._inside = GrowingLearner.from_state(state, made.new_task == "mean")
        made._singles = Singles(made.features)
        made._locks = Locks()
        check_size(made.learner, len(state["tasks"]), made.features)
        return made

    def __reduce__(self) -> Any:
        return Model.from_state, (self.state(),)

    # Within

    def _margins(self, x: Any, task: Iterable[Any]) -> Dense:
        rows = self.features.read(x)
        numbers = self._tasks.numbers(many(task))
        check_lengths(rows, task=numbers)
        margins, turn = self._inside.margins(rows, numbers, self._tasks.next), self.turn
        return margins if turn == 1.0 else turn * margins

    def _margins_and_opinions(self, x: Any, task: Sequence[Any]) -> tuple[Dense, Dense | None]:
        return self._margins(x, task), self._opinions(x, task)

    def _opinions(self, x: Any, task: Iterable[Any]) -> Dense | None:
        rows = self.features.read(x)
        numbers = self._tasks.numbers(many(task))
        check_lengths(rows, task=numbers)
        return self._inside.opinions(rows, numbers, self._tasks.next)

    def _margin_one(self, x: Any, task: Any) -> float:
        """Of an event of a task that is known, without the arrays of a round where that can be."""
        try:
            number = self._tasks.find(task)
        except TypeError:  # no name: told in the words of the long way
            number = -1
        if number >= 0 and self._singles.features is self.features:
            margin = self._singles.margin(self._inside.learner, x, number)
            if margin is not None:
                return self.turn * margin
        rows = Sparse(*x.arrays()) if isinstance(x, Mappings) else [x]
        return float(self._margins(rows, [task])[0])

    def _intervals(self, x: Any, task: Iterable[Any], level: float) -> Dense:
        rows = self.features.read(x)
        numbers = self._tasks.numbers(many(task))
        check_lengths(rows, task=numbers)
        return self._inside.intervals(rows, numbers, self._tasks.next, level)

    def _predict_and_learn(
        self,
        x: Any,
        y: Iterable[Any],
        task: Iterable[Any],
        together: bool,
        weight: Any,
        sure: bool,
        opinions: Any = None,
    ) -> Answers:
        """Answers to rows that are learned then; their probabilities only if ``sure``."""
        if weight is not None:
            weight = weights_of(weight, self.learner)
            if not weight.all():
                counted = x, list(y), list(many(task)), weight, together, opinions
                return Answers(*counting(self, *counted))
        given = x, y, task, together, weight, sure, opinions
        return holding(self._locks.writing, self._learn, *given)

    def _learn(
        self,
        x: Any,
        y: Iterable[Any],
        task: Iterable[Any],
        together: bool,
        weight: Dense | None,
        sure: bool,
        opinions: Any,
    ) -> Answers:
        batch, before, turn = self._read(x, y, task, together, weight), self.events, self.turn
        batch = batch._replace(said=said_of(opinions, len(batch.ids)))
        n, scale = len(batch.ids), self._scale if isinstance(self._target, Labels) else None
        margins, scales, end = room(self._target, n, batch.n_classes), np.zeros(n), 0
        try:
            while end < n:
                given = (self._inside, self._tasks, scale, scales, batch, end)
                begin, (end, found) = end, holding(self._locks.step, pieces.learn, *given)
                if end - begin == n and found.shape == margins.shape:
                    margins = found
                else:
                    margins[(slice(begin, end), *map(slice, found.shape[1:]))] = found
        except BaseException as error:
            if self.events > before:
                error.add_note(f"{self.events - before} of {n} rows were learned")
            raise
        margins = seen(self._target, margins, batch.y, turn)
        return Answers(margins, chances(self._target, margins, scales) if sure else NONE)

    def _notice(self, x: Any, task: Iterable[Any]) -> None:
        take_over = noticing(self.features, self._tasks, self._inside, x, task)
        holding(self._locks.step, surely, take_over)

    def _read(
        self, x: Any, y: Iterable[Any], task: Iterable[Any], together: bool, weight: Dense | None
    ) -> pieces.Batch:
        """Rows, checked; changes nothing."""
        return read_batch(self.features, self._target, self._inside, x, y, task, together, weight)

    def _widen(self) -> None:
        """May be done twice: the target goes last."""
        if isinstance(self._target, Labels):
            if not self._inside.many:
                self._inside.widen([self._scale.log_a, self._scale.curvature])
            self._target = widened(self._target)

    def _forget(self, task: Any) -> None:
        """May be done twice: the name goes last."""
        number = self._tasks.find(task)
        if number >= 0:
            self._inside.forget(number)
            self._tasks.remove(task)

    def _state(self) -> dict[str, Any]:
        return {
            **self._inside.state(),
            "features": self.features.to_json(),
            "tasks": self._tasks.to_json(),
            "labels": self._target.to_json(),
            "new_task": self.new_task,
            "scale": [self._scale.log_a, self._scale.curvature],
            "notes": self.notes,
            "session": self.session,
            **({} if self.labels is None else {"asking": self.labels.state()}),
        }
