import numpy as np
import pytest

from romco.kernels.merge.partition import encode


def test_names_are_encoded_and_unknown_ones_are_added():
    codes = {"ann": 3, 7: 0, ("shop", 7): 5}
    added = encode(codes, ["ann", 7.0, "bob", ("shop", 7), ["x"]], lambda name: len(name) + 10)
    np.testing.assert_array_equal(added, [3, 0, 13, 5, 11])
    with pytest.raises(ValueError, match="no name"):
        encode(codes, ["ann", None], lambda name: int("no name"))
