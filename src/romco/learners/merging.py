"""Merging of shards of a learner at a barrier.

With precision L and mean m, and a common start (L0, m0), Gaussians of shards k are merged by

    m = m0 + sum_k (L_k / L) (m_k - m0),      L = a L0 + sum_k (L_k - a_k L0)

where a_k is the share of the start's precision that the shard's forgetting left, and a that of all
shards together. Changes are added, not posteriors, so the prior is not counted once per shard.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romco.kernels.core.counts import MEMORY
from romco.kernels.merge import rows as kernel
from romco.kernels.merge.gaussians import merge_gaussians
from romco.kernels.merge.rows import Column, FeatureCounts, Rule, TouchedRows
from romco.learners import sharing
from romco.learners.base import Learner
from romco.learners.sharing import (
    Belief,
    Block,
    ClassWeights,
    Counts,
    Full,
    Latest,
    Moments,
    PerFeature,
    PerPair,
    Pooled,
    Scale,
    Steps,
    Sum,
    Tracked,
    Whole,
    stored_pairs,
)
from romco.typing import Floats

Values = dict[str, NDArray[Any]]
Pairs = tuple[NDArray[np.int64], NDArray[np.float64]]  # keys (task << 32) | feature, and values
ScaleNumbers = tuple[float, float]  # a number learned by Newton steps, and its curvature
RangeFunction = Callable[[int, int], None]  # called with begin and end
MapRanges = Callable[[RangeFunction, int], object]  # calls it for ranges that cover 0 to n


@dataclass(frozen=True)
class Period:
    """Events of a shard since the last barrier, and their features."""

    events: int
    rows: NDArray[np.int32]  # (t,) features that occurred, sorted
    seen: NDArray[np.int32]  # (t,) number of entries of each


@dataclass(frozen=True)
class Change(Period):
    """The same with the shard's state, as far as it changed."""

    values: Values  # its rows of each array that is merged by feature, and small arrays whole


@dataclass(frozen=True)
class Merged:
    """Merged state of the ``rows`` (u,) that any shard changed."""

    rows: NDArray[np.int32]
    values: Values


def collect_change(learner: Learner, counts: FeatureCounts, events: int) -> Change:
    """Return all that ``events`` events since the last barrier changed."""
    rows, seen = counts.rows()
    return Change(events, rows, seen, shared_values(learner, rows))


def shared_values(learner: Learner, rows: NDArray[np.int32]) -> Values:
    """Return a copy of the shared state: these rows, and small arrays."""
    arrays = learner.arrays()
    values = _small(learner, rows)
    for line in learner.sharing():
        if isinstance(line, PerFeature):
            for name, view in line.views(arrays, learner.n_features).items():
                values[name] = view.take(rows, axis=0)
    return values


def run_at_once(function: RangeFunction, n: int) -> None:
    """Call a function for one range."""
    function(0, n)


def map_ranges(pool: Executor, k: int, function: RangeFunction, n: int) -> None:
    """Call ``function(begin, end)`` for k ranges of n rows at the same time."""
    ends = np.linspace(0, n, k + 1).astype(int).tolist()
    list(pool.map(function, ends[:-1], ends[1:]))


def merge(common: Learner, changes: Sequence[Change], ranges: MapRanges = run_at_once) -> Merged:
    """Merge changes of shards into ``common``, from which they started.

    Returns the argument of :func:`apply_merged` for each shard. Changes are in the order of the
    shards; those without events are skipped. The result does not depend on ``ranges``.
    """
    active = [one for one in changes if one.events]
    touched = _touched(active, common.n_features)
    changed = touched.union()
    start = _small(common, changed)
    arrays = common.arrays()
    n = common.n_features
    rules: list[Rule] = []
    for line in common.sharing():
        if isinstance(line, PerFeature):
            blocks = [line.all_columns(one.values, len(one.rows)) for one in active]
            rules += _rules(line, _columns(line, arrays, n), blocks, False)
    _merge_rows(touched, rules, False, ranges)
    _put_small(common, changed, _merged_small(common, start, active, changed))
    return Merged(changed, shared_values(common, changed))


class InPlaceMerge:
    """Merge of shards of this process, row by row, into ``common`` and into all of them."""

    def __init__(self, common: Learner, shards: Sequence[Learner]) -> None:
        self._learners = [common, *shards]
        self._rules: list[Rule] = []
        self._arrays: list[Values] = [{} for _ in self._learners]  # that are merged by feature
        arrays = [learner.arrays() for learner in self._learners]
        for line in common.sharing():
            if isinstance(line, PerFeature):
                first, *others = (_columns(line, own, common.n_features) for own in arrays)
                self._rules += _rules(line, first, others, True)
                for own, merged in zip(arrays, self._arrays, strict=True):
                    merged |= {name: own[name] for name in line.arrays}

    def is_current(self, common: Learner, shards: Sequence[Learner]) -> bool:
        """Return whether these are the learners, and their arrays the same as before."""
        if [common, *shards] != self._learners:
            return False
        for learner, merged in zip(self._learners, self._arrays, strict=True):
            arrays = learner.arrays()
            if any(arrays[name] is not array for name, array in merged.items()):
                return False
        return True

    def run(self, periods: Sequence[Period], ranges: MapRanges) -> NDArray[np.int32]:
        """Merge at a barrier; return the changed rows. Nothing depends on ``ranges``."""
        common, *shards = self._learners
        touched = _touched(periods, common.n_features)
        changed = touched.union()
        start = _small(common, changed)
        active = [
            Change(period.events, period.rows, period.seen, _small(shard, period.rows, copy=False))
            for period, shard in zip(periods, shards, strict=True)
            if period.events
        ]
        _merge_rows(touched, self._rules, True, ranges)
        small = _merged_small(common, start, active, changed)
        for learner in self._learners:
            _put_small(learner, changed, small)
        return changed


def apply_merged(learner: Learner, merged: Merged) -> None:
    """Replace the shared state by the merged one."""
    arrays = learner.arrays()
    for line in learner.sharing():
        if isinstance(line, PerFeature):
            for name, view in line.views(arrays, learner.n_features).items():
                view[merged.rows] = merged.values[name]
    _put_small(learner, merged.rows, merged.values)


# Arrays with a row per feature


def _touched(periods: Sequence[Period], n_features: int) -> TouchedRows:
    rows = [one.rows for one in periods]
    seen = [one.seen for one in periods]
    return TouchedRows(rows, seen, n_features)


def _merge_rows(touched: TouchedRows, rules: list[Rule], live: bool, ranges: MapRanges) -> None:
    merging = kernel.RowMerge(touched, rules, live)
    merging.look()
    ranges(merging.rows, touched.size)


def _columns(line: PerFeature, arrays: Values, n: int) -> list[Floats]:
    """Return the live columns of a learner's arrays with a row for each of n features."""
    return line.all_columns(line.views(arrays, n), n)


def _rules(
    line: PerFeature | ClassWeights,
    common: list[Floats],
    shards: list[list[Floats]],
    live: bool,
) -> list[Rule]:
    """Return the compiled rules: first for rows of one shard, then for rows of several.

    ``common`` has the columns of the line in order, ``shards`` those of each shard.
    """
    columns = [Column(own, others, live) for own, *others in zip(common, *shards, strict=True)]
    copied: list[int] = []
    for part in line.parts:
        if not isinstance(part, Steps):
            copied += part.columns
    rules: list[Rule] = [kernel.CopyRule(*span) for span in _spans(columns, sorted(copied))]
    for part in line.parts:
        if isinstance(part, Belief):
            pair = columns[part.mean], columns[part.spread]
            rules.append(kernel.GaussianRule(*pair, part.prior, part.spent))
        elif isinstance(part, Sum):
            rules += [kernel.SumRule(*span) for span in _spans(columns, part.columns)]
        elif isinstance(part, Pooled):
            rules.append(kernel.PooledRule(*(columns[column] for column in part.columns)))
        elif isinstance(part, Latest):
            count = None if part.count is None else columns[part.count]
            rules += [kernel.LatestRule(*span, count) for span in _spans(columns, part.columns)]
        elif isinstance(part, Steps):
            rules += [kernel.StepRule(columns[column]) for column in part.columns]
    return rules


def _spans(columns: list[Column], numbers: Iterable[int]) -> list[tuple[Column, int]]:
    return kernel.side_by_side([columns[number] for number in numbers])


# Weights of single tasks, which are never merged


def pair_lines(learner: Learner) -> list[PerPair]:
    """Return the lines of the arrays of (task, feature) pairs: values, keys."""
    return [line for line in learner.sharing() if isinstance(line, PerPair)]


def pairs(
    line: PerPair, arrays: Values, tasks: NDArray[np.int64], numbers: NDArray[np.int64]
) -> Pairs:
    """Return the pairs of some ``tasks``, which get other ``numbers``."""
    values_name, keys_name = line.arrays
    task, feature, values = stored_pairs(arrays[values_name], arrays.get(keys_name))
    most = max(int(task.max(initial=0)), int(tasks.max(initial=0)))
    number = np.full(most + 1, -1)
    number[tasks] = numbers
    kept = number[task] >= 0
    return (number[task[kept]] << 32) | feature[kept], values[kept]


def store_pairs(line: PerPair, arrays: Values, tables: Sequence[Pairs]) -> Values:
    """Return the arrays in which a learner stores the pairs of all tables."""
    values_name, keys_name = line.arrays
    keys = np.concatenate([keys for keys, _ in tables])
    values = np.concatenate([values for _, values in tables])
    if keys_name in arrays:
        return {values_name: values, keys_name: keys}
    dense = np.zeros_like(arrays[values_name])
    dense[keys >> 32, keys & 0xFFFFFFFF] = values
    return {values_name: dense}


# Small arrays, which are merged whole, and weights of classes


def _small(learner: Learner, rows: NDArray[np.int32], copy: bool = True) -> Values:
    """Return a copy, or views, of small arrays, and a copy of weights of classes in these rows."""
    arrays = learner.arrays()
    values: Values = {}
    for line in learner.sharing():
        if isinstance(line, Whole):
            values[line.name] = line.view(arrays).astype(np.float64, copy=copy)
        elif isinstance(line, Full):
            values |= {name: arrays[name].astype(np.float64, copy=copy) for name in line.arrays}
        elif isinstance(line, Block):
            values[line.name] = line.kernel.read_block()
        elif isinstance(line, ClassWeights):
            values[line.name] = line.owner.read_weights(rows)
    return values


def _put_small(learner: Learner, rows: NDArray[np.int32], values: Values) -> None:
    arrays = learner.arrays()
    for line in learner.sharing():
        if isinstance(line, Whole):
            line.view(arrays)[:, : line.width] = values[line.name][:, : line.width]
        elif isinstance(line, Full):
            for name in line.arrays:
                arrays[name][...] = values[name]
        elif isinstance(line, Block):
            line.kernel.put_block(values[line.name])
        elif isinstance(line, ClassWeights):
            line.owner.put_weights(rows, values[line.name])


def _merged_small(
    common: Learner, values: Values, every: Sequence[Change], rows: NDArray[np.int32]
) -> Values:
    """Merge small arrays, and weights of classes in ``rows``, into ``values``, those at the start.

    Shards have had events.
    """
    arrays = common.arrays()
    lines = common.sharing()
    ways = {line.counts for line in lines}
    active_by = {counts: _active(counts, values, every) for counts in ways}  # before sums change
    for line in lines:
        active = active_by[line.counts]
        if not active:
            continue
        if isinstance(line, Whole):
            _merge_whole(line, values[line.name], active)
        elif isinstance(line, Full):
            values |= _merge_full(line, arrays, active)
        elif isinstance(line, Block):
            parts = [one.values[line.name] for one in active]
            values[line.name] = _merge_block(values[line.name], parts, line.prior)
        elif isinstance(line, ClassWeights):
            _merge_weights(line, values[line.name], active, rows)
    return values


def _active(counts: Counts | None, start: Values, every: Sequence[Change]) -> Sequence[Change]:
    """Return the changes of shards whose sums have changed, with as many events."""
    if counts is None:
        return every
    name, columns = counts
    index = list(columns)
    active = []
    for one in every:
        events = round((one.values[name] - start[name])[0, index].sum())
        if events > 0:
            active.append(replace(one, events=events))
    return active


def _merge_weights(
    line: ClassWeights, start: Floats, active: Sequence[Change], rows: NDArray[np.int32]
) -> None:
    """Merge weights of classes into ``start``: rows that every event touches, then those given."""
    n = len(start)
    fixed = n - len(rows)  # rows that every event touches
    every = np.arange(fixed)
    periods = []
    for one in active:
        touched = np.concatenate([every, fixed + np.searchsorted(rows, one.rows)])
        often = np.concatenate([np.full(fixed, one.events), one.seen])
        periods.append(Period(one.events, touched.astype(np.int32), often.astype(np.int32)))
    columns = [list(one.values[line.name].T) for one in active]
    rules = _rules(line, list(start.T), columns, False)
    _merge_rows(_touched(periods, n), rules, False, run_at_once)


def _merge_whole(line: Whole, start: Floats, active: Sequence[Change]) -> None:
    """Merge a small array, whose rows every event touched, into ``start``."""
    values = [one.values[line.name] for one in active]
    events = [one.events for one in active]
    most = values[events.index(max(events))]
    for part in line.parts:
        if isinstance(part, Moments):
            values = _from_one_origin(part, values)
            start[:, part.origin] = values[0][:, part.origin]
            _add_changes(start, values, (part.count, part.total, part.squares))
        elif isinstance(part, sharing.Merged):
            part.merge(start, values)
        elif isinstance(part, Tracked):
            _merge_tracked(part, start, values, events)
        elif isinstance(part, Scale):
            _merge_scale(part, start, values, events)
        elif isinstance(part, Sum):
            _add_changes(start, values, part.columns)
        elif isinstance(part, Latest):
            columns = _index(part.columns)
            start[:, columns] = most[:, columns]


@cache
def _index(columns: tuple[int, ...]) -> slice | list[int]:
    """Return an index of columns: a slice, which copies nothing, where they lie side by side."""
    if columns and columns == tuple(range(columns[0], columns[-1] + 1)):
        return slice(columns[0], columns[-1] + 1)
    return list(columns)


def _add_changes(start: Floats, values: Sequence[Floats], columns: tuple[int, ...]) -> None:
    """Add the changes of all shards to some columns; a single shard's values stay as they are."""
    at = _index(columns)
    before = start[:, at]
    total = values[0][:, at]
    for own in values[1:]:
        total = total + (own[:, at] - before)
    start[:, at] = total


def _from_one_origin(part: Moments, values: Sequence[Floats]) -> list[Floats]:
    """Return copies whose sums are measured from the origin of the first."""
    copies = [own.copy() for own in values]
    for own in copies:
        moved = own[:, part.origin] - copies[0][:, part.origin]
        count = own[:, part.count]
        own[:, part.squares] += moved * (2.0 * own[:, part.total] + moved * count)
        own[:, part.total] += moved * count
        own[:, part.origin] = copies[0][:, part.origin]
    return copies


def _merge_tracked(
    part: Tracked, start: Floats, values: Sequence[Floats], events: Sequence[int]
) -> None:
    """Move ``start`` by the shards' moves, as far as all their events together would."""
    before = np.inf
    if part.count is not None:
        before = start[0, part.count]
    shares = [1.0 - _share_left(part.pace, before, n) for n in events]
    share = (1.0 - _share_left(part.pace, before, sum(events))) / sum(shares)
    columns = _index(part.columns)
    move = sum(own[:, columns] - start[:, columns] for own in values)
    start[:, columns] += share * move


def _merge_scale(
    part: Scale, start: Floats, values: Sequence[Floats], events: Sequence[int]
) -> None:
    at = list(part.columns)
    for row, before in enumerate(start):
        parts = [own[row, at].tolist() for own in values]
        before[at] = merge_scales(before[at].tolist(), parts, events)


def merge_scales(
    start: ScaleNumbers, parts: Sequence[ScaleNumbers], events: Sequence[int]
) -> ScaleNumbers:
    """Merge scales as Gaussians of log a whose precision is the curvature.

    An event keeps ``MEMORY`` of the precision before; a curvature is at least 1.

    >>> merge_scales((0.0, 1.0), [(0.5, 9.0), (0.0, 1.0)], [10, 0])
    (0.5, 9.0)
    """
    active = [(part, n) for part, n in zip(parts, events, strict=True) if n]
    if len(active) < 2:
        if active:
            return active[0][0]
        return start
    log_a, curvature = start
    total = max(1.0, curvature * MEMORY ** sum(n for _, n in active))
    step = 0.0
    for (own, precision), n in active:
        total += precision - max(1.0, curvature * MEMORY**n)
        step += precision * (own - log_a)
    total = max(1.0, total)
    return log_a + step / total, total


def _share_left(pace: float, before: float, events: int) -> float:
    """Return the share of a start that so many events leave, each of which takes a part of it."""
    early = float(min(max(0.0, 2.0 / pace - 2.0 - before), events))  # until the pace is larger
    left = (1.0 - pace) ** (events - early)
    if early:
        left *= (before + 1.0) * (before + 2.0) / (before + early + 1.0) / (before + early + 2.0)
    return left


def _merge_full(line: Full, arrays: Values, active: Sequence[Change]) -> Values:
    if len(active) == 1:
        return {name: active[0].values[name] for name in line.arrays}
    start = {name: arrays[name].copy() for name in line.arrays}
    means, covariances = line.view(start)
    events = [one.events for one in active]
    parts = [line.view(one.values) for one in active]
    for k in range(len(means)):
        gaussians = [(mean[k], covariance[k]) for mean, covariance in parts]
        before = means[k], covariances[k]
        merged = merge_gaussians(*before, gaussians, events, line.forgetting, line.ceiling)
        means[k], covariances[k] = merged
    return start


def _merge_block(start: Floats, parts: Sequence[Floats], prior: float) -> Floats:
    """Merge a block; only its variances where rounding left no covariance matrix."""
    if len(parts) == 1:
        return parts[0]
    blocks = [start, *parts]
    diagonal = np.full(start.shape[1], prior)
    diagonal[0] = 1.0  # of the intercept
    before = np.diag(diagonal)
    means = [block[0] for block in blocks]
    covariances = [before - block[1:] for block in blocks]
    try:
        mean, covariance = _merge_gaussians(means, covariances)
    except np.linalg.LinAlgError:
        least = prior * np.finfo(np.float64).eps
        variances = [np.maximum(np.diag(one), least) for one in covariances]
        mean, covariance = _merge_gaussians(means, list(map(np.diag, variances)))
    merged = np.empty_like(start)
    merged[0] = mean
    np.subtract(before, covariance, out=merged[1:])
    return merged


def _merge_gaussians(means: list[Floats], covariances: list[Floats]) -> tuple[Floats, Floats]:
    """Merge Gaussians, of which the first is what the others started from."""
    parts = list(zip(means[1:], covariances[1:], strict=True))
    return merge_gaussians(means[0], covariances[0], parts)
