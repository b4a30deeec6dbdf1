"""Served model: predicts, learns, explains; a function of the changes applied to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from romco.explanations import Explanation, TaskInsight, explain, explain_task, reasons
from romco.io.schema import Schema
from romco.kernels.io.encoder import only_numbers
from romco.labels import Budget
from romco.model import Columns, Model, Names
from romco.server.protocol import (
    Answer,
    Change,
    Event,
    Forget,
    Learn,
    Limits,
    PendingEvent,
    Prediction,
    PredictRequest,
    PredictResponse,
    RequestError,
    Row,
    Task,
    TaskQuery,
    name_key,
)
from romco.server.scores import Scores

Scored = tuple[Answer | None, float | None, float]  # label, probability, margin

MAX_EXPLAINED_FEATURES = 50
MAX_UNKNOWN_NAMES, MAX_UNKNOWN_CHARS = 20, 256  # in a response
OVERVIEW_SECONDS = 1.0  # for which an overview of all tasks is used again


class ServedModel:
    """Model with its scores and the sequence number of the last change applied.

    The same changes in the same order give the same bits: a restart that replays them continues
    as if it had never stopped. One thread applies changes, any thread predicts.
    """

    def __init__(self, model: Model, scores: Scores | None = None, sequence: int = 0) -> None:
        self.model, self.scores, self.sequence = model, scores or Scores(), sequence
        self.rejected = 0  # changes that could not be applied although they had been accepted
        self._schema = self._take_schema()
        features = model.features
        self._known_names = features.known if isinstance(features, Names) else frozenset()
        self._policy_lock = threading.Lock()
        self._overview_lock = threading.Lock()  # one overview at a time: it may be work
        self._overview: Explanation | None = None
        self._overview_sequence, self._overview_until = -1, 0.0

    @property
    def target(self) -> str:
        """Kind of target: "two classes", "classes" or "number"."""
        return self.model.engine.target.kind

    def set_budget(self, share: float | None) -> None:
        """Give the model a label budget, unless its own policy has that share already."""
        if share is not None and getattr(self.model.labels, "share", None) != share:
            self.model.labels = Budget(share)

    # Predicting

    def respond(
        self, events: Sequence[PredictRequest]
    ) -> tuple[list[PredictResponse], list[PendingEvent]]:
        """Predict events; those with an id are to be kept until their answers come."""
        version, tasks = self.sequence, [event.task for event in events]
        with_id = [k for k, event in enumerate(events) if event.id is not None]
        rows = self.encode([event.x for event in events])
        offsets = _offsets(events)
        made, contexts = self._predict(rows, tasks, offsets, bool(with_id))
        responses = [PredictResponse(*one, version) for one in made]
        if self._known_names:
            for response, event, row in zip(responses, events, rows, strict=True):
                if not row.keys() <= self._known_names:
                    response.unknown = self._unknown(event.x, row)
        if with_id and self.model.labels is not None:
            with self._policy_lock:
                some = None if offsets is None else [offsets[k] for k in with_id]
                given = [rows[k] for k in with_id], [tasks[k] for k in with_id]
                asked = self.model.ask(*given, offset=some)
            for k, ask in zip(with_id, asked.tolist(), strict=True):
                responses[k].ask = ask
        pending = []
        for k in with_id:
            event, context = events[k], None
            if contexts is not None and np.isfinite(contexts[k]).all():
                context = contexts[k].tolist()
            prediction = Prediction(*made[k], context)
            kept = PendingEvent(str(event.id), event.task, event.x, prediction, event.offset)
            pending.append(kept)
        return responses, pending

    def predict(self, rows: Sequence[Row], tasks: Sequence[Task]) -> list[Prediction]:
        """Predict rows; RequestError names the first bad one."""
        made, _ = self._predict(self.encode(rows), tasks, None, False)
        return [Prediction(*one) for one in made]

    def _predict(
        self,
        rows: Sequence[Any],
        tasks: Sequence[Task],
        offsets: list[float] | None,
        with_context: bool,
    ) -> tuple[list[Scored], Any]:
        """Predict encoded rows; the context (n, k) is the learner's, for late answers."""
        engine, contexts = self.model.engine, None
        try:
            if len(rows) == 1 and not with_context:  # compiled, without arrays
                one = engine.predict_event(
                    rows[0], tasks[0], None if offsets is None else offsets[0]
                )
                if one is not NotImplemented:
                    return [one], None
            if with_context:
                margins, contexts = engine.margins_and_context(rows, tasks, offsets)
            else:
                margins = engine.margins(rows, tasks, offsets)
        except ValueError as error:
            raise self.bad_row(rows, error) from None
        chances = margins if self.target == "number" else engine.probability_of(margins)
        return self._predictions(margins, chances), contexts

    def _take_schema(self) -> Schema | None:
        """Return how cells are read, None for arrays; the model itself gets plain numbers.

        It would infer kinds of columns from the rows of a call, which a replay divides otherwise.
        """
        if isinstance(self.model.features, Columns):
            return None
        schema = self.model.schema or Schema()
        if schema.columns:
            self.model.session["schema"] = schema.to_json()  # for those who download the model
        self.model.schema = None
        return schema

    def encode(self, rows: Sequence[Row]) -> Sequence[Any]:
        """Read cells as the table was read that the model was learned from, or each by itself."""
        schema = self._schema
        if schema is None or (not schema.columns and only_numbers(rows)):
            return rows
        encoded = []
        for index, row in enumerate(rows):
            try:
                if not isinstance(row, dict):
                    raise ValueError("expected an object with a value for each name")
                encoded.append(schema.encode(row))
            except ValueError as error:
                raise RequestError(str(error), index) from None
        return encoded

    def check_columns(self, rows: Sequence[Row]) -> None:
        """Raise RequestError where a row has a column that the model's table does not have."""
        if self._schema is None or not self._schema.complete:
            return
        for index, row in enumerate(rows):
            unknown = self._schema.unknown(row) if isinstance(row, dict) else []
            if unknown:
                raise RequestError(f"the model has no column {', '.join(unknown)}", index)

    def _unknown(self, row: Row, encoded: dict[str, float]) -> list[str] | None:
        """Return columns of a row, and its categories, that the model has not learned."""
        assert isinstance(row, dict)
        assert self._schema is not None
        columns = self._schema.columns
        names = [name for name in row if self._schema.complete and name not in columns]
        for name in encoded.keys() - self._known_names:  # words and parts of dates may be new
            column = name if name in row else name.partition("=")[0]
            if column in row and column not in names and (name != column or name not in columns):
                names.append(name[:MAX_UNKNOWN_CHARS])
        return sorted(set(names))[:MAX_UNKNOWN_NAMES] or None

    def _predictions(self, margins: Any, probabilities: Any) -> list[Scored]:
        """Combine margins and probabilities, (n,) or (n, K), into predictions."""
        model = self.model
        if self.target == "number":
            return [(number, None, number) for number in margins.tolist()]
        if self.target == "classes":
            best = zip(margins, probabilities, strict=True)
            return [
                (_plain(model.engine.label_of(m)), float(p.max(initial=0.0)), _largest(m))
                for m, p in best
            ]
        return self._two_classes(margins.tolist(), probabilities.tolist())

    def _two_classes(self, margins: list[float], probabilities: list[float]) -> list[Scored]:
        classes = self.model.classes
        below, above = (_plain(classes[0]), _plain(classes[-1])) if classes else (None, None)
        pairs = zip(margins, probabilities, strict=True)
        return [(above if m >= 0.0 else below, p, m) for m, p in pairs]

    def bad_row(self, rows: Sequence[Any], error: ValueError) -> RequestError:
        """Return which row is at fault."""
        for index, row in enumerate(rows):
            try:
                self.model.features.read([row])
            except ValueError as fault:
                return RequestError(str(fault), index)
        return RequestError(str(error), 0)

    # Applying changes

    def apply(self, changes: Sequence[Change]) -> list[str | None]:
        """Apply the next changes; return the reason for each that could not be, else None.

        A change that fails changes nothing and still uses its sequence numbers. Neighbouring
        requests are learned in one call, which costs a tenth per event.
        """
        reasons: list[str | None] = []
        for learns, run in groupby(changes, lambda change: isinstance(change, Learn)):
            some: list[Any] = list(run)
            reasons += self._learn(some) if learns else [self._forget(one) for one in some]
        self.rejected += sum(reason is not None for reason in reasons)
        return reasons

    def _learn(self, changes: list[Learn]) -> list[str | None]:
        """Learn all changes at once, or, if one cannot be learned, one after the other."""
        events = [event for change in changes for event in change.events]
        had_labels = self.target == "number" or bool(self.model.classes)
        try:
            found = self._learn_events(events) if events else []
        except ValueError as error:
            if len(changes) > 1:
                return [reason for change in changes for reason in self._learn([change])]
            self.sequence += changes[0].count
            return [str(error)]
        for k, (event, now) in enumerate(zip(events, found, strict=True)):
            made = event.prediction
            label, chance = now[:2] if made is None else (made.label, made.probability)
            if label is not None and (made is not None or k or had_labels):
                loss, came_true = self._judge(label, event.y)
                self.scores.add(event.task, loss, chance, came_true)
        self.sequence += sum(change.count for change in changes)
        return [None] * len(changes)

    def _learn_events(self, events: list[Event]) -> list[Scored]:
        """Learn events; return what was predicted of each just before.

        A context that the learner does not understand, as after an update of romco, is left out.
        """
        given = self.encode([e.x for e in events]), [e.y for e in events], [e.task for e in events]
        contexts = [None if e.prediction is None else e.prediction.context for e in events]
        offsets = _offsets(events)
        before = self.model.events
        try:
            try:
                answers = self.model.engine.predict_and_learn(
                    *given, offset=offsets, context=contexts
                )
            except ValueError:
                if not any(contexts) or self.model.events != before:
                    raise
                answers = self.model.engine.predict_and_learn(*given, offset=offsets)
        except (ArithmeticError, TypeError) as error:
            raise ValueError(str(error)) from error
        return self._predictions(answers.margins, answers.probabilities)

    def _judge(self, label: Answer, answer: Answer) -> tuple[float, bool | None]:
        """Return the error of a prediction, and whether the event of its probability happened."""
        if self.target == "number":
            return abs(float(label) - float(answer)), None
        wrong = name_key(label) != name_key(answer)
        if self.target == "classes":
            return float(wrong), not wrong
        return float(wrong), name_key(answer) == name_key(self.model.engine.positive)

    def _forget(self, change: Forget) -> str | None:
        self.sequence += change.count
        self.scores.forget(change.task)
        try:
            self.model.forget(change.task)
        except (KeyError, ValueError) as error:
            return str(error.args[0])
        return None

    def copy(self) -> tuple[int, dict[str, Any], bytes]:
        """Return sequence, model state and scores; no change may be applied meanwhile."""
        with self._policy_lock:
            return self.sequence, self.model.state(), self.scores.to_bytes()

    # Views

    def overview(self) -> Explanation:
        """Return an explanation of the whole model, at most about a second old."""
        with self._overview_lock:
            stale = self._overview_sequence != self.sequence
            if self._overview is None or (stale and time.monotonic() > self._overview_until):
                sequence, begin = self.sequence, time.monotonic()
                self._overview = explain(self.model, 0, findings=False)
                self._overview_sequence, end = sequence, time.monotonic()
                self._overview_until = end + max(OVERVIEW_SECONDS, 10.0 * (end - begin))
            return self._overview

    def list_tasks(self, query: TaskQuery) -> dict[str, Any]:
        """Return rows of tasks, and how many there are."""
        rows, word = [self._task_row(t) for t in self.overview().tasks], query.search.casefold()
        rows = [row for row in rows if word in str(row["task"]).casefold()] if word else rows
        rows.sort(key=lambda row: _sort_key(row[query.order]), reverse=query.descending)
        page = rows[query.offset : query.offset + query.limit]
        return {"total": len(rows), "version": self.sequence, "tasks": page}

    def describe_task(self, task: Task) -> dict[str, Any]:
        """Return what was learned of a task; KeyError if it is not known."""
        if not self.knows(task):
            raise KeyError(task)
        insight, score = explain_task(self.model, task), self.scores.of_task(task)
        return self._task_row(insight) | {
            "since": insight.since,
            "nearest": [{"task": _name(t), "cosine": c} for t, c in insight.nearest],
            "features": [{"feature": _name(f), "weight": w} for f, w in insight.features],
            "curve": [] if score is None else score.curve.points(),
            "version": self.sequence,
        }

    def knows(self, task: Task) -> bool:
        """Return True if a task has been learned."""
        return bool(self.model.engine.numbers([task])[0] >= 0)

    def explain(self, row: Row, task: Task) -> dict[str, Any]:
        """Return what each feature of a row adds to its margin."""
        try:
            encoded = self.encode([row])[0]
            found = reasons(self.model, encoded, task).summary(MAX_EXPLAINED_FEATURES)
        except ValueError as error:
            raise RequestError(str(error)) from None
        unknown = self._unknown(row, encoded) if self._known_names else None
        return found if unknown is None else found | {"unknown": unknown}

    def _task_row(self, insight: TaskInsight) -> dict[str, Any]:
        score = self.scores.of_task(insight.task)
        return {
            "task": _name(insight.task),
            "kind": insight.kind,
            "events": insight.events,
            "shared": insight.shared,
            "personal": insight.personal,
            "share": insight.share,
            "error": None if score is None else score.mean,
            "judged": 0 if score is None else score.events,
        }


class GroupValidator:
    """Checks requests that are applied together, each after the ones before it; changes nothing."""

    def __init__(self, served: ServedModel, limits: Limits) -> None:
        self._served, self._limits = served, limits
        self._labels: set[Any] = {name_key(label) for label in served.model.classes}
        self._tasks: set[Any] = set()  # new ones
        self._features = 0  # new ones

    def knows(self, task: Task) -> bool:
        """Return True if a task is known, or will be after this group."""
        return self._served.knows(task) or name_key(task) in self._tasks

    def new_labels(self, events: Sequence[Event]) -> list[Any]:
        """Return labels that are new, in order of arrival."""
        if self._served.target == "number":
            return []
        return list(
            dict.fromkeys(n for n in (name_key(e.y) for e in events) if n not in self._labels)
        )

    def check(self, events: list[Event], places: list[int]) -> None:
        """Raise RequestError unless the model can learn the events; ``places``: in the request."""
        if not events:
            return
        model, limits = self._served.model, self._limits
        features = self._new_features(events, places)
        labels = self._check_labels(events, places)
        numbers = model.engine.numbers([event.task for event in events]).tolist()
        tasks = {name_key(e.task) for e, n in zip(events, numbers, strict=True) if n < 0}
        known = len(model.tasks) if tasks else 0
        for kind, new, per_request, size, most in (
            ("tasks", len(tasks), limits.tasks, known + len(self._tasks), limits.model_tasks),
            (
                "features",
                features,
                limits.new_features,
                model.features.width + self._features,
                limits.model_features,
            ),
            ("classes", len(labels), limits.new_classes, len(self._labels), limits.model_classes),
        ):
            if new > per_request:
                raise RequestError(f"{new:,} new {kind} in one request: at most {per_request:,}")
            if new and size + new > most:
                raise RequestError(f"the model has room for {most:,} {kind}", places[0])
        self._labels.update(labels)
        self._tasks |= tasks
        self._features += features

    def _new_features(self, events: list[Event], places: list[int]) -> int:
        new: dict[Any, int] = {}
        try:
            self._served.check_columns([event.x for event in events])
            rows = self._served.encode([event.x for event in events])
            try:
                self._served.model.features.read(rows, new)
            except ValueError as error:
                raise self._served.bad_row(rows, error) from None
        except RequestError as error:
            raise RequestError(error.reason, places[error.index or 0]) from None
        return len(new)

    def _check_labels(self, events: list[Event], places: list[int]) -> list[Any]:
        new, engine = self.new_labels(events), self._served.model.engine
        shifted = engine.with_offset or _offsets(events) is not None
        if self._served.target != "two classes" or shifted:
            self._check_learnable(events, places)
        elif len(self._labels) + len(new) > 2:
            third = new[2 - len(self._labels)]
            known = " and ".join(sorted(str(n) for n in [*self._labels, *new] if n != third)[:2])
            at = next(k for k, event in enumerate(events) if name_key(event.y) == third)
            reason = f"y is {events[at].y!r}, a third label: there are {known} already"
            raise RequestError(reason, places[at])
        return new

    def _check_learnable(self, events: list[Event], places: list[int]) -> None:
        check = self._served.model.engine.check
        rows = self._served.encode([event.x for event in events])
        try:
            check(rows, [e.y for e in events], [e.task for e in events], _offsets(events))
        except ValueError as error:
            for row, event, place in zip(rows, events, places, strict=True):
                try:
                    check([row], [event.y], [event.task], _offsets([event]))
                except ValueError as fault:
                    raise RequestError(str(fault), place) from None
            raise RequestError(str(error), places[0]) from None


def _offsets(events: Sequence[PredictRequest | Event]) -> list[float] | None:
    """Return the offset of each event, NaN where it lacks one; None if all do."""
    offsets = [event.offset for event in events]
    if offsets.count(None) == len(offsets):
        return None
    return [np.nan if offset is None else offset for offset in offsets]


def _plain(label: Any) -> Answer | None:
    """Return a label as JSON has it; labels of other types come with model files."""
    return label if label is None or isinstance(label, str | int | float) else str(label)


def _name(name: Any) -> Any:
    return name if isinstance(name, str | int | float) else str(name)


def _largest(margins: Any) -> float:
    largest = margins.max(initial=-np.inf)
    return float(largest) if np.isfinite(largest) else 0.0


def _sort_key(value: Any) -> tuple[bool, bool, Any]:
    return value is not None, isinstance(value, str), value if value is not None else 0
