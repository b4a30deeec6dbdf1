"""Merging of shards of a learner at a barrier.

With precision L and mean m, and a common start (L0, m0), Gaussians of shards k are merged by

    m = m0 + sum_k (L_k / L) (m_k - m0),      L = a L0 + sum_k (L_k - a_k L0)

where a_k is the share of the start's precision that the shard's forgetting left, and a that of all
shards together. Changes are added, not posteriors, so the prior is not counted once per shard.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romco.kernels.merge import rows as kernel
from romco.kernels.merge.gaussians import merge_gaussians
from romco.kernels.merge.rows import Column, FeatureCounts, Rule, TouchedRows, put_rows, take_rows
from romco.learners.base import Learner
from romco.learners.sharing import (
    Belief,
    Block,
    Floats,
    Full,
    Latest,
    PerFeature,
    PerPair,
    Steps,
    Sum,
    Whole,
    stored_pairs,
)

Values = dict[str, NDArray[Any]]
Pairs = tuple[NDArray[np.int64], NDArray[np.float64]]  # keys (task << 32) | feature, and values
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
    arrays, values = learner.arrays(), _small(learner)
    for line in learner.sharing():
        if isinstance(line, PerFeature):
            block = np.empty((len(rows), len(line.columns)))
            for view, own, part in _split(line, line.view(arrays, learner.n_features), block):
                take_rows(view, rows, own, part)
            values[line.name] = block
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
    rows, seen = [one.rows for one in active], [one.seen for one in active]
    arrays, start, rules = common.arrays(), _small(common), []
    for line in common.sharing():
        if isinstance(line, PerFeature):
            blocks = [list(_block(line, one).T) for one in active]
            rules += _rules(line, line.merged(arrays, common.n_features), blocks, False)
    touched = TouchedRows(rows, seen, common.n_features)
    _merge_rows(touched, rules, False, ranges)
    periods = [(one.events, one.values) for one in active]
    _put_small(common, _merged_small(common, start, periods))
    changed = touched.union()
    return Merged(changed, shared_values(common, changed))


class InPlaceMerge:
    """Merge of shards of this process, row by row, into ``common`` and into all of them."""

    def __init__(self, common: Learner, shards: Sequence[Learner]) -> None:
        self._learners = [common, *shards]
        arrays = [learner.arrays() for learner in self._learners]
        lines = [line for line in common.sharing() if isinstance(line, PerFeature)]
        self._names = [name for line in lines for name in line.arrays]
        self._arrays = [[own[name] for name in self._names] for own in arrays]
        self._rules: list[Rule] = []
        for line in lines:
            first, *others = (line.merged(own, common.n_features) for own in arrays)
            self._rules += _rules(line, first, others, True)

    def is_current(self, common: Learner, shards: Sequence[Learner]) -> bool:
        """Return whether these are the learners, and their arrays the same as before."""
        learners = [common, *shards]
        return learners == self._learners and all(
            arrays[name] is array
            for arrays, known in zip((one.arrays() for one in learners), self._arrays, strict=True)
            for name, array in zip(self._names, known, strict=True)
        )

    def run(self, periods: Sequence[Period], ranges: MapRanges) -> NDArray[np.int32]:
        """Merge at a barrier; return the changed rows. Nothing depends on ``ranges``."""
        common, *shards = self._learners
        rows, seen = [one.rows for one in periods], [one.seen for one in periods]
        start = _small(common)
        active = [(p.events, _small(s)) for p, s in zip(periods, shards, strict=True) if p.events]
        touched = TouchedRows(rows, seen, common.n_features)
        _merge_rows(touched, self._rules, True, ranges)
        small = _merged_small(common, start, active)
        changed = touched.union()
        for learner in self._learners:
            _put_small(learner, small)
            learner.invalidate_caches(changed)
        return changed


def apply_merged(learner: Learner, merged: Merged) -> None:
    """Replace the shared state by the merged one."""
    arrays = learner.arrays()
    for line in learner.sharing():
        if isinstance(line, PerFeature):
            views = line.view(arrays, learner.n_features)
            for view, own, part in _split(line, views, merged.values[line.name]):
                put_rows(view, merged.rows, own, part)
    _put_small(learner, merged.values)
    learner.invalidate_caches(merged.rows)


# Arrays with a row per feature


def _merge_rows(touched: TouchedRows, rules: list[Rule], live: bool, ranges: MapRanges) -> None:
    merging = kernel.RowMerge(touched, rules, live)
    merging.look()
    ranges(merging.rows, touched.size)


def _split(
    line: PerFeature, views: list[Floats], block: Floats
) -> list[tuple[Floats, NDArray[np.int64], Floats]]:
    """Return each array with its merged columns, and their part of ``block``."""
    parts, before, done = [], 0, 0
    for view in views:
        width = view.shape[1]
        own = [c - before for c in line.columns if before <= c < before + width]
        parts.append((view, np.array(own, dtype=np.int64), block[:, done : done + len(own)]))
        before, done = before + width, done + len(own)
    return parts


def _block(line: PerFeature, change: Change) -> Floats:
    block: Floats = change.values[line.name]
    if block.shape != (len(change.rows), len(line.columns)):
        raise ValueError(f"{line.name} of {len(change.rows)} rows has the shape {block.shape}")
    return block


def _rules(
    line: PerFeature | Whole, common: list[Floats], shards: list[list[Floats]], live: bool
) -> list[Rule]:
    """Return the compiled rules: first for rows of one shard, then for rows of several.

    ``common`` has the columns of the line in order, ``shards`` those of each shard.
    """
    columns = {
        int(column): Column(common[at], [own[at] for own in shards], live)
        for at, column in enumerate(line.columns)
    }
    alone = [c for part in line.parts if not isinstance(part, Steps) for c in part.columns]
    rules: list[Rule] = [kernel.CopyRule(*span) for span in _spans(columns, sorted(alone))]
    for part in line.parts:
        if isinstance(part, Belief):
            mean, spread = columns[part.mean], columns[part.spread]
            settings = part.prior, part.spent, part.forgetting
            rules.append(kernel.GaussianRule(mean, spread, *settings))
        elif isinstance(part, Sum):
            rules += [kernel.SumRule(*span, part.least) for span in _spans(columns, part.columns)]
        elif isinstance(part, Latest):
            rules += [kernel.LatestRule(*span) for span in _spans(columns, part.columns)]
        else:
            rules += [kernel.StepRule(columns[column]) for column in part.columns]
    return rules


def _spans(columns: dict[int, Column], numbers: Iterable[int]) -> list[tuple[Column, int]]:
    return kernel.side_by_side([columns[number] for number in numbers])


# Weights of single tasks, which are never merged


def pair_arrays(learner: Learner) -> tuple[str, ...]:
    """Return the names of the arrays of (task, feature) pairs: values, keys; () if none."""
    return next((line.arrays for line in learner.sharing() if isinstance(line, PerPair)), ())


def pairs(
    learner: Learner,
    arrays: Values,
    own: NDArray[np.int64],
    renamed: NDArray[np.int64] | None = None,
) -> Pairs:
    """Return the pairs of the tasks ``own``, which get the numbers ``renamed``."""
    renamed, names = own if renamed is None else renamed, pair_arrays(learner)
    if not names:
        return np.empty(0, dtype=np.int64), np.empty((0, 0))
    task, feature, values = stored_pairs(arrays[names[0]], arrays.get(names[1]))
    number = np.full(max(int(task.max(initial=0)), int(own.max(initial=0))) + 1, -1)
    number[own] = renamed
    kept = number[task] >= 0
    return (number[task[kept]] << 32) | feature[kept], values[kept]


def store_pairs(learner: Learner, arrays: Values, tables: Sequence[Pairs]) -> Values:
    """Return the arrays in which the learner stores the pairs of all tables."""
    names = pair_arrays(learner)
    if not names:
        return {}
    keys = np.concatenate([keys for keys, _ in tables])
    values = np.concatenate([values for _, values in tables])
    if names[1] in arrays:
        return {names[0]: values, names[1]: keys}
    dense = np.zeros_like(arrays[names[0]])
    dense[keys >> 32, keys & 0xFFFFFFFF] = values
    return {names[0]: dense}


# Small arrays, which are merged whole


def _small(learner: Learner) -> Values:
    arrays, values = learner.arrays(), {}
    for line in learner.sharing():
        if isinstance(line, Whole):
            values[line.name] = line.view(arrays).astype(np.float64)
        elif isinstance(line, Full):
            values |= {name: arrays[name].copy() for name in line.arrays}
        elif isinstance(line, Block):
            values[line.name] = line.kernel.read_block()
    return values


def _put_small(learner: Learner, values: Values) -> None:
    arrays = learner.arrays()
    for line in learner.sharing():
        if isinstance(line, Whole):
            line.view(arrays)[:, line.columns] = values[line.name][:, line.columns]
        elif isinstance(line, Full):
            for name in line.arrays:
                arrays[name][...] = values[name]
        elif isinstance(line, Block):
            line.kernel.put_block(values[line.name])


def _merged_small(common: Learner, values: Values, active: Sequence[tuple[int, Values]]) -> Values:
    """Merge into ``values``; ``active`` are events and small arrays of shards that had any."""
    arrays = common.arrays()
    for line in common.sharing() if active else ():
        if isinstance(line, Whole):
            _merge_whole(line, values[line.name], active)
        elif isinstance(line, Full):
            values |= _merge_full(line, arrays, active)
        elif isinstance(line, Block):
            parts = [own[line.name] for _, own in active]
            values[line.name] = _merge_block(values[line.name], parts, line.prior)
    return values


def _merge_whole(line: Whole, old: Floats, active: Sequence[tuple[int, Values]]) -> None:
    """Merge a small array as rows that every event touched."""
    n = len(old)
    rows = [np.arange(n, dtype=np.int32)] * len(active)
    seen = [np.full(n, events, dtype=np.int32) for events, _ in active]
    first, *others = (
        [values[:, column] for column in line.columns]
        for values in (old, *(own[line.name] for _, own in active))
    )
    rules = _rules(line, first, others, False)
    _merge_rows(TouchedRows(rows, seen, n), rules, False, run_at_once)


def _merge_full(line: Full, arrays: Values, active: Sequence[tuple[int, Values]]) -> Values:
    if len(active) == 1:
        return {name: active[0][1][name] for name in line.arrays}
    start = {name: arrays[name].copy() for name in line.arrays}
    means, covariances = line.view(start)
    events, parts = [n for n, _ in active], [line.view(own) for _, own in active]
    renewals = None if line.renewal is None else arrays[line.renewal].reshape(means.shape)
    for k in range(len(means)):
        own = [(mean[k], covariance[k]) for mean, covariance in parts]
        renewal = None if renewals is None else renewals[k]
        merged = merge_gaussians(means[k], covariances[k], own, events, renewal, line.ceiling)
        means[k], covariances[k] = merged
    return start


def _merge_block(start: Floats, parts: Sequence[Floats], prior: float) -> Floats:
    """Merge a block; only its variances where rounding left no covariance matrix."""
    if len(parts) == 1:
        return parts[0]
    means, before = [one[0] for one in parts], np.diag([1.0] + [prior] * len(start[0, 1:]))
    first, *others = (before - one[1:] for one in (start, *parts))
    try:
        found = merge_gaussians(start[0], first, list(zip(means, others, strict=True)))
    except np.linalg.LinAlgError:
        least = prior * np.finfo(np.float64).eps
        first, *others = (np.diag(np.maximum(np.diag(one), least)) for one in (first, *others))
        found = merge_gaussians(start[0], first, list(zip(means, others, strict=True)))
    return np.vstack([found[0], before - found[1]])
