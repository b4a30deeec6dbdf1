"""Labels that cost in River: our sampler around its classifiers, and its sampler around ours."""

import pytest

active = pytest.importorskip("river.active")

from river import linear_model  # noqa: E402

from romco.adapters.river import BudgetSampler, ROMCOClassifier  # noqa: E402

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


@pytest.mark.parametrize("inner", [ROMCOClassifier, linear_model.LogisticRegression])
def test_our_sampler_keeps_its_budget_and_learns(inner):
    model = BudgetSampler(inner(), share=0.2, advance=20, audit=0.3, seed=3)
    asked, right = played(model)
    assert asked == model.spent <= 0.2 * len(PRICES) + 1
    assert right > 0.8
    assert model.error.labels > 10
    assert model.error.low <= 1 - right <= model.error.high


def test_the_task_reaches_the_classifier():
    model = BudgetSampler(ROMCOClassifier(), share=0.5, seed=3)
    played(model, task="north")
    assert model.classifier.model.tasks == ["north"]


def test_our_classifier_in_a_sampler_of_river():
    model = active.EntropySampler(ROMCOClassifier(), seed=1)
    asked, right = played(model)
    assert 0 < asked < len(PRICES)
    assert right > 0.8
    chances, ask = model.predict_proba_one({"price": 4.0})
    assert chances[True] > 0.5
    assert isinstance(ask, bool)


def test_a_seed_decides_all():
    one, two = (BudgetSampler(ROMCOClassifier(), share=0.2, seed=9) for _ in range(2))
    assert played(one) == played(two)
