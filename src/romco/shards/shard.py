"""One shard: a model of its own tasks, and what it must tell the others at a barrier."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import numpy as np

from romco.io.modelfile import ModelFileError, load, save
from romco.kernels.merge.touched import Touched
from romco.learners import restore
from romco.learners.capabilities import Drawn, Draws
from romco.learners.merging import Change, Merged, Period, change, mergeable, take
from romco.model import Model, Scale
from romco.model.features import Dense, Rows
from romco.model.names import Id
from romco.model.target import Predictions, TwoClasses
from romco.shards.dealing import Numbers as Places
from romco.shards.dealing import features_of_pairs
from romco.shards.packing import unpack
from romco.shards.partitions import Files, Partition, Position
from romco.shards.rows import Ready, pick, touch
from romco.shards.scales import Numbers, numbers

PIECE = 2000  # rows read before they are learned
SIDES = (-1.0, 1.0)  # what labels are to a shard
Start = dict[str, Any] | Path | None  # of a shard: its state, the file that holds it, or nothing


@final
@dataclass(frozen=True)
class Recipe:
    """How a shard is made."""

    learner: str
    width: int  # features there is room for at first
    shards: int  # how many there are
    new_task: Any = "mean"
    parameters: dict[str, Any] = field(default_factory=dict)


@final
@dataclass(frozen=True)
class News:
    """What a shard tells at a barrier."""

    change: Change
    scale: Numbers
    width: int  # features there is room for


@final
@dataclass(frozen=True)
class Agreement:
    """What all shards hold from a barrier on."""

    merged: Merged
    scale: Numbers
    events: int  # learned so far, by all
    width: int  # features there is room for, in all


@final
@dataclass(frozen=True)
class Report:
    """What a shard read and learned by itself."""

    rows: int  # of all tasks
    learned: int  # events of its own
    wrong: int  # of them: predicted wrongly before
    skipped: int  # bad rows of its own
    position: Position
    ended: bool  # there is no more to read


@final
class Shard:
    """A model that learns tasks of its own; tasks have names, features and labels are numbers.

    All it does is a function of the calls it got, so that another one to which the same calls
    are made is the same to the last bit.
    """

    def __init__(self, recipe: Recipe, start: Start = None) -> None:
        self.recipe = recipe
        if start is None:
            self.model = Model(
                recipe.learner,
                Ready(recipe.width),
                classes=SIDES,
                new_task=recipe.new_task,
                **recipe.parameters,
            )
        else:
            self.model = loaded(start, recipe) if isinstance(start, Path) else _model(start)
            ready = Ready(self.model.engine.learner.n_features)
            self.model.features = self.model.engine.features = ready
        self._touched = Touched(self.model.engine.learner.n_features)
        known = features_of_pairs(mergeable(self.model.engine.learner))
        self._touched.know(np.flatnonzero(known))
        self._events = 0  # since the last barrier
        self._partition: Partition | None = None
        if recipe.shards > 1 and isinstance(self.model.engine.learner, Draws):
            self.model.engine.learner.leave_drawing()

    # Learning and predicting

    def learn(
        self, rows: Rows, y: Dense, tasks: list[Id], weight: Dense | None = None
    ) -> Predictions:
        """Learn rows of own tasks; gives what was predicted before."""
        answers = self.model.engine.predict_and_learn(rows, y, tasks, weight=weight)
        self._fit()
        if self.recipe.shards > 1:
            touch(self._touched, rows)
        self._events += len(tasks)
        return answers

    def learn_own(
        self,
        own: Places,
        rows: Rows,
        y: Dense,
        tasks: list[Id],
        weight: Dense | None = None,
    ) -> Predictions:
        """Learn those rows, of all shards' ones, whose places are given: they are taken here.

        Where all shards are in one process each takes its own, at the same time as the others.
        """
        return self.learn(
            pick(rows, own),
            y[own],
            list(map(tasks.__getitem__, own.tolist())),
            None if weight is None else weight[own],
        )

    def answers(self, rows: Rows, tasks: list[Id]) -> Predictions:
        """What is predicted for rows."""
        margins = self.model.margins(rows, tasks)
        return Predictions(margins, self.model.engine.probability_of(margins))

    def forget(self, task: Id) -> None:
        """Forget a task."""
        self.model.forget(task)

    # Reading by itself

    def open(self, files: Files, k: int, position: Position) -> None:
        """Be the k-th of the shards that read some files, from a position on."""
        self.close()
        self._partition = Partition(files, self.recipe.shards, k, position)

    def read(self, rows: int) -> Report:
        """Learn the events of own tasks among so many next rows."""
        part, done, learned, wrong = self._partition, 0, 0, 0
        assert part is not None
        skipped = part.skipped
        while done < rows and not part.ended:
            events, passed = part.read(min(rows - done, PIECE))
            done += passed
            for x, y, tasks in events:
                margins = self.learn(x, y, tasks).margins
                learned += len(tasks)
                wrong += int(np.count_nonzero((margins >= 0.0) != (y > 0.0)))
        return Report(done, learned, wrong, part.skipped - skipped, part.position, part.ended)

    def close(self) -> None:
        """Close the file that is being read."""
        if self._partition is not None:
            self._partition.close()

    # Barriers

    def news(self) -> News:
        """What this shard changed since the last barrier."""
        with self.model.engine.at_rest() as learner:
            found = change(mergeable(learner), self._touched, self._events)
            return News(found, self.scale, learner.n_features)

    def agree(self, agreed: Agreement) -> None:
        """Take over what was made of all shards' news."""
        self.widen(agreed.width)
        with self.model.engine.at_rest() as learner:
            take(mergeable(learner), agreed.merged)
        self.settle(agreed.scale, agreed.events)

    def period(self) -> Period:
        """What happened since the last barrier."""
        return Period(self._events, *self._touched.rows())

    @property
    def scale(self) -> Numbers:
        """How margins become probabilities."""
        return numbers(self.model.engine.scale)

    def settle(self, scale: Numbers, events: int) -> None:
        """What is shared was merged, by whoever did it: a new period begins."""
        self.model.engine.adopt(Scale(*scale), events)
        self._touched.clear()
        self._events = 0

    def widen(self, width: int) -> None:
        """Room for at least so many features."""
        self.model.engine.make_room(width)
        self._fit()

    def _fit(self) -> None:
        """The features are as many as the learner has room for."""
        width = self.model.engine.learner.n_features
        self.model.features.add({"columns": width})
        self._touched.grow(width)

    def gathered(self) -> Drawn:
        """What a drawing needs to know of the own tasks."""
        return self._drawing().gathered(self._touched.all())

    def take_drawn(self, drawn: Drawn) -> None:
        """Take over what was drawn."""
        self._drawing().take_drawn(drawn)

    def _drawing(self) -> Draws:
        learner = self.model.engine.learner
        assert isinstance(learner, Draws)
        return learner

    # State

    def state(self) -> dict[str, Any]:
        """The model's state."""
        return self.model.state()

    def save(self, path: Path) -> None:
        """Write the model to a file."""
        save(self.model, path)

    def resume(self, news: News) -> None:
        """Hold again, in the middle of a period, what was changed in it."""
        with self.model.engine.at_rest() as learner:
            take(mergeable(learner), Merged(news.change.rows, news.change.values))
            restore(learner.state())  # raises where the numbers of a file are not a learner's
        self.model.engine.adopt(Scale(*news.scale))
        self._touched.load(news.change.rows, news.change.seen)
        self._events = news.change.events

    def tasks(self) -> list[Id]:
        """Names of the own tasks."""
        return self.model.tasks

    def events_of(self, task: Id) -> int:
        """How many events of a task were learned."""
        return self.model.engine.events_of(task)

    def personal_since(self, task: Id) -> int | None:
        """See ``Model``."""
        return self.model.engine.personal_since(task)


def loaded(path: Path, recipe: Recipe) -> Model:
    """The model of a shard's file, if it is one of these shards."""
    found = load(path)
    if not isinstance(found, Model):
        raise ModelFileError(f"{path.name} cannot be used: it holds no model")
    told = (
        found.engine.learner.name,
        found.engine.learner.n_features,
        dict(found.engine.learner.parameters),
    )
    if told != (recipe.learner, recipe.width, recipe.parameters):
        raise ModelFileError(f"{path.name} cannot be used: it is not of the same shards as others")
    return found


def _model(state: dict[str, Any]) -> Model:
    """The model of a state whose names of features and labels are not a shard's business."""
    state = unpack(state)
    columns = {"kind": "columns", "width": state["learner"]["n_features"], "names": None}
    sides = TwoClasses(SIDES).to_json()
    return Model.from_state({**state, "features": columns, "labels": sides, "notes": {}})
