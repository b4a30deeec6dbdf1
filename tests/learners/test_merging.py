from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import csr_array

import romco
from romco.kernels.auto import constants
from romco.kernels.auto.auto import STREAM_FIELDS
from romco.kernels.core.events import Events
from romco.kernels.merge.gaussians import merge_gaussians
from romco.kernels.merge.rows import (
    Column,
    CopyRule,
    FeatureCounts,
    GaussianRule,
    LatestRule,
    PooledRule,
    RowMerge,
    StepRule,
    SumRule,
    TouchedRows,
    add_rows,
    side_by_side,
)
from romco.learners.auto import SubspaceRows
from romco.learners.merging import (
    InPlaceMerge,
    Period,
    apply_merged,
    collect_change,
    merge,
    run_at_once,
    shared_values,
)
from romco.learners.sharing import PerPair
from romco.learners.softmax import IS_SHARD, AutoSoftmax
from tests.reference import merging as plain

SHARDED = {
    "romco-auto",
    "arow-shared",
    "pa-shared",
    *(f"{kind}-{models}" for kind in ("ogd", "pa", "arow") for models in ("unique", "global")),
}


def shard_of(name, n_features, n_tasks):
    """A learner that is one of several shards."""
    learner = romco.learner(name, n_features, n_tasks)
    learner.become_shard()
    return learner


def events_of(x):
    """Rows of one task."""
    n = x.shape[0]
    return Events(romco.Round(np.zeros(n, dtype=np.int64), x, np.ones(n)), x.shape[1], 1)


def rows_of_shards(rng, n_rows=7, n_shards=3, width=2):
    """Rows changed by one to three of three shards: for each shard which, how often, and values."""
    who = [sorted(rng.choice(n_shards, 1 + r % n_shards, replace=False)) for r in range(n_rows)]
    rows = [np.array([r for r in range(n_rows) if k in who[r]], np.int32) for k in range(n_shards)]
    seen = [rng.integers(1, 9, len(own)).astype(np.int32) for own in rows]
    return rows, seen, [rng.uniform(0.1, 0.8, (len(own), width)) for own in rows]


def by_row(rows, *columns):
    """What each shard has of each row, in the order of the shards: [row][shard] -> tuple."""
    n = 1 + max(own.max() for own in rows)
    found = [[] for _ in range(n)]
    for k, own in enumerate(rows):
        for i, r in enumerate(own):
            found[r].append(tuple(column[k][i] for column in columns))
    return found


def copied(columns):
    """How rows of one shard are taken as they are."""
    return [CopyRule(*span) for span in side_by_side(columns)]


def merged(old, rows, seen, blocks, rules):
    """Rows merged into a copy of ``old``: as blocks that were sent and in place, to the same."""
    results = []
    for live in (False, True):
        common, arrays = old.copy(), blocks
        if live:
            arrays = [old.copy() for _ in blocks]
            for array, own, block in zip(arrays, rows, blocks, strict=True):
                array[own] = block
        columns = {
            c: Column(common[:, c], [array[:, c] for array in arrays], live)
            for c in range(old.shape[1])
        }
        made = rules(columns.__getitem__)
        if not isinstance(made[0], StepRule):  # which look at every row
            made = copied(list(columns.values())) + made
        merging = RowMerge(TouchedRows(rows, seen, len(old)), made, live)
        merging.look()
        half = merging.touches.size // 2
        merging.rows(half, merging.touches.size)  # by whom, and in which order, is the same
        merging.rows(0, half)
        results.append(common)
        for array in arrays if live else ():
            np.testing.assert_array_equal(array, common)
    np.testing.assert_array_equal(*results)
    return results[0]


def test_rows_are_merged_once_whatever_the_ranges_and_however_far_apart_they_are():
    """Over blocks of features that are full, thin, and empty."""
    rng = np.random.default_rng(8)
    d = 20_000
    full, thin = np.arange(3000), rng.choice(np.arange(3000, d), 40, replace=False)
    rows = [
        np.unique(np.append(rng.choice(full, 2500), rng.choice(thin, 20))).astype(np.int32)
        for _ in range(3)
    ]
    seen = [rng.integers(1, 4, len(own)).astype(np.int32) for own in rows]
    expected = np.zeros(d)
    for own, often in zip(rows, seen, strict=True):
        np.add.at(expected, own, often)
    for cuts in ([], [1], [700, 701, 1400]):
        common = np.zeros((d, 1))
        blocks = [often[:, None].astype(float) for often in seen]
        column = Column(common[:, 0], [block[:, 0] for block in blocks], False)
        made = [*copied([column]), SumRule(column, 1)]
        merging = RowMerge(TouchedRows(rows, seen, d), made, False)
        ends = [0, *cuts, merging.touches.size]
        for begin, end in pairwise(ends):
            merging.rows(begin, end)
        np.testing.assert_array_equal(common[:, 0], expected)


def test_columns_that_lie_apart_are_copied_like_those_side_by_side():
    rng = np.random.default_rng(10)
    rows, old = [np.array([1, 4], dtype=np.int32)], rng.normal(size=(6, 5))
    own = rng.normal(size=(6, 5))
    columns = [Column(old[:, c], [own[:, c]], True) for c in (0, 1, 3)]
    made = copied(columns)
    assert len(made) == 2
    before, touches = old.copy(), TouchedRows(rows, [np.ones(2, dtype=np.int32)], 6)
    RowMerge(touches, made, True).rows(0, 2)
    before[np.ix_(rows[0], [0, 1, 3])] = own[np.ix_(rows[0], [0, 1, 3])]
    np.testing.assert_array_equal(old, before)


def test_rows_that_are_not_there_or_not_in_order_are_refused():
    one = np.ones(1, dtype=np.int32)
    for row in (-1, 4):
        with pytest.raises(ValueError, match=f"feature {row} was touched, but there are 4"):
            TouchedRows([np.array([row], dtype=np.int32)], [one], 4)
    for rows in ([2, 1], [1, 1]):
        with pytest.raises(ValueError, match=r"feature 1 comes after feature [12]"):
            TouchedRows([np.array(rows, dtype=np.int32)], [np.ones(2, dtype=np.int32)], 4)
    with pytest.raises(ValueError, match="1 rows were touched, but 0 are counted"):
        TouchedRows([one], [one[:0]], 4)
    with pytest.raises(TypeError, match="whole numbers"):
        TouchedRows([np.ones(1)], [one], 4)
    with pytest.raises(ValueError, match="no rows up to 2 among 1"):
        RowMerge(TouchedRows([one], [one], 4), [], False).rows(0, 2)


@pytest.mark.parametrize("spent", [True, False])
def test_beliefs_are_merged_as_the_formula_says(spent):
    rng = np.random.default_rng(4)
    rows, seen, blocks = rows_of_shards(rng)
    old = rng.uniform(0.0, 0.1, (7, 2)) if spent else np.ones((7, 2))
    found = merged(old, rows, seen, blocks, lambda c: [GaussianRule(c(0), c(1), 1.0, spent)])
    for r, entries in enumerate(by_row(rows, blocks)):
        variance = (lambda s: 1.0 - s) if spent else (lambda s: s)
        parts = [(mean, variance(spread)) for ((mean, spread),) in entries]
        mean, after = plain.merge_belief((old[r, 0], variance(old[r, 1])), parts, 1.0)
        np.testing.assert_allclose(found[r], [mean, variance(after)], rtol=1e-11)
        if len(entries) == 1:
            np.testing.assert_array_equal(found[r], entries[0][0])


def beliefs_of_one_row(start, values):
    """One row of which every shard has something."""
    rows = [np.zeros(1, dtype=np.int32)] * len(values)
    often = [np.ones(1, dtype=np.int32)] * len(values)
    blocks = [np.array([value]) for value in values]
    given = np.array([start]), rows, often, blocks
    return merged(*given, lambda c: [GaussianRule(c(0), c(1), 1.0, False)])[0]


def test_sums_and_steps_are_merged_as_the_formula_says():
    rng = np.random.default_rng(5)
    rows, seen, blocks = rows_of_shards(rng, width=1)
    old = rng.uniform(0.0, 1.0, (7, 1))
    added = merged(old, rows, seen, blocks, lambda c: [SumRule(c(0), 1)])
    stepped = merged(old, rows, seen, blocks, lambda c: [StepRule(c(0))])
    whole = np.repeat(old.T, 3, axis=0)  # a shard that did not touch a row is where it began
    for k, own in enumerate(rows):
        whole[k, own] = blocks[k][:, 0]
    for r, entries in enumerate(by_row(rows, blocks)):
        values = [value[0] for (value,) in entries]
        assert added[r, 0] == pytest.approx(plain.merge_sum(old[r, 0], values))
    np.testing.assert_allclose(stepped[:, 0], plain.merge_steps(old[:, 0], whole), rtol=1e-12)


def described(values):
    """Count, mean and sum of squared deviations, and zeros where there are no values."""
    if not len(values):
        return np.zeros(3)
    return np.array([len(values), values.mean(), len(values) * values.var()])


@pytest.mark.parametrize("far", [0.0, 20240603.0])
@pytest.mark.parametrize("before", [0, 1, 30])
def test_means_are_those_of_all_numbers(far, before):
    """Also of dates as numbers, whose squares would have no digits left for deviations."""
    rng = np.random.default_rng(11)
    start, *new = (far + rng.normal(size=n) for n in (before, 20, 0, 1, 300))
    blocks = [described(np.append(start, own))[None, :] for own in new]
    rows = [np.zeros(1, dtype=np.int32)] * len(new)
    seen = [np.array([len(own)], dtype=np.int32) for own in new]

    def rules(c):
        return [PooledRule(c(0), c(1), c(2))]

    found = merged(described(start)[None, :], rows, seen, blocks, rules)[0]
    np.testing.assert_allclose(found, described(np.concatenate([start, *new])), rtol=1e-7)


def test_what_cannot_be_added_is_that_of_the_shard_that_saw_most():
    rng = np.random.default_rng(7)
    rows, seen, blocks = rows_of_shards(rng, width=1)
    found = merged(np.zeros((7, 1)), rows, seen, blocks, lambda c: [LatestRule(c(0), 1)])
    for r, entries in enumerate(by_row(rows, blocks, seen)):
        assert found[r, 0] == plain.latest([(value[0], often) for value, often in entries])


def test_what_cannot_be_added_may_be_that_of_the_shard_that_counted_most():
    """A shard may touch a feature often, and never in the events that a part of it learned."""
    rng = np.random.default_rng(7)
    rows, seen, blocks = rows_of_shards(rng, width=2)

    def rules(c):
        return [LatestRule(c(0), 1, c(1)), SumRule(c(1), 1)]

    found = merged(np.zeros((7, 2)), rows, seen, blocks, rules)
    for r, entries in enumerate(by_row(rows, blocks, seen)):
        assert found[r, 0] == plain.latest([tuple(value) for value, _ in entries])


def test_steps_that_agree_count_once_and_those_at_right_angles_add_up():
    rows, seen = [np.arange(2, dtype=np.int32)] * 2, [np.ones(2, dtype=np.int32)] * 2

    def steps(*own):
        blocks = [np.array(one)[:, None] for one in own]
        return merged(np.zeros((2, 1)), rows, seen, blocks, lambda c: [StepRule(c(0))])[:, 0]

    np.testing.assert_array_equal(steps([1.0, 2.0], [1.0, 2.0]), [1.0, 2.0])
    apart = steps([1.0, 0.0], [0.0, 2.0])
    np.testing.assert_array_equal(apart, [1.0, 2.0])
    np.testing.assert_array_equal(apart, plain.merge_steps(np.zeros(2), [[1.0, 0.0], [0.0, 2.0]]))


@pytest.mark.parametrize("ceiling", [3.0, np.array([3.0, 0.1, 1.0, 3.0])])
def test_full_gaussians_are_merged_as_the_formula_says(ceiling):
    rng = np.random.default_rng(6)

    def covariance(scale):
        a = rng.normal(size=(4, 4))
        return scale * (a @ a.T + 4.0 * np.eye(4)) / 8.0

    mean, start = rng.normal(size=4), covariance(2.0)
    parts = [(mean + rng.normal(size=4) / 9, 0.3 * covariance(1.0)) for _ in range(3)]
    got = merge_gaussians(mean, start, parts, [5, 70, 9], 3e-3, ceiling)
    expected = plain.merge_full(mean, start, parts, [5, 70, 9], 3e-3, ceiling)
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


@pytest.mark.parametrize("n", [1, 2, 10, 30, 101])
def test_full_gaussians_of_any_size_and_spread_are_merged_as_the_formula_says(n):
    rng = np.random.default_rng(n)
    for spread in (0.0, 2.0, 8.0):  # powers of ten between the variances
        turn = np.linalg.qr(rng.normal(size=(n, n)))[0]
        variances = 10.0 ** -rng.uniform(0.0, spread, n)
        start = (turn * variances) @ turn.T
        start = 0.5 * (start + start.T)
        mean = rng.normal(size=n)
        parts = [(mean + rng.normal(size=n) / 9, 0.6 * start), (mean, 0.9 * start)]
        got = merge_gaussians(mean, start, parts, [5, 70], 1e-6, 3.0)
        expected = plain.merge_full(mean, start, parts, [5, 70], 1e-6, 3.0)
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)


def test_a_gaussian_without_any_doubt_is_refused_as_by_numpy():
    none = np.zeros((2, 2))
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        merge_gaussians(np.zeros(2), np.eye(2), [(np.zeros(2), none)], [1], 0.0, 3.0)
    with pytest.raises(ValueError, match="different sizes"):
        merge_gaussians(np.zeros(2), np.eye(2), [(np.zeros(3), none)], [1], 0.0, 3.0)


def test_independent_data_give_the_belief_that_one_learner_of_all_would_have():
    """Conjugate Gaussians: adding changes of natural parameters is Bayes' rule."""
    prior_mean, prior_variance = 0.3, 1.0
    observations = [(0.9, 0.5), (-0.2, 0.25), (0.4, 2.0)]  # value, variance of its noise

    def posterior(seen):
        precision = 1.0 / prior_variance + sum(1.0 / v for _, v in seen)
        mean = (prior_mean / prior_variance + sum(x / v for x, v in seen)) / precision
        return mean, 1.0 / precision

    values = [posterior([one]) for one in observations]
    found = beliefs_of_one_row((prior_mean, prior_variance), values)
    np.testing.assert_allclose(found, posterior(observations), rtol=1e-14)


def test_rows_of_zeros_are_touched_but_not_counted_and_forgotten_when_cleared():
    touched = FeatureCounts(4)
    touched.add(events_of(csr_array((np.array([2.0, 0.0, 1.0]), [1, 2, 3], [0, 3]), shape=(1, 4))))
    touched.grow(9)
    touched.add(events_of(np.array([[0.0, 5.0, 0.0], [0.0, 1.0, 0.0]])))
    rows, seen = touched.rows()
    np.testing.assert_array_equal(rows, [0, 1, 2, 3])
    np.testing.assert_array_equal(seen, [0, 3, 0, 1])
    touched.clear()
    assert touched.rows()[0].size == 0
    touched.add_earlier(np.array([7]))
    np.testing.assert_array_equal(touched.earlier(), [0, 1, 2, 3, 7])
    touched.load(rows, seen)
    np.testing.assert_array_equal(touched.rows()[1], seen)


@pytest.mark.parametrize("classes", [2, 4, 12])
def test_parts_of_many_classes_are_all_merged(classes):
    """Every array is declared once, and shards then agree on all that tasks share."""
    rng = np.random.default_rng(3)

    def make(tasks):
        return romco.learner("classes", 5, tasks, n_classes=classes)

    common, shards = make(1), [make(3), make(3)]
    for shard in shards:
        shard.become_shard()
    for _ in range(4):
        changes = []
        for shard in shards:
            x, y = rng.normal(size=(20, 5)), rng.integers(classes, size=20).astype(float)
            rounds = romco.Rounds(rng.integers(3, size=20), x, y, np.arange(21))
            shard.replay(rounds)
            touched = FeatureCounts(5)
            touched.add(events_of(x))
            changes.append(collect_change(shard, touched, 20))
        merged = merge(common, changes)
        common.settle_after_merge(merged.rows)
        for shard in shards:
            apply_merged(shard, merged)
            shard.settle_after_merge(merged.rows)
    named = [name for name in common.arrays() if name in common.task_axes]
    own = set(named)
    for line in common.sharing():
        named += line.arrays
        if isinstance(line, PerPair):
            own |= set(line.arrays)
    assert len(named) == len(set(named))
    assert set(common.arrays()) <= set(named)
    for name in common.arrays().keys() - own:
        expected = common.arrays()[name]
        for shard in shards:
            found = shard.arrays()[name]
            if name.endswith("clock"):  # when a subspace is due is nobody else's
                found, expected = found[:2], expected[:2]
            if name.endswith("progress"):
                found, expected = found[:IS_SHARD], expected[:IS_SHARD]
            np.testing.assert_array_equal(found, expected, err_msg=name)
    if classes > 2:
        assert common.arrays()["softmax_seen"].sum() == 160.0
        assert common.arrays()["softmax_columns"][:, 0].any()


@pytest.mark.parametrize("n_features", [9, 100_000])
def test_weights_of_classes_are_read_as_they_were_put(n_features):
    """Also where only pairs that occurred are kept."""
    learner = AutoSoftmax(n_features, 1, n_classes=15)
    rows = np.array([2, 5, 8], dtype=np.int32)
    block = np.random.default_rng(0).normal(size=learner.read_weights(rows).shape)
    learner.put_weights(rows, block)
    np.testing.assert_array_equal(learner.read_weights(rows), block)
    assert not learner.read_weights(np.array([3], dtype=np.int32))[1:].any()


def test_which_learners_can_be_sharded():
    able = {name for name in romco.LEARNERS if romco.learner(name, 3, 2).shardable}
    assert able == SHARDED


def test_a_learner_that_cannot_be_sharded_says_why():
    with pytest.raises(ValueError, match=r"romco-nucl cannot be sharded: .* 33 to 75 %"):
        romco.learner("romco-nucl", 3, 2).sharing()
    with pytest.raises(ValueError, match="mtfl cannot be sharded: each of its steps"):
        romco.learner("mtfl", 3, 2).sharing()


def test_evidence_and_counts_of_shards_add_up():
    """What only counts is the same as if one learner had seen it all."""
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(40, 5)), np.where(rng.random(40) < 0.5, 1.0, -1.0)
    task = np.arange(40) % 4
    common = romco.learner("romco-auto", 5, 1)
    changes = []
    for k in range(2):
        own = task % 2 == k
        shard, touched = shard_of("romco-auto", 5, 2), FeatureCounts(5)
        shard.replay([romco.Round(task[own] // 2, x[own], y[own])])
        touched.add(events_of(x[own]))
        changes.append(collect_change(shard, touched, int(own.sum())))
    merge(common, changes)
    assert common.arrays()["typical"][0] == 40
    count, mean, deviations = common.arrays()["units"][:, :3].T
    np.testing.assert_array_equal(count, 40)
    np.testing.assert_allclose(mean, x.mean(axis=0), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(deviations, 40 * x.var(axis=0))
    found = [one.values["units"][:, 3:] for one in changes]
    assert any((common.arrays()["units"][:, 3:] == one).all() for one in found)
    evidence = [k for k, name in enumerate(STREAM_FIELDS) if "evidence" in name]
    total = sum(one.values["stream"][0, evidence] for one in changes)
    np.testing.assert_allclose(common.arrays()["stream"][evidence], total, rtol=1e-9)


def test_taking_over_leaves_what_is_a_tasks_own_alone():
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(12, 5)), np.where(rng.random(12) < 0.5, 1.0, -1.0)
    learner, common, touched = (
        shard_of("romco-auto", 5, 2),
        romco.learner("romco-auto", 5, 1),
        FeatureCounts(5),
    )
    learner.replay([romco.Round(np.arange(12) % 2, x, y)])
    touched.add(events_of(x))
    merged = merge(common, [collect_change(learner, touched, 12)])
    other = romco.learner("romco-auto", 5, 2)
    apply_merged(other, merged)
    for name in ("factor", "tasks", "personal"):
        assert not other.arrays()[name].any()
    np.testing.assert_array_equal(other.arrays()["weight"], learner.arrays()["weight"])


@pytest.mark.parametrize("name", sorted(SHARDED))
def test_merging_in_place_is_merging_what_was_sent_to_the_last_bit(name):
    """Also for a shard that had no events, and with rows dealt to whoever merges them."""
    rng = np.random.default_rng(9)
    x = rng.normal(size=(60, 11)) * (rng.random((60, 11)) < 0.4)
    y, task = np.where(rng.random(60) < 0.5, 1.0, -1.0), np.arange(60) % 6
    common, apart = shard_of(name, 11, 1), shard_of(name, 11, 1)
    shards = [shard_of(name, 11, 6) for _ in range(4)]
    changes, periods = [], []
    for k, shard in enumerate(shards):
        own, touched = task % 3 == k, FeatureCounts(11)  # nothing for the last one
        if own.any():
            shard.replay([romco.Round(task[own], x[own], y[own])])
            touched.add(events_of(x[own]))
        changes.append(collect_change(shard, touched, int(own.sum())))
        periods.append(Period(int(own.sum()), *touched.rows()))
    agreed = merge(apart, changes)

    def backwards(act, n):
        for begin in reversed(range(0, n, 3)):
            act(begin, min(begin + 3, n))

    in_ranges = merge(shard_of(name, 11, 1), changes, backwards)
    for part, array in in_ranges.values.items():
        np.testing.assert_array_equal(array, agreed.values[part], err_msg=part)
    InPlaceMerge(common, shards).run(periods, backwards)
    every = np.arange(11, dtype=np.int32)
    for learner in (common, *shards):
        for name, array in shared_values(learner, every).items():
            np.testing.assert_array_equal(array, shared_values(apart, every)[name], err_msg=name)
    again = shard_of(apart.name, 11, 1)
    apply_merged(again, agreed)
    for name, array in shared_values(again, every).items():
        np.testing.assert_array_equal(array, shared_values(apart, every)[name], err_msg=name)


def correlated(rng, n, d):
    """Rows whose features have two causes in common, the last feature rare, and their labels."""
    x = rng.normal(size=(n, 2)) @ rng.normal(size=(2, d)) + 0.3 * rng.normal(size=(n, d))
    x[rng.random(n) < 0.7, -1] = 0.0
    return x, np.where(x[:, 0] - x[:, 1] + 0.3 * rng.normal(size=n) > 0.0, 1.0, -1.0)


def test_covariances_of_shards_are_merged_as_full_gaussians():
    """Where what is sent is merged and in place, also of a feature that nobody touched."""
    rng = np.random.default_rng(13)
    x, y = correlated(rng, 120, 6)
    common, apart = shard_of("romco-auto", 6, 1), shard_of("romco-auto", 6, 1)
    shards = [shard_of("romco-auto", 6, 1) for _ in range(3)]
    for begin in (0, 40, 80):
        blocks = [common.kernel.global_block.read_block()]
        changes, periods = [], []
        for k, shard in enumerate(shards):
            own, touched = slice(begin + k, begin + 39, 3), FeatureCounts(6)
            rows = x[own] if begin < 80 else x[own] * (np.arange(6) < 5)
            shard.replay([romco.Round(np.zeros(13, int), rows, y[own])])
            touched.add(events_of(csr_array(rows)))
            changes.append(collect_change(shard, touched, 13))
            periods.append(Period(13, *touched.rows()))
            blocks.append(shard.kernel.global_block.read_block())
        merged = merge(apart, changes)
        changed = InPlaceMerge(common, shards).run(periods, run_at_once)
        np.testing.assert_array_equal(changed, merged.rows)
        prior = np.diag([1.0] + [constants.GLOBAL_PRIOR] * (len(blocks[0][0]) - 1))
        (mean, start), *parts = ((own[0], prior - own[1:]) for own in blocks)
        mean, covariance = plain.merge_full(mean, start, parts, [0] * 3, np.zeros(len(mean)), 0.0)
        found = common.kernel.global_block.read_block()
        np.testing.assert_allclose(found[0], mean, rtol=1e-9)
        np.testing.assert_allclose(prior - found[1:], covariance, rtol=1e-9, atol=1e-12)
        for learner in (common, apart, *shards):
            np.testing.assert_array_equal(learner.kernel.global_block.read_block(), found)
        for learner in (common, apart, *shards):
            assert learner.kernel.choose_after_merge(changed)  # features, then functions
            for name in ("definitions", "places", "scores"):
                np.testing.assert_array_equal(learner.arrays()[name], common.arrays()[name])
            places = learner.arrays()["frequent"]
            assert sorted(places[(places >= 0) & (places < 6)]) == [0, 1, 2, 3, 4, 5]
    assert (blocks[1][0] != blocks[0][0]).all()  # also that of the last feature: it is correlated
    assert 5 not in changed
    assert (np.abs(covariance - np.diag(np.diag(covariance))) > 1e-3).any()


def test_features_join_and_leave_the_covariances_at_a_barrier_and_all_leave_in_text():
    rng = np.random.default_rng(14)
    learner = shard_of("romco-auto", 130, 1)

    def learn(rows):
        learner.replay([romco.Round(np.zeros(len(rows), int), rows, np.sign(rows.sum(axis=1)))])
        return learner.kernel.choose_after_merge(np.flatnonzero(rows.any(axis=0)).astype(np.int32))

    def have_places():
        places = learner.arrays()["frequent"]
        return sorted(places[(places >= 0.0) & (places < 130.0)])

    first = rng.normal(size=(20, 130)) * (np.arange(130) < 3)
    assert learn(first)
    assert have_places() == [0, 1, 2]
    assert not learn(first[:10])
    assert learn(rng.normal(size=(1000, 130)) * (np.arange(130) == 3))
    assert have_places() == [3]
    assert learn(rng.normal(size=(400, 130)))
    assert len(have_places()) == 80
    learner = shard_of("romco-auto", 2000, 1)
    text = rng.random((1000, 2000)) < np.repeat([0.2, 0.05], [100, 1900])
    assert learn(rng.normal(size=text.shape) * text)
    assert have_places() == []
    learn(rng.normal(size=text.shape) * text)
    assert have_places() == []


def test_where_rounding_left_no_covariance_matrix_only_variances_are_merged():
    """As by an event of a huge weight, after which nothing is unsure in its direction."""
    common = shard_of("romco-auto", 2, 1)
    shards = [shard_of("romco-auto", 2, 1) for _ in range(2)]
    x, two = np.array([[1.0, 0.5], [1.0, -0.5]]), np.zeros(2, int)
    for learner in (common, *shards):
        learner.arrays()["frequent"][1:3] = 0, 1
        learner.kernel.others_change()
    spread = np.array([[0.0, 0.0, 0.0], [0.0, 10.0, 9.9], [0.0, 9.9, 10.0]])
    for shard, step in zip(shards, (1.0, 3.0), strict=True):
        shard.kernel.global_block.put_block(np.vstack([[0.0, step, step], spread]))
    rows = np.arange(2, dtype=np.int32)
    InPlaceMerge(common, shards).run([Period(2, rows, rows + 2)] * 2, run_at_once)
    for learner in (common, *shards):
        found = learner.kernel.global_block.read_block()
        np.testing.assert_allclose(found[0], [0.0, 2.0, 2.0], rtol=1e-9)
        np.testing.assert_allclose(found[1:], np.diag([0.0, 10.0, 10.0]), atol=1e-12)
        learner.replay([romco.Round(two, x, np.array([1.0, -1.0]))])
        assert np.isfinite(learner.arrays()["features"]).all()


def test_directions_are_drawn_from_rows_that_were_told_and_no_others():
    """What was there before is gone, whoever put it there."""
    rng = np.random.default_rng(11)
    parts = [
        SubspaceRows(np.array(rows, dtype=np.int32), rng.normal(size=(len(rows), 4)))
        for rows in ([1, 4, 6, 7, 9], [0, 4, 7, 8, 9])
    ]
    learner = romco.learner("romco-auto", 12, 1)
    learner.set_subspace(SubspaceRows(np.arange(12, dtype=np.int32), rng.normal(size=(12, 4))))
    for _ in range(2):
        total = np.zeros((12, 4))
        for part in parts:
            total[part.rows] += part.values
        drawn = learner.merge_subspace(parts)
        np.testing.assert_array_equal(drawn.rows, [0, 1, 4, 6, 7, 8, 9])
        expected = np.linalg.qr(total[drawn.rows])[0]
        signs = np.sign((expected * drawn.values).sum(axis=0))
        np.testing.assert_allclose(drawn.values, signs * expected, atol=1e-9)
        assert not np.delete(learner.arrays()["directions"], drawn.rows, axis=0).any()
    for rows, values in (([12], np.ones((1, 4))), ([-1], np.ones((1, 4))), ([1], np.ones((1, 3)))):
        with pytest.raises(ValueError, match="expected rows of directions"):
            learner.set_subspace(SubspaceRows(np.array(rows, dtype=np.int32), values))


def test_rows_are_added_where_they_belong_and_others_are_refused():
    rows, total = np.array([1, 3, 6, 8], dtype=np.int32), np.ones((4, 2))
    add_rows(total, rows, rows[[0, 2]], np.array([[1.0, 2.0], [3.0, 4.0]]))
    np.testing.assert_array_equal(total, [[2.0, 3.0], [1.0, 1.0], [4.0, 5.0], [1.0, 1.0]])
    for own, values in (
        ([9], np.ones((1, 2))),
        ([2], np.ones((1, 2))),
        ([3, 1], np.ones((2, 2))),
        ([1], np.ones((2, 2))),
        ([1], np.ones((1, 3))),
    ):
        with pytest.raises(ValueError, match="expected values of sorted rows"):
            add_rows(total, rows, np.array(own, dtype=np.int32), values)


def test_what_others_measured_is_known():
    """A shard that goes on after a barrier is one that was made anew from its state."""
    rng = np.random.default_rng(12)
    x = rng.normal(size=(90, 40)) * (rng.random((90, 40)) < 0.2) * rng.uniform(0.1, 9.0, 40)
    y = np.where(rng.random(90) < 0.5, 1.0, -1.0)
    common = romco.learner("romco-auto", 40, 1)
    shards = [shard_of("romco-auto", 40, 1) for _ in range(2)]
    for begin in range(0, 90, 30):
        periods = []
        for k, shard in enumerate(shards):
            own, touched = slice(begin + k, begin + 30, 2), FeatureCounts(40)
            again = romco.restore(shard.state())
            for learner in (shard, again):
                learner.replay([romco.Round(np.zeros(15, int), x[own], y[own])])
            for name, array in again.arrays().items():
                np.testing.assert_array_equal(shard.arrays()[name], array, err_msg=name)
            touched.add(events_of(np.ascontiguousarray(x[own])))
            periods.append(Period(15, *touched.rows()))
        InPlaceMerge(common, shards).run(periods, lambda act, n: act(0, n))


def test_features_that_are_not_there_are_no_news():
    learner = romco.learner("romco-auto", 4, 1)
    with pytest.raises(ValueError, match="feature 4 is out of range"):
        learner.settle_after_merge(np.array([4], dtype=np.int32))


def test_who_learned_nothing_is_as_unsure_after_a_merge_as_before():
    direction = np.array([1.0, 0.0, 2.0])
    start = np.eye(3) + np.outer(direction, direction)  # more than variance may come back
    _, merged = merge_gaussians(np.zeros(3), start, [(np.zeros(3), start)] * 2, [0, 0], 1e-3, 3)
    np.testing.assert_allclose(merged, start, atol=1e-14)


def test_rare_features_leave_at_the_first_barrier_after_the_events_have_doubled():
    """At every barrier they would take along all sums that products of columns are found by."""
    rng = np.random.default_rng(0)
    learner = romco.learner("romco-auto", 2, 1)
    learner.become_shard()
    kept = []
    for n, second in ((100, 1.0), (1500, 0.0), (900, 0.0), (700, 0.0)):
        x = np.column_stack([np.ones(n), np.full(n, second)])
        y = rng.choice([-1.0, 1.0], size=n)
        learner.replay(romco.Rounds(np.zeros(n), x, y, np.arange(n + 1)))
        learner.settle_after_merge(np.arange(2, dtype=np.int32))
        kept.append(1.0 in learner.arrays()["frequent"])
    assert kept == [True, True, True, False]  # its share is 1, 0.06, 0.04 and 0.03
