"""Definitions: a slope is the derivative of its value."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from romco.losses import LOSSES

margins = st.floats(-30, 30)


@pytest.mark.parametrize("name", LOSSES)
@given(p=margins, y=st.sampled_from([-1.0, 1.0]))
def test_slope_is_the_derivative(name, p, y):
    if abs(1 - y * p) < 1e-3 or abs(abs(p - y) - 0.1) < 1e-3:
        return  # a kink has two
    loss, h = LOSSES[name], 1e-6
    ends = loss.value(np.array([p - h, p + h]), np.full(2, y))
    slope = loss.slope(np.array([p]), np.array([y]))[0]
    assert slope == pytest.approx((ends[1] - ends[0]) / (2 * h), rel=1e-5, abs=1e-7)


def test_hinge_is_flat_at_margin_one():
    assert LOSSES["hinge"].slope(np.array([1.0]), np.array([1.0])) == 0.0
