import threading

import numpy as np
import pytest

import romco
from romco.cluster import Shards
from romco.cluster.owners import owner
from romco.cluster.schedules import Schedule
from tests.cluster.streams import assert_same, events, learn
from tests.learners.test_merging import SHARDED

STREAM = events(300)
DENSE = events(200, sparse=False)


def features(kind):
    return {"names": romco.Names, "hashed": lambda: romco.Hashed(64)}[kind]()


@pytest.mark.parametrize("name", sorted(SHARDED))
@pytest.mark.parametrize("kind", ["names", "hashed"])
def test_one_shard_is_the_model_to_the_last_bit(name, kind):
    model, shards = romco.Model(name, features(kind)), Shards(name, 1, features(kind))
    np.testing.assert_array_equal(learn(shards, STREAM), learn(model, STREAM))
    assert_same(shards.state(), model.state())
    x, _, task = STREAM
    asked = [*task[:20], "nobody"]
    np.testing.assert_array_equal(shards.margins(x[:21], asked), model.margins(x[:21], asked))
    np.testing.assert_array_equal(
        shards.probabilities(x[:21], asked), model.probabilities(x[:21], asked)
    )
    np.testing.assert_array_equal(shards.predict(x[:21], asked), model.predict(x[:21], asked))


@pytest.mark.parametrize("name", sorted(SHARDED))
@pytest.mark.parametrize("n", [2, 5])
def test_threads_equal_one_after_the_other(name, n):
    states, margins = [], []
    for engine in ("serial", "threads"):
        with Shards(name, n, engine=engine, every=20) as shards:
            margins.append(learn(shards, STREAM))
            states.append(shards.state())
    np.testing.assert_array_equal(*margins)
    assert_same(*states)


@pytest.mark.parametrize("sizes", [(300,), (1,), (13, 2)])
def test_how_a_stream_is_cut_into_calls_does_not_matter(sizes):
    whole, parts = Shards("romco-auto", 3, every=20), Shards("romco-auto", 3, every=20)
    np.testing.assert_array_equal(learn(whole, STREAM), learn(parts, STREAM, sizes))
    assert_same(whole.state(), parts.state())


def test_rows_may_be_dense():
    shards, columns = Shards("romco-auto", 3, romco.Columns(9)), romco.Columns(9)
    threaded = Shards("romco-auto", 3, columns, engine="threads")
    np.testing.assert_array_equal(learn(shards, DENSE), learn(threaded, DENSE))
    assert_same(shards.state(), threaded.state())


@pytest.mark.parametrize("name", ["pa-unique", "arow-unique", "ogd-unique"])
def test_where_nothing_is_shared_shards_change_no_margin(name):
    model = romco.Model(name, romco.Hashed(64), new_task="zero")
    shards = Shards(name, 4, romco.Hashed(64), new_task="zero")
    np.testing.assert_array_equal(learn(shards, STREAM), learn(model, STREAM))


def test_shards_learn_about_as_well_as_one_model():
    stream = events(3000, n_tasks=40, d=20, seed=5)
    signs = np.where(np.array(stream[1]) == "yes", 1.0, -1.0)

    def error(model):
        return np.mean((learn(model, stream, (500,)) >= 0) != (signs > 0))

    alone = error(romco.Model())
    merged, apart = error(Shards(n=4)), error(Shards(n=4, growth=1e9, every=10**9))
    assert merged < alone + 0.01
    assert merged < apart


def test_a_file_of_shards_opens_as_a_model_that_answers_alike(tmp_path):
    shards = Shards("romco-auto", 3, every=20)
    learn(shards, STREAM)
    shards.save(tmp_path / "m.romco")
    model = romco.load(tmp_path / "m.romco")
    assert isinstance(model, romco.Model)
    assert set(model.tasks) == set(shards.tasks)
    assert (model.events, model.classes) == (shards.events, shards.classes)
    assert romco.peek(tmp_path / "m.romco")["summary"]["tasks"] == len(shards.tasks)
    x, _, task = STREAM
    # Within a period shards know their own events only, the model knows all of them.
    assert np.corrcoef(model.margins(x, task), shards.margins(x, task))[0, 1] > 0.99
    for name in model.tasks:
        assert model.events_of(name) == shards.events_of(name) > 0
    learn(model, STREAM)  # and learns on


def test_at_a_barrier_the_model_answers_exactly_as_the_shards():
    x, y, task = STREAM
    shards = Shards("romco-auto", 3, every=20)
    at = 0
    while at + 60 < len(y):
        following = shards.schedule.after(at)
        shards.learn(x[at:following], y[at:following], task[at:following])
        at = following
    np.testing.assert_array_equal(shards.model().margins(x, task), shards.margins(x, task))


@pytest.mark.parametrize("name", ["romco-auto", "arow-shared", "pa-shared", "arow-global"])
@pytest.mark.parametrize("stop", [1, 60, 137, 200])
def test_saved_shards_go_on_as_if_they_had_never_stopped(tmp_path, name, stop):
    x, y, task = STREAM
    whole = Shards(name, 3, every=20)
    learn(whole, STREAM)
    first = Shards(name, 3, every=20)
    learn(first, (x[:stop], y[:stop], task[:stop]))
    first.save(tmp_path / "m.romco")
    before = first.state()
    second = Shards.load(tmp_path / "m.romco", engine="threads")
    assert_same(second.state(), before)
    learn(second, (x[stop:], y[stop:], task[stop:]))
    assert_same(second.state(), whole.state())


def test_a_large_table_of_pairs_survives_dealing_and_combining(tmp_path):
    x, y, task = events(120, n_tasks=50, d=30)
    wide = Shards("romco-auto", 3, romco.Hashed(2**18), every=10)
    learn(wide, (x[:70], y[:70], task[:70]))
    wide.save(tmp_path / "m.romco")
    again = Shards.load(tmp_path / "m.romco")
    rest = (x[70:], y[70:], task[70:])
    np.testing.assert_array_equal(learn(again, rest), learn(wide, rest))
    assert_same(again.state(), wide.state())


@pytest.mark.parametrize("n", [1, 2, 7])
def test_a_model_is_dealt_out_to_any_number_of_shards(n):
    model = romco.Model()
    learn(model, STREAM)
    shards = Shards.of(model, n)
    assert set(shards.tasks) == set(model.tasks)
    x, y, task = STREAM
    np.testing.assert_array_equal(shards.margins(x, task), model.margins(x, task))
    margins = shards.learn(x, y, task)
    assert shards.events == 600
    if n == 1:
        np.testing.assert_array_equal(margins, model.learn(x, y, task))


def test_the_number_of_shards_can_change():
    shards = Shards(n=2)
    learn(shards, STREAM)
    more = Shards.of(shards.state(), 5)
    x, y, task = STREAM
    assert set(more.tasks) == set(shards.tasks)
    np.testing.assert_allclose(more.margins(x, task), shards.model().margins(x, task), rtol=1e-12)
    more.learn(x, y, task)


def test_a_task_is_forgotten_by_its_owner():
    shards = Shards(n=3)
    learn(shards, STREAM)
    shards.forget("user 3")
    assert "user 3" not in shards.tasks
    assert shards.events_of("user 3") == 0
    with pytest.raises(KeyError, match="user 3"):
        shards.forget("user 3")
    again = Shards.of(shards.state())
    learn(shards, STREAM)
    learn(again, STREAM)
    assert_same(shards.state(), again.state())


def test_bad_rows_change_nothing():
    shards = Shards(n=2)
    learn(shards, STREAM)
    before = shards.state()
    for x, y, task in (
        ([{"a": np.nan}], ["yes"], ["ann"]),
        ([{"a": 1.0}], ["a third label"], ["ann"]),
        ([{"a": 1.0}], ["yes"], [None]),
        ([{"a": 1.0}], ["yes", "no"], ["ann"]),
        ([{"a": 1.0}], ["yes"], "ann"),
    ):
        with pytest.raises(ValueError, match=r".+"):
            shards.learn(x, y, task)
        assert_same(shards.state(), before)


def test_learners_that_cannot_be_sharded_are_refused_with_the_reason():
    with pytest.raises(ValueError, match=r"romco-nucl cannot be sharded: .* 1\.3 to 3 times"):
        Shards("romco-nucl", 2)


def test_settings_are_checked():
    for settings, what in (
        ({"n": 0}, "n must be"),
        ({"growth": 0}, "growth must be"),
        ({"every": 0}, "every must be"),
        ({"engine": "spark"}, "engine must be one of"),
        ({"engine": "threads", "address": "x"}, "address is for engine='ray'"),
    ):
        with pytest.raises(ValueError, match=what):
            Shards("romco-auto", **settings)


def test_barriers_depend_on_number_growth_and_cap_alone():
    schedule = Schedule(8, growth=0.1, every=100)
    places, at = [], 0
    while at < 20_000:
        places.append(at := schedule.after(at))
    lengths = np.diff([0, *places])
    assert lengths[0] == 8
    assert lengths.max() == 800
    growing = lengths[(lengths > 8) & (lengths < 800)]
    assert (np.diff(growing) >= 0).all()


def test_owners_are_spread_evenly_and_do_not_depend_on_the_form_of_a_name():
    counts = np.bincount([owner(f"user{i}", 8) for i in range(20_000)], minlength=8)
    assert counts.min() > 0.9 * 2500
    counts = np.bincount([owner(i, 7) for i in range(20_000)], minlength=7)
    assert counts.min() > 0.9 * 20_000 / 7
    assert owner("7", 64) == owner(7, 64) == owner(7.0, 64)


def test_others_may_predict_while_shards_learn():
    x, y, task = events(4000, seed=3)
    shards = Shards(n=2, engine="threads")
    shards.learn(x[:100], y[:100], task[:100])
    done, seen = threading.Event(), []

    def ask():
        while not done.is_set():
            seen.append(np.isfinite(shards.margins(x[:5], task[:5])).all())

    reader = threading.Thread(target=ask)
    reader.start()
    shards.learn(x[100:], y[100:], task[100:])
    done.set()
    reader.join()
    assert seen
    assert all(seen)
    quiet = Shards(n=2)
    quiet.learn(x, y, task)
    assert_same(shards.state(), quiet.state())
