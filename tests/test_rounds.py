import numpy as np
import pytest
from scipy.sparse import csr_array

from romco import Round, Rounds


def make(n, sparse, d=4, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.5)
    return Round(rng.integers(0, 3, n), csr_array(x) if sparse else x, rng.choice([-1.0, 1.0], n))


def dense(x):
    return x.toarray() if hasattr(x, "toarray") else x


@pytest.mark.parametrize("sparse", [False, True])
def test_packing_keeps_every_round(sparse):
    rounds = [make(n, sparse, seed=n) for n in (3, 1, 5)]
    packed = Rounds.pack(rounds)
    assert len(packed) == 3
    for one, other in zip(rounds, packed, strict=True):
        np.testing.assert_array_equal(one.task, other.task)
        np.testing.assert_array_equal(dense(one.x), dense(other.x))
        np.testing.assert_array_equal(one.y, other.y)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_slice_is_again_rounds(sparse):
    packed = Rounds.pack([make(n, sparse, seed=n) for n in (3, 1, 5, 2)])
    part = packed[1:3]
    assert [len(round.y) for round in part] == [1, 5]
    np.testing.assert_array_equal(dense(part[0].x), dense(packed[1].x))
    assert len(part.events.y) == 6
    assert len(packed[2:2]) == 0


def test_packing_packed_rounds_costs_nothing():
    packed = Rounds.pack([make(2, False)])
    assert Rounds.pack(packed) is packed


def test_what_cannot_be_packed_or_found():
    packed = Rounds.pack([make(2, False)])
    with pytest.raises(ValueError, match="no rounds"):
        Rounds.pack([])
    with pytest.raises(IndexError):
        packed[1]
    with pytest.raises(ValueError, match="step"):
        packed[::2]
