"""Fit to rows that are all at hand: learned in several orders, averaged into one model.

Rows are first put into an order that does not depend on how they are given, so that the same rows
and the same seed give the same random orders. Names, labels and units of features are taken up
from all rows, and a first pass finds functions of columns. Then each order is learned by an engine
of its own, on a thread of its own, and the learners are averaged: each answer is learned once in
each order. A learner that cannot be averaged learns one random order, or several in turn where it
does not take each row as new evidence.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from threading import Event
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from romco.kernels.core.counts import Scale
from romco.kernels.io.encoded import Encoded
from romco.kernels.io.mappings import hash_name
from romco.learners import Learner
from romco.learners.capabilities import AveragesOrders
from romco.model.body import Body, as_round
from romco.model.engine import Engine
from romco.model.features import NamedFeatures, Sparse, as_matrix, count_rows
from romco.model.names import identities
from romco.model.rows import Rows, check_lengths, read_labelled, read_offsets
from romco.parameters import whole
from romco.rounds import Round
from romco.typing import Floats

Places = NDArray[np.intp]
Report = Callable[[float], object]  # takes the share of the work that is done
RANDOM_ORDERS = 3  # beside the one given
DEFAULT_EPOCHS = 5  # passes, where more than one is allowed and nothing is said
MEAN_COPIES_MAX = 100  # on average, that a row of whole weight is learned as
SLICE_ROWS = 1000  # learned between two reports; an interrupt waits for them


class Order(NamedTuple):
    """Places of rows in the order in which they are learned, some of them more than once."""

    places: Places
    weight: Floats | None = None  # of each; None: all 1

    def permuted(self, permutation: Places) -> "Order":
        """Return the same rows in another order."""
        weight = None if self.weight is None else self.weight[permutation]
        return Order(self.places[permutation], weight)

    def select(self, rows: Rows, begin: int = 0, end: int | None = None) -> Rows:
        """Return the rows from place ``begin`` to ``end``."""
        part = slice(begin, end)
        weight = None if self.weight is None else self.weight[part]
        return rows.select(self.places[part])._replace(weight=weight)


def fit(
    engine: Engine,
    rows: Rows,
    random: np.random.RandomState | None,
    epochs: int | None = None,
    report: Report | None = None,
) -> None:
    """Fit a new engine to all rows.

    With ``random`` in random orders, unless the engine has a history, which follows the order of
    rows. A row of weight 2 is a row given twice. If this is broken off, drop the engine.
    """
    passes = n_epochs(epochs, engine.learner)
    rows = _read(engine, rows)
    given = _copied(engine, rows, np.arange(len(rows.y)), random)
    _adopt_names(engine, rows)
    if random is None or engine.history is not None:
        _learn_passes(engine, rows, [given] * passes, report)
        return
    places = _canonical_places(rows, engine.target.kind == "number")
    canonical = _copied(engine, rows, places, random)
    n = len(canonical.places)
    if isinstance(engine.learner, AveragesOrders) and engine.learner.averages_orders:
        shuffled = [canonical.permuted(random.permutation(n)) for _ in range(RANDOM_ORDERS)]
        every = canonical.select(rows)
        engine.observe(every.x, every.task)
        engine.learner.start_events()
        _learn_and_average(engine, rows, [*shuffled, given], report)
        return
    shuffled = [canonical.permuted(random.permutation(n)) for _ in range(passes)]
    _learn_passes(engine, rows, shuffled, report)


def learn_weighted(engine: Engine, rows: Rows) -> None:
    """Learn rows in turn, all or none; a learner that cannot weigh takes whole weights as copies.

    What a row teaches does not depend on the weights beside it.
    """
    if rows.weight is not None and not engine.learner.supports_sample_weight:
        rows = _copied(engine, rows, np.arange(len(rows.y)), None).select(rows)
    engine.predict_and_learn(rows, with_probabilities=False)


def n_epochs(epochs: int | None, learner: Learner) -> int:
    """Return the number of passes over the rows: ``epochs``, else as the learner allows.

    Raises ValueError where more than one pass is asked of a learner that takes each row as
    evidence: rows would count several times, and its probabilities would be too sure.
    """
    once = learner.one_pass
    if epochs is None:
        return 1 if once else DEFAULT_EPOCHS
    if whole("epochs", epochs) > 1 and once:
        raise ValueError(
            f"epochs={epochs}: this learner takes each row as new evidence, so that a second pass "
            "would count it twice; leave epochs out, or choose another learner, as romco-nucl"
        )
    return epochs


# Learning


def _learn_passes(
    engine: Engine, rows: Rows, orders: Sequence[Order], report: Report | None
) -> None:
    """Learn one order after the other; a row counts as one event, however often it is learned."""
    total = len(orders) * len(orders[0].places)
    done = 0
    for at, order in enumerate(orders):
        if at and engine.history is not None:
            engine.history.clear()  # else a row would see its own label of the pass before
        for learned in _learn(engine, rows, order):
            done += learned
            if report is not None:
                report(done / total)
    if len(orders) > 1 and engine.history is None:
        engine.count_once(len(orders))


def _learn(engine: Engine, rows: Rows, order: Order) -> Iterator[int]:
    """Learn an order slice by slice; yield the number of rows of each."""
    for begin in range(0, len(order.places), SLICE_ROWS):
        some = order.select(rows, begin, begin + SLICE_ROWS)
        engine.predict_and_learn(some, with_probabilities=False)
        yield len(some.y)


def _rounds(engine: Engine, rows: Rows, order: Order) -> Iterator[Round]:
    """Yield the rows of an order, slice by slice, as the learner takes them."""
    for begin in range(0, len(order.places), SLICE_ROWS):
        batch = read_labelled(engine, order.select(rows, begin, begin + SLICE_ROWS))
        task = engine.tasks.numbers(batch.ids)
        yield as_round(engine.learner, batch.matrix, task, batch.y, batch.weight, batch.offset)


def _learn_and_average(
    engine: Engine, rows: Rows, orders: Sequence[Order], report: Report | None
) -> None:
    """Learn each order with a copy of the engine, and let the engine become their mean.

    The last order is the one given. The first one is learned before all others, too: what it
    finds of functions of columns is known in each.
    """
    total = (1 + len(orders)) * len(orders[0].places)
    done = 0

    def add(learned: int) -> None:
        nonlocal done
        done += learned
        if report is not None:
            report(done / total)

    scout = Engine.from_state(engine.state(copy=False))
    for learned in _learn(scout, rows, orders[0]):
        add(learned)
    learner: Any = engine.learner
    learner.adopt_functions(scout.learner)
    del scout  # which else takes the memory of one more learner
    state = engine.state(copy=False)
    copies = [Engine.from_state(state) for _ in orders]
    stop = Event()
    counts: SimpleQueue[int | None] = SimpleQueue()  # rows learned; None where an order ends

    def learn(copy: Engine, order: Order) -> None:
        try:
            for learned in _learn(copy, rows, order):
                counts.put(learned)
                if stop.is_set():
                    return
        finally:
            counts.put(None)

    with ThreadPoolExecutor(min(len(orders), os.cpu_count() or 1), "romco-fit") as pool:
        try:
            jobs = [pool.submit(learn, *job) for job in zip(copies, orders, strict=True)]
            for _ in jobs:
                while (count := counts.get()) is not None:
                    add(count)
        finally:
            stop.set()
    for job in jobs:
        job.result()
    first, *others, given = copies
    learner = first.learner
    rounds = _rounds(first, rows, orders[0])
    learner.average([other.learner for other in others], given.learner, rounds=rounds)
    engine.body = Body(learner, first.counts)
    engine.with_offset = first.with_offset
    scales = [(copy.scale.log_a, copy.scale.curvature) for copy in copies]
    engine.adopt(Scale(*np.mean(scales, axis=0).tolist()))
    engine.body.note_personal_tasks()


# Rows


def _read(engine: Engine, rows: Rows) -> Rows:
    """Return encoded rows, for :meth:`Rows.select`; ValueError where lengths differ."""
    features = engine.features
    if isinstance(features, NamedFeatures):
        x: Any = features.encode(rows.x, True, sample=None)
    else:
        x = features.read(rows.x)
        x = as_matrix(x, features.width) if isinstance(x, Sparse) else x
    y = rows.y.tolist() if isinstance(rows.y, np.ndarray) else rows.y
    read = rows._replace(x=x, y=y).listed()
    if rows.offset is not None:
        read = read._replace(offset=read_offsets(rows.offset, engine.learner))
    check_lengths(x, task=read.task, y=read.y, weight=read.weight, offset=read.offset)
    if not count_rows(x):
        raise ValueError("there are no rows to fit")
    if read.weight is not None and not (np.asarray(read.weight) > 0.0).any():
        raise ValueError("every row has weight 0: nothing is left to learn")
    return read


def _adopt_names(engine: Engine, rows: Rows) -> None:
    """Let all tasks and labels be known from the beginning."""
    for task in dict.fromkeys(identities("task", rows.task)):
        if engine.tasks.find(task) < 0:
            engine.tasks.add(task)
    engine.target.adopt(engine.target.read(rows.y)[1])
    n_classes = 0
    if engine.learner.answers > 1:
        n_classes = len(engine.target.known)
    engine.make_room(0, len(engine.tasks), n_classes)


def _canonical_places(rows: Rows, numbers: bool) -> Places:
    """Return places of rows in an order that does not depend on how they are given."""
    labels = np.array(rows.y, dtype=np.float64) if numbers else _ranks(rows.y)
    return np.lexsort([_projections(rows.x), labels, _ranks(rows.task)])


def _ranks(names: Sequence[Any]) -> Places:
    """Return the place of each name among the sorted different ones."""
    different = sorted(set(names), key=str)
    places = dict(zip(different, range(len(different)), strict=True))
    return np.array(list(map(places.__getitem__, names)))


def _projections(x: Any) -> Floats:
    """Return a number for each row that hardly any other has, whatever the order of columns."""
    if not isinstance(x, Encoded):
        return np.asarray(x @ np.random.default_rng(0).normal(size=x.shape[1]))
    names = x.lexicon.names
    hashes = np.array(list(map(hash_name, map(str, names))), dtype=np.uint64)
    weights = hashes / 2.0**64 - 0.5
    rows = np.repeat(np.arange(len(x.starts) - 1), np.diff(x.starts))
    products = x.values * weights[x.names] if len(names) else x.values
    sums: Any = np.bincount(rows, products, minlength=len(x.starts) - 1)
    return np.asarray(sums)


def _copied(
    engine: Engine, rows: Rows, places: Places, random: np.random.RandomState | None
) -> Order:
    """Return rows as often as they count, where that is a whole number; else with their weights.

    For a learner that cannot weigh, parts of a copy are learned or not by chance, in proportion.
    """
    if rows.weight is None:
        return Order(places)
    weight = np.asarray(rows.weight, dtype=np.float64)[places]
    if engine.history is not None:
        return Order(places, weight)
    whole_parts = np.floor(weight)
    if (whole_parts == weight).all() and weight.sum() <= MEAN_COPIES_MAX * len(weight):
        return Order(np.repeat(places, whole_parts.astype(np.intp)))
    if random is None:
        return Order(places[weight > 0.0], weight[weight > 0.0])
    if engine.learner.supports_sample_weight:  # a heavy row in many small steps, as its copies
        times = np.minimum(np.ceil(weight), MEAN_COPIES_MAX).astype(np.intp)
        parts = np.repeat(weight / np.maximum(times, 1), times)
        return Order(np.repeat(places, times), parts)
    weight *= min(1.0, MEAN_COPIES_MAX * len(weight) / weight.sum())
    times = np.floor(weight) + (random.random_sample(len(weight)) < weight % 1.0)
    return Order(np.repeat(places, times.astype(np.intp)))
