"""Shards of a learner meet: what each changed, what is made of it, and its taking over.

With precision L and mean m, and a common start (L0, m0), beliefs of shards k are merged by

    m = m0 + sum_k (L_k / L) (m_k - m0),      L = a L0 + sum_k (L_k - a_k L0)

where a_k is what the shard's forgetting left of the start's precision, a what that of all left.
Changes are added, not beliefs, so that the prior is not counted once for every shard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, NamedTuple, cast, final

import numpy as np
from numpy.typing import NDArray

from romco.kernels.merge import merging as compiled
from romco.kernels.merge.merging import Column, Rule, Touches
from romco.kernels.merge.touched import Touched, put_rows, take_rows
from romco.learners.base import Learner
from romco.learners.capabilities import Merges, TakesNote
from romco.learners.gaussians import merge_gaussians
from romco.learners.sharing import (
    Belief,
    Floats,
    Full,
    Latest,
    Part,
    PerFeature,
    PerPair,
    Steps,
    Sum,
    Whole,
)

Values = dict[str, NDArray[Any]]
Pairs = tuple[NDArray[np.int64], NDArray[np.float64]]
# Calls a function f(begin, end) for ranges that are 0 to n together.
Ranges = Callable[[Callable[[int, int], None], int], object]
_ABLE: set[type] = set()  # learners known to merge: to ask a class for methods takes long


class Period(NamedTuple):
    """What a shard did since the last barrier."""

    events: int
    rows: NDArray[np.int32]  # (t,) features that occurred
    seen: NDArray[np.int32]  # (t,) how often


@final
@dataclass(frozen=True)
class Change:
    """What a shard holds, at a barrier, of all that it changed since the last one.

    ``rows`` (t,) are the features that occurred, sorted, ``seen`` (t,) how often; ``values`` has
    their rows of each array that is merged by feature, and the whole of the small ones.
    """

    events: int
    rows: NDArray[np.int32]
    seen: NDArray[np.int32]
    values: Values


@final
@dataclass(frozen=True)
class Merged:
    """What all shards hold from a barrier on, of the ``rows`` (u,) that any of them changed."""

    rows: NDArray[np.int32]
    values: Values


def mergeable(learner: Learner) -> Merges:
    """The learner, if it can be sharded; raises ValueError with the reason if not."""
    if type(learner) not in _ABLE and not isinstance(learner, Merges):
        raise ValueError(f"{learner.name} cannot be sharded: {learner.undivided}")
    _ABLE.add(type(learner))
    return cast("Merges", learner)


def change(learner: Merges, touched: Touched, events: int) -> Change:
    """What the learner holds of all that ``events`` events since the last barrier touched."""
    rows, seen = touched.rows()
    return Change(events, rows, seen, held(learner, rows))


def held(learner: Merges, rows: NDArray[np.int32]) -> Values:
    """A copy of what the learner holds of all that is merged: these rows, and small arrays."""
    arrays, values = learner.arrays(), _small(learner)
    for line in learner.sharing():
        if isinstance(line, PerFeature):
            block = np.empty((len(rows), len(line.columns)))
            for view, own, part in _split(line, line.view(arrays, learner.n_features), block):
                take_rows(view, rows, own, part)
            values[line.name] = block
    return values


def at_once(act: Callable[[int, int], None], n: int) -> None:
    """All rows by the one who asks."""
    act(0, n)


def map_ranges(pool: Executor, k: int, function: Callable[[int, int], None], n: int) -> None:
    """Call ``function(begin, end)`` for k ranges of n rows at the same time.

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> ranges = []
    >>> with ThreadPoolExecutor(1) as pool:
    ...     map_ranges(pool, 3, lambda begin, end: ranges.append((begin, end)), 10)
    >>> ranges
    [(0, 3), (3, 6), (6, 10)]
    """
    ends = np.linspace(0, n, k + 1).astype(int).tolist()
    list(pool.map(function, ends[:-1], ends[1:]))


def merge(common: Merges, changes: Sequence[Change], ranges: Ranges = at_once) -> Merged:
    """Merge what shards changed into ``common``, from which they all started.

    Gives what each shard is to :func:`take`. The order of the changes is that of the shards;
    those of shards without events since the last barrier are passed over. ``ranges`` decides
    who does which rows, and when; it does not matter to the result.
    """
    active = [one for one in changes if one.events]
    rows, seen = [one.rows for one in active], [one.seen for one in active]
    arrays, rules = common.arrays(), []
    for line in common.sharing():
        if isinstance(line, PerFeature):
            views = line.view(arrays, common.n_features)
            blocks = [_block(line, one) for one in active]
            rules += _rules(line.parts, _sent(line, views, blocks))
    _merge_rows(Touches(rows, seen, common.n_features), rules, False, ranges)
    periods = [(one.events, one.values) for one in active]
    _put_small(common, _merged_small(common, periods))
    changed = _union(rows, common.n_features)
    return Merged(changed, held(common, changed))


def merge_here(
    common: Merges, shards: Sequence[Merges], periods: Sequence[Period], ranges: Ranges
) -> None:
    """The same where all shards are at hand: merged in place, row by row, into all of them."""
    touches = Touches([p.rows for p in periods], [p.seen for p in periods], common.n_features)
    arrays, owns = common.arrays(), [shard.arrays() for shard in shards]
    rules: list[Rule] = []
    for line in common.sharing():
        if isinstance(line, PerFeature):
            views = line.view(arrays, common.n_features)
            others = [line.view(own, common.n_features) for own in owns]
            rules += _rules(line.parts, _live(line, views, others))
    _merge_rows(touches, rules, True, ranges)
    active = [(p.events, s) for p, s in zip(periods, shards, strict=True) if p.events]
    small = _merged_small(common, [(events, _small(shard)) for events, shard in active])
    for learner in (common, *shards):
        _put_small(learner, small)
        _note(learner, [period.rows for period in periods])


def take(learner: Merges, merged: Merged) -> None:
    """Take over what was merged, in place."""
    arrays = learner.arrays()
    for line in learner.sharing():
        if isinstance(line, PerFeature):
            views = line.view(arrays, learner.n_features)
            for view, own, part in _split(line, views, merged.values[line.name]):
                put_rows(view, merged.rows, own, part)
    _put_small(learner, merged.values)
    _note(learner, [merged.rows])


def _note(learner: Merges, changed: Sequence[NDArray[np.int32]]) -> None:
    """Tell a learner, if it must know, which rows were changed by others."""
    if isinstance(learner, TakesNote):
        for rows in changed:
            learner.take_note(rows)


# What is merged by feature


def _merge_rows(touches: Touches, rules: list[Rule], live: bool, ranges: Ranges) -> None:
    merging = compiled.Merge(touches, rules, live)
    merging.look()
    ranges(merging.rows, touches.size)


def _union(rows: Sequence[NDArray[np.int32]], n_features: int) -> NDArray[np.int32]:
    """The rows that any shard touched, in order."""
    found = np.zeros(n_features, dtype=bool)
    for own in rows:
        found[own] = True
    return np.flatnonzero(found).astype(np.int32)


def _split(
    line: PerFeature, views: list[Floats], block: Floats
) -> list[tuple[Floats, NDArray[np.int64], Floats]]:
    """Each array with its columns that are merged, and the part of ``block`` that is theirs."""
    found, before, done = [], 0, 0
    for view in views:
        width = view.shape[1]
        own = [c - before for c in line.columns if before <= c < before + width]
        found.append((view, np.array(own, dtype=np.int64), block[:, done : done + len(own)]))
        before, done = before + width, done + len(own)
    return found


def _block(line: PerFeature, change: Change) -> Floats:
    """What a shard sent of its arrays."""
    block: Floats = change.values[line.name]
    if block.shape != (len(change.rows), len(line.columns)):
        raise ValueError(f"{line.name} of {len(change.rows)} rows has the shape {block.shape}")
    return block


def _sent(line: PerFeature, views: list[Floats], blocks: list[Floats]) -> dict[int, Column]:
    """The columns that are merged, of which the shards sent the rows they touched."""
    return {
        column: Column(_column(views, column), [block[:, at] for block in blocks], False)
        for at, column in enumerate(line.columns)
    }


def _live(line: PerFeature, views: list[Floats], others: list[list[Floats]]) -> dict[int, Column]:
    """The columns that are merged, of live arrays."""
    return {
        column: Column(_column(views, column), [_column(own, column) for own in others], True)
        for column in line.columns
    }


def _column(views: list[Floats], column: int) -> Floats:
    """A column of arrays side by side."""
    for view in views:
        if column < view.shape[1]:
            return view[:, column]
        column -= view.shape[1]
    raise IndexError(column)


def _rules(parts: Sequence[Part], columns: dict[int, Column]) -> list[Rule]:
    """How each of the columns is merged: first the rows of one shard, then those of several."""
    alone = [c for part in parts if not isinstance(part, Steps) for c in part.columns]
    rules: list[Rule] = [compiled.Copies(*span) for span in _spans(columns, sorted(alone))]
    for part in parts:
        if isinstance(part, Belief):
            mean, spread = columns[part.mean], columns[part.spread]
            how = part.prior, part.spent, part.forgetting
            rules.append(compiled.Beliefs(mean, spread, *how))
        elif isinstance(part, Sum):
            rules += [compiled.Sums(*span, part.least) for span in _spans(columns, part.columns)]
        elif isinstance(part, Latest):
            rules += [compiled.Latest(*span) for span in _spans(columns, part.columns)]
        else:
            rules += [compiled.Steps(columns[column]) for column in part.columns]
    return rules


def _spans(columns: dict[int, Column], numbers: Iterable[int]) -> list[tuple[Column, int]]:
    return compiled.side_by_side([columns[number] for number in numbers])


# Weights of single tasks, which are never merged


def pair_arrays(learner: Merges) -> tuple[str, ...]:
    """Return the names of the arrays of (task, feature) pairs: values, keys; () if none."""
    return next((line.arrays for line in learner.sharing() if isinstance(line, PerPair)), ())


def pairs(
    learner: Merges,
    arrays: Values,
    own: NDArray[np.int64],
    renamed: NDArray[np.int64] | None = None,
) -> Pairs:
    """Return keys and values of the pairs of the tasks ``own``, which get other numbers.

    A key is (task << 32) | feature.
    """
    renamed, names = own if renamed is None else renamed, pair_arrays(learner)
    if not names:
        return np.empty(0, dtype=np.int64), np.empty((0, 0))
    values, keys = arrays[names[0]], arrays.get(names[1])
    if keys is None:  # dense (m, d, width)
        task, feature = np.nonzero(values[own].any(axis=2))
        return (renamed[task] << 32) | feature, values[own[task], feature]
    number = np.full(max(int((keys >> 32).max(initial=0)), int(own.max(initial=0))) + 1, -1)
    number[own] = renamed
    task = number[keys >> 32]
    kept = task >= 0
    return (task[kept] << 32) | (keys[kept] & 0xFFFFFFFF), values[kept]


def store_pairs(learner: Merges, arrays: Values, tables: Sequence[Pairs]) -> Values:
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


# What is small, and merged as a whole


def _small(learner: Merges) -> Values:
    """A copy of the small arrays."""
    arrays, values = learner.arrays(), {}
    for line in learner.sharing():
        if isinstance(line, Whole):
            values[line.name] = line.view(arrays).astype(np.float64)
        elif isinstance(line, Full):
            values |= {name: arrays[name].copy() for name in line.arrays}
    return values


def _put_small(learner: Merges, values: Values) -> None:
    arrays = learner.arrays()
    for line in learner.sharing():
        if isinstance(line, Whole):
            line.view(arrays)[:, line.columns] = values[line.name][:, line.columns]
        elif isinstance(line, Full):
            for name in line.arrays:
                arrays[name][...] = values[name]


def _merged_small(common: Merges, active: Sequence[tuple[int, Values]]) -> Values:
    """The small arrays merged; ``active`` are events and arrays of each shard that had any."""
    values = _small(common)
    for line in common.sharing() if active else ():
        if isinstance(line, Whole):
            _merge_whole(line, values[line.name], active)
        elif isinstance(line, Full):
            values |= _merge_full(line, common.arrays(), active)
    return values


def _merge_whole(line: Whole, old: Floats, active: Sequence[tuple[int, Values]]) -> None:
    """As rows that every event touched."""
    n = len(old)
    rows = [np.arange(n, dtype=np.int32)] * len(active)
    seen = [np.full(n, events, dtype=np.int32) for events, _ in active]
    columns = {
        column: Column(old[:, column], [own[line.name][:, column] for _, own in active], False)
        for column in range(old.shape[1])
    }
    _merge_rows(Touches(rows, seen, n), _rules(line.parts, columns), False, at_once)


def _merge_full(line: Full, arrays: Values, active: Sequence[tuple[int, Values]]) -> Values:
    if len(active) == 1:
        return {name: active[0][1][name] for name in line.arrays}
    start = {name: arrays[name].copy() for name in line.arrays}
    means, covariances = line.view(start)
    parts = [line.view(own) for _, own in active]
    events = [n for n, _ in active]
    for k in range(len(means)):
        own = [(mean[k], covariance[k]) for mean, covariance in parts]
        means[k], covariances[k] = merge_gaussians(
            means[k], covariances[k], own, events, line.renewed(arrays, k), line.ceiling
        )
    return start
