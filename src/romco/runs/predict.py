"""Predict the events of a file, write predictions as CSV, Parquet or JSON lines, score them."""

import csv
import io
import json
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from romco.evaluation import Score
from romco.evaluation.arrival import AT_ONCE, Arrival, LateLabels
from romco.evaluation.score import INTERVAL_LEVEL
from romco.io import durable
from romco.io.formats import BadRow
from romco.io.reader import Block, Reader, Source
from romco.kernels.core.events import LARGEST_FEATURE
from romco.learners.capabilities import GivesIntervals
from romco.model import Model
from romco.model.names import canonical_name
from romco.model.rows import Rows
from romco.model.target import Predictions
from romco.model.transaction import join_predictions
from romco.runs.resume import JSON_LINES_SUFFIXES, SourceRecord
from romco.typing import Floats

WRITTEN_ROWS = 10_000  # put into a Parquet file at a time


class Learns(Protocol):
    """A model, or one in shards."""

    @property
    def engine(self) -> Any:
        """The engine of a model, or whatever has its methods."""

    @property
    def session(self) -> dict[str, Any]:
        """Contents of the file to resume by; its notes are the user's."""


def predict(
    model: Model, source: Source, top: int | None = None
) -> Generator[dict[str, Any], None, int]:
    """Yield one prediction per event, see :func:`prediction_rows`.

    With ``top`` each has ``reasons``: what so many features add to the margin, and the rest.
    Returns at the end how many bad rows were skipped.
    """
    if top is not None:
        from romco.explanations import reasons  # here: it takes long to import

    source = source.resolve_to_predict(model.schema)
    with source.open(labelled=False) as reader:
        for block in usable_blocks(reader, source):
            answers = model.engine.predict_and_observe(as_rows(block)._replace(y=None))
            bounds = intervals_of(model, block)
            for at, row in enumerate(prediction_rows(model, block, answers, bounds)):
                if top is not None:
                    one = block.features.rows(at, at + 1)
                    row["reasons"] = reasons(model, one, block.tasks[at]).summary(top)
                yield row
        return reader.skipped


def intervals_of(model: Learns, block: Block) -> Floats | None:
    """Return low and high (n, 2) of numbers; None where the model gives none."""
    engine = model.engine
    if engine.target.kind != "number" or not isinstance(engine.learner, GivesIntervals):
        return None
    bounds: Floats = engine.intervals(as_rows(block), INTERVAL_LEVEL)
    return bounds


def usable_blocks(reader: Reader, source: Source) -> Iterator[Block]:
    """Yield blocks to the end; a row with a number that cannot be used is a bad row."""
    for block in reader.blocks():
        if _fault(block) is None:
            yield block
            continue
        for at in range(len(block)):
            one = block.rows(at, at + 1)
            why = _fault(one)
            if why is None:
                yield one
            elif source.skip_bad:
                reader.skipped += 1
            else:
                raise BadRow(source.path, one.lines[0], None, why)


def _fault(block: Block) -> str | None:
    """Return why a number of a block cannot be used; None if all can."""
    for what, values in (("feature", block.features.values), ("offset", block.offsets)):
        if values is None:
            continue
        largest = np.abs(values).max(initial=0.0)
        if np.isnan(largest):
            return f"the {what} is missing"
        if largest > LARGEST_FEATURE:
            return f"a {what} is {largest:g} in size; at most {LARGEST_FEATURE:g} can be used"
    return None


def prediction_rows(
    model: Learns, events: Block, answers: Predictions, bounds: Floats | None = None
) -> Iterator[dict[str, Any]]:
    r"""Yield predictions in the one form that files, JSON and Python share.

    ``line`` and ``task`` say which event; ``predicted`` is the label, ``probability`` that of the
    label named ``positive``, ``margin`` above 0 where that is predicted; ``label`` is the true one,
    where it is known. Many classes have ``probabilities`` instead once one is known, numbers the
    bounds ``low`` and ``high`` if they are given.

    >>> from romco.io.reader import Reader
    >>> from romco.io.schema import Schema
    >>> table = io.BytesIO(b"user,kind,age\nann,ham,3\n")
    >>> block, _ = Reader(table, Schema(task="user", label="kind"), format="csv").take(1)
    >>> model = Model("pa-unique", classes=("ham", "spam"))
    >>> [row] = prediction_rows(model, block, Predictions(np.ones(1), np.full(1, 0.7)))
    >>> row  # doctest: +NORMALIZE_WHITESPACE
    {'line': 2, 'task': 'ann', 'predicted': 'spam', 'probability': 0.7, 'positive': 'spam',
     'margin': 1.0, 'label': 'ham'}
    """
    target = model.engine.target
    kind = target.kind
    predicted = target.labels_of(answers.margins).tolist()
    names = list(map(str, target.classes))
    margins = answers.margins.tolist()
    chances = answers.probabilities.tolist()
    for at, label in enumerate(events.labels):
        row = {"line": events.lines[at], "task": events.tasks[at], "predicted": predicted[at]}
        if predicted[at] != predicted[at]:  # NaN: no number was known yet
            row["predicted"] = None
        if kind == "two classes":
            row |= {"probability": chances[at], "positive": target.positive}
            row["margin"] = margins[at]
        elif kind == "classes" and predicted[at] is not None:
            row["probabilities"] = dict(zip(names, chances[at], strict=False))
        elif bounds is not None and bounds[at, 0] < bounds[at, 1]:  # one number has no spread
            row["low"], row["high"] = bounds[at].tolist()
        if label is not None:
            row["label"] = label
            if kind == "number":
                with suppress(ValueError):  # a bad row, which is reported where it matters
                    row["label"] = float(label)
        yield row


def write_predictions(rows: Iterable[dict[str, Any]], path: Path) -> None:
    """Write predictions: ``.csv`` as CSV, ``.parquet`` or ``.pq`` as Parquet, or JSON lines.

    Tables have one column ``probability:CLASS`` per class, and reasons as JSON text.
    Raises ValueError where the suffix is that of something else.
    """
    if path.suffix not in (".csv", ".parquet", ".pq", *JSON_LINES_SUFFIXES):
        raise ValueError(f"{path.name}: answers are written as .jsonl, .csv or .parquet; rename it")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to put the answers in")
    if path.suffix == ".csv":
        durable.replace(path, write_csv(map(_flat, rows)))
    elif path.suffix in (".parquet", ".pq"):
        durable.replace(path, _parquet(map(_flat, rows)))
    else:
        durable.replace(path, (json.dumps(row).encode() + b"\n" for row in rows))


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if name == "probabilities":
            for label, chance in value.items():
                flat[f"probability:{label}"] = chance
        elif isinstance(value, dict | list):
            flat[name] = json.dumps(value)
        else:
            flat[name] = value
    flat.setdefault("label", None)
    return flat


def write_csv(rows: Iterable[dict[str, Any]], names: list[str] | None = None) -> Iterator[bytes]:
    """Yield rows as lines of CSV; the columns are ``names``, else those of the first row."""
    text = io.StringIO()
    writer = None
    for row in rows:
        if writer is None:
            writer = csv.DictWriter(text, names or list(row), restval="", lineterminator="\n")
            writer.writeheader()
        writer.writerow(row)
        yield text.getvalue().encode("utf-8", "surrogateescape")
        text.seek(0)
        text.truncate()


def _parquet(rows: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ImportError("writing Parquet needs pyarrow: pip install 'romco[files]'") from error
    first = list(islice(rows, WRITTEN_ROWS))
    buffer = io.BytesIO()
    schema = pa.Table.from_pylist(first).schema
    with pq.ParquetWriter(buffer, schema) as writer:
        for chunk in chain([first], iter(lambda: list(islice(rows, WRITTEN_ROWS)), [])):
            writer.write_table(pa.Table.from_pylist(chunk, schema=schema))
    yield buffer.getvalue()


@dataclass
class Evaluation:
    """Scores of answers to labelled events, of all events and by task."""

    model: Model
    whole: Any = None  # the score of all
    tasks: dict[str, Any] = field(default_factory=dict)  # without curves, which take memory
    skipped: int = 0  # bad rows
    learned: int = 0  # of the file's first events: learned by the model before
    weight_sum: float = 0.0
    weighted_loss: float = 0.0

    def __post_init__(self) -> None:
        self.whole = Score.of(self.model)

    def add(self, events: Block, answers: Predictions) -> None:
        """Count events whose labels the model knows."""
        self.whole.count(self.model, events.labels, answers)
        if events.weights is not None:
            self._add_weights(events, answers, events.weights)
        places: dict[str, list[int]] = {}
        for at, task in enumerate(events.tasks):
            places.setdefault(task, []).append(at)
        for task, some in places.items():
            if task not in self.tasks:
                self.tasks[task] = Score.of(self.model, curve=False)
            labels = list(map(events.labels.__getitem__, some))
            self.tasks[task].count(self.model, labels, _select(answers, some))

    def summary(self) -> dict[str, Any]:
        """Return all numbers by name; ``error`` is by events, ``error_by_tasks`` over tasks."""
        whole = self.whole.summary()
        name = "error"
        if self.model.engine.target.kind == "number":
            name = "rmse"
        tasks = {task: score.summary() for task, score in self.tasks.items()}
        by_tasks = None
        if tasks:
            by_tasks = float(np.mean(list(map(itemgetter(name), tasks.values()))))
        learned = {"events_learned_before": self.learned}
        return {**whole, f"{name}_by_tasks": by_tasks, **self.weighted(), **learned, "tasks": tasks}

    def weighted(self) -> dict[str, float]:
        """Return the error, or root mean squared error, by weight; nothing without weights."""
        if not self.weight_sum:
            return {}
        mean = self.weighted_loss / self.weight_sum
        if self.model.engine.target.kind == "number":
            return {"weighted_rmse": float(np.sqrt(mean))}
        return {"weighted_error": mean}

    def _add_weights(self, events: Block, answers: Predictions, weight: Floats) -> None:
        good = np.isfinite(weight) & (weight >= 0.0)
        if not good.all():
            line = events.lines[int(np.argmin(good))]
            raise ValueError(f"line {line}: a weight must be 0 or a positive number")
        target = self.model.engine.target
        if target.kind == "number":
            truth = np.array(list(map(target.number_of, events.labels)))
            losses = np.square(answers.margins - truth)
        else:
            pairs = zip(target.labels_of(answers.margins).tolist(), events.labels, strict=True)
            losses = np.array([float(canonical_name(a) != canonical_name(b)) for a, b in pairs])
        self.weight_sum += float(weight.sum())
        self.weighted_loss += float(weight @ losses)


def _select(answers: Predictions, at: Any) -> Predictions:
    """Return some of the answers."""
    return Predictions(answers.margins[at], answers.probabilities[at])


def evaluate(model: Model, source: Source, arrival: Arrival = AT_ONCE) -> Evaluation:
    """Return scores of a labelled source, of all events and by task; learns nothing.

    Labels enter the model's history, where it has one, when they arrive.
    """
    source = source.resolve_to_predict(model.schema)
    found = Evaluation(model)
    with suppress(ValueError):  # another file of this name
        found.learned = SourceRecord.of(model.session, source.path).events
    engine = model.engine

    def observe(piece: Block, context: Any = None) -> Predictions:
        return engine.predict_and_observe(as_rows(piece), together=piece.moments is not None)

    late = LateLabels(arrival, observe)

    def predict_block(block: Block) -> Predictions:
        if arrival.at_once or engine.history is None:
            return observe(block)
        late.check(block)
        parts = []
        for piece in late.pieces(block):
            parts.append(engine.predict_and_observe(as_rows(piece)._replace(y=None)))
            late.wait(piece, None)
        return join_predictions(parts)

    with source.open() as reader:
        for block in usable_blocks(reader, source):
            known = known_rows(model, source, block)
            answers = predict_block(block)
            if len(known):
                found.add(block.at(known), _select(answers, known))
            found.skipped += len(block) - len(known)
        found.skipped += reader.skipped
        return found


def as_rows(block: Block) -> Rows:
    """Return the events of a file as a model takes them."""
    return Rows(block.features, block.tasks, block.labels, block.weights, block.offsets)


def known_rows(model: Model, source: Source, block: Block) -> NDArray[np.intp]:
    """Return where a block has labels that the model knows; BadRow if others are not skipped."""
    unknown = set()
    for label in dict.fromkeys(block.labels):
        try:
            model.engine.target.number_of(label)
        except ValueError as error:
            if not source.skip_bad:
                column = None
                if source.schema:
                    column = source.schema.label
                line = block.lines[list(block.labels).index(label)]
                raise BadRow(source.path, line, column, str(error)) from None
            unknown.add(label)
    return np.flatnonzero([label not in unknown for label in block.labels])
