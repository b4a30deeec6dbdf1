"""Events that a retrained learner kept are those it learned, or the state is refused."""

import numpy as np
import pytest

import romco


def learned(name, every=100, **parameters):
    learner = romco.learner(name, 4, 3, every=every, **parameters)
    rng = np.random.default_rng(0)
    for _ in range(5):
        x = rng.normal(size=(3, 4)) * (rng.random((3, 4)) < 0.8)
        learner.update(romco.Round(np.arange(3), x, rng.choice([-1.0, 1.0], 3)))
    return learner


def put(name, at, value):
    return lambda arrays: arrays[name].__setitem__(at, value)


def longer(name):
    return lambda arrays: arrays.update({name: np.append(arrays[name], arrays[name][-1])})


def other(name, kind):
    return lambda arrays: arrays.update({name: arrays[name].astype(kind)})


CHANGES = [
    *(put("task", 0, -1), put("task", -1, 3), put("label", 0, 0.5), put("label", 0, np.nan)),
    *(put("length", 0, -1), put("length", 0, 0), put("length", 0, 2**62), put("length", -1, 5)),
    *(put("index", 0, -1), put("index", -1, 4), put("index", 0, 2**40)),
    *(put("value", 0, np.inf), put("value", 0, 1e61), put("value", -1, -1e61)),
    *(put("since", 0, -1), put("curvature", 0, -0.5), put("w", (0, 0), np.nan)),
    *(longer("task"), longer("label"), longer("length"), longer("index"), longer("value")),
    *(other("task", np.int32), other("label", np.float32), other("since", np.int32)),
    lambda arrays: arrays.update(value=arrays["value"][:, None]),
    lambda arrays: arrays.update(task=arrays["task"][None]),
    lambda arrays: arrays.pop("index"),
    lambda arrays: arrays.update(more=np.zeros(1)),
    lambda arrays: arrays.update(intercepts=np.zeros(4)),
    lambda arrays: arrays.update(w=np.zeros((5, 3))),
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", ["mtfl", "trml"])
def test_a_state_that_no_learner_left_is_refused_and_changes_nothing(name, change):
    sound = learned(name)
    state = sound.state()
    change(state["arrays"])
    with pytest.raises(ValueError, match=r"state|event|expected|not a valid CSR"):
        romco.restore(state)
    before = sound.state()["arrays"]
    with pytest.raises(ValueError, match=r"state|event|expected|not a valid CSR"):
        sound.load(state["arrays"])
    after = sound.state()["arrays"]
    assert all(np.array_equal(before[key], after[key]) for key in before)


@pytest.mark.parametrize("name", ["mtfl", "trml"])
def test_largest_features_and_no_events_at_all_are_taken(name):
    sound = learned(name)
    sound.update(romco.Round(np.array([0]), np.full((1, 4), 1e60), np.ones(1)))
    assert romco.restore(sound.state()).arrays()["value"].max() == 1e60
    fresh = romco.restore(romco.learner(name, 4, 3).state())
    assert fresh.arrays()["task"].size == 0


def test_what_is_kept_are_copies():
    sound = learned("trml")
    state = sound.state()
    again = romco.restore(state)
    state["arrays"]["value"][:] = 7.0
    state["arrays"]["w"][:] = 7.0
    assert not (again.arrays()["value"] == 7.0).any()
    assert not (again.arrays()["w"] == 7.0).any()


@pytest.mark.parametrize("window", [1, 4, 15])
def test_the_last_events_are_kept_whole(window):
    sound, all_ = learned("mtfl", every=1, window=window), learned("mtfl")
    kept, known = sound.arrays(), all_.arrays()
    for name in ("task", "label", "length"):
        np.testing.assert_array_equal(kept[name], known[name][-window:])
    nonzeros = int(known["length"][-window:].sum())
    np.testing.assert_array_equal(kept["value"], known["value"][-nonzeros:])
    np.testing.assert_array_equal(kept["index"], known["index"][-nonzeros:])
