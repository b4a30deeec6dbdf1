"""Transaction: rows are read, then learned, counted and committed chunk by chunk.

A chunk is learned whole or not at all; see :mod:`romco.kernels.step` for how it is committed.
Where an error leaves before any row was learned, the engine is as before.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from romco.kernels.step import ChunkStep, Step, retry_idempotent
from romco.learners import Learner
from romco.learners.capabilities import LearnsDelayed
from romco.model.body import Body, as_round, is_compiled
from romco.model.features import NamedFeatures, cut
from romco.model.lock import Hold
from romco.model.names import Action, Id
from romco.model.rows import Batch, Rows
from romco.model.target import Predictions, TwoClasses
from romco.rounds import Round, select
from romco.typing import Floats

CHUNK_EVENTS = 250  # events learned before waiting readers get a turn


class Chunk(NamedTuple):
    """Rows begin to end of a batch, for which ``body`` has room: learned whole or not at all."""

    begin: int
    end: int
    body: Body
    fresh: dict[Id, int]  # numbers for the tasks that are new
    start: list[int]  # those of them that need a start


@contextmanager
def transaction(engine: Step) -> Iterator[None]:
    """Let one thread change the engine; where nothing is learned and an error leaves, undo all.

    May be nested: what was to be learned within is one transaction.
    """
    with Hold(engine.locks.writing):
        events = engine.body.counts.events
        mark = _mark(engine)
        try:
            yield
        except BaseException:
            if engine.body.counts.events == events:
                with Hold(engine.locks.step):
                    retry_idempotent(_restore_mark, engine, mark)
            raise


def _mark(engine: Step) -> tuple[Any, ...]:
    """Return what rows change before any of them is learned."""
    columns = None
    if isinstance(engine.features, NamedFeatures):
        cells = engine.features.cells
        columns = cells.schema, cells.required
    return columns, engine.body, engine.target, engine.history, engine.with_offset


def _restore_mark(engine: Step, mark: tuple[Any, ...]) -> None:
    columns, engine.body, engine.target, engine.history, engine.with_offset = mark
    if isinstance(engine.features, NamedFeatures):
        engine.features.cells.schema, engine.features.cells.required = columns
    if engine.history is not None:
        engine.history.rollback()


def learn_batch(engine: Step, batch: Batch, together: bool) -> tuple[Floats, Floats]:
    """Learn rows; return the learner's margins just before each, and log a of the scale then."""
    n = len(batch.ids)
    margins = engine.target.allocate(n, len(batch.labels))
    log_a = np.zeros(n)
    begin, before = 0, engine.body.counts.events
    try:
        while begin < n:
            if not together:
                _make_room(engine, batch, begin)
            with Hold(engine.locks.step):
                chunk = plan_chunk(engine, batch, begin, together)
                learned = learn_chunk(engine, batch, chunk, together, log_a)
            margins[(slice(begin, chunk.end), *map(slice, learned.shape[1:]))] = learned
            begin = chunk.end
    except BaseException as error:
        done = engine.body.counts.events - before
        if done:
            error.add_note(f"{done} of {n} rows were learned")
        raise
    return margins, log_a


def _make_room(engine: Step, batch: Batch, begin: int) -> None:
    """Make room for the next row while others predict: a large body takes long to copy."""
    task, old = batch.ids[begin], engine.body
    fresh = {} if task in engine.tasks.number else engine.tasks.offered([task])
    body = old.grown(int(batch.needed[begin]), max(fresh.values(), default=-1) + 1)
    if body is not old:
        with Hold(engine.locks.step):
            engine.body = body if engine.body is old else engine.body


def plan_chunk(engine: Step, batch: Batch, begin: int, together: bool) -> Chunk:
    """Return the longest chunk from row ``begin`` on; changes nothing.

    It ends before a row that needs more room, or a task that must be started.
    """
    ids, tasks = batch.ids, engine.tasks
    last = len(ids) if together else begin + 1
    one_known = last == begin + 1 and ids[begin] in tasks.number
    fresh = {} if one_known else tasks.offered(ids[begin:last])
    classes = 0
    if engine.body.learner.answers > 1:
        classes = int(batch.y[begin:last].max()) + 1
    room = max(fresh.values(), default=-1) + 1
    # A round may fail after some of its events.
    body = engine.body.grown(int(batch.needed[last - 1]), room, classes, move=not together)
    if not together:
        if is_compiled(body.learner):
            last = min(len(ids), begin + CHUNK_EVENTS - body.counts.events % CHUNK_EVENTS)
        last = _fitting(batch, body.learner, begin, last)
        new = set(ids[begin + 1 : last]).difference(tasks.number)
        end = _first_of(ids, begin + 1, last, new)
        if end < last:  # tasks that are known by another form, or need no start, may join
            offered = {} if engine.starts_tasks else tasks.offered(ids[begin:last])
            fits = {task: at for task, at in offered.items() if at < body.learner.n_tasks}
            joining = fits or fresh
            alone = {task for task in new if task not in joining and tasks.find(task) < 0}
            end = _first_of(ids, end, last, alone)
            joined = set(ids[begin:end])
            fresh = {task: at for task, at in joining.items() if task in joined}
        last = end
    start = list(dict.fromkeys(fresh.values())) if engine.starts_tasks else []
    return Chunk(begin, last, body, fresh, start if together else start[:1])


def _first_of(ids: list[Id], begin: int, end: int, tasks: set[Id]) -> int:
    """Return the first place from ``begin`` on of one of these tasks; ``end`` if there is none."""
    places = (at for at in range(begin, end) if ids[at] in tasks)
    return next(places, end) if tasks else max(begin, end)


def _fitting(batch: Batch, learner: Learner, begin: int, last: int) -> int:
    """Return the end of the rows from ``begin`` on that need no more columns and classes."""
    needed = batch.needed[begin:last]  # never falls
    end = begin + int(np.searchsorted(needed, learner.n_features, side="right"))
    if learner.answers > 1:
        beyond = np.flatnonzero(batch.y[begin:end] >= learner.answers)
        end = begin + int(beyond[0]) if len(beyond) else end
    return max(end, begin + 1)


def learn_chunk(engine: Step, batch: Batch, chunk: Chunk, together: bool, log_a: Floats) -> Floats:
    """Learn a chunk; return its margins, and set log a of the scale before each of its rows.

    Where it raises, the engine is as before, or as after the whole chunk; or, where the
    learner itself failed, as after the rows before the one that it failed at.
    """
    body, learner, rows = chunk.body, chunk.body.learner, slice(chunk.begin, chunk.end)
    ids = batch.ids[rows]
    numbers = engine.tasks.numbers(ids)
    for at in np.flatnonzero(numbers < 0) if chunk.fresh else ():
        numbers[at] = chunk.fresh[ids[at]]
    matrix = cut(batch.matrix, chunk.begin, chunk.end)
    weight, offset = select(batch.weight, rows), select(batch.offset, rows)
    round = as_round(learner, matrix, numbers, batch.y[rows], weight, offset)
    events = learner.events_of(round, labelled=True)
    engine.with_offset = offset is not None
    if batch.context is not None and isinstance(learner, LearnsDelayed):
        learner.set_context(events, batch.context[rows])
    changed = body is not engine.body or engine.history is not None
    named = changed or bool(chunk.fresh or batch.names or batch.since)
    commit = partial(_actions, engine, batch, chunk) if named else None
    starts, rollback = body.starts_of(chunk.start)
    if not is_compiled(learner) and type(learner).prepare_update is Learner.prepare_update:
        rollback = partial(learner.load, {k: a.copy() for k, a in learner.arrays().items()})
    scale = engine.scale if isinstance(engine.target, TwoClasses) else None
    round_starts = np.array([0, len(ids)]) if together else np.arange(len(ids) + 1)
    step = ChunkStep(body, scale, log_a[rows], events, round_starts, commit, starts, rollback)
    if is_compiled(learner):
        return step.compiled()
    return step.plain(partial(_attempt, learner, round))


def _attempt(learner: Learner, round: Round) -> tuple[Floats, Callable[[], object] | None]:
    margins = learner.predict(round)
    commit = learner.prepare_update(round)
    if commit is None:
        learner.update(round)
    return margins, commit


def _actions(engine: Step, batch: Batch, chunk: Chunk, n: int) -> list[Action]:
    """Return the actions that commit the first n rows of a chunk: names, the larger body."""
    end = chunk.begin + n
    learned = set(batch.ids[chunk.begin : end])
    fresh = {task: number for task, number in chunk.fresh.items() if task in learned}
    actions: list[Action] = engine.tasks.actions(fresh)
    if chunk.body is not engine.body:
        actions.append((partial(setattr, engine, "body"), chunk.body))
    if engine.history is not None:
        actions += engine.history.actions(end)
    if batch.names:
        actions += engine.features.actions(batch.names, int(batch.needed[end - 1]))
    if batch.since:
        since, labels = batch.since, batch.labels.items()
        adopted = {label: number for label, number in labels if since.get(label, 0) < end}
        actions.append((engine.target.__dict__.update, engine.target.changes(adopted)))
    return actions


# Rows of weight 0


def learn_in_turn(engine: Any, rows: Rows) -> Predictions:
    """Learn the rows of positive weight and predict those of weight 0, each in its turn.

    ``engine`` is that of a model, or shards.
    """
    engine.check(rows.select(np.flatnonzero(rows.weight)))  # all, before any is learned
    engine.predict_and_observe(rows.select(np.flatnonzero(rows.weight == 0.0))._replace(y=None))
    parts = []
    ends = np.flatnonzero(np.diff(rows.weight > 0.0)) + 1
    for part in map(rows.select, np.split(np.arange(len(rows.weight)), ends)):
        learn = engine.predict_and_learn if part.weight[0] else engine.predict_and_observe
        parts.append(learn(part))
    return join_predictions(parts)


def join_predictions(parts: Sequence[Predictions]) -> Predictions:
    """Return the predictions of parts end to end."""
    margins, probabilities = zip(*parts, strict=True)
    return Predictions(_stack(margins, -np.inf), _stack(probabilities, 0.0))


def _stack(parts: Any, missing: float) -> Floats:
    """Return parts end to end; earlier ones may know fewer classes."""
    if parts[0].ndim == 1:
        return np.concatenate(parts)
    widest = max(part.shape[1] for part in parts)
    padded = []
    for part in parts:
        more = widest - part.shape[1]
        padded.append(np.pad(part, ((0, 0), (0, more)), constant_values=missing))
    return np.concatenate(padded)
