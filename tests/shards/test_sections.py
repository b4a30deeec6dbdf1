"""A model file whose section of shards does not hold together is refused, by name."""

import copy

import numpy as np
import pytest

import romco
from romco.io.modelfile import ModelFileError, save_state
from romco.kernels.merge.rows import FeatureCounts
from romco.shards import Shards
from romco.shards.shards import check_state
from tests.shards.streams import events, learn


@pytest.fixture(scope="module")
def made():
    """Shards in the middle of a period."""
    shards = Shards("romco-auto", 2, every=50)
    learn(shards, events(173, seed=3))
    found = shards.state()
    assert found["cluster"]["counts"]
    return found


@pytest.fixture
def state(made):
    """A copy, to be changed."""
    return copy.deepcopy(made)


def rows_of(state, part="0.rows"):
    return state["arrays"][f"cluster.{part}"]


def test_what_shards_wrote_is_taken(state, tmp_path):
    save_state(state, tmp_path / "m.romco")
    assert Shards.load(tmp_path / "m.romco").events == 173


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s["cluster"].update(shards=10**9),
        lambda s: s["cluster"].update(shards="2"),
        lambda s: s["cluster"].update(every=0),
        lambda s: s["cluster"].update(next=-1),
        lambda s: s["cluster"].update(next=s["cluster"]["place"]),
        lambda s: s["cluster"].update(place=0.5),
        lambda s: s["cluster"].update(notes=[]),
        lambda s: s["cluster"].pop("growth"),
        lambda s: s["cluster"].update(sizes=[1, 10**9]),
        lambda s: s["cluster"].update(sizes=[-1, len(s["tasks"]) + 1]),
        lambda s: s["cluster"].update(rooms=[10**9, 8]),
        lambda s: s["cluster"].update(rooms=[1, 1]),
        lambda s: s["cluster"].update(rooms=[16]),
        lambda s: s["cluster"].update(start=[31.0, 1.0]),
        lambda s: s["cluster"].update(counts=[1]),
        lambda s: s["cluster"].update(counts=[-1, 1]),
        lambda s: s["cluster"].update(scales=[[0.0, 1.0], ["0", 1.0]]),
        lambda s: rows_of(s).__setitem__(0, -1),
        lambda s: rows_of(s).__setitem__(-1, 2**30),
        lambda s: rows_of(s).__setitem__(0, rows_of(s)[1]),
        lambda s: rows_of(s, "rows").__setitem__(-1, s["learner"]["n_features"]),
        lambda s: rows_of(s, "1.seen").__setitem__(0, -1),
        lambda s: s["arrays"].update({"cluster.0.seen": rows_of(s, "0.seen")[1:]}),
        lambda s: s["arrays"].update({"cluster.0.rows": rows_of(s).astype(np.int64)}),
        lambda s: s["arrays"].pop("cluster.1.rows"),
        lambda s: s["arrays"].pop(_value(s)),
        lambda s: s["arrays"].update({_value(s): s["arrays"][_value(s)][1:]}),
        lambda s: s["arrays"].update({_value(s): s["arrays"][_value(s)].astype(np.float32)}),
    ],
)
def test_what_no_shards_wrote_is_refused(state, tmp_path, change):
    change(state)
    path = tmp_path / "m.romco"
    save_state(state, path)
    with pytest.raises(ModelFileError, match=r"m\.romco cannot be used"):
        Shards.load(path)


def _value(state):
    return next(name for name in state["arrays"] if name.startswith("cluster.1.value."))


def test_a_file_of_one_shard_and_of_a_plain_model_are_taken():
    one = Shards("pa-shared", 1)
    learn(one, events(20, seed=1))
    check_state(one.state())
    check_state(one.model().state())


@pytest.mark.parametrize("change", [{"next": 0}, {"place": "5"}, {"shards": 0}, {"rooms": [1]}])
def test_a_checkpoint_that_cannot_be_is_refused(state, tmp_path, change):
    state["cluster"] |= change
    save_state(state, tmp_path / "shards.romco")
    with pytest.raises(ModelFileError, match=r"shards\.romco cannot be used"):
        Shards(n=2, every=50, checkpoint=tmp_path)


def test_a_checkpoint_of_numbers_is_refused(tmp_path):
    romco.save(romco.Model(target="number"), tmp_path / "shards.romco")
    with pytest.raises(ValueError, match="learner 'romco-auto-number', not 'romco-auto'"):
        Shards(n=2, checkpoint=tmp_path)


@pytest.mark.parametrize(("rows", "why"), [([1, 1], "twice"), ([-1], "range"), ([3], "range")])
def test_features_that_cannot_have_occurred_are_refused(rows, why):
    with pytest.raises(ValueError, match=why):
        FeatureCounts(3).load(np.array(rows, dtype=np.int32), np.ones(len(rows), dtype=np.int32))
