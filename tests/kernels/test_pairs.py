"""The store of numbers per task and feature."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import romco
from romco.kernels.core import pairs
from romco.kernels.core.pairs import Pairs


def filled(n, seed=0):
    """A table with n pairs, made through the dense form."""
    rng = np.random.default_rng(seed)
    values = np.zeros((50, 200, 2))
    at = rng.choice(50 * 200, n, replace=False)
    values.reshape(-1, 2)[at] = rng.normal(size=(n, 2))
    table = Pairs(50, 200, 2, False)
    table.load({"personal": values})
    return table, values


@pytest.mark.parametrize("n", [0, 1, 511, 513, 9000])
def test_table_holds_what_the_array_holds(n):
    table, values = filled(n)
    for k in range(2):
        np.testing.assert_array_equal(table.lane(k), values[:, :, k])


def grown(n, begin=0, store=None):
    """A store of many pairs, made by events as they come."""
    if store is None:
        store = romco.learner("romco-auto", 2**20, 64)
    rng = np.random.default_rng(begin)
    x = np.sort(rng.integers(0, 2**20 // 200, (n, 200)) + np.arange(200) * (2**20 // 200), axis=1)
    starts = np.arange(0, 200 * n + 1, 200)
    rows = csr_array((rng.standard_normal(200 * n), x.ravel(), starts), shape=(n, 2**20))
    labels = np.where(rng.random(n) < 0.5, -1.0, 1.0)
    store.replay(romco.Rounds(rng.integers(0, 64, n), rows, labels, np.arange(n + 1)))
    return store


def test_a_large_store_is_not_copied_as_it_grows():
    learner = grown(250)
    before = learner.arrays()["personal"]
    grown(1000, 1, learner)
    after = learner.arrays()["personal"]
    assert len(before) > pairs.FEW
    assert len(after) > 4 * len(before)
    assert np.shares_memory(before, after)


def test_a_store_grows_where_addresses_are_few(monkeypatch):
    expected = grown(250).arrays()
    monkeypatch.setattr(pairs, "RESERVED", 2**62)  # refused before it is asked for
    found = grown(250).arrays()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)


def test_state_holds_only_pairs_that_occurred():
    table, _ = filled(5000)
    assert table.used == len(table.arrays()["personal_keys"]) == 5000


def test_table_restores_to_the_same_arrays():
    table, _ = filled(700)
    again = Pairs(60, 300, 2, False)
    again.load(table.arrays())
    for name, array in table.arrays().items():
        np.testing.assert_array_equal(again.arrays()[name], array)
        assert not np.shares_memory(again.arrays()[name], array)


@pytest.mark.parametrize("dense", [False, True])
def test_a_cleared_task_holds_zeros_and_the_others_what_they_held(dense):
    _, values = filled(700)
    table = Pairs(50, 200, 2, dense)
    table.load({"personal": values})
    table.clear(7)
    values[7] = 0.0
    np.testing.assert_array_equal(table.lane(1), values[:, :, 1])


@pytest.mark.parametrize("dense", [False, True])
def test_rows_that_are_put_replace_what_a_task_held(dense):
    _, values = filled(700)
    table = Pairs(50, 200, 2, dense)
    table.load({"personal": values})
    features = np.arange(0, 200, 3, dtype=np.int32)
    numbers = np.random.default_rng(1).normal(size=(67, 2))
    table.put(7, features, numbers)
    values[7, features] = numbers
    np.testing.assert_array_equal(table.lane(0), values[:, :, 0])
    np.testing.assert_array_equal(table.lane(1), values[:, :, 1])
    for task, feature, width in ((50, 0, 2), (-1, 0, 2), (0, 200, 2), (0, -1, 2), (0, 0, 3)):
        with pytest.raises(ValueError, match=r"out of range|expected 2 numbers"):
            table.put(task, np.array([feature], dtype=np.int32), np.ones((1, width)))
    np.testing.assert_array_equal(table.lane(1), values[:, :, 1])


def test_bad_tables_are_refused():
    table, _ = filled(700)
    good = table.arrays()
    for name, wrong in [
        ("personal_keys", good["personal_keys"][:-1]),
        ("personal_keys", good["personal_keys"] + (50 << 32)),
        ("personal_keys", -good["personal_keys"]),
        ("personal_keys", np.repeat(good["personal_keys"][:1], len(good["personal_keys"]))),
        ("personal", np.full_like(good["personal"], np.inf)),
        ("personal", good["personal"][:, :1]),
    ]:
        with pytest.raises(ValueError, match="personal"):
            Pairs(50, 200, 2, False).load({**good, name: wrong})
    with pytest.raises(ValueError, match="table"):
        Pairs(50, 200, 2, True).load(good)


def test_tables_are_as_large_as_what_a_dense_row_holds_asks_for():
    learner = romco.learner("romco-auto", 2**14, 100)
    x = np.zeros((100, 2**14))
    x[np.arange(100), np.arange(100)] = 1.0
    learner.update(romco.Round(np.arange(100), x, np.ones(100)))
    store = learner.pair_store
    assert not store.dense
    assert 100 <= store.places() <= 100 * 16


def test_the_limit_of_a_store_is_the_last_number_that_its_tables_can_hold():
    store = Pairs(50, 200, 2, False)
    assert store.most == np.iinfo(np.uint32).max


@pytest.mark.parametrize("d", [1, 255, 256, 2**31 - 1])
def test_the_last_feature_is_told_from_all_others(d):
    store = Pairs(3, d, 1, False)
    features = np.unique(np.array([0, d // 2, d - 1]))
    keys = ((np.arange(3)[:, None] << 32) | features).ravel()
    values = np.arange(1.0, len(keys) + 1.0)[:, None]
    store.load({"personal": values, "personal_keys": keys})
    found = store.arrays()
    np.testing.assert_array_equal(found["personal_keys"], keys)
    np.testing.assert_array_equal(found["personal"], values)
    store.clear(1)
    cleared = (keys >> 32) == 1
    np.testing.assert_array_equal(
        store.arrays()["personal"][:, 0], np.where(cleared, 0, values[:, 0])
    )


def test_a_store_says_that_it_is_full_before_it_is():
    """Beyond, the numbers of its tables would wrap; a lower bound stands in for that many."""
    learner = romco.learner("pa-shared", 2**18, 100)
    learner.pair_store.most = 700
    columns = np.random.default_rng(0).permutation(2**18)[:3000].astype(np.int32)
    x = csr_array((np.ones(3000), columns, np.arange(0, 3001, 10)), shape=(300, 2**18))
    rounds = romco.Rounds(np.full(300, 3), x, np.ones(300), np.arange(301))
    with pytest.raises(OverflowError, match="700 at most; deal the tasks out"):
        learner.replay(rounds)
    kept = len(learner.state()["arrays"]["personal_keys"])
    assert 500 <= kept <= 700
    assert kept % 10 == 0  # no event was learned by half


@pytest.mark.parametrize(("before", "after"), [(True, True), (True, False), (False, False)])
def test_a_store_that_takes_over_another_holds_what_it_held(before, after):
    _, values = filled(900)
    old = Pairs(50, 200, 2, before)
    old.load({"personal": values})
    new = Pairs(64, 256, 2, after)
    new.take(old)
    loaded = Pairs(64, 256, 2, after)
    loaded.load(old.arrays())
    for name, array in loaded.arrays().items():
        np.testing.assert_array_equal(new.arrays()[name], array)
    for k in range(2):
        np.testing.assert_array_equal(new.lane(k)[:50, :200], values[:, :, k])


@pytest.mark.parametrize("size", [(64, 256, 2, True), (10, 200, 2, False), (64, 256, 3, False)])
def test_a_store_refuses_one_that_does_not_fit(size):
    old, _ = filled(9)
    with pytest.raises(ValueError, match="smaller store"):
        Pairs(*size).take(old)
