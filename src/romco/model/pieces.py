"""A batch in pieces, each of which is learned, counted and named in one step or not at all."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from romco.kernels.core.events import Events
from romco.kernels.core.history import PieceStep, Scale
from romco.learners import Learner
from romco.learners.base import CompiledLearner, check_weights
from romco.learners.capabilities import LearnsLate, Proposes, Started, StartsAtOnce
from romco.learners.states import unstart
from romco.model.growing import WATCH, Body, GrowingLearner
from romco.model.names import Effect, Id
from romco.model.rows import Dense, Rows, as_round, cut
from romco.model.tasks import Tasks
from romco.rounds import Round

PIECE = 250  # events learned before waiting readers get a turn
ONE = np.array([0, 1], dtype=np.int64)


class Batch(NamedTuple):
    """Rows that were read and checked, to be learned one by one or ``together``."""

    rows: Rows
    ids: list[Id]  # task of each row
    y: Dense
    weight: Dense | None
    needed: NDArray[np.int64]  # columns that the rows up to each one need
    n_classes: int  # labels known once all rows are learned
    together: bool
    effects: Callable[[int], list[Effect]] | None  # names, once so many rows are learned
    said: Dense | None = None  # of the rows, when they were predicted; NaN where nothing was


class Piece(NamedTuple):
    """Rows begin to end of a batch, for which ``body`` has room."""

    begin: int
    end: int
    body: Body
    fresh: dict[Id, int]  # numbers for the tasks that are new
    start: int  # how many of them need a start


def plan(inside: GrowingLearner, tasks: Tasks, batch: Batch, begin: int) -> Piece:
    """The longest piece from row ``begin`` on; changes nothing.

    It ends before a row that needs more room, or a task that must be started.
    """
    ids, needed, known = batch.ids, batch.needed, tasks.number
    single = len(ids) == 1 and ids[0] in known and not inside.many
    if single and needed[0] <= inside.body.learner.n_features:  # short: it is most of small calls
        return Piece(0, 1, inside.body, {}, 0)
    last = len(ids) if batch.together else begin + 1
    fresh = {} if ids[begin] in known and last == begin + 1 else tasks.offered(ids[begin:last])
    classes = int(batch.y[begin:last].max()) + 1 if inside.many else 0
    room = max(fresh.values(), default=-1) + 1
    body = inside.body.grown(int(needed[last - 1]), room, classes)
    if batch.together:
        return Piece(0, last, body, fresh, len(set(fresh.values())) if inside.starts else 0)
    if compiled(body.learner):
        last = min(len(ids), begin + PIECE - inside.events % PIECE)
    last = _fitting(batch, body.learner, begin, last)
    end = _first_unknown(known, ids, begin + 1, last)
    if end < last:  # tasks that are known by another form, or need no start, may join
        offered = {} if inside.starts else tasks.offered(ids[begin:last])
        joining = {task: at for task, at in offered.items() if at < body.learner.n_tasks} or fresh
        while end < last and (ids[end] in joining or tasks.find(ids[end]) >= 0):
            end += 1
        fresh = {task: joining[task] for task in ids[begin:end] if task in joining}
    return Piece(begin, end, body, fresh, min(len(fresh), 1) if inside.starts else 0)


def _first_unknown(known: dict[Id, int], ids: list[Id], begin: int, end: int) -> int:
    """The first place from ``begin`` on whose task has no number; ``end`` if all have one."""
    if all(map(known.__contains__, ids[begin:end])):
        return max(begin, end)
    return next(at for at in range(begin, end) if ids[at] not in known)


def _fitting(batch: Batch, learner: Learner, begin: int, last: int) -> int:
    """The end of the rows from ``begin`` on that need neither more columns nor more classes."""
    needed = batch.needed[begin:last]  # never falls
    end = begin + int(np.searchsorted(needed, learner.n_features, side="right"))
    if learner.answers > 1:
        beyond = np.flatnonzero(batch.y[begin:end] >= learner.answers)
        end = begin + int(beyond[0]) if len(beyond) else end
    return max(end, begin + 1)


def learn(
    inside: GrowingLearner,
    tasks: Tasks,
    scale: Scale | None,
    scales: Dense,
    batch: Batch,
    begin: int,
) -> tuple[int, Dense]:
    """Learn the piece from row ``begin`` on; gives its end and its margins.

    ``scales`` (n,) is filled with log a before each row, where there is a scale. Where it
    raises, the model is as before, or as after the whole piece; or, where the learner itself
    failed, as after the rows before the one that it failed at.
    """
    piece = plan(inside, tasks, batch, begin)
    (learner, history), end = piece.body, piece.end
    ids = batch.ids[begin:end]
    numbers = tasks.numbers(ids)
    for at in np.flatnonzero(numbers < 0) if piece.fresh else ():
        numbers[at] = piece.fresh[ids[at]]
    weight = None if batch.weight is None else batch.weight[begin:end]
    rows = cut(batch.rows, begin, end)
    round = as_round(learner, rows, numbers, batch.y[begin:end], weight)
    check_weights(learner, round)
    events = Events(round, learner.n_features, learner.n_tasks, True, learner.answers)
    if batch.said is not None and isinstance(learner, LearnsLate):
        learner.recall(events, batch.said[begin:end])
    named = piece.fresh or piece.body is not inside.body or batch.effects is not None
    settle = partial(_settle, inside, tasks, batch, piece) if named else None
    begin_with, undo = _beginning(piece)
    if not compiled(learner) and not isinstance(learner, Proposes):
        undo = partial(learner.load, {name: a.copy() for name, a in learner.arrays().items()})
    given = (events, _starts(batch, len(ids)), settle, begin_with, undo, inside.watch, WATCH)
    step = PieceStep(history, scale, scales[begin:end], *given)
    if compiled(learner):
        return end, step.compiled(learner.kernel)  # type: ignore[attr-defined]
    return end, step.plain(partial(_attempt, learner, round))


def compiled(learner: Learner) -> bool:
    """Whether a kernel learns whole pieces."""
    return type(learner).replay is CompiledLearner.replay


def _starts(batch: Batch, n: int) -> NDArray[np.int64]:
    return ONE if n == 1 else np.array([0, n]) if batch.together else np.arange(n + 1)


def _attempt(learner: Learner, round: Round) -> tuple[Dense, Callable[[], object] | None]:
    margins = learner.predict(round)
    if isinstance(learner, Proposes):
        return margins, learner.proposed(round)
    learner.update(round)
    return margins, None


def _settle(
    inside: GrowingLearner, tasks: Tasks, batch: Batch, piece: Piece, n: int
) -> list[Effect]:
    """What follows from having learned the first n rows of a piece: names, and the larger body."""
    begin, end = piece.begin, piece.begin + n
    met = {task: piece.fresh[task] for task in batch.ids[begin:end] if task in piece.fresh}
    effects = tasks.adding(met)
    if piece.body is not inside.body:
        effects.append((partial(setattr, inside, "body"), piece.body))
    return effects + (batch.effects(end) if batch.effects is not None else [])


def _beginning(piece: Piece) -> tuple[list[Callable[[], object]], Callable[[], None] | None]:
    """What starts the piece's new tasks, and what takes that back."""
    learner, history = piece.body
    if not piece.start or not history.n_started:
        return [], None
    started = Started(history.started, history.n_started)
    numbers = list(dict.fromkeys(piece.fresh.values()))[: piece.start]
    return [_starting(learner, at, started) for at in numbers], partial(_clear, learner, numbers)


def _starting(learner: Any, task: int, started: Started) -> Callable[[], object]:
    if isinstance(learner, StartsAtOnce):
        return learner.starting(task, started)
    return partial(learner.start_task, task, started)


def _clear(learner: Learner, numbers: list[int]) -> None:
    for number in numbers:
        unstart(learner, number)
