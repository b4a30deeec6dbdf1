"""Ask people for labels: write the events to label, learn the answers."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from romco.io import durable
from romco.io.formats import BadRow, OpenFile, format_of
from romco.io.inference import Column
from romco.io.reader import Block, Source
from romco.labels import Budget
from romco.labels.audit import AUDIT_KEY, Audit
from romco.labels.policies import doubt
from romco.model import Model
from romco.model.rows import Rows
from romco.runs.predict import usable_blocks, write_csv
from romco.runs.resume import STDIN

ID, PRIORITY, ERROR, WHY, MARGIN = "ask_id", "ask_priority", "ask_error", "ask_why", "ask_margin"
ADDED_COLUMNS = (ID, PRIORITY, ERROR, WHY, MARGIN)  # beside those of the events
DOUBTFUL, BY_CHANCE = "doubtful", "by chance"
ANSWERED = "answered"  # under which a model's session keeps the ids that were learned


def choose_requests(
    model: Model, source: Source, budget: float, id: str | None = None, **options: Any
) -> list[dict[str, Any]]:
    """Return the events of a file to label, the most urgent first; at most ``budget`` of them.

    Each has the columns of the file, an empty label, and the ``ADDED_COLUMNS``: its id, place,
    probability that the model is wrong, why it is asked for, and margin. ``budget`` is a number of
    labels (int) or a share of the events (float); ``id`` names the column of ids, else the line is
    the id; ``options`` are those of ``Budget.of``. Events chosen by chance are among them at the
    places that their probability of error gives.
    """
    known = source.resolve_to_predict(model.schema)
    events: list[tuple[int, str, float]] = []  # line, task, margin
    with known.open(labelled=False) as reader:
        for block in usable_blocks(reader, known):
            some = model.margins(block.features, block.tasks, offset=block.offsets)
            events += zip(block.lines, block.tasks, some.tolist(), strict=True)
    if not events:
        return []
    lines, tasks, scores = zip(*events, strict=True)
    margins = np.array(scores)
    errors = doubt(margins)
    if isinstance(budget, float):
        budget = round(budget * len(events))
    total = min(max(1, int(budget)), len(events))
    policy = Budget.of(total, len(events), **options)
    number: dict[str, int] = {}
    numbers = [number.setdefault(task, len(number)) for task in tasks]
    chosen = policy.choose(np.array(numbers, dtype=np.int64), margins)
    chance = policy.audited
    rest = np.argsort(-np.where(chosen, -1.0, errors), kind="stable")  # what is left is filled up
    chosen[rest[: total - int(chosen.sum())]] = True
    order = sorted(np.flatnonzero(chosen).tolist(), key=lambda e: (-errors[e], tasks[e], e))
    rows = _rows_at(known, {lines[e] for e in order}, id)
    assert known.schema is not None
    label = known.schema.label or "label"
    requests = []
    for place, e in enumerate(order, start=1):
        request = {**dict.fromkeys((*ADDED_COLUMNS, label), ""), **rows[lines[e]], label: ""}
        request[ID] = str(lines[e])
        if id:
            request[ID] = str(rows[lines[e]][id])
        request[PRIORITY] = place
        request[ERROR] = round(float(errors[e]), 6)
        request[WHY] = DOUBTFUL
        if chance[e]:
            request[WHY] = BY_CHANCE
        request[MARGIN] = float(margins[e])
        requests.append(request)
    return requests


def write_requests(requests: list[dict[str, Any]], path: Path) -> None:
    """Write events to label as CSV or JSON lines, by the suffix."""
    if format_of(path.name) == "csv":
        names = list(dict.fromkeys(chain.from_iterable(requests)))
        durable.replace(path, write_csv(requests, names))
    else:
        lines = (json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in requests)
        durable.replace(path, lines)


@dataclass
class AnswerCounts:
    """Counts of answers: learned, repeated, unknown, still empty."""

    learned: int = 0
    repeated: int = 0  # the same event once more
    unknown: int = 0  # of no event that was asked for
    empty: int = 0  # still without a label

    def __str__(self) -> str:
        text = f"{self.learned:,} answers learned"
        if self.repeated:
            text += f", {self.repeated:,} given before"
        if self.unknown:
            text += f", {self.unknown:,} of events never asked for"
        if self.empty:
            text += f", {self.empty:,} still empty"
        return text


def learn_answers(
    model: Model, answers: Source, requests: Source, id: str | None = None
) -> AnswerCounts:
    """Learn answers to requests, in the order in which these were asked, each event once.

    ``answers`` has a column of ids and one of labels, in any order. An event that was answered
    before stays as it was learned. Predictions by chance are counted in the model's audit. A label
    that cannot be is refused before anything is learned.
    """
    counts = AnswerCounts()
    audit = Audit.of(model.session)
    seen = list(model.session.get(ANSWERED, []))
    labels = _labels(answers, id or ID, counts)
    rows = {str(row[ID]): (line, row) for line, row in _raw_rows(requests)}
    counts.unknown = len(labels.keys() - rows.keys())
    events = _events(model, requests)
    before = set(seen)
    wanted = []
    for key, (line, _) in rows.items():
        if key in before:
            counts.repeated += key in labels
        elif key in labels:
            wanted.append((key, events[line]))
    for key, event in wanted:
        model.engine.check(Rows(event.features, event.tasks, [labels[key]]))
    for key, event in wanted:
        row = rows[key][1]
        model.learn(event.features, [labels[key]], event.tasks)
        counts.learned += 1
        seen.append(key)
        if row[WHY] == BY_CHANCE and model.engine.target.kind == "two classes":
            side = np.array([model.engine.two_classes.number_of(labels[key])])
            audit.add_answers(side, np.array([float(row[MARGIN])]))
    model.session |= {AUDIT_KEY: audit.state(), ANSWERED: seen}
    return counts


def _labels(source: Source, id: str, counts: AnswerCounts) -> dict[str, str]:
    """Return the label of each id; the first of several is taken."""
    labels: dict[str, str] = {}
    for line, row in _raw_rows(source):
        key = next((name for name in (id, ID, "id") if name in row), None)
        name = next((name for name in (source.label, "label") if name in row), None)
        if key is None or name is None:
            raise BadRow(source.path, line, None, f"expected columns {id!r} and {source.label!r}")
        if row[name] in (None, ""):
            counts.empty += 1
        elif str(row[key]) in labels:
            counts.repeated += 1
        else:
            labels[str(row[key])] = str(row[name])
    return labels


def _events(model: Model, requests: Source) -> dict[int, Block]:
    """Return the events of a file of requests by line, each as a block of one."""
    known = requests.resolve_to_predict(model.schema)
    assert known.schema is not None
    for column in ADDED_COLUMNS:
        known.schema.add(column, Column("ignored", "added", "by romco ask"))
    events = {}
    with known.open(labelled=False) as reader:
        for block in reader.blocks():
            for at, line in enumerate(block.lines):
                events[line] = block.rows(at, at + 1)
    return events


def _raw_rows(source: Source) -> Iterator[tuple[int, Mapping[str, Any]]]:
    if source.path == STDIN:
        raise ValueError("events to be labelled are read more than once: give a file, not a pipe")
    with OpenFile(source.path, source.format) as file:
        for row in file.format.read(file.stream, file.name, ()):
            if isinstance(row, BadRow):
                if not source.skip_bad:
                    raise row
            elif row is not None:
                yield row


def _rows_at(source: Source, lines: set[int], id: str | None) -> dict[int, Mapping[str, Any]]:
    rows = {line: row for line, row in _raw_rows(source) if line in lines}
    for line, row in rows.items():
        if id is not None and row.get(id) in (None, ""):
            raise BadRow(source.path, line, id, "an event without an id cannot be answered")
    return rows
