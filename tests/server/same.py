"""Whether two models are the same to the last bit."""

from __future__ import annotations

import numpy as np

from romco.model import Model


def assert_same_bits(a: Model, b: Model) -> None:
    first, second = a.state(), b.state()
    arrays, others = first.pop("arrays"), second.pop("arrays")
    assert first == second
    assert arrays.keys() == others.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, others[name], err_msg=name)
