"""States have versions, and exactly the sizes that they declare."""

from __future__ import annotations

import numpy as np
import pytest

import romco
from romco.io.modelfile import ModelFileError
from romco.learners.linear import Gradient


def learned() -> romco.Learner:
    learner = romco.learner("ogd-unique", 2, 3)
    learner.update(romco.Round(np.array([1]), np.array([[1.0, 2.0]]), np.array([-1.0])))
    return learner


def test_a_state_of_another_version_is_refused_by_name(monkeypatch, tmp_path) -> None:
    romco.save(learned(), tmp_path / "old.romco")
    monkeypatch.setattr(Gradient, "version", 2)
    with pytest.raises(ModelFileError, match="ogd-unique has version 1, this library reads"):
        romco.load(tmp_path / "old.romco")
    romco.save(learned(), tmp_path / "new.romco")
    monkeypatch.setattr(Gradient, "version", 1)
    with pytest.raises(ModelFileError, match="ogd-unique has version 2, this library reads"):
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


@pytest.mark.parametrize(
    ("version", "why"),
    [
        (2, "romco-auto has version 2, this library reads version 1"),
        (0, "inner_version must be"),
        ("1", "inner_version must be"),
        (None, "inner_version must be"),
    ],
)
def test_inner_learners_of_another_version_are_refused_by_name(version, why) -> None:
    state = romco.learner("classes", 2, 3, inner="romco-auto", n_classes=3).state()
    assert state["inner_version"] == 1
    with pytest.raises(ValueError, match=why):
        romco.restore({**state, "inner_version": version})


@pytest.mark.parametrize(
    ("tasks", "name"), [(3, "last_round"), (80, "last_round"), (80, "right_ones")]
)
def test_a_state_of_romco_that_lacks_an_array_is_refused(tasks, name) -> None:
    state = romco.learner("romco-nucl", 4, tasks).state()
    assert state["arrays"].pop(name) is not None
    with pytest.raises(ValueError, match="state holds arrays"):
        romco.restore(state)
