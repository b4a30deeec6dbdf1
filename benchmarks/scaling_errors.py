"""What learning in shards costs in error: streams, schedules, and other ways of merging."""

from __future__ import annotations

from functools import partial
from unittest import mock

import numpy as np
from scipy.sparse import csr_array

import romco
from romco.learners.merging import Merged, held, take
from romco.shards import Shards, coordinators
from romco.streams import datasets, interleaved
from romco.streams.stream import Stream

SHUFFLES = tuple(range(9301, 9307))  # not used in development
DRAWN = SHUFFLES[:2]  # of streams that are made up, each of which is another world
NEVER = {"growth": 1e12, "every": 10**12}
VARIANTS = {
    "growth 3 %": {"growth": 0.03},
    "growth 10 %": {"growth": 0.1},
    "growth 25 %": {"growth": 0.25},
    "averaged": {"growth": 0.1},
    "never merged": NEVER,
}
CAPS = (100, 1000, 10_000)  # events per shard between barriers, where the world drifts


def made(n_tasks=2000, n_events=12_000, d=300, nonzeros=20, seed=1, arriving=False, turning=0.0):
    """Many tasks with few events each: three quarters of a task's weights are everybody's.

    With ``arriving`` tasks come one after the other; everybody's weights may turn by ``turning``
    radians over the stream.
    """
    rng = np.random.default_rng(seed)
    task = rng.integers(n_tasks, size=n_events)
    if arriving:
        task = np.minimum(task, (n_tasks * np.arange(n_events) / n_events).astype(int))
    columns = np.sort(rng.random((n_events, d)).argpartition(nonzeros)[:, :nonzeros], axis=1)
    values = rng.normal(size=columns.shape)
    first, other, own = rng.normal(size=d), rng.normal(size=d), rng.normal(size=(n_tasks, d))
    angle = turning * np.arange(n_events)[:, None] / n_events
    shared = np.cos(angle) * first[columns] + np.sin(angle) * other[columns]
    score = (values * (shared + 0.5 * own[task[:, None], columns])).sum(axis=1)
    starts = np.arange(0, columns.size + 1, nonzeros)
    x = csr_array((values.ravel(), columns.ravel().astype(np.int32), starts), shape=(n_events, d))
    y = np.where(score + rng.normal(size=n_events) > 0, 1.0, -1.0)
    return Stream("made", task, x, y, tuple(f"task {i}" for i in range(n_tasks)))


def streams(wanted=()):
    """Name, rounds by seed, shards, seeds."""
    for name, n in (("emails", 8), ("movies", 8), ("mhc", 8), ("spam", 4)):
        if not wanted or name in wanted:
            stream = datasets.DATASETS[name].load(None)
            yield (
                f"{name}, {n} shards",
                lambda seed, s=stream: (s, interleaved(s, seed)),
                n,
                SHUFFLES,
            )
    if not wanted or "made" in wanted:
        for n in (8, 64):
            yield f"2000 made-up tasks, {n} shards", drawn, n, DRAWN
        arriving = partial(drawn, arriving=True)
        yield "2000 tasks that arrive, 64 shards", arriving, 64, DRAWN


def shuffled(stream, seed):
    """A stream, and its events in some order."""
    return stream, interleaved(stream, seed)


def drawn(seed, **how):
    """A made-up stream, drawn anew from the seed, in the order in which it was drawn."""
    stream = made(seed=seed, **how)
    order = romco.Rounds(stream.task, stream.x, stream.y, np.arange(len(stream.y) + 1))
    return stream, order


def macro_error(rounds, margins, n_tasks):
    """Percent, the mean over tasks."""
    wrong = np.where(margins >= 0, 1.0, -1.0) != rounds.y
    events = np.bincount(rounds.task, minlength=n_tasks)
    bad = np.bincount(rounds.task, weights=wrong, minlength=n_tasks)
    return float(100 * (bad[events > 0] / events[events > 0]).mean())


def averaged(common, changes, ranges):
    """The rule that one would try first: the mean of what shards hold of what they touched."""
    active = [one for one in changes if one.events]
    rows = np.unique(np.concatenate([one.rows for one in active]))
    values = held(common, rows)
    for name, value in values.items():
        if len(value) == len(rows) and active[0].values[name].shape[1:] == value.shape[1:]:
            total, number = np.zeros_like(value), np.zeros(len(rows))
            for one in active:
                at = np.searchsorted(rows, one.rows)
                total[at] += one.values[name]
                number[at] += 1
            values[name] = total / number.reshape(-1, *[1] * (value.ndim - 1))
        else:
            values[name] = np.mean([one.values[name] for one in active], axis=0)
    merged = Merged(rows, values)
    take(common, merged)
    return merged


def error_of(stream, rounds, n, learner="romco-auto", rule=None, **schedule):
    """Macro error of shards in one process; ``rule`` merges instead of the learner's own."""
    features = romco.Columns(stream.n_features)
    shards = Shards(learner, n, features, classes=(-1.0, 1.0), **schedule)
    if rule is not None:
        shards.leader.engine.here = None  # so that what shards changed is sent, and the rule seen
    with mock.patch.object(coordinators, "merge", rule or coordinators.merge):
        margins = shards.learn(rounds.x, rounds.y, [stream.tasks[t] for t in rounds.task])
    return macro_error(rounds, margins, stream.n_tasks)


def error(*wanted):
    """Macro error above that of one process, by stream and schedule."""
    for name, of_seed, n, seeds in streams(wanted):
        table = {"one process": [], **{variant: [] for variant in VARIANTS}}
        for seed in seeds:
            stream, rounds = of_seed(seed)
            alone = error_of(stream, rounds, 1)
            table["one process"].append(alone)
            for variant, schedule in VARIANTS.items():
                rule = averaged if variant == "averaged" else None
                try:
                    loss = error_of(stream, rounds, n, rule=rule, **schedule) - alone
                except (FloatingPointError, ValueError, np.linalg.LinAlgError):
                    loss = None  # did not survive
                table[variant].append(loss)
        yield name, table


def drift(*_):
    """The same where everybody's weights turn by a right angle, by ``every``."""
    for n in (2, 8):
        table = {"one process": [], **{f"every {cap:,}": [] for cap in CAPS}}
        for seed in DRAWN:
            stream, rounds = drawn(seed, n_tasks=200, n_events=40_000, turning=np.pi / 2)
            alone = error_of(stream, rounds, 1)
            table["one process"].append(alone)
            for cap in CAPS:
                table[f"every {cap:,}"].append(error_of(stream, rounds, n, every=cap) - alone)
        yield f"{n} shards", table


def learners(*_):
    """The same of the other learners that share something, on two streams, at 10 % growth."""
    for name, n in (("emails", 8), ("movies", 8)):
        stream = datasets.DATASETS[name].load(None)
        for learner in ("arow-shared", "pa-shared", "arow-global", "pa-global"):
            losses = []
            for seed in DRAWN:
                rounds = interleaved(stream, seed)
                alone = error_of(stream, rounds, 1, learner)
                merged = error_of(stream, rounds, n, learner)
                apart = error_of(stream, rounds, n, learner, **NEVER)
                losses.append([alone, merged - alone, apart - alone])
            yield f"{learner}, {name}, {n} shards", np.mean(losses, axis=0).tolist()
