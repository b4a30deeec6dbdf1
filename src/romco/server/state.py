"""Served model: predicts, learns, explains; a function of the changes applied to it."""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from itertools import chain, compress, count, groupby, pairwise, repeat
from operator import attrgetter, ne
from typing import Any

import msgspec
import numpy as np

from romco.evaluation import Score
from romco.evaluation.score import INTERVAL_LEVEL
from romco.explanations import Overview, TaskInsight, reasons
from romco.io.cells import encode_cell
from romco.io.encoder import MAX_NAMES
from romco.io.groupings import expand_groupings, take_groupings
from romco.io.schema import Schema
from romco.kernels.io.encoded import Encoded, join_encoded
from romco.kernels.io.encoder import Encoder, only_numbers
from romco.kernels.io.lexicon import Lexicon
from romco.learners.capabilities import GivesIntervals
from romco.model import Columns, Model
from romco.model.rows import Rows, read_offset
from romco.model.target import Predictions, Target
from romco.server.protocol import PredictResponse, RequestError, Settings, Task, TaskQuery, name_key
from romco.server.store import Change, Event, Forget, PendingEvent, Prediction

PLAIN_LABELS = (str, int, float, type(None))
PLAIN_TASKS = frozenset({str, int, type(None)})
MAX_EXPLAINED_FEATURES = 50
MAX_UNKNOWN_NAMES, MAX_UNKNOWN_CHARS = 20, 256  # in a response
NO_PREDICTION = Prediction(None, None, 0.0)
PIECE_CELLS = 10_000  # of rows that are predicted at once, about 20 ms
EVENT_CELLS = 100  # an event counts as these, for texts
CURVE_POINTS = 48  # beyond, every other one goes
INSIGHT_COLUMNS = ("kind", "events", "shared", "personal", "share")  # in a list of tasks


class ErrorCount(msgspec.Struct, array_like=True):
    """Mean error, share of wrong labels or mean absolute error of numbers, and its curve."""

    events: int = 0
    errors: float = 0.0
    curve: list[tuple[int, float]] = []  # events and errors so far, as many events apart

    def __post_init__(self) -> None:
        for (begin, _), (end, _) in pairwise([(0, 0.0), *self.curve]):
            if end <= begin:
                raise ValueError("points of a curve are not in order")

    def add(self, error: float) -> None:
        self.events += 1
        self.errors += error
        if len(self.curve) == CURVE_POINTS - 1:  # and the last, that is not whole
            self.curve = self.curve[1::2]
        width = 1
        if self.curve:
            width = self.curve[0][0]
        if self.events % width == 0:  # a new list: another thread may read the old one
            self.curve = [*self.curve, (self.events, self.errors)]

    @property
    def mean(self) -> float | None:
        """Mean error; None before any event."""
        if not self.events:
            return None
        return self.errors / self.events

    def points(self) -> list[tuple[int, float]]:
        """Return events so far and the mean error since the point before, per point."""
        points = []
        ends = [(0, 0.0), *self.curve, (self.events, self.errors)]
        for (begin, before), (end, errors) in pairwise(ends):
            if end > begin:
                points.append((end, (errors - before) / (end - begin)))
        return points


class Scores(msgspec.Struct):
    """Errors of predictions by task, and quality of all of them."""

    total: ErrorCount = msgspec.field(default_factory=ErrorCount)
    tasks: dict[str, ErrorCount] = msgspec.field(default_factory=dict)
    score: Score = msgspec.field(default_factory=Score)  # of the predicted class, if there are many


NO_ERRORS = ErrorCount()
encode_scores = msgspec.json.Encoder(enc_hook=Score.to_json).encode
decode_scores = msgspec.json.Decoder(Scores, dec_hook=lambda _, json: Score.from_json(json)).decode


class ServedModel:
    """Model with its scores and the sequence number of the last change applied.

    The same changes in the same order give the same bits: a restart that replays them continues
    as if it had never stopped. One thread applies changes, any thread predicts.
    """

    def __init__(self, model: Model, scores: Scores | None = None, sequence: int = 0) -> None:
        self.model, self.scores, self.sequence = model, scores or Scores(), sequence
        self.target = model.engine.target.kind  # "two classes", "classes" or "number"
        kind = "number" if self.target == "number" else "two classes"
        if self.scores.score.target != kind:
            self.scores.score = Score(kind)
        self.schema: Schema | None = None  # how cells are read; None for arrays
        self.groupings: list[Any] = []
        if not isinstance(model.features, Columns):
            self.schema = schema = model.schema or Schema()
            if schema.columns:
                model.session["schema"] = schema.to_json()  # for those who download the model
            if schema.groupings:
                self.groupings = [schema.task, *schema.groupings]
            model.schema = None  # it would infer columns from a call, which a replay divides
        self._encoder: Encoder | None = None  # of rows to be learned
        columns = chain.from_iterable(expand_groupings(self.groupings).values())
        self._levels = list(dict.fromkeys(columns))  # that a task lists, in this order
        self._policy_lock = threading.Lock()
        self._forgotten = 0  # tasks
        self.overview = Overview(model, lambda: (self.sequence, self._forgotten))

    # Predicting

    def pieces(self, events: Sequence[Any]) -> list[tuple[int, int]]:
        """Return the parts in which events are predicted, so that others wait for one at most."""
        if len(events) == 1 or self.model.labels is not None:  # a policy decides on all at once
            return [(0, len(events))]
        sizes = np.array(list(map(len, _values(events, "x"))))
        cells = np.cumsum(sizes + EVENT_CELLS)
        ends = np.flatnonzero(np.diff(cells // PIECE_CELLS)) + 1
        return list(pairwise([0, *ends.tolist(), len(events)]))

    def respond(self, events: Sequence[Any]) -> tuple[list[PredictResponse], list[PendingEvent]]:
        """Predict requests; those with an id are to be kept until their answers come."""
        tasks = _values(events, "task")
        if not PLAIN_TASKS.issuperset(map(type, tasks)):
            return self.respond(list(map(self.with_task, events, count())))
        rows = Rows(self.encode(_values(events, "x")), tasks, offset=_offsets(events))
        with_id = [k for k, event in enumerate(events) if event.id is not None]
        responses, late, complete = self._predict(rows, bool(with_id))
        known_names = self.model.features.known
        if known_names and not complete:
            for response, event, row in zip(responses, events, rows.x, strict=True):
                if not row.keys() <= known_names:
                    response.unknown = self._unknown(event.x, row)
        if with_id and self.model.labels is not None:
            some = rows.select(np.array(with_id))
            with self._policy_lock:
                wanted = self.model.ask(some.x, some.task, offset=some.offset)
            for k, ask in zip(with_id, wanted.tolist(), strict=True):
                responses[k].ask = ask
        pending = []
        for k in with_id:
            event, made = events[k], responses[k]
            context = None
            if late.context is not None and np.isfinite(late.context[k]).all():
                context = late.context[k].tolist()
            values = made.label, made.probability, made.margin, context, late.events
            prediction = Prediction(*values, made.low, made.high)
            x = self._known_cells(event.x)
            pending.append(PendingEvent(event.id, event.task, x, prediction, event.offset))
        return responses, pending

    def _predict(self, rows: Rows, with_context: bool) -> tuple[list[PredictResponse], Any, bool]:
        """Return responses, the engine's predictions, and whether all features are surely known."""
        engine, version = self.model.engine, self.sequence
        target = copy(engine.target)  # of many classes, new ones may come at any moment
        number = self.target == "number"
        parts: Any = NotImplemented
        try:
            if not (with_context or number):
                parts = engine.predict_events(rows.x, rows.task, rows.offset)
            if parts is not NotImplemented:  # without arrays
                responses = [PredictResponse(_plain(y), p, m, version) for y, p, m, _ in parts]
                complete = [size for *_, size in parts] == list(map(len, rows.x))
                return responses, None, complete and engine.history is None
            late = engine.margins_and_context(rows, with_context)
        except ValueError as error:
            check_each(self.model.features.read, rows.x, range(len(rows.x)))
            raise RequestError(str(error), 0) from None
        columns = self._predictions(late.margins, late.probabilities, target)
        responses = list(map(PredictResponse, *columns, repeat(version)))
        if number and self.model.events and isinstance(engine.learner, GivesIntervals):
            bounds = engine.intervals(rows, INTERVAL_LEVEL)
            for response, (low, high) in zip(responses, bounds.tolist(), strict=True):
                if low < high:  # the spread of a single number is not known
                    response.low, response.high = low, high
        return responses, late, False

    def with_task(self, event: Any, index: int) -> Any:
        """Return a request with one task; levels of further groupings become cells of its row."""
        levels, names = event.task, self._levels
        if type(levels) in PLAIN_TASKS:
            return event
        if isinstance(levels, list) and len(levels) == len(names):
            levels = dict(zip(names, levels, strict=True))
        if not names or not isinstance(levels, dict) or levels.keys() != set(names):
            expected = "one task"
            if names:
                expected = f"the levels of {', '.join(names)}"
            raise RequestError(f"task: expected {expected}, as the model was made", index)
        if not isinstance(event.x, dict):
            return msgspec.structs.replace(event, task=levels[names[0]])  # refused for its row
        (row,), (task,), _ = take_groupings([{**event.x, **levels}], self.groupings)
        return msgspec.structs.replace(event, task=task, x=row)

    def encode(self, rows: Sequence[Any]) -> Sequence[Any]:
        """Read cells as those of the model's table; RequestError names the first bad row."""
        schema = self.schema
        if schema is None or (not schema.columns and only_numbers(rows)):
            return rows

        def read(some: Sequence[Any]) -> list[dict[str, float]]:
            if not all(isinstance(row, dict) for row in some):
                raise ValueError("expected a mapping of names to values")
            return list(map(schema.encode, some))

        return check_each(read, rows, range(len(rows)))

    def encode_to_learn(self, rows: Sequence[Any]) -> Any:
        """Return the same for the thread that learns, by compiled code; ValueError if bad."""
        schema = self.schema
        if schema is None:
            return rows
        if self._encoder is None or len(self._encoder.lexicon) > MAX_NAMES:
            self._encoder = Encoder(encode_cell, Lexicon(), schema.columns)
        encoder, roles = self._encoder, schema.roles
        encoder.take()  # what a bad row left
        ends = [encoder.add_row(row, roles, schema.features) for row in rows]
        values, names = encoder.take()
        return Encoded(values, names, np.array([0, *ends], dtype=np.int64), encoder.lexicon)

    def _known_cells(self, row: Any) -> Any:
        """Return a row without the columns that would be refused when it is learned."""
        if self.schema is None or not self.schema.complete:
            return row
        known = self.schema.columns.keys() | self.schema.roles
        return {name: cell for name, cell in row.items() if name in known}

    def _unknown(self, row: Any, encoded: dict[str, float]) -> list[str] | None:
        """Return columns of a row, and its categories, that the model has not learned."""
        assert self.schema is not None
        columns = self.schema.columns
        unknown = set[str]()
        if self.schema.complete:
            unknown = set(row).difference(columns)
        for name in encoded.keys() - self.model.features.known:  # words may be new
            column = name
            if name not in row:
                column = name.partition("=")[0]
            if column in row.keys() - unknown and (name != column or name not in columns):
                unknown.add(name[:MAX_UNKNOWN_CHARS])
        return sorted(unknown)[:MAX_UNKNOWN_NAMES] or None

    def _predictions(
        self, margins: Any, probabilities: Any, target: Target
    ) -> tuple[list[Any], ...]:
        """Return labels, their probabilities and margins, of margins (n,) or (n, K)."""
        labels = list(map(_plain, target.labels_of(margins).tolist()))
        if self.target == "number":
            none = [None] * len(labels)
            if not self.model.events:  # nobody knows the level of the first number
                return none, none, labels
            return labels, none, labels
        if self.target == "classes":
            largest = margins.max(axis=1, initial=-np.inf)
            margins = np.where(np.isfinite(largest), largest, 0.0)
            probabilities = probabilities.max(axis=1, initial=0.0)
        return labels, probabilities.tolist(), margins.tolist()

    # Applying changes

    def apply(self, changes: Sequence[Change], rows: Sequence[Any] = ()) -> list[str | None]:
        """Apply the next changes; return why a change could not be applied, or None, for each.

        A change that fails changes nothing and still uses its sequence numbers. Neighbouring
        requests are learned in one call, which costs a tenth per event. ``rows`` are those of each
        change as :class:`GroupValidator` read them; else they are read here.
        """
        reasons = list[str | None]()
        staged = zip(changes, rows or repeat(None), strict=False)
        for forgets, run in groupby(staged, lambda one: isinstance(one[0], Forget)):
            group = list(run)
            if not forgets:
                reasons += self._learn(group)
                continue
            for change, _ in group:
                self._forget(change)
                reasons.append(None)
        return reasons

    def _learn(self, staged: Sequence[tuple[Any, Any]]) -> list[str | None]:
        """Learn all changes at once, or, if one cannot be learned, one after the other."""
        changes, rows = zip(*staged, strict=True)
        events = list(chain.from_iterable(_values(changes, "events")))
        numbers = sum(_values(changes, "count"))
        had_labels = bool(self.model.classes or self.model.events)
        made = list[Prediction]()
        try:
            if events:
                made = self._learn_events(events, rows)
        except (ValueError, ArithmeticError, TypeError) as error:
            if len(changes) > 1:
                return list(chain.from_iterable(map(self._learn, zip(staged))))
            self.sequence += numbers
            return [str(error)]
        if events and not had_labels:
            made[0] = events[0].prediction or NO_PREDICTION
        self._count(events, made)
        self.sequence += numbers
        return [None] * len(changes)

    def _learn_events(self, events: list[Event], blocks: Sequence[Any]) -> list[Prediction]:
        """Learn events; return what was predicted of each, then or just before.

        ``blocks`` are the rows of each change, if they were read before. A context that the
        learner does not understand, as after an update of romco, is left out.
        """
        lexicons = {getattr(block, "lexicon", None) for block in blocks}
        if len(lexicons) == 1 and None not in lexicons:
            x = join_encoded(list(blocks))
        else:
            x = self.encode_to_learn(_values(events, "x"))
        rows = Rows(x, _values(events, "task"), _values(events, "y"), offset=_offsets(events))
        contexts = [event.prediction and event.prediction.context for event in events]
        before, engine = self.model.events, self.model.engine
        try:
            answers = engine.predict_and_learn(rows._replace(context=contexts))
        except ValueError:
            if not any(contexts) or self.model.events != before:
                raise
            answers = engine.predict_and_learn(rows)
        columns = self._predictions(answers.margins, answers.probabilities, engine.target)
        made = map(Prediction, *columns)
        return [event.prediction or just for event, just in zip(events, made, strict=True)]

    def _count(self, events: list[Event], made: list[Prediction]) -> None:
        """Count the errors of predictions; those made before any label was known have none."""
        judged = [pair for pair in zip(events, made, strict=True) if pair[1].label is not None]
        if not judged:
            return
        answered, predictions = zip(*judged, strict=True)
        labels, margins = _values(answered, "y"), np.array(_values(predictions, "margin"))
        probabilities = np.array(_values(predictions, "probability"), dtype=np.float64)
        if self.target == "number":
            errors = np.abs(margins - np.array(list(map(float, labels))))
        else:
            predicted = map(name_key, _values(predictions, "label"))
            errors = np.array(list(map(ne, predicted, map(name_key, labels))), dtype=np.float64)
        if self.target == "classes":
            self.scores.score.add_binary(1.0 - 2.0 * errors, np.ones(len(errors)), probabilities)
        else:
            low, high = _values(predictions, "low"), _values(predictions, "high")
            bounds = np.array([low, high], dtype=np.float64).T
            answers = Predictions(margins, probabilities)
            self.scores.score.count(self.model, labels, answers, bounds)
        for event, error in zip(answered, errors.tolist(), strict=True):
            self.scores.total.add(error)
            key, counts = name_key(event.task), self.scores.tasks
            (counts.get(key) or counts.setdefault(key, ErrorCount())).add(error)

    def _forget(self, change: Any) -> None:
        self.sequence += change.count
        self.scores.tasks.pop(name_key(change.task), None)
        with suppress(KeyError):  # it has only predictions that wait
            self.model.forget(change.task)
        self._forgotten += 1  # what was read before is not shown again
        self._encoder = None  # it has names of rows

    def copy(self) -> tuple[int, dict[str, Any], bytes]:
        """Return sequence, model state and scores; no change may be applied meanwhile."""
        with self._policy_lock:
            return self.sequence, self.model.state(), encode_scores(self.scores)

    # Views

    def list_tasks(self, query: TaskQuery) -> dict[str, Any]:
        """Return rows of tasks, and how many there are."""
        reader = self.overview.read()
        if query.order == "error":
            values = [self._errors_of(name).mean for name in reader.names]
        else:
            values = reader.column(query.order)
        places, last = reader.search(query.search), query.offset + query.limit
        page = reader.first(last, places, values, query.descending)[query.offset :]
        rows = list(map(self._task_row, map(reader.task, page)))
        return {"total": len(places), "version": self.sequence, "tasks": rows}

    def describe_task(self, task: Task) -> dict[str, Any]:
        """Return what was learned of a task; RequestError (404) if it is not known."""
        try:
            self.model.engine.check_known(task)
            insight = self.overview.read(task).explain_task(task)
        except KeyError:
            raise RequestError.unknown_task(task) from None
        return self._task_row(insight) | {
            "since": insight.since,
            "nearest": [{"task": _plain(t), "cosine": c} for t, c in insight.nearest],
            "features": [{"feature": _plain(f), "weight": w} for f, w in insight.features],
            "curve": self._errors_of(task).points(),
            "version": self.sequence,
        }

    def knows(self, task: Task) -> bool:
        """Return True if a task has been learned."""
        return bool(self.model.engine.tasks.numbers([task])[0] >= 0)

    def explain(self, event: Any) -> dict[str, Any]:
        """Return what each feature of an event adds to its margin."""
        event = self.with_task(event, 0)
        try:
            encoded = self.encode([event.x])[0]
            result = reasons(self.model, encoded, event.task).summary(MAX_EXPLAINED_FEATURES)
        except ValueError as error:
            raise RequestError(str(error)) from None
        if self.model.features.known and (unknown := self._unknown(event.x, encoded)):
            result["unknown"] = unknown
        return result

    def _task_row(self, insight: TaskInsight) -> dict[str, Any]:
        errors = self._errors_of(insight.task)
        values = attrgetter(*INSIGHT_COLUMNS)(insight)
        row = dict(zip(INSIGHT_COLUMNS, values, strict=True))
        task = _plain(insight.task)
        return {"task": task, **row, "error": errors.mean, "judged": errors.events}

    def _errors_of(self, task: Any) -> ErrorCount:
        """Return the errors of a task's predictions, an empty count if it has none."""
        return self.scores.tasks.get(name_key(task), NO_ERRORS)


class GroupValidator:
    """Checks requests that are applied together, each after the ones before it; changes nothing."""

    def __init__(self, served: ServedModel, settings: Settings) -> None:
        self._served, self._settings = served, settings
        self._target = copy(served.model.engine.target)  # as it will be
        self._tasks: set[Any] = set()  # new ones
        self._features = 0  # new ones

    def knows(self, task: Task) -> bool:
        """Return True if a task is known, or will be after this group."""
        return self._served.knows(task) or name_key(task) in self._tasks

    def check(self, events: list[Event], places: list[int]) -> Any:
        """Return rows of events; RequestError, with its place, for one that cannot be learned."""
        served, settings, features = self._served, self._settings, dict[Any, int]()
        model, labels = served.model, self._target.known
        engine, offsets = model.engine, _offsets(events)

        def read(some: Sequence[Any]) -> Any:
            encoded = served.encode_to_learn(some)
            if served.schema is not None and served.schema.complete:
                names = dict.fromkeys(chain.from_iterable(some))
                if unknown := served.schema.unknown(names):
                    raise ValueError(f"the model has no column {', '.join(unknown)}")
            model.features.read(encoded, features)
            return encoded

        rows = check_each(read, _values(events, "x"), places)
        if len(features) > settings.new_features:
            many = f"{len(features):,} new features in one request"
            raise RequestError(f"{many}: at most {settings.new_features:,}")
        _, known = check_each(self._target.read, _values(events, "y"), places)
        if offsets is not None or engine.with_offset:
            check_each(lambda some: read_offset(engine, some, 1.0), offsets, places)
        names = _values(events, "task")
        is_new = (engine.tasks.numbers(names) < 0).tolist()
        tasks = set(map(name_key, compress(names, is_new)))
        n_tasks = len(self._tasks)
        if tasks:  # else they need not be counted, which takes long
            n_tasks += len(model.tasks)
        n_features = model.features.width + self._features
        for kind, new, size, most in (
            ("tasks", tasks, n_tasks, settings.model_tasks),
            ("features", features, n_features, settings.model_features),
            ("classes", known.keys() - labels.keys(), len(labels), settings.model_classes),
        ):
            if new and size + len(new) > most:
                raise RequestError(f"the model has room for {most:,} {kind}", places[0])
        self._target.adopt(known)
        self._tasks |= tasks
        self._features += len(features)
        return rows


def check_each(check: Callable[[Any], Any], values: Any, places: Sequence[int]) -> Any:
    """Return what a check of events returns; RequestError names the place of the first bad one."""
    try:
        return check(values)
    except ValueError as error:
        low, high, reason = 0, len(values or ()), error
        while high - low > 1:  # the first that makes it fail is above low, up to high
            middle = (low + high) // 2
            try:
                check(values[:middle])
                low = middle
            except ValueError as fault:
                high, reason = middle, fault
        raise RequestError(str(reason), places[low]) from None


def _values(structs: Sequence[Any], field: str) -> list[Any]:
    """Return a field of each of some events, predictions or changes."""
    return list(map(attrgetter(field), structs))


def _offsets(events: Sequence[Any]) -> list[Any] | None:
    """Return the offset of each event, NaN where it lacks one; None if all do."""
    offsets = _values(events, "offset")
    if offsets.count(None) == len(offsets):
        return None
    shapes = {np.shape(offset) for offset in offsets if offset is not None}
    if len(shapes) > 1:
        raise RequestError("offset: expected a number for each event, or one for each class", 0)
    lacking = np.full(shapes.pop(), np.nan).tolist()
    return [lacking if offset is None else offset for offset in offsets]


def _plain(label: Any) -> Any:
    """Return a label or a name as JSON has it; those of other types come with model files."""
    if isinstance(label, PLAIN_LABELS):
        return label
    return str(label)
