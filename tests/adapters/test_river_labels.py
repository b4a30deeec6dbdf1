"""Labels that cost in River: its sampler around our classifier."""

import pytest

active = pytest.importorskip("river.active")

from romco.adapters.river import ROMCOClassifier  # noqa: E402

PRICES = [1, 9, 2, 8, 3, 7, 4, 6] * 60


def played(model, **keywords):
    asked = right = 0
    for price in PRICES:
        x, y = {"price": price - 5.0}, price > 5
        label, ask = model.predict_one(x, **keywords)
        right += label == y
        if ask:
            asked += 1
            model.learn_one(x, y, **keywords)
    return asked, right / len(PRICES)


def test_our_classifier_in_a_sampler_of_river():
    model = active.EntropySampler(ROMCOClassifier(), seed=1)
    asked, right = played(model)
    assert 0 < asked < len(PRICES)
    assert right > 0.8
    chances, ask = model.predict_proba_one({"price": 4.0})
    assert chances[True] > 0.5
    assert isinstance(ask, bool)
