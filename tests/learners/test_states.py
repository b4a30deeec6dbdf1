"""States have versions, and exactly the sizes that they declare."""

from __future__ import annotations

import numpy as np
import pytest

import romco
from romco.io.modelfile import ModelFileError
from romco.learners.linear import Gradient
from romco.learners.numbers import DecomposedNumbers, of_inner
from romco.learners.romco import Romco


def older(state: romco.learners.base.State) -> None:
    """Version 1 kept the weights with the opposite sign."""
    state["arrays"]["w"] = -state["arrays"]["w"]


def learned() -> romco.Learner:
    learner = romco.learner("ogd-unique", 2, 3)
    learner.update(romco.Round(np.array([1]), np.array([[1.0, 2.0]]), np.array([-1.0])))
    return learner


def test_a_state_says_its_version_and_one_without_is_of_the_first() -> None:
    state = learned().state()
    assert state.pop("version") == 1
    np.testing.assert_array_equal(romco.restore(state).weights(), learned().weights())


def test_an_older_state_is_upgraded_step_by_step(monkeypatch, tmp_path) -> None:
    romco.save(learned(), tmp_path / "old.romco")
    monkeypatch.setattr(Gradient, "version", 3)
    monkeypatch.setattr(Gradient, "upgrades", {1: older, 2: lambda state: None})
    found = romco.load(tmp_path / "old.romco")
    np.testing.assert_array_equal(found.weights(), -learned().weights())
    assert found.state()["version"] == 3


def test_a_state_that_is_too_old_or_too_new_is_refused_by_name(monkeypatch, tmp_path) -> None:
    romco.save(learned(), tmp_path / "old.romco")
    monkeypatch.setattr(Gradient, "version", 2)
    with pytest.raises(ModelFileError, match="ogd-unique has version 1, which this library no lon"):
        romco.load(tmp_path / "old.romco")
    romco.save(learned(), tmp_path / "new.romco")
    monkeypatch.setattr(Gradient, "version", 1)
    with pytest.raises(ModelFileError, match="ogd-unique has version 2, this library knows 1"):
        romco.load(tmp_path / "new.romco")


@pytest.mark.parametrize("version", [0, -1, 1.5, "1", None, True])
def test_what_is_no_version_is_refused(version) -> None:
    with pytest.raises(ValueError, match="version must be"):
        romco.restore({**learned().state(), "version": version})


@pytest.mark.parametrize("name", romco.LEARNERS)
@pytest.mark.parametrize("size", ["n_features", "n_tasks"])
def test_sizes_other_than_those_of_the_arrays_are_refused(name, size) -> None:
    if name.endswith("-global") and size == "n_tasks":
        pytest.skip("keeps nothing of a single task")
    state = romco.learner(name, 6, 4).state()
    for n in (state[size] + 1, 10**8, 10**15):
        with pytest.raises(ValueError, match="state"):
            romco.restore({**state, size: n})


@pytest.mark.parametrize(
    ("name", "array"),
    [("omtlvon", "L"), ("omtlvon", "G"), ("omtllog", "B"), ("romco-logd", "left_gram")],
)
@pytest.mark.parametrize("factor", [1e150, 1e300, -1e300])
def test_learning_ends_whatever_numbers_a_state_holds(name, array, factor) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 6)), rng.choice([-1.0, 1.0], 40)
    learner = romco.learner(name, 6, 4)
    learner.update(romco.Round(np.arange(4), x[:4], y[:4]))
    state = learner.state()
    state["arrays"][array] = np.where(state["arrays"][array] == 0.0, 0.3, 1.0) * factor
    try:
        made = romco.restore(state)
        for i in range(4, 40, 4):
            made.update(romco.Round(np.arange(4), x[i : i + 4], y[i : i + 4]))
    except (FloatingPointError, ValueError):
        pass  # told, and over


def of_classes() -> romco.Learner:
    learner = romco.learner("classes", 2, 3, inner="romco-auto", n_classes=3)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 2)), rng.integers(3, size=60).astype(float)
    learner.replay(romco.Rounds(np.arange(60) % 3, x, y, np.arange(61)))
    return learner


def before_covariances(state: romco.learners.base.State) -> romco.learners.base.State:
    """As classes of romco-auto of version 2 were written."""
    newer = (".joint", ".frequent", ".level", ".progress")
    arrays = {n: a for n, a in state["arrays"].items() if not n.endswith(newer)}
    prior = np.eye(10)[4] * 9.0  # variances that were spent, of one of 1 and not 10
    arrays |= {n: a[:, :10] - prior for n, a in arrays.items() if n.endswith(".shared")}
    arrays |= {n: a[:, :4] for n, a in arrays.items() if n.endswith(".factor")}
    arrays |= {n: a[:4] for n, a in arrays.items() if n.endswith(".typical")}
    arrays |= {n: a[:9] for n, a in arrays.items() if n.endswith(".turn")}
    arrays |= {n: a[:, :2] for n, a in arrays.items() if n.endswith(".own_intercept")}
    older = {**state, "version": 1, "arrays": arrays}
    del older["inner_version"]
    return older


def test_inner_learners_of_an_older_version_are_upgraded(tmp_path) -> None:
    state = of_classes().state()
    assert (state["version"], state["inner_version"]) == (5, 9)
    found = romco.restore(before_covariances(state))
    asked = romco.Round(np.array([0, 1]), np.array([[1.0, 0.5], [-1.0, 2.0]]), np.empty(0))
    expected = of_classes().predict(asked)
    joint = found.arrays()["0.joint"]
    assert not (joint - np.diag(np.diag(joint))).any()  # learned anew; the rest is as it was
    np.testing.assert_array_equal(found.predict(asked).argmax(axis=1), expected.argmax(axis=1))
    found.update(asked._replace(y=np.array([0.0, 2.0])))
    romco.save(found, tmp_path / "now.romco")
    now = romco.load(tmp_path / "now.romco")
    assert now.state()["inner_version"] == 9
    np.testing.assert_array_equal(now.predict(asked), found.predict(asked))


def test_parameters_of_inner_learners_are_upgraded_too() -> None:
    state = romco.learner("classes", 2, 3, inner="romco-nucl", n_classes=3).state()
    arrays = {n: a for n, a in state["arrays"].items() if not n.endswith(".last_round")}
    found = romco.restore({**state, "inner_version": 1, "arrays": arrays})
    assert found.parameters["parameters"]["shrinkage"] == "round"
    assert found.state()["inner_version"] == 2


@pytest.mark.parametrize(
    ("version", "why"),
    [
        (10, "romco-auto has version 10, this library knows 9"),
        (1, "romco-auto has version 1, which this library no longer reads"),
        (0, "inner_version must be"),
        ("4", "inner_version must be"),
        (None, "inner_version must be"),
    ],
)
def test_inner_learners_of_an_unknown_version_are_refused_by_name(version, why) -> None:
    with pytest.raises(ValueError, match=why):
        romco.restore({**of_classes().state(), "inner_version": version})


def test_numbers_by_romco_have_its_version(monkeypatch) -> None:
    learner = romco.learner("romco-nucl-number", 2, 3)
    state = learner.state()
    assert state["version"] == Romco.version
    assert romco.restore({**state, "version": 1}).state()["version"] == Romco.version
    sizes = []
    newer = of_inner(lambda state: sizes.append(state["n_features"]))
    monkeypatch.setattr(DecomposedNumbers, "version", Romco.version + 1)
    monkeypatch.setattr(DecomposedNumbers, "upgrades", {Romco.version: newer})
    assert romco.restore(state).n_features == 2
    assert sizes == [3]  # ROMCO's rows have a constant
