"""What a file tells of a score is taken only if a score could have told it."""

import copy
import json

import numpy as np
import pytest

import romco
from romco.evaluation.class_scores import ClassScore
from romco.evaluation.numbers import NumberErrors
from romco.evaluation.two_classes import BLOCK, TwoClassScore

RNG = np.random.default_rng(0)
SIDES = RNG.choice([-1.0, 1.0], 230)
CHANCES = RNG.random(230)


def two_classes():
    score = TwoClassScore()
    score.add_answers(SIDES, CHANCES - 0.5, CHANCES)
    return score


def numbers():
    score = NumberErrors()
    score.add(romco.Round(np.zeros(230, int), np.zeros((230, 1)), SIDES - 7.0), CHANCES)
    return score


def classes():
    score = ClassScore()
    y = RNG.integers(0, 3, 50).astype(float)
    score.add(
        romco.Round(np.zeros(50, int), np.zeros((50, 1)), y), np.log(RNG.dirichlet([1] * 3, 50))
    )
    return score


@pytest.mark.parametrize("make", [two_classes, numbers, classes])
def test_what_was_put_away_comes_back_bit_for_bit(make):
    score = make()
    told = json.loads(json.dumps(score.to_json()))
    again = type(score).from_json(told)
    assert again.to_json() == score.to_json()
    assert again.summary() == score.summary()


def test_a_score_of_an_older_file_is_its_counts():
    assert TwoClassScore.from_json([1, 2, 3, 4]).events == 10
    assert TwoClassScore.from_json(None).events == 0


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
            (two_classes, ("counts", 0)),
            (two_classes, ("sums", 1)),
            (two_classes, ("blocks", -1, 0)),
        ),
        *(
            (two_classes, ("groups", 0, 0)),
            (two_classes, ("bins", 0, 0)),
            (two_classes, ("bins", 1, 0)),
        ),
        *((numbers, ("sums", 0)), (numbers, ("sums", 5)), (classes, ("table", "0", "0"))),
        *((classes, ("loss",)), (classes, ("usual",))),
    ],
)
def test_what_no_score_tells_is_refused(make, path, odd):
    score = make()
    with pytest.raises((ValueError, TypeError)):
        type(score).from_json(edited(score.to_json(), path, odd))


@pytest.mark.parametrize("filled", [BLOCK + 1, 2.5 * BLOCK, 0.5])
def test_a_block_with_more_events_than_fit_does_not_count_for_ever(filled):
    with pytest.raises(ValueError, match="blocks of late hold up to 100 events"):
        TwoClassScore.from_json(edited(two_classes().to_json(), ("blocks", -1, 0), filled))
    with pytest.raises(ValueError, match="blocks of late"):
        TwoClassScore.from_json({**two_classes().to_json(), "blocks": []})


@pytest.mark.parametrize("part", ["counts", "sums", "groups", "bins"])
def test_sums_of_another_length_are_refused(part):
    told = two_classes().to_json()
    with pytest.raises(ValueError, match=r"expected|unpack|shape|homogeneous"):
        TwoClassScore.from_json({**told, part: told[part][:-1]})
    with pytest.raises(ValueError, match="expected"):
        NumberErrors.from_json({"sums": [1.0, 2.0, 3.0]})
