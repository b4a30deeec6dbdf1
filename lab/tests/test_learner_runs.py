"""Runs of learners for the reports, and the settings that are tried."""

from itertools import pairwise

import pytest

from romco import LEARNERS
from romco.compare.results import read
from romco.compare.run import Run, complete
from romco.compare.sources import digest_of
from romco_lab import learner_runs as running
from romco_lab.learner_runs import PAPER_GRID, equal_trials, execute, grid_trials


def make_run(learner="ogd-unique", seed=0, **parameters):
    pairs = complete(learner, parameters)
    digest = digest_of("simulated")
    return Run("simulated", digest, learner, pairs, "synchronous", seed, rounds=40, records=5)


def test_a_run_writes_a_head_records_and_an_end(tmp_path):
    found = read(execute(make_run("romco-nucl"), tmp_path))
    assert found.run == make_run("romco-nucl")
    assert [record["rounds"] for record in found.records] == [8, 16, 24, 32, 40]
    assert found.last["events"] == 40 * 20
    assert 0 < found.error() < 1
    assert found.last["seconds"] > 0
    assert len(found.last["structure"]["personal_norms"]) == 20
    assert len(found.end["shared"]) == len(found.end["features"])
    assert 2 <= len(found.end["features"]) <= 48
    assert found.stream["outliers"] is not None


def test_a_setting_that_breaks_down_is_a_result(tmp_path, monkeypatch):
    class Broken:
        def __init__(self, n_features, n_tasks, *, eta, step):
            self.n_tasks = n_tasks

        def replay(self, rounds):
            raise FloatingPointError("margins are not finite")

    run = make_run()
    monkeypatch.setitem(running.LEARNERS, "ogd-unique", Broken)
    found = read(execute(run, tmp_path))
    assert found.failed == "FloatingPointError: margins are not finite"
    assert found.error() == float("inf")


def test_future_labels_change_no_earlier_record(tmp_path, monkeypatch):
    run = make_run("romco-nucl")
    for part in ("a", "b"):
        (tmp_path / part).mkdir()
    before = read(execute(run, tmp_path / "a"))
    whole = running.shuffled

    def altered(*where):
        rounds = whole(*where)
        y = rounds.y.copy()
        y[rounds.starts[24] :] *= -1
        return type(rounds)(rounds.task, rounds.x, y, rounds.starts)

    monkeypatch.setattr(running, "shuffled", altered)
    after = read(execute(run, tmp_path / "b"))
    for one, two in zip(before.records[:3], after.records[:3], strict=True):
        assert one["scores"] == two["scores"]
    assert before.last["scores"] != after.last["scores"]


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
