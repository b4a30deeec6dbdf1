import numpy as np
import pytest

from romco.model import Scale
from tests.reference.calibration import scaled


def test_scale_finds_the_scale_of_log_odds():
    rng = np.random.default_rng(0)
    log_odds = rng.normal(0, 2, 20_000)
    y = np.where(rng.random(20_000) < 1 / (1 + np.exp(-log_odds)), 1.0, -1.0)
    for factor in (0.02, 1.0, 30.0):
        scale = Scale()
        for margin, label in zip((factor * log_odds).tolist(), y.tolist(), strict=True):
            scale.add(margin, label)
        assert abs(np.exp(scale.log_a) * factor - 1.0) < 0.2


def test_probability_agrees_with_the_sign_and_never_overflows():
    scale = Scale(log_a=30.0)
    scale.add(-1e300, 1.0)
    p = scale.probability(np.array([-1e9, -1e-3, 0.0, 1e9]))
    assert p[2] == 0.5
    assert (np.diff(p) >= 0).all()
    assert ((p >= 0) & (p <= 1)).all()


@pytest.mark.parametrize("spread", [0.01, 1.0, 30.0, 1e6, 1e200])
def test_compiled_scale_is_the_reference(spread):
    rng = np.random.default_rng(1)
    margins = rng.normal(0.0, spread, 500)
    labels = np.where(rng.random(500) < 0.6, np.sign(margins), -np.sign(margins))
    scale = Scale()
    for margin, label in zip(margins.tolist(), labels.tolist(), strict=True):
        scale.add(margin, label)
    expected = scaled(margins.tolist(), labels.tolist())
    assert (scale.log_a, scale.curvature) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("margin", [1e155, -1e155, 1e300, -1e300, 1.7e308])
@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_no_margin_makes_the_scale_infinite(margin, label):
    for log_a in (-30.0, 0.0, 30.0):
        scale = Scale(log_a)
        for _ in range(100):
            scale.add(margin, label)
        assert -30.0 <= scale.log_a <= 30.0
        assert 1.0 <= scale.curvature < 1e12


def test_a_single_step_is_at_most_one_half_and_log_a_at_most_thirty():
    scale = Scale()
    scale.add(-100.0, 1.0)
    assert scale.log_a == -0.5
    scale = Scale(log_a=29.9)
    for _ in range(100):
        scale.add(1e-13, 1.0)
    assert scale.log_a <= 30.0
    scale = Scale(log_a=-29.9)
    for _ in range(100):
        scale.add(-1e14, 1.0)
    assert scale.log_a == -30.0


@pytest.mark.parametrize("found", [(31.0, 1.0), (0.0, 0.5), (0.0, np.inf), (np.nan, 1.0)])
def test_a_scale_that_no_stream_can_give_is_refused(found):
    with pytest.raises(ValueError, match="no scale has"):
        Scale(*found)
