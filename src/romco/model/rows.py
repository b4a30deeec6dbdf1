"""Rows of a call: as they are given, and as they are once read and checked.

Reading looks names up and changes nothing but the schema of the columns. The functions take the
``engine`` whose names, target and history rows are read by.
"""

from collections.abc import Iterable, Sized
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from romco.kernels.core.events import LARGEST_FEATURE, LARGEST_WEIGHT
from romco.kernels.io.encoded import Encoded
from romco.kernels.step import Step
from romco.learners import Learner
from romco.learners.base import check_takes_weights
from romco.learners.capabilities import AddsClasses
from romco.model.features import (
    Matrix,
    NamedFeatures,
    Sparse,
    count_rows,
    needed_widths,
    select_rows,
    share_unseen,
)
from romco.model.lock import Hold
from romco.model.names import Id, identities
from romco.model.target import ManyClasses, TwoClasses
from romco.typing import Floats


class Rows(NamedTuple):
    """Rows of a call as they were given: made at each door, passed on whole, never changed."""

    x: Any
    task: Any
    y: Any = None
    weight: Any = None
    offset: Any = None
    context: Any = None  # of their predictions, where labels come late
    id: Any = None

    @classmethod
    def of_one(
        cls, x: Any, task: Any, y: Any = None, weight: float = 1.0, offset: Any = None
    ) -> Self:
        """Return one event as a row."""
        rows = cls([x], [task], [y])
        if weight != 1.0:
            rows = rows._replace(weight=[weight])
        if offset is not None:
            rows = rows._replace(offset=[offset])
        return rows

    def listed(self) -> Self:
        """Return the same with lists, as long as the weights, so that rows can be selected."""
        y, task, weight = list(self.y), list(check_sequence(self.task)), self.weight
        if weight is not None and not len(y) == len(task) == len(weight):
            lengths = f"{len(weight)} entries but y has {len(y)} and task {len(task)}"
            raise ValueError(f"weight has {lengths}")
        n = _given_rows(self.x)
        if n is not None and n != len(y):
            raise ValueError(f"x has {n} rows but y has {len(y)} entries")
        return self._replace(y=y, task=task)

    def select(self, index: NDArray[np.intp]) -> Self:
        """Return some of the rows."""

        def pick(values: Any) -> Any:
            if values is None:
                return None
            return list(map(values.__getitem__, index))

        def pick_numbers(values: Any) -> Any:
            if values is None:
                return None
            return np.asarray(values)[index]

        return self._replace(
            x=select_rows(self.x, index),
            task=pick(self.task),
            y=pick(self.y),
            weight=pick_numbers(self.weight),
            offset=pick_numbers(self.offset),
            context=pick(self.context),
            id=pick(self.id),
        )


class UnlabelledBatch(NamedTuple):
    """Rows that were read and checked, to be predicted."""

    matrix: Matrix
    ids: list[Any]  # task of each row
    offset: Floats | None  # as the learner sees it


class Batch(NamedTuple):
    """Rows that were read and checked, to be learned."""

    matrix: Matrix
    ids: list[Id]  # task of each row
    y: Floats
    weight: Floats | None
    offset: Floats | None  # as the learner sees it
    context: Floats | None  # prediction context of the rows; NaN where there is none
    names: list[tuple[Id, int]]  # new features and their columns
    labels: dict[Id, float]  # known once all rows are learned
    needed: NDArray[np.int64]  # columns that the rows up to each one need
    since: dict[Id, int]  # row in which each new label comes first


def read_unlabelled(
    engine: Step,
    rows: Rows,
    *,
    together: bool = False,
    observing: bool = False,
    learned: bool | None = None,
    unseen: bool = False,
) -> UnlabelledBatch:
    """Return rows to be predicted; parameters as in :func:`read_labelled`.

    Labels that the target does not know yet are not observed. Features that no event had are
    dropped; if ``unseen`` they have columns from the width on, shared by the rows.
    """
    labels, ids = None, list(check_sequence(rows.task))
    if observing and engine.history is not None:
        engine.history = engine.history.with_classes(len(engine.target.known))
        labels = engine.target.read_known(rows.y)
        ids = identities("task", ids)
    matrix = read_matrix(engine, rows.x, ids, None, labels, together=together, unseen=unseen)
    if unseen:
        matrix = share_unseen(matrix, engine.features.width)
    offset = read_offset(engine, rows.offset, engine.target.sign, learned)
    check_lengths(matrix, task=ids, offset=offset)
    return UnlabelledBatch(matrix, ids, offset)


def read_labelled(
    engine: Step,
    rows: Rows,
    *,
    together: bool = False,
    observing: bool = True,
    learned: bool | None = None,
) -> Batch:
    """Return rows to be learned; ValueError where one is bad.

    While ``observing`` the history observes their labels, without committing them; if rows are
    learned ``together``, after all were read. ``learned`` says whether any event was learned
    before, if not by this engine alone.
    """
    if learned is None:
        learned = engine.body.counts.events > 0
    y, labels = engine.target.read(rows.y)
    ids = identities("task", check_sequence(rows.task))
    n = len(ids)
    learner, history, context = engine.body.learner, engine.history, rows.context
    offset = past_features = None
    if rows.offset is not None or engine.with_offset:
        sign = sign_with(engine, labels, learned)
        offset = read_offset(engine, rows.offset, sign, learned)
    if learner.answers > 1 and isinstance(learner, AddsClasses):
        learner.check_classes(len(labels))
    if history is not None:
        past_features, context = history.split_context(context, n)
    context = read_context(context, n)
    lengths = {"task": ids, "y": y, "weight": rows.weight, "offset": offset}
    new: dict[Id, int] = {}
    if history is None:
        matrix = engine.features.read(rows.x, new)
        check_lengths(matrix, **lengths)
    else:
        encoded = engine.features.encode(rows.x, True)
        check_lengths(encoded, **lengths)
        observed = None
        if observing:
            observed = y
        with Hold(engine.locks.step):
            engine.history = history.with_classes(len(labels))
            matrix = read_matrix(engine, encoded, ids, new, observed, past_features, together)
    needed = np.zeros(n, dtype=np.int64)
    if new:
        needed = needed_widths(matrix)
    names = list(zip(identities("feature", new), new.values(), strict=True))
    new_labels = labels.keys() - engine.target.known.keys()
    since = {label: int(np.argmax(y == labels[label])) for label in new_labels}
    return Batch(matrix, ids, y, rows.weight, offset, context, names, labels, needed, since)


def read_matrix(
    engine: Step,
    x: Any,
    ids: list[Any],
    new: dict[Id, int] | None = None,
    y: Floats | None = None,
    given: Floats | None = None,
    together: bool = False,
    unseen: bool = False,
) -> Matrix:
    """Return rows of numbers, with history features where there is a history.

    Names not seen before are added to ``new``. Where it is None they are dropped, or, if
    ``unseen``, have columns beyond those that are known. Labels y are observed but not yet
    committed. They are as the learner sees them, NaN where one is not known. ``given`` are
    history features of rows that were predicted earlier.
    """
    history, features = engine.history, engine.features
    learned = new is not None
    if unseen and isinstance(features, NamedFeatures):
        x = features.encode(x, False, unseen=True)
        new = {}
    if history is None:
        return features.read(x, new)
    assert isinstance(features, NamedFeatures)
    if y is not None and isinstance(engine.target, TwoClasses):
        y = 0.5 + 0.5 * y  # as the history counts them: 0, 1, ...
    encoded = features.encode(x, learned)
    check_lengths(encoded, task=ids, y=y)
    at_once = y
    if together:
        at_once = None
    wide = history.expand(ids, encoded, at_once, given, learned=learned)
    if y is not None and together:
        history.observe(ids, encoded, y, learned=learned)
    return features.read(wide, new)


def read_offset(
    engine: Step, offset: Any, sign: float, learned: bool | None = None
) -> Floats | None:
    """Return offsets (n,), of classes (n, K), as the learner sees them.

    The first events learned decide whether a model has offsets; from then on all events do.
    Raises ValueError where that is not so.
    """
    if learned is None:
        learned = engine.body.counts.events > 0
    if learned and (offset is not None) != engine.with_offset:
        what = "without an offset, so each event takes no offset"
        if engine.with_offset:
            what = "with an offset, so each event needs an offset"
        raise ValueError(f"this model was learned {what}; begin a new model to change that")
    if offset is None:
        return None
    return sign * read_offsets(offset, engine.body.learner)


def sign_with(engine: Step, labels: dict[Id, float], learned: bool) -> float:
    """Return the sign once these labels are known, as offsets are learned by it."""
    target = engine.target
    if isinstance(target, ManyClasses) and len(labels) > engine.body.learner.answers:
        raise ValueError(
            f"a new label among {list(labels)}: a model with offsets needs all classes= first"
        )
    sign = target.changes(labels).get("sign", target.sign)
    if learned and sign != target.sign:
        raise ValueError(
            f"of the labels {list(labels)} another one is positive than offsets were learned "
            "for, before both were known: begin a new model, and name classes or positive"
        )
    return float(sign)


# Parts of rows


def _given_rows(x: Any) -> int | None:
    """Return the number of rows as they were given; None where they have no length."""
    if isinstance(x, Encoded | Sparse) or hasattr(x, "shape"):
        return count_rows(x)
    if not isinstance(x, Sized):
        return None
    return len(x)


def check_sequence(tasks: Iterable[Any]) -> Iterable[Any]:
    """Return the tasks; ValueError for a text, which is one task and no list of them."""
    if isinstance(tasks, str | bytes):
        raise ValueError(f"expected a task for each row, got the text {tasks!r}: put it in a list")
    return tasks


def check_lengths(rows: Matrix | Encoded, **others: Any) -> None:
    """Raise ValueError where something, that is not None, has not one entry per row."""
    n = count_rows(rows)
    for name, values in others.items():
        if values is not None and len(values) != n:
            raise ValueError(f"x has {n} rows but {name} has {len(values)} entries")


def read_weights(weight: Any, learner: Learner) -> Floats:
    """Return weights (n,) as numbers; ValueError where one is bad, or the learner takes none."""
    check_takes_weights(learner)
    limit = f"weight {{}}; a weight must be 0 or a positive number up to {LARGEST_WEIGHT:g}"
    return _read_numbers("weight", weight, 0.0, LARGEST_WEIGHT, limit)


def read_offsets(offset: Any, learner: Learner) -> Floats:
    """Return offsets as numbers (n,), of classes (n, K).

    Raises ValueError where one is bad, or the learner takes none.
    """
    if not learner.supports_offset:
        raise ValueError(f"{learner.name} takes no offset: leave it out, or take romco-auto")
    limit = f"the offset is {{}}; it must be finite and at most {LARGEST_FEATURE:g} in size"
    bounds = -LARGEST_FEATURE, LARGEST_FEATURE, limit
    if learner.answers < 2:
        return _read_numbers("offset", offset, *bounds)
    given = np.asarray(offset)
    if given.ndim != 2 or given.shape[1] != learner.answers:
        raise ValueError(
            f"expected an offset per row and class, (n, {learner.answers}), in Python; got shape "
            f"{given.shape}: name all classes= of the model, and give one for each"
        )
    return _read_numbers("offset", given.ravel(), *bounds).reshape(given.shape)


def _read_numbers(name: str, values: Any, least: float, largest: float, limit: str) -> Floats:
    """Return one number per row (n,); ValueError, with ``limit``, where one is out of bounds."""
    given = np.asarray(values)
    if given.ndim != 1 or given.dtype.kind not in "fiub":
        raise ValueError(f"expected one {name} per row; got {given.dtype}{list(given.shape)}")
    numbers = given.astype(np.float64)
    bad = np.flatnonzero(~((numbers >= least) & (numbers <= largest)))
    if len(bad):
        raise ValueError(f"row {bad[0]}: {limit.format(numbers[bad[0]])}")
    return numbers


def read_context(context: Any, n: int) -> Floats | None:
    """Return prediction contexts of n rows as an array (n, k), NaN in rows without one.

    None where no row has one.
    """
    if context is None or all(row is None for row in context):
        return None
    if len(context) != n:
        raise ValueError(f"x has {n} rows but context has {len(context)} entries")
    places = [i for i, row in enumerate(context) if row is not None]
    rows = np.array([context[i] for i in places], dtype=np.float64)
    if rows.ndim != 2 or not np.isfinite(rows).all():
        raise ValueError("context must be the numbers that prediction_context gave for each row")
    filled = np.full((n, rows.shape[1]), np.nan)
    filled[places] = rows
    return filled
