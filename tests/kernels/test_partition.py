import numpy as np
import pytest
from scipy.sparse import random_array

from romco.kernels.merge.partition import encode, pick_rows


def test_rows_are_picked_as_scipy_does():
    rng = np.random.default_rng(0)
    x = random_array((9, 6), density=0.3, rng=rng, format="csr")
    given = x.data, x.indices.astype(np.int32), x.indptr.astype(np.int32)
    for places in ([], [3], [8, 0, 0, 5], range(9)):
        expected = x[list(places)]
        found = pick_rows(*given, np.array(places, dtype=np.int64))
        for got, want in zip(
            found, (expected.data, expected.indices, expected.indptr), strict=True
        ):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("place", [-1, 2])
def test_rows_that_are_not_there_are_refused(place):
    starts = np.array([0, 1, 2], dtype=np.int32)
    with pytest.raises(ValueError, match="not among 2"):
        pick_rows(np.ones(2), np.zeros(2, np.int32), starts, np.array([place]))


def test_rows_that_end_beyond_what_is_stored_are_refused():
    starts = np.array([0, 1, 3], dtype=np.int32)
    with pytest.raises(ValueError, match="not among 2"):
        pick_rows(np.ones(2), np.zeros(2, np.int32), starts, np.array([1]))


def test_names_are_encoded_and_unknown_ones_are_added():
    codes = {"ann": 3, 7: 0, ("shop", 7): 5}
    added = encode(codes, ["ann", 7.0, "bob", ("shop", 7), ["x"]], lambda name: len(name) + 10)
    np.testing.assert_array_equal(added, [3, 0, 13, 5, 11])
    with pytest.raises(ValueError, match="no name"):
        encode(codes, ["ann", None], lambda name: int("no name"))
