"""Events to be labelled by people: which, in a file as theirs, and what came back."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from romco.io import durable
from romco.io.files import format_of, opened
from romco.io.formats import FORMATS, BadRow
from romco.labels import Budget
from romco.labels.audit import AUDIT_KEY, Audit
from romco.labels.policy import doubt
from romco.model import Model
from romco.runs.answers import chunks
from romco.runs.source import STDIN, Source, remembered

ID, PRIORITY, ERROR, WHY, MARGIN = "ask_id", "ask_priority", "ask_error", "ask_why", "ask_margin"
ADDED = (ID, PRIORITY, ERROR, WHY, MARGIN)  # columns beside those of the events
DOUBTFUL, BY_CHANCE = "doubtful", "by chance"
ANSWERED = "answered"  # under which a model's memory keeps the ids that were learned


class Request(NamedTuple):
    """An event that somebody should label."""

    id: str
    error: float  # chance that the model is wrong
    why: str  # doubtful, or by chance: one of those that tell the error of all
    margin: float  # as the model has it now
    row: Mapping[str, Any]  # as the file has it


def requests(
    model: Model, source: Source, budget: int, id: str | None = None, **options: Any
) -> list[Request]:
    """The events of a file to label, the most urgent first; at most ``budget`` of them.

    Those audited are among them at the places that their chance of error gives. ``id`` is a column
    of the file; else the line of an event is its id. ``options`` are those of ``Budget.of``.
    """
    known = remembered(model, source)
    found: list[tuple[int, str, float]] = []  # line, task, margin
    with known.blocks() as events:
        for chunk in chunks(events, known):
            some = model.margins(chunk.features, chunk.tasks)
            found += zip(chunk.lines, chunk.tasks, some.tolist(), strict=True)
    if not found:
        return []
    lines, tasks, said = zip(*found, strict=True)
    margins = np.array(said)
    errors = doubt(margins)
    whole = min(budget, len(found))
    policy = Budget.of(whole, len(found), **options)
    asked = policy.choose(_numbers(tasks), margins)
    chance = policy.audited
    rest = np.argsort(-np.where(asked, -1.0, errors), kind="stable")  # what is left is filled up
    asked[rest[: whole - int(asked.sum())]] = True
    order = sorted(np.flatnonzero(asked).tolist(), key=lambda e: (-errors[e], tasks[e], e))
    rows = _rows(known, {lines[e] for e in order}, id)
    return [
        Request(
            str(rows[lines[e]][id] if id else lines[e]),
            float(errors[e]),
            BY_CHANCE if chance[e] else DOUBTFUL,
            float(margins[e]),
            rows[lines[e]],
        )
        for e in order
    ]


def write(asked: list[Request], path: Path, label: str | None) -> None:
    """Write what is to be labelled: the file's own columns, an empty label, and why it is asked."""
    head = {ID: "", PRIORITY: 0, ERROR: 0.0, WHY: "", MARGIN: 0.0, label or "label": ""}
    rows = [
        {
            **head,
            **{name: value for name, value in request.row.items() if name != label},
            ID: request.id,
            PRIORITY: place,
            ERROR: round(request.error, 6),
            WHY: request.why,
            MARGIN: request.margin,
        }
        for place, request in enumerate(asked, start=1)
    ]
    durable.replace(path, _table(rows) if format_of(path.name) == "csv" else _objects(rows))


@dataclass
class Came:
    """What became of answers."""

    learned: int = 0
    repeated: int = 0  # the same event once more
    unknown: int = 0  # of no event that was asked for
    empty: int = 0  # still without a label

    def told(self) -> str:
        """For people."""
        parts = [f"{self.learned:,} answers learned"]
        rest = ((self.repeated, "given before"), (self.unknown, "of events never asked for"))
        parts += [f"{n:,} {what}" for n, what in (*rest, (self.empty, "still empty")) if n]
        return ", ".join(parts)


def learn_answers(model: Model, answers: Source, asked: Source, id: str | None = None) -> Came:
    """Learn answers to requests, in the order in which these were asked, each event once.

    ``answers`` has a column of ids and one of labels, in any order. An event that was answered
    before stays as it was learned. Answers by chance are counted in the model's audit. A label
    that cannot be is refused before anything is learned.
    """
    came, audit = Came(), Audit.of(model.session)
    seen = list(model.session.get(ANSWERED, []))
    labels = _labels(answers, id or ID, came)
    given = {str(row[ID]): row for _, row in _raw(asked)}
    came.unknown = sum(key not in given for key in labels)
    before = set(seen)
    todo = [key for key in given if key in labels]
    came.repeated += sum(key in before for key in todo)
    events = _events(model, asked)
    wanted = [key for key in todo if key not in before]
    for key in wanted:
        model.check([events[key].features], [labels[key]], [events[key].task])
    for key in wanted:
        event, row = events[key], given[key]
        model.learn([event.features], [labels[key]], [event.task])
        came.learned += 1
        seen.append(key)
        if row[WHY] == BY_CHANCE and model.target == "two classes":
            side = np.array([model.side(labels[key])])
            audit.add_answers(model.numbers([event.task]), side, np.array([float(row[MARGIN])]))
    model.session |= {AUDIT_KEY: audit.state(), ANSWERED: seen}
    return came


def _labels(source: Source, id: str, came: Came) -> dict[str, str]:
    """The label of each id; the first of several is taken."""
    labels: dict[str, str] = {}
    for line, row in _raw(source):
        key = next((name for name in (id, ID, "id") if name in row), None)
        name = next((name for name in (source.label, "label") if name in row), None)
        if key is None or name is None:
            raise BadRow(source.path, line, None, f"expected columns {id!r} and {source.label!r}")
        if row[name] in (None, ""):
            came.empty += 1
        elif str(row[key]) in labels:
            came.repeated += 1
        else:
            labels[str(row[key])] = str(row[name])
    return labels


def _events(model: Model, asked: Source) -> dict[str, Any]:
    ignored = dict.fromkeys(ADDED, "ignored")
    known = remembered(model, replace(asked, kinds={**(asked.kinds or {}), **ignored}))
    ids = {line: str(row[ID]) for line, row in _raw(asked)}
    with known.events() as events:
        return {ids[event.line]: event for event in events}


def _numbers(tasks: tuple[str, ...]) -> Any:
    number = {task: n for n, task in enumerate(dict.fromkeys(tasks))}
    return np.array([number[task] for task in tasks], dtype=np.int64)


def _raw(source: Source) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The rows of a file as they are."""
    if source.path == STDIN:
        raise ValueError("events to be labelled are read more than once: give a file, not a pipe")
    kind = FORMATS[format_of(source.path, source.format)]
    stream, _ = opened(source.path, source.path)
    with stream:
        for row in kind.read(stream, source.path, ()):
            if not isinstance(row, BadRow):
                yield row
            elif not source.skip_bad:
                raise row


def _rows(source: Source, lines: set[int], id: str | None) -> dict[int, Mapping[str, Any]]:
    found = {line: row for line, row in _raw(source) if line in lines}
    for line, row in found.items():
        if id is not None and row.get(id) in (None, ""):
            raise BadRow(source.path, line, id, "an event without an id cannot be answered")
    return found


def _table(rows: list[dict[str, Any]]) -> Iterator[bytes]:
    text = io.StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(text, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    yield text.getvalue().encode("utf-8", "surrogateescape")


def _objects(rows: list[dict[str, Any]]) -> Iterator[bytes]:
    return (json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)
