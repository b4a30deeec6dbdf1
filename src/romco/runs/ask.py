"""Ask people for labels: learn under a budget, write the events to label, learn the answers."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
from romco.model.target import Predictions
from romco.runs.predict import usable_blocks, write_csv
from romco.runs.resume import STDIN

ID, PRIORITY, ERROR, WHY, MARGIN = "ask_id", "ask_priority", "ask_error", "ask_why", "ask_margin"
ADDED_COLUMNS = (ID, PRIORITY, ERROR, WHY, MARGIN)  # beside those of the events
DOUBTFUL, BY_CHANCE = "doubtful", "by chance"
ANSWERED = "answered"  # under which a model's session keeps the ids that were learned


class LabelBudget:
    """Learning of only the labels that a model's policy asks for; of other rows their sizes.

    Events are predicted, asked for and learned one after the other. Labels that were asked for by
    chance alone are an audit: what they say of all predictions is kept in the model's session.

    >>> model = Model(classes=("no", "yes"), labels=Budget(0.5, advance=0, seed=0))
    >>> rows = [{"a": 1.0}, {"b": 1.0}] * 20
    >>> labelled = Rows(rows, ["ann"] * 40, ["yes", "no"] * 20)
    >>> answers = LabelBudget(model).predict_and_learn(labelled)
    >>> model.events == model.labels.spent <= 21
    True
    """

    def __init__(self, model: Model) -> None:
        if model.labels is None or model.engine.target.kind != "two classes":
            raise ValueError("expected a model of two classes with a policy that asks for labels")
        self.model, self.policy = model, model.labels
        self.audit = Audit.of(model.session)

    def predict_and_learn(self, rows: Rows) -> Predictions:
        """Return what was predicted; events asked for are then learned, the others noticed."""
        if rows.weight is not None or rows.offset is not None:
            raise ValueError(
                "a model that asks for labels does not learn weights or offsets of a file yet: "
                "leave them out, or learn all labels"
            )
        rows = rows.listed()
        self.model.engine.check(rows)  # all of it, before any is learned
        singles = map(rows.select, np.arange(len(rows.y))[:, None])
        parts = [self._learn_one(row) for row in singles]
        self.model.session[AUDIT_KEY] = self.audit.state()
        margins, chances = np.array(parts).T if parts else np.empty((2, 0))
        return Predictions(margins, chances)

    def _learn_one(self, row: Rows) -> tuple[float, float]:
        engine = self.model.engine
        margins = engine.margins(row)
        task = engine.tasks.numbers(row.task)
        chance = engine.probability_of(margins)
        clipped = np.clip(chance, 1e-300, 1.0 - 1e-16)
        odds = np.copysign(np.log(clipped) - np.log1p(-clipped), margins + 0.0)
        if self.policy.choose(task, odds)[0]:
            engine.predict_and_learn(row, with_probabilities=False)
            if self.policy.audited[0]:
                side = np.array([engine.two_classes.number_of(row.y[0])])
                self.audit.add_answers(engine.tasks.numbers(row.task), side, odds)
        else:
            engine.observe(row.x, row.task)
        return float(margins[0]), float(chance[0])


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
    share = isinstance(budget, float)
    total = min(max(1, round(budget * len(events)) if share else int(budget)), len(events))
    policy = Budget.of(total, len(events), **options)
    number = {task: n for n, task in enumerate(dict.fromkeys(tasks))}
    chosen = policy.choose(np.array([number[task] for task in tasks], dtype=np.int64), margins)
    chance = policy.audited
    rest = np.argsort(-np.where(chosen, -1.0, errors), kind="stable")  # what is left is filled up
    chosen[rest[: total - int(chosen.sum())]] = True
    order = sorted(np.flatnonzero(chosen).tolist(), key=lambda e: (-errors[e], tasks[e], e))
    rows = _rows_at(known, {lines[e] for e in order}, id)
    label = (known.schema.label if known.schema else None) or "label"
    return [
        {
            **dict.fromkeys((*ADDED_COLUMNS, label), ""),
            **rows[lines[e]],
            label: "",
            ID: str(rows[lines[e]][id] if id else lines[e]),
            PRIORITY: place,
            ERROR: round(float(errors[e]), 6),
            WHY: BY_CHANCE if chance[e] else DOUBTFUL,
            MARGIN: float(margins[e]),
        }
        for place, e in enumerate(order, start=1)
    ]


def write_requests(requests: list[dict[str, Any]], path: Path) -> None:
    """Write events to label as CSV or JSON lines, by the suffix."""
    if format_of(path.name) == "csv":
        names = list(dict.fromkeys(name for row in requests for name in row))
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
        parts = [f"{self.learned:,} answers learned"]
        rest = ((self.repeated, "given before"), (self.unknown, "of events never asked for"))
        parts += [f"{n:,} {what}" for n, what in (*rest, (self.empty, "still empty")) if n]
        return ", ".join(parts)


def learn_answers(
    model: Model, answers: Source, requests: Source, id: str | None = None
) -> AnswerCounts:
    """Learn answers to requests, in the order in which these were asked, each event once.

    ``answers`` has a column of ids and one of labels, in any order. An event that was answered
    before stays as it was learned. Predictions by chance are counted in the model's audit. A label
    that cannot be is refused before anything is learned.
    """
    counts, audit = AnswerCounts(), Audit.of(model.session)
    seen = list(model.session.get(ANSWERED, []))
    labels = _labels(answers, id or ID, counts)
    rows = {str(row[ID]): (line, row) for line, row in _raw_rows(requests)}
    counts.unknown = sum(key not in rows for key in labels)
    before = set(seen)
    todo = [key for key in rows if key in labels]
    counts.repeated += sum(key in before for key in todo)
    events = _events(model, requests)
    wanted = [(key, events[rows[key][0]]) for key in todo if key not in before]
    for key, event in wanted:
        model.engine.check(Rows(event.features, event.tasks, [labels[key]]))
    for key, event in wanted:
        row = rows[key][1]
        model.learn(event.features, [labels[key]], event.tasks)
        counts.learned += 1
        seen.append(key)
        if row[WHY] == BY_CHANCE and model.engine.target.kind == "two classes":
            side = np.array([model.engine.two_classes.number_of(labels[key])])
            audit.add_answers(
                model.engine.tasks.numbers(event.tasks), side, np.array([float(row[MARGIN])])
            )
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
    with known.open(labelled=False) as reader:
        return {
            line: block.rows(at, at + 1)
            for block in reader.blocks()
            for at, line in enumerate(block.lines)
        }


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
