"""Memory that is handed out in blocks."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import csr_array

import romco
from romco.kernels.core.arenas import blocks_taken
from romco.kernels.core.memory import fail_at, held


def test_blocks_begin_a_line_and_no_two_overlap():
    rng = np.random.default_rng(0)
    sizes = [1, 64, 65, 1 << 14, 5 << 20, *rng.integers(1, 70_000, 300).tolist()]
    found = blocks_taken(sizes)
    assert all(at % 64 == 0 for at, _ in found)
    n = len(sizes)
    last = sorted(found[1:n:2] + found[n:])  # those not given back
    for (at, size), (beyond, _) in pairwise(last):
        assert at + size <= beyond


def test_a_block_that_was_given_back_serves_again():
    found = blocks_taken([1000, 2000, 1000, 2000])
    given, again = {at for at, _ in found[:4:2]}, {at for at, _ in found[4:]}
    assert given == again


@pytest.mark.usefixtures("without_garbage")
@pytest.mark.parametrize("name", ["romco-auto", "romco-nucl"])
def test_all_memory_goes_back_with_the_learner(name):
    before = held()
    learner = romco.learner(name, 2**18, 200)
    x = np.zeros((40, 2**18))
    rng = np.random.default_rng(1)
    x[np.arange(40)[:, None], rng.integers(0, 2**18, (40, 30))] = rng.standard_normal((40, 30))
    learner.update(romco.Round(rng.integers(0, 200, 40), x, np.where(x.sum(axis=1) > 0, 1.0, -1.0)))
    assert held() > before
    del learner
    assert held() == before


def test_a_table_that_finds_no_memory_stays_as_it_was():
    learner = romco.learner("romco-auto", 2**18, 100)
    columns = np.arange(40_000, dtype=np.int32)
    x = csr_array((np.ones(40_000), columns, np.array([0, 10_000, 40_000])), shape=(2, 2**18))
    one, two = (romco.Round(np.array([3]), x[k : k + 1], np.ones(1)) for k in range(2))
    learner.update(one)
    before = learner.predict(two)
    fail_at(1)
    try:
        with pytest.raises(MemoryError):
            learner.update(two)
    finally:
        fail_at(0)
    np.testing.assert_array_equal(learner.predict(two), before)
    learner.update(two)
