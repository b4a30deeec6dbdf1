from itertools import pairwise

import pytest

from romco import LEARNERS
from romco.compare.plan import complete
from romco.compare.tuning import PAPER_GRID, equal_trials, grid_trials


@pytest.mark.parametrize("learner", LEARNERS)
def test_trials_lie_in_the_learners_own_space_with_the_default_first(learner):
    trials = equal_trials(learner, 12)
    space = LEARNERS[learner].space
    assert trials[0] == {}
    assert len({str(complete(learner, trial)) for trial in trials[1:]}) == len(trials) - 1
    for trial in trials[1:]:
        assert set(trial) == set(space)
        for name, value in trial.items():
            if isinstance(value, float):
                assert min(space[name]) * 0.999 <= value <= max(space[name]) * 1.001
            else:
                assert value in space[name]


def test_methods_with_a_numeric_parameter_get_the_same_number_of_trials():
    counts = {
        name: len(equal_trials(name, 25))
        for name, method in LEARNERS.items()
        if any(
            len(v) > 2 and all(isinstance(x, float) and x > 0 for x in v)
            for v in method.space.values()
        )
    }
    assert {"romco-nucl", "ogd-unique", "pa-unique"} <= set(counts)
    assert set(counts.values()) == {25}


def test_trials_are_spread_evenly_in_the_logarithm():
    etas = sorted(trial["eta"] for trial in equal_trials("ogd-unique", 33)[1:])
    gaps = [high / low for low, high in pairwise(etas)]
    assert max(gaps) < 2.1


def test_the_grid_is_the_papers_for_romco():
    trials = grid_trials("romco-logd")
    assert len(trials) == 1 + 7**4
    assert {trial["lambda2"] for trial in trials[1:]} == set(PAPER_GRID)
