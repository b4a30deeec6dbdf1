from importlib.metadata import EntryPoint

import numpy as np
import pytest

import romco
from romco.learners import known, registry
from romco.learners.linear import CoupledPerceptron, Gradient
from romco.streams import simulated, synchronous

UNIQUE = {"models": "unique"}
STREAM = simulated(n_tasks=4, n_features=8, n_events=20, outliers=1)


def test_unknown_learner_lists_the_known():
    with pytest.raises(ValueError, match="romco-nucl"):
        romco.learner("romko", 3, 2)


def test_unknown_parameter_lists_the_known():
    with pytest.raises(ValueError, match="eta1"):
        romco.learner("romco-nucl", 3, 2, eta3=1.0)


def test_nuclear_has_no_schedule_of_rho():
    with pytest.raises(ValueError, match="rho"):
        romco.learner("romco-nucl", 3, 2, rho="1/t")


@pytest.mark.parametrize(("d", "m"), [(0, 2), (3, 0), (-1, 2), (2.5, 2), (3, True)])
def test_sizes_must_be_whole_and_positive(d, m):
    with pytest.raises(ValueError, match="whole number"):
        romco.learner("ogd-unique", d, m)


@pytest.mark.parametrize("name", romco.LEARNERS)
def test_a_restored_learner_knows_what_it_was(name):
    learner = romco.learner(name, 8, 4)
    rounds = synchronous(STREAM, 0)
    learner.replay(rounds[:10])
    other = romco.restore(learner.state())
    assert (other.name, other.parameters) == (learner.name, learner.parameters)
    np.testing.assert_array_equal(other.replay(rounds[10:]), learner.replay(rounds[10:]))


@pytest.mark.parametrize("name", romco.LEARNERS)
def test_damaged_states_are_refused(name):
    learner = romco.learner(name, 8, 4)
    learner.replay(synchronous(STREAM, 0)[:10])
    state = learner.state()
    key = next(iter(state["arrays"]))
    damaged = [
        {k: v for k, v in state["arrays"].items() if k != key},
        {**state["arrays"], "stowaway": np.zeros(1)},
        {**state["arrays"], key: np.zeros((77, 77, 77))},
    ]
    for arrays in damaged:
        with pytest.raises(ValueError, match="state"):
            romco.restore({**state, "arrays": arrays})


def test_growing_keeps_what_was_learned():
    learner = romco.learner("ogd-unique", 8, 4)
    learner.replay(synchronous(STREAM, 0))
    grown = romco.grown(learner, 10, 6)
    np.testing.assert_array_equal(grown.weights()[:8, :4], learner.weights())
    assert not grown.weights()[8:].any()
    with pytest.raises(ValueError, match="shrink"):
        romco.grown(learner, 7, 4)


@pytest.mark.parametrize("name", romco.LEARNERS)
def test_every_learner_is_described_and_can_be_tuned(name):
    method = romco.LEARNERS[name]
    assert method.summary
    assert set(method.space) <= set(method.parameters)


@pytest.mark.parametrize("name", romco.LEARNERS)
def test_a_learner_made_through_the_mapping_knows_its_name(name, tmp_path):
    learner = romco.LEARNERS[name](3, 2)
    assert learner.name == name
    romco.save(learner, tmp_path / "l.romco")
    assert romco.load(tmp_path / "l.romco").name == name


def test_a_learner_of_ones_own_is_bound_to_its_name(monkeypatch, tmp_path):
    monkeypatch.setitem(romco.LEARNERS, "mine", romco.Method(Gradient, "M", fixed=UNIQUE))
    romco.save(romco.LEARNERS["mine"](3, 2, eta=0.5), tmp_path / "l.romco")
    assert romco.load(tmp_path / "l.romco").parameters["eta"] == 0.5
    assert "mine" in list(romco.LEARNERS)
    assert known("mine").title == "M"
    assert romco.Model(learner="mine").engine.learner.name == "mine"


def test_a_class_alone_is_a_method_too(monkeypatch):
    monkeypatch.setitem(romco.LEARNERS, "mine", CoupledPerceptron)
    assert romco.learner("mine", 3, 2, b=2.0).parameters["b"] == 2.0


def test_what_is_taken_away_comes_back(monkeypatch):
    n = len(romco.LEARNERS)
    with monkeypatch.context() as change:
        change.delitem(romco.LEARNERS, "coml")
        assert len(romco.LEARNERS) == n - 1
        with pytest.raises(ValueError, match="unknown learner 'coml'"):
            romco.learner("coml", 3, 2)
    assert romco.LEARNERS["coml"].name == "coml"


@pytest.mark.parametrize("name", [None, 3, ["coml"], "Coml"])
def test_what_is_no_name_is_unknown(name):
    with pytest.raises(ValueError, match="unknown learner"):
        known(name)


def test_a_package_that_cannot_be_imported_is_left_out(monkeypatch):
    broken = EntryPoint("theirs", "no_such_package:Learner", "romco.learners")
    monkeypatch.setattr(registry, "entry_points", lambda group: [broken])
    fresh = registry.Methods({})
    with pytest.warns(UserWarning, match="learner 'theirs' .* is left out"):
        assert list(fresh) == []
