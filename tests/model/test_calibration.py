import numpy as np

from romco.model import Scale


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
