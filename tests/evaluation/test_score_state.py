"""The saved state of a score is read only if a score could have written it."""

import copy
import json

import numpy as np
import pytest

import romco
from romco.evaluation import Score
from romco.evaluation.score import BLOCK_EVENTS

RNG = np.random.default_rng(0)
SIDES = RNG.choice([-1.0, 1.0], 230)
CHANCES = RNG.random(230)


def two_classes():
    score = Score()
    score.add_binary(SIDES, CHANCES - 0.5, CHANCES)
    return score


def numbers():
    score = Score("number")
    score.add(romco.Round(np.zeros(230, int), np.zeros((230, 1)), SIDES - 7.0), CHANCES)
    return score


def classes():
    score = Score("classes")
    rng = np.random.default_rng(1)
    y, chances = rng.integers(0, 3, 50).astype(float), rng.dirichlet([1] * 3, 50)
    score.add(romco.Round(np.zeros(50, int), np.zeros((50, 1)), y), np.log(chances))
    return score


@pytest.mark.parametrize("make", [two_classes, numbers, classes])
def test_a_saved_score_comes_back_bit_for_bit(make):
    score = make()
    told = json.loads(json.dumps(score.to_json()))
    again = Score.from_json(told)
    assert again.to_json() == score.to_json()
    assert again.summary() == score.summary()


def edited(told, path, value):
    """The same with one value exchanged."""
    told = copy.deepcopy(told)
    inner = told
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return told


ODD = [None, "7", -1, float("inf"), float("nan"), 1e300, [1], {}]


@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize(
    ("make", "path"),
    [
        *(
            (two_classes, ("table", "0", "1")),
            (two_classes, ("sums", 1)),
            (two_classes, ("blocks", -1, 0)),
        ),
        *(
            (two_classes, ("groups", 0, 0)),
            (two_classes, ("bins", 0, 0)),
            (two_classes, ("bins", 1, 0)),
        ),
        *((numbers, ("sums", 0)), (numbers, ("moments", 1)), (classes, ("table", "0", "0"))),
        *((classes, ("sums", 3)), (classes, ("sums", 2))),
    ],
)
def test_a_state_that_no_score_writes_is_refused(make, path, odd):
    score = make()
    with pytest.raises((ValueError, TypeError)):
        Score.from_json(edited(score.to_json(), path, odd))


@pytest.mark.parametrize("filled", [BLOCK_EVENTS + 1, 2.5 * BLOCK_EVENTS, 0.5])
def test_a_block_with_more_events_than_fit_does_not_count_for_ever(filled):
    with pytest.raises(ValueError, match="recent blocks hold up to 100 events"):
        Score.from_json(edited(two_classes().to_json(), ("blocks", -1, 0), filled))
    with pytest.raises(ValueError, match="recent blocks"):
        Score.from_json({**two_classes().to_json(), "blocks": []})


@pytest.mark.parametrize("part", ["sums", "groups", "bins"])
def test_sums_of_another_length_are_refused(part):
    told = two_classes().to_json()
    with pytest.raises(ValueError, match=r"expected|unpack|shape|homogeneous"):
        Score.from_json({**told, part: told[part][:-1]})
    with pytest.raises(ValueError, match="expected"):
        Score.from_json({**numbers().to_json(), "sums": [1.0, 2.0, 3.0]})
