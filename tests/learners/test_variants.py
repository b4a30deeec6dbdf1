"""Promises hold for every variant of a method, not only for its defaults."""

import pytest

import romco
from romco.checks import check_learner

VARIANTS = [
    ("pa-unique", {"variant": "PA"}),
    ("pa-global", {"variant": "PA-II", "C": 0.1}),
    ("arow-unique", {"covariance": "full"}),
    ("arow-global", {"covariance": "full"}),
    ("cw-col", {"covariance": "full", "eta2": 0.3}),
    ("coml", {"eta2": 0.0}),
    *[
        ("omtl", {"norm": norm, "update": update, "C": 0.1})
        for norm in ("L1", "L2", "Linf", "r-max")
        for update in ("implicit", "finite", "scaled")
    ],
    ("osmtl-e", {"trigger": "mistake", "alpha": 0.1}),
    ("osmtl-t", {"trigger": "mistake", "lambda_": 0.1}),
    ("perceptron-coupled", {"b": 0.0}),
    ("omtlvon", {"eta": 1e-6, "b": 1.0}),
    ("omtllog", {"eta": 1e-6, "prime": 20}),
]


@pytest.mark.parametrize(("name", "parameters"), VARIANTS, ids=str)
def test_variant_keeps_every_promise(name, parameters):
    check_learner(lambda d, m: romco.learner(name, d, m, **parameters))
