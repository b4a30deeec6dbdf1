"""Shards of a learner meet: what each changed, what is made of it, and its taking over.

With precision L and mean m, and a common start (L0, m0), beliefs of shards k are merged by

    m = m0 + sum_k (L_k / L) (m_k - m0),      L = a L0 + sum_k (L_k - a_k L0)

where a_k is what the shard's forgetting left of the start's precision, a what that of all left.
Changes are added, not beliefs, so that the prior is not counted once for every shard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from romco.kernels.merging import (
    Touched,
    merge_beliefs,
    merge_latest,
    merge_steps,
    merge_sums,
    put_rows,
    take_rows,
)
from romco.learners.base import Learner
from romco.learners.capabilities import Merges
from romco.learners.sharing import (
    Belief,
    Floats,
    Full,
    Latest,
    Line,
    Part,
    PerFeature,
    Sum,
    Whole,
)

Values = dict[str, NDArray[Any]]


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


class _Entries(NamedTuple):
    """The changed rows of all shards, row by row; within a row by shard."""

    rows: NDArray[np.int32]  # (u,) features
    order: NDArray[np.int64]  # (t,)
    starts: NDArray[np.int64]  # (u + 1,)
    seen: NDArray[np.int32]  # (t,)


def mergeable(learner: Learner) -> Merges:
    """The learner, if it can be sharded; raises ValueError with the reason if not."""
    if not isinstance(learner, Merges):
        raise ValueError(f"{learner.name} cannot be sharded: {learner.undivided}")
    return learner


def change(learner: Merges, touched: Touched, events: int) -> Change:
    """What the learner holds of all that ``events`` events since the last barrier touched."""
    rows, seen = touched.rows()
    return Change(events, rows, seen, held(learner, rows))


def held(learner: Merges, rows: NDArray[np.int32]) -> Values:
    """A copy of what the learner holds of all that is merged: these rows, and small arrays."""
    arrays = learner.arrays()
    values: Values = {}
    for line in learner.sharing():
        values |= _held(line, arrays, learner.n_features, rows)
    return values


def merge(common: Merges, changes: Sequence[Change]) -> Merged:
    """Merge what shards changed into ``common``, from which they all started.

    Gives what each shard is to :func:`take`. The order of the changes is that of the shards;
    those of shards without events since the last barrier are passed over.
    """
    active = [one for one in changes if one.events]
    entries, arrays = _entries(active), common.arrays()
    values = held(common, entries.rows)
    for line in common.sharing() if active else ():
        if isinstance(line, PerFeature):
            own = np.concatenate([one.values[line.name] for one in active])
            place = {column: at for at, column in enumerate(line.columns)}
            _merge_parts(line.parts, place, values[line.name], own, entries)
        elif isinstance(line, Whole):
            _merge_whole(line, values[line.name], active)
        elif isinstance(line, Full):
            values |= _merge_full(line, arrays, active)
    merged = Merged(entries.rows, values)
    take(common, merged)
    return merged


def take(learner: Merges, merged: Merged) -> None:
    """Take over what was merged, in place."""
    arrays = learner.arrays()
    for line in learner.sharing():
        if isinstance(line, PerFeature):
            views = line.view(arrays, learner.n_features)
            for view, own, part in _split(line, views, merged.values[line.name]):
                put_rows(view, merged.rows, own, part)
        elif isinstance(line, Whole):
            columns = sorted(c for part in line.parts for c in part.columns)
            line.view(arrays)[:, columns] = merged.values[line.name][:, columns]
        elif isinstance(line, Full):
            for name in line.arrays:
                arrays[name][...] = merged.values[name]


# One line of the sharing


def _held(
    line: Line, arrays: Values, n_features: int, rows: NDArray[np.int32]
) -> dict[str, NDArray[Any]]:
    """A copy of what the arrays hold of it: the given rows, or all; nothing if it is not merged."""
    if isinstance(line, PerFeature):
        block = np.empty((len(rows), len(line.columns)))
        for view, own, part in _split(line, line.view(arrays, n_features), block):
            take_rows(view, rows, own, part)
        return {line.name: block}
    if isinstance(line, Whole):
        return {line.name: line.view(arrays).astype(np.float64)}
    if isinstance(line, Full):
        return {name: arrays[name].copy() for name in line.arrays}
    return {}


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


def _merge_whole(line: Whole, old: Floats, active: Sequence[Change]) -> None:
    """As rows that every event touched."""
    n, k = len(old), len(active)
    entries = _Entries(
        np.arange(n, dtype=np.int32),
        np.arange(n * k).reshape(k, n).T.ravel(),
        np.arange(0, n * k + 1, k),
        np.repeat([one.events for one in active], n).astype(np.int32),
    )
    own = np.concatenate([one.values[line.name] for one in active])
    place = {column: column for column in range(old.shape[1])}
    _merge_parts(line.parts, place, old, own, entries)


def _merge_parts(
    parts: Sequence[Part], place: dict[int, int], old: Floats, own: Floats, entries: _Entries
) -> None:
    """Merge entries ``own`` (t, w) into the rows ``old`` (u, w) of the common start, in place."""
    order, starts = entries.order, entries.starts
    for part in parts:
        if isinstance(part, Belief):
            mean, spread = place[part.mean], place[part.spread]
            prior, spent, forgetting = part.prior, part.spent, part.forgetting
            seen = entries.seen
            merge_beliefs(old, own, order, starts, seen, mean, spread, prior, spent, forgetting)
        elif isinstance(part, Sum):
            for column in part.columns:
                merge_sums(old, own, order, starts, place[column], part.least)
        elif isinstance(part, Latest):
            for column in part.columns:
                merge_latest(old, own, order, starts, entries.seen, place[column])
        else:
            for column in part.columns:
                merge_steps(old, own, order, starts, place[column])


def _merge_full(line: Full, arrays: Values, active: Sequence[Change]) -> Values:
    if len(active) == 1:
        return {name: active[0].values[name] for name in line.arrays}
    start = {name: arrays[name].copy() for name in line.arrays}
    means, covariances = line.view(start)
    parts = [line.view(one.values) for one in active]
    events = [one.events for one in active]
    for k in range(len(means)):
        own = [(mean[k], covariance[k]) for mean, covariance in parts]
        means[k], covariances[k] = merge_gaussians(
            means[k], covariances[k], own, events, line.renewed(arrays, k), line.ceiling
        )
    return start


def merge_gaussians(
    mean: Floats,
    covariance: Floats,
    parts: Sequence[tuple[Floats, Floats]],
    events: Sequence[int],
    renewal: Floats,
    ceiling: float,
) -> tuple[Floats, Floats]:
    """Mean (n,) and covariance (n, n) merged of parts that all started at the given one.

    The start's covariance is aged by the renewal of a part's events when its change is formed,
    and by that of all events in the total: without, what was forgotten is counted as unlearned.
    """

    def aged(n: int) -> Floats:
        room = np.maximum(0.0, ceiling - np.diag(covariance))
        return np.linalg.inv(covariance + np.diag(np.minimum(room, renewal * n)))

    precision, step = aged(sum(events)), np.zeros(len(mean))
    for (own_mean, own_covariance), n in zip(parts, events, strict=True):
        own = np.linalg.inv(own_covariance)
        precision = precision + (own - aged(n))
        step += own @ (own_mean - mean)
    values, vectors = np.linalg.eigh(0.5 * (precision + precision.T))
    values = np.maximum(values, 1.0 / ceiling)  # never less sure than before the first event
    inverse = (vectors / values) @ vectors.T
    return mean + inverse @ step, 0.5 * (inverse + inverse.T)


def _entries(changes: Sequence[Change]) -> _Entries:
    """All rows of all changes, sorted by row; stable, so that shards stay in their order."""
    if not changes:
        none = np.empty(0, dtype=np.int32)
        return _Entries(none, none.astype(np.int64), np.zeros(1, dtype=np.int64), none)
    rows = np.concatenate([one.rows for one in changes])
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    first = np.flatnonzero(np.diff(ordered, prepend=-1))
    starts = np.append(first, len(rows)).astype(np.int64)
    seen = np.concatenate([one.seen for one in changes])
    return _Entries(ordered[first], order.astype(np.int64), starts, seen)
