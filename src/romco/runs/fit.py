"""Fit a model to a file, and score it on rows that were held out, beside one plain regression."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from romco.files import save
from romco.io.formats import OpenFile
from romco.io.reader import Block, Source, join_blocks
from romco.model import Model
from romco.model.features import Sparse, as_matrix
from romco.model.fitting import fit
from romco.model.names import canonical_name
from romco.runs.predict import as_rows, known_rows, usable_blocks
from romco.runs.resume import SourceRecord
from romco.typing import Floats

Places = NDArray[np.intp]
SAMPLED_ROWS = 100_000  # from which kinds of columns are inferred
HELD_OUT = 0.2  # share of the rows
LEAST_PROBABILITY = 1e-15  # in a log loss
MAX_ITERATIONS = 1000  # of the regression
CENTRED = 0.5  # share of cells that are not 0, from which on columns of the regression are centred


@dataclass(frozen=True)
class Errors:
    """Mean losses on rows that were held out."""

    error: float  # share of wrong labels; of numbers the root mean squared error
    log_loss: float | None  # None for numbers


@dataclass(frozen=True)
class HeldOut:
    """Scores on some of the rows, by what was fitted to the others."""

    name: str
    rows: int
    model: Errors
    regression: Errors | None  # None where there is an offset, or one label, which it cannot take


@dataclass
class FitRun:
    """One file that a new model is fitted to.

    ``make`` returns a new model; ``report`` takes a text and the share of the work that is done.
    """

    source: Source
    make: Callable[[], Model]
    seed: int
    report: Callable[[str, float], object]
    skipped: int = 0  # bad rows

    def read(self) -> Block:
        """Return all rows of the file; ValueError where there are none."""
        model = self.make()
        labels_known = model.engine.target.kind == "number" or len(model.classes) == 2
        parts = []
        with self.source.open() as reader:
            for block in usable_blocks(reader, self.source):
                known = block
                if labels_known:
                    known = block.at(known_rows(model, self.source, block))
                self.skipped += len(block) - len(known)
                parts.append(known)
                self.report("reading", reader.progress() or 0.0)
            self.skipped += reader.skipped
        if not sum(map(len, parts)):
            raise ValueError(f"{self.source.path} has no events to fit")
        rows = join_blocks(parts)
        labels = set(map(canonical_name, rows.labels))
        if len(labels) == 1 and model.engine.target.kind != "number":
            raise ValueError(f"all rows have the label {rows.labels[0]!r}: add rows of another one")
        return rows

    def hold_out(self, rows: Block) -> Iterator[HeldOut]:
        """Yield scores on the last fifth of the rows, and on a fifth that is drawn at random.

        A fifth whose labels no other row has is left out.
        """
        n = len(rows)
        size = int(HELD_OUT * n)
        if not size:
            return
        order = np.arange(n)
        yield from self._score("last fifth", rows, order[:-size], order[-size:])
        if self.make().engine.history is None:  # else rows need those before them
            drawn = np.random.RandomState(self.seed).permutation(n)
            chosen = np.sort(drawn[:size])
            others = np.sort(drawn[size:])
            yield from self._score("random fifth", rows, others, chosen)

    def fit(self, rows: Block, what: str = "all rows") -> Model:
        """Return a new model, fitted to rows."""
        model = self.make()
        report = partial(self.report, f"fitting {what}")
        fit(model.engine, as_rows(rows), np.random.RandomState(self.seed), report=report)
        return model

    def save(self, model: Model, rows: Block, path: Path) -> None:
        """Write a model that goes on learning after the rows of the file."""
        schema = self.source.schema
        assert schema is not None
        schema.store(model.session, path.name)
        model.schema = schema
        with OpenFile(self.source.path, self.source.format) as file:
            record = SourceRecord.of(model.session, self.source.path, file.raw)
        record.events = len(rows)
        record.store(model.session, self.source.path, skipped=self.skipped, open=False)
        save(model, path)

    def _score(self, name: str, rows: Block, train: Places, test: Places) -> Iterator[HeldOut]:
        learned = rows.at(train)
        model = self.fit(learned, f"all but the {name}")
        held_out = rows.at(test)
        held_out = held_out.at(known_rows(model, replace(self.source, skip_bad=True), held_out))
        if not len(held_out):
            return
        self.report(f"one regression for the {name}", 0.0)
        regression = None
        labels = set(map(canonical_name, learned.labels))
        if rows.offsets is None and len(labels) > 1:
            regression = score(model, held_out, regress(model, learned, held_out))
        own = score(model, held_out, predict(model, held_out))
        yield HeldOut(name, len(held_out), own, regression)


def predict(model: Model, rows: Block) -> Floats:
    """Return probabilities (n, K) of rows, or numbers (n,)."""
    if model.engine.target.kind == "number":
        return model.margins(rows.features, rows.tasks, offset=rows.offsets)
    return model.predict_proba(rows.features, rows.tasks, offset=rows.offsets)


def score(model: Model, rows: Block, predicted: Floats) -> Errors:
    """Return the errors of what was predicted of rows, whose labels the model knows."""
    target = model.engine.target
    truth = np.array(list(map(target.number_of, rows.labels)))
    if target.kind == "number":
        return Errors(float(np.sqrt(np.mean((predicted - truth) ** 2))), None)
    places = _places_of(model, truth)
    wrong = np.argmax(predicted, axis=1) != places
    chances = predicted[np.arange(len(places)), places]
    log_loss = np.log(1.0 / np.maximum(chances, LEAST_PROBABILITY)).mean()  # 0 without a sign
    return Errors(float(wrong.mean()), float(log_loss))


def regress(model: Model, learned: Block, asked: Block) -> Floats:
    """Predict by one regression for all tasks: numbers of unit variance, the task one-hot."""
    from scipy.sparse import hstack  # here: slow to import
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    features = model.engine.features
    tables = []
    for rows in (learned, asked):
        read = features.read(rows.features)
        assert isinstance(read, Sparse)
        tables.append(as_matrix(read, features.width))
    other_values = np.bincount(tables[0].indices, tables[0].data != 1.0, features.width)
    indicators = other_values == 0.0  # columns of nothing but zeros and ones
    centred = tables[0].nnz > CENTRED * np.prod(tables[0].shape)
    if centred:  # the same regression, found in half the iterations
        tables = [table.toarray() for table in tables]
    scale = StandardScaler(with_mean=centred).fit(tables[0])
    scale.scale_[indicators] = 1.0
    encode = OneHotEncoder(handle_unknown="ignore").fit(np.array(learned.tasks)[:, None])
    x, asked_x = (
        hstack([scale.transform(table), encode.transform(np.array(rows.tasks)[:, None])]).tocsr()
        for table, rows in zip(tables, (learned, asked), strict=True)
    )
    truth = np.array(list(map(model.engine.target.number_of, learned.labels)))
    if model.engine.target.kind == "number":
        found = Ridge().fit(x, truth, sample_weight=learned.weights)
        return np.asarray(found.predict(asked_x))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        regression = LogisticRegression(max_iter=MAX_ITERATIONS)
        regression.fit(x, _places_of(model, truth), sample_weight=learned.weights)
    chances = np.zeros((asked_x.shape[0], len(model.classes)))
    chances[:, regression.classes_] = regression.predict_proba(asked_x)
    return chances


def _places_of(model: Model, numbers: Floats) -> Places:
    """Return the place of each label among the classes of a model."""
    known = list(map(model.engine.target.number_of, model.classes))
    return np.argmax(numbers[:, None] == np.array(known), axis=1)
