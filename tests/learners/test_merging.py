import numpy as np
import pytest

import romco
from romco.kernels.merging import Touched, merge_beliefs, merge_latest, merge_steps, merge_sums
from romco.learners.capabilities import Merges
from romco.learners.merging import change, merge, merge_gaussians, mergeable, take
from tests.reference import merging as plain

SHARDED = {
    "romco-auto",
    "arow-shared",
    "pa-shared",
    *(f"{kind}-{models}" for kind in ("ogd", "pa", "arow") for models in ("unique", "global")),
}


def entries(rng, n_rows=7, n_shards=3, width=2):
    """Rows changed by one to three of three shards: as the kernel lists them, and by row."""
    who = [sorted(rng.choice(n_shards, 1 + r % n_shards, replace=False)) for r in range(n_rows)]
    listed = [(r, k) for k in range(n_shards) for r in range(n_rows) if k in who[r]]
    order = np.array(sorted(range(len(listed)), key=lambda e: listed[e]))
    starts = np.cumsum([0] + [len(one) for one in who])
    values = rng.uniform(0.1, 0.8, (len(listed), width))
    by_row = [[e for e in order if listed[e][0] == r] for r in range(n_rows)]
    return values, order, starts, by_row


@pytest.mark.parametrize("spent", [True, False])
@pytest.mark.parametrize("forgetting", [0.0, 0.05])
def test_beliefs_are_merged_as_the_formula_says(spent, forgetting):
    rng = np.random.default_rng(4)
    values, order, starts, by_row = entries(rng)
    seen = rng.integers(1, 9, len(values)).astype(np.int32)
    old = rng.uniform(0.0, 0.1, (len(starts) - 1, 2)) if spent else np.ones((len(starts) - 1, 2))
    merged = old.copy()
    merge_beliefs(merged, values, order, starts, seen, 0, 1, 1.0, spent, forgetting)
    for r, chosen in enumerate(by_row):
        variance = (lambda s: 1.0 - s) if spent else (lambda s: s)
        parts = [(values[e, 0], variance(values[e, 1]), seen[e]) for e in chosen]
        mean, after = plain.merge_belief((old[r, 0], variance(old[r, 1])), parts, 1.0, forgetting)
        np.testing.assert_allclose(merged[r], [mean, variance(after)], rtol=1e-11)
        if len(chosen) == 1:
            np.testing.assert_array_equal(merged[r], values[chosen[0]])


def test_a_shard_that_forgot_more_than_it_says_cannot_blow_up_the_rest():
    """Adding such changes would take away precision that the others' steps are divided by."""
    start, parts = (0.0, 0.01), [(0.5, 0.05, 3), (0.7, 0.04, 2), (0.6, 0.009, 4)]
    values = np.array([[mean, variance] for mean, variance, _ in parts])
    merged, seen = np.array([start]), np.array([3, 2, 4], dtype=np.int32)
    merge_beliefs(merged, values, np.arange(3), np.array([0, 3]), seen, 0, 1, 1.0, False, 0.0)
    assert 0.5 <= merged[0, 0] <= 0.7
    assert 0.009 < merged[0, 1] < 0.05
    np.testing.assert_allclose(merged[0], plain.merge_belief(start, parts), rtol=1e-12)


def test_sums_and_steps_are_merged_as_the_formula_says():
    rng = np.random.default_rng(5)
    values, order, starts, by_row = entries(rng, width=1)
    old = rng.uniform(0.0, 1.0, (len(starts) - 1, 1))
    added, stepped = old.copy(), old.copy()
    merge_sums(added, values, order, starts, 0, -np.inf)
    merge_steps(stepped, values, order, starts, 0)
    whole = np.repeat(old.T, 3, axis=0)  # a shard that did not touch a row is where it began
    for r, chosen in enumerate(by_row):
        assert added[r, 0] == pytest.approx(plain.merge_sum(old[r, 0], values[chosen, 0]))
        whole[: len(chosen), r] = values[chosen, 0]  # which shard it was does not matter
    np.testing.assert_allclose(stepped[:, 0], plain.merge_steps(old[:, 0], whole), rtol=1e-12)


def test_what_cannot_be_added_is_that_of_the_shard_that_saw_most():
    rng = np.random.default_rng(7)
    values, order, starts, by_row = entries(rng, width=1)
    seen = rng.integers(1, 3, len(values)).astype(np.int32)
    merged = np.zeros((len(starts) - 1, 1))
    merge_latest(merged, values, order, starts, seen, 0)
    for r, chosen in enumerate(by_row):
        assert merged[r, 0] == plain.latest([(values[e, 0], seen[e]) for e in chosen])


def test_steps_that_agree_count_once_and_those_at_right_angles_add_up():
    rows = np.zeros((2, 1))
    order, starts = np.array([0, 2, 1, 3]), np.array([0, 2, 4])
    same = rows.copy()
    merge_steps(same, np.array([[1.0], [2.0], [1.0], [2.0]]), order, starts, 0)
    np.testing.assert_array_equal(same[:, 0], [1.0, 2.0])
    apart = rows.copy()
    merge_steps(apart, np.array([[1.0], [0.0], [0.0], [2.0]]), order, starts, 0)
    np.testing.assert_array_equal(apart[:, 0], [1.0, 2.0])
    np.testing.assert_array_equal(
        apart[:, 0], plain.merge_steps(np.zeros(2), [[1.0, 0.0], [0.0, 2.0]])
    )


def test_full_gaussians_are_merged_as_the_formula_says():
    rng = np.random.default_rng(6)

    def covariance(scale):
        a = rng.normal(size=(4, 4))
        return scale * (a @ a.T + 4.0 * np.eye(4)) / 8.0

    mean, start = rng.normal(size=4), covariance(2.0)
    parts = [(mean + rng.normal(size=4) / 9, 0.3 * covariance(1.0)) for _ in range(3)]
    renewal = np.full(4, 3e-3)
    got = merge_gaussians(mean, start, parts, [5, 70, 9], renewal, 3.0)
    expected = plain.merge_full(mean, start, parts, [5, 70, 9], renewal, 3.0)
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


def test_independent_data_give_the_belief_that_one_learner_of_all_would_have():
    """Conjugate Gaussians: adding changes of natural parameters is Bayes' rule."""
    prior_mean, prior_variance = 0.3, 1.0
    observations = [(0.9, 0.5), (-0.2, 0.25), (0.4, 2.0)]  # value, variance of its noise

    def posterior(seen):
        precision = 1.0 / prior_variance + sum(1.0 / v for _, v in seen)
        mean = (prior_mean / prior_variance + sum(x / v for x, v in seen)) / precision
        return mean, 1.0 / precision

    values = np.array([posterior([one]) for one in observations])
    merged = np.array([[prior_mean, prior_variance]])
    seen = np.ones(3, dtype=np.int32)
    merge_beliefs(
        merged, values, np.arange(3), np.array([0, 3]), seen, 0, 1, prior_variance, False, 0.0
    )
    np.testing.assert_allclose(merged[0], posterior(observations), rtol=1e-14)


def test_touched_rows_are_counted_without_zeros_and_forgotten_when_cleared():
    touched = Touched(4)
    touched.add(np.array([1.0, 0.0, 2.0]), np.array([3, 2, 1], dtype=np.int32))
    touched.grow(9)
    touched.add_dense(np.array([[0.0, 5.0, 0.0], [0.0, 1.0, 0.0]]))
    rows, seen = touched.rows()
    np.testing.assert_array_equal(rows, [1, 3])
    np.testing.assert_array_equal(seen, [3, 1])
    touched.clear()
    assert touched.rows()[0].size == 0
    touched.load(rows, seen)
    np.testing.assert_array_equal(touched.rows()[1], seen)


def test_which_learners_can_be_sharded():
    able = {name for name in romco.LEARNERS if isinstance(romco.learner(name, 3, 2), Merges)}
    assert able == SHARDED


def test_a_learner_that_cannot_be_sharded_says_why():
    with pytest.raises(ValueError, match=r"romco-nucl cannot be sharded: .* 33 to 75 %"):
        mergeable(romco.learner("romco-nucl", 3, 2))
    with pytest.raises(ValueError, match="mtfl cannot be sharded: each of its steps"):
        mergeable(romco.learner("mtfl", 3, 2))


def test_kinds_and_counts_of_shards_add_up():
    """What only counts is the same as if one learner had seen it all."""
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(40, 5)), np.where(rng.random(40) < 0.5, 1.0, -1.0)
    task = np.arange(40) % 4
    common = romco.learner("romco-auto", 5, 1)
    changes = []
    for k in range(2):
        own = task % 2 == k
        shard, touched = romco.learner("romco-auto", 5, 2), Touched(5)
        shard.replay([romco.Round(task[own] // 2, x[own], y[own])])
        touched.add_dense(x[own])
        changes.append(change(shard, touched, int(own.sum())))
    merge(common, changes)
    assert common.arrays()["typical"][0] == 40
    count, total, square = common.arrays()["units"][:, :3].T
    np.testing.assert_array_equal(count, 40)
    np.testing.assert_allclose(total, x.sum(axis=0), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(square, (x**2).sum(axis=0))
    found = [one.values["units"][:, 3:] for one in changes]
    assert any((common.arrays()["units"][:, 3:] == one).all() for one in found)
    assert common.arrays()["kinds"].sum() == pytest.approx(1.0 + 4)  # one a priori, four tasks


def test_taking_over_leaves_what_is_a_tasks_own_alone():
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(12, 5)), np.where(rng.random(12) < 0.5, 1.0, -1.0)
    learner, common, touched = (
        romco.learner("romco-auto", 5, 2),
        romco.learner("romco-auto", 5, 1),
        Touched(5),
    )
    learner.replay([romco.Round(np.arange(12) % 2, x, y)])
    touched.add_dense(x)
    merged = merge(common, [change(learner, touched, 12)])
    other = romco.learner("romco-auto", 5, 2)
    take(other, merged)
    for name in ("factor", "own_intercept", "evidence", "belief", "personal"):
        assert not other.arrays()[name].any()
    np.testing.assert_array_equal(other.arrays()["weight"], learner.arrays()["weight"])
