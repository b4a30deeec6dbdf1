"""The model: names in, labels out; one writer, any number of readers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal, Self, final

import numpy as np
from numpy.typing import NDArray

from romco.kernels.history import surely
from romco.learners import Learner, learner
from romco.model import pieces
from romco.model.calibration import Scale
from romco.model.fairlock import Locks, holding
from romco.model.features import Features, Names, features_from_json
from romco.model.growing import GrowingLearner, doubled
from romco.model.labels import Labels
from romco.model.names import Effect, Id, identity
from romco.model.rows import Dense, Rows, count, widths
from romco.model.tasks import Tasks
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
    classes:
        The two labels, the negative one first; else they are taken as they come.
    tasks:
        Tasks known from the beginning; they start at zero.

    """

    def __init__(
        self,
        learner_name: str = "romco-auto",
        features: Features | None = None,
        *,
        classes: Sequence[Any] | None = None,
        tasks: Iterable[Any] = (),
        new_task: Literal["mean", "zero"] = "mean",
        **parameters: Any,
    ) -> None:
        self.features: Features = Names() if features is None else features
        self.new_task = choice("new_task", new_task, "mean", "zero")
        self.notes: dict[str, Any] = {}  # yours: anything JSON can hold, kept in the file
        self._labels, self._tasks, self._scale = Labels(classes), Tasks(), Scale()
        for task in dict.fromkeys(tasks):
            self._tasks.add(identity("task", task))
        d = self._fixed_width or doubled(64, self.features.width)
        inner = learner(learner_name, d, len(self._tasks) or 8, **parameters)
        self._inside = GrowingLearner(inner, new_task == "mean")
        self._locks = Locks()

    # What is known

    @property
    def learner(self) -> Learner:
        """The learner inside, to which tasks and features are numbers.

        It is replaced when it grows. While another thread learns, look at it by :meth:`at_rest`.
        """
        return self._inside.learner

    @contextmanager
    def at_rest(self) -> Iterator[Learner]:
        """The learner between two steps: ``with model.at_rest() as learner``.

        Whoever learns or predicts waits meanwhile, so only read the learner within.
        """
        with self._locks.step:
            yield self._inside.learner

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
        """The labels known so far, the negative one first."""
        return self._labels.classes

    def numbers(self, tasks: Iterable[Any]) -> NDArray[np.int64]:
        """The learner's number of each task, -1 where it is not known."""
        return self._tasks.numbers(tasks)

    def events_of(self, task: Any) -> int:
        """How many events of a task were learned."""
        number = self._tasks.number.get(task, -1)
        return int(self._inside.history.seen[number]) if number >= 0 else 0

    def personal_since(self, task: Any) -> int | None:
        """After how many events of all tasks this one was found to be personal, and stayed so.

        Looked at every 1000 events; None if the task is not personal.
        """
        number = self._tasks.number.get(task, -1)
        since = int(self._inside.history.since[number]) if number >= 0 else -1
        return since if since >= 0 else None

    # Predicting

    def margins(self, x: Any, task: Iterable[Any]) -> Dense:
        """Margins (n,) of rows ``x``; changes nothing that was learned."""
        return holding(self._locks.step, self._margins, x, task)

    def predict(self, x: Any, task: Iterable[Any]) -> NDArray[Any]:
        """Labels (n,) of rows ``x``."""
        return self._labels.answers(self.margins(x, task))

    def probabilities(self, x: Any, task: Iterable[Any]) -> Dense:
        """Probability (n,) of the positive label, see :class:`romco.model.Scale`."""
        return self.probability_of(self.margins(x, task))

    def probability_of(self, margins: Dense) -> Dense:
        """Probability (n,) of the positive label, from margins of this model."""
        return self._scale.probability(margins)

    def margin_one(self, x: Any, task: Any) -> float:
        """Margin of one event."""
        return float(self.margins([x], [task])[0])

    def predict_one(self, x: Any, task: Any) -> Id:
        """Label of one event; None before any label is known."""
        return self.answer(self.margin_one(x, task))

    def probability_one(self, x: Any, task: Any) -> float:
        """Probability of the positive label of one event."""
        return float(self.probabilities([x], [task])[0])

    def answer(self, margin: float) -> Id:
        """The label that a margin predicts; None before any label is known."""
        return self._labels.answer(margin)

    def side(self, label: Any) -> float:
        """-1 or +1: the side of margin 0 on which a label is."""
        return self._labels.known_side(label)

    # Learning

    def learn_one(self, x: Any, y: Any, task: Any) -> float:
        """Learn one event; gives the margin that was predicted just before."""
        return float(self.learn([x], [y], [task])[0])

    def learn(
        self, x: Any, y: Iterable[Any], task: Iterable[Any], *, together: bool = False
    ) -> Dense:
        """Learn rows one after the other, exactly as a loop of ``learn_one`` would.

        With ``together`` they are one round instead: all are predicted, then all are
        learned in one step. Gives the margins (n,) predicted just before.
        Nothing changes if any row is bad. Where learning is broken off, by Ctrl-C or by numbers
        that grew too large, a part of the rows is learned, each of them wholly;
        ``events`` counts them, and a note of the exception tells.
        """
        return holding(self._locks.writing, self._learn, x, y, task, together)

    def forget(self, task: Any) -> None:
        """Forget a task: its name, its weights, its history. Others stay as they are."""
        if task not in self._tasks.number:
            raise KeyError(f"no task {task!r} is known")
        holding(self._locks.writing, holding, self._locks.step, surely, self._forget, task)

    # State

    def state(self) -> dict[str, Any]:
        """A copy of everything: JSON-able values, and NumPy arrays under ``"arrays"``."""
        return holding(self._locks.step, self._state)

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The model that gave ``state``; raises ValueError if it does not hold together."""
        made = cls.__new__(cls)
        made.features = features_from_json(state["features"])
        made.new_task = choice("new_task", state["new_task"], "mean", "zero")
        made.notes = dict(state["notes"])
        made._tasks = Tasks.from_json(state["tasks"])
        made._labels = Labels.from_json(state["labels"])
        log_a, curvature = map(float, state["scale"])
        made._scale = Scale(log_a, curvature)
        made._inside = GrowingLearner.from_state(state, made.new_task == "mean")
        made._locks = Locks()
        made._check()
        return made

    def __reduce__(self) -> Any:
        return Model.from_state, (self.state(),)

    # Within

    def _margins(self, x: Any, task: Iterable[Any]) -> Dense:
        rows = self.features.read(x)
        numbers = self._tasks.numbers(_many(task))
        _check_lengths(rows, task=numbers)
        return self._inside.margins(rows, numbers, self._tasks.next)

    def _learn(self, x: Any, y: Iterable[Any], task: Iterable[Any], together: bool) -> Dense:
        batch = self._read(x, y, task, together)
        margins, before = np.empty(len(batch.ids)), self.events
        given = (self._inside, self._tasks, self._scale, batch)
        begin = 0
        try:
            while begin < len(margins):
                begin += holding(self._locks.step, pieces.learn, *given, begin, margins)
        except BaseException as error:
            if self.events > before:
                error.add_note(f"{self.events - before} of {len(margins)} rows were learned")
            raise
        return margins

    def _read(self, x: Any, y: Iterable[Any], task: Iterable[Any], together: bool) -> pieces.Batch:
        """Rows, checked; changes nothing."""
        signs, sides = self._labels.read(y)
        ids = [identity("task", one) for one in _many(task)]
        new: dict[Id, int] = {}
        rows = self.features.read(x, new)
        _check_lengths(rows, task=ids, y=signs)
        if not new and sides is self._labels.side:
            return pieces.Batch(
                rows, ids, signs, np.zeros(len(ids), dtype=np.int64), together, None
            )
        names, needed = [identity("feature", name) for name in new], widths(rows)
        effects = partial(self._naming, names, self.features.width, sides, needed)
        return pieces.Batch(rows, ids, signs, needed, together, effects)

    def _naming(
        self,
        names: list[Id],
        width: int,
        sides: dict[Id, float],
        needed: NDArray[np.int64],
        end: int,
    ) -> list[Effect]:
        """What takes over the names of features in the rows up to ``end``, and of labels.

        ``names`` are new, and stand in the columns from ``width`` on.
        """
        effects: list[Effect] = [(partial(setattr, self._labels, "side"), sides)]
        if names:
            known, top = self.features.width, int(needed[end - 1])
            met = zip(names[known - width : top - width], range(known, top), strict=True)
            effects += self.features.adding(dict(met)) if top > known else []
        return effects

    def _forget(self, task: Any) -> None:
        """May be done twice: the name goes last."""
        if task in self._tasks.number:
            self._inside.forget(self._tasks.number[task])
            self._tasks.remove(task)

    def _state(self) -> dict[str, Any]:
        return {
            **self._inside.state(),
            "features": self.features.to_json(),
            "tasks": self._tasks.to_json(),
            "labels": self._labels.to_json(),
            "new_task": self.new_task,
            "scale": [self._scale.log_a, self._scale.curvature],
            "notes": self.notes,
        }

    def _check(self) -> None:
        n, d = self.learner.n_tasks, self.learner.n_features
        width = self._fixed_width
        if (
            len(self._tasks.to_json()) > n
            or (width or self.features.width) > d
            or (width or d) != d
        ):
            raise ValueError("the tasks or features named do not fit the learner's size")

    @property
    def _fixed_width(self) -> int | None:
        return None if isinstance(self.features, Names) else self.features.width


def _many(tasks: Iterable[Any]) -> Iterable[Any]:
    if isinstance(tasks, str | bytes):
        raise ValueError(f"expected a task for each row, got the text {tasks!r}: put it in a list")
    return tasks


def _check_lengths(rows: Rows, **others: Any) -> None:
    n = count(rows)
    for name, values in others.items():
        if len(values) != n:
            raise ValueError(f"x has {n} rows but {name} has {len(values)} entries")
