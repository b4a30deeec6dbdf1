import threading

import numpy as np
import pytest
from scipy.sparse import random_array

import romco
from romco.model.features import Sparse, select_rows
from romco.model.rows import Rows
from romco.shards import Shards
from romco.shards import shards as shards_module
from romco.shards.reader import TaskCodes, task_owner
from romco.shards.schedule import Schedule, choose_threads
from romco.shards.shard import Shard
from tests.learners.test_merging import SHARDED
from tests.shards.streams import assert_same, events, learn

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
        shards.probabilities(x[:21], asked), model.engine.probabilities(Rows(x[:21], asked))
    )
    np.testing.assert_array_equal(shards.predict(x[:21], asked), model.predict(x[:21], asked))


@pytest.mark.parametrize("name", sorted(SHARDED))
@pytest.mark.parametrize("n", [pytest.param(2, marks=pytest.mark.slow), 5])
def test_threads_equal_one_after_the_other(name, n):
    states, margins = [], []
    for engine in ("serial", "threads"):
        with Shards(name, n, engine=engine, every=20) as shards:
            margins.append(learn(shards, STREAM))
            states.append(shards.state())
    np.testing.assert_array_equal(*margins)
    assert_same(*states)


@pytest.mark.parametrize("sizes", [pytest.param((300,), marks=pytest.mark.slow), (1,), (13, 2)])
def test_how_a_stream_is_cut_into_calls_does_not_matter(sizes):
    whole, parts = Shards("romco-auto", 3, every=20), Shards("romco-auto", 3, every=20)
    np.testing.assert_array_equal(learn(whole, STREAM), learn(parts, STREAM, sizes))
    assert_same(whole.state(), parts.state())


def test_room_for_tasks_that_are_only_predicted_does_not_matter():
    x, _, task = events(300, n_tasks=200, seed=4)
    y = [("no", "yes", "perhaps")[(len(row) + k) % 3] for k, row in enumerate(x)]
    weight = np.random.default_rng(4).choice([0.0, 0.5, 1.0, 2.0], size=300)
    found = []
    for ends in ([300], [114, 300]):
        shards = Shards(
            n=5, every=5, growth=0.02, target="classes", classes=("no", "yes", "perhaps")
        )
        begin = 0
        for end in ends:
            part = slice(begin, end)
            shards.learn(x[part], y[part], task[part], weight=weight[part])
            begin = end
        found.append(shards.state())
        shards.close()
    assert_same(*found)


def test_names_of_features_may_be_new_in_a_period_that_is_not_over():
    with Shards(n=2, every=1000, growth=2.0, classes=("no", "yes")) as shards:
        for j in range(150):
            shards.learn([{f"f{j}": 1.0}], [("no", "yes")[j % 2]], [f"user {j % 7}"])
            if 60 < j < 70 or 125 < j < 135:
                assert shards.model().features.width == j + 1


@pytest.mark.parametrize("stored", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_shards_go_on_after_events_whose_zeros_are_values(stored):
    rng = np.random.default_rng(9)
    x = np.column_stack([rng.random(200) < 0.8, rng.normal(size=(200, 2))])
    y = np.where(x[:, 0] + x[:, 1] + 0.3 * rng.normal(size=200) > 0.8, "yes", "no").tolist()
    task, kind = [f"user {t}" for t in rng.integers(20, size=200)], romco.Columns(3)
    if stored:
        x, kind = [dict(zip("abc", row, strict=True)) for row in x.tolist()], None
    for cut in (119, 136, 170, 186):
        with Shards("romco-auto", 3, kind, growth=0.05, classes=("no", "yes")) as shards:
            shards.learn(x[:cut], y[:cut], task[:cut])
            with Shards.of(shards.state()) as resumed:
                resumed.learn(x[cut:], y[cut:], task[cut:])
                shards.learn(x[cut:], y[cut:], task[cut:])
                assert_same(resumed.state(), shards.state())


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


def test_shards_know_covariances_as_one_model_does():
    rng = np.random.default_rng(21)
    x = rng.normal(size=(3000, 3)) @ rng.normal(size=(3, 20)) + 0.3 * rng.normal(size=(3000, 20))
    y = np.where(rng.random(3000) < 1.0 / (1.0 + np.exp(-x @ rng.normal(size=20))), 1.0, -1.0)
    stream = x, y.tolist(), [f"user {i}" for i in rng.integers(40, size=3000)]

    def loss(model):
        return np.logaddexp(0.0, -y * learn(model, stream, (500,))).mean()

    alone = loss(romco.Model("romco-auto", romco.Columns(20), classes=(-1.0, 1.0)))
    shards = Shards("romco-auto", 4, romco.Columns(20), classes=(-1.0, 1.0))
    assert loss(shards) < 1.02 * alone
    learners = [one.model.engine.learner for one in shards.coordinator.engine.local_shards]
    for learner in (shards.coordinator.front.engine.learner, *learners):
        places = learner.arrays()["frequent"]
        assert sorted(places[(places >= 0) & (places < 20)]) == list(range(20))


def test_shards_agree_on_places_where_features_with_functions_lose_theirs():
    """Of 400 frequent columns 80 have places. Those that say less leave, with their functions."""
    rng = np.random.default_rng(11)
    x = rng.normal(size=(2000, 400))
    y = np.where(x @ rng.normal(size=400) + rng.logistic(size=2000) > 0.0, 1.0, -1.0)
    shards = Shards("romco-auto", 2, romco.Columns(400), classes=(-1.0, 1.0))
    tasks = [f"user {i}" for i in rng.integers(20, size=2000)]
    coordinator = shards.coordinator
    while coordinator.next <= len(y):
        part = slice(coordinator.place, coordinator.next)
        shards.learn(x[part], y[part], tasks[part])
        front = coordinator.front.engine.learner.arrays()
        for shard in coordinator.engine.local_shards:
            arrays = shard.model.engine.learner.arrays()
            for name in ("frequent", "definitions", "scores"):
                np.testing.assert_array_equal(arrays[name], front[name], err_msg=name)


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
        assert model.engine.events_of(name) == shards.events_of(name) > 0
    learn(model, STREAM)  # and learns on


def test_at_a_barrier_the_model_answers_exactly_as_the_shards():
    x, y, task = STREAM
    shards = Shards("romco-auto", 3, every=20)
    at = 0
    while at + 60 < len(y):
        following = shards.coordinator.schedule.after(at)
        shards.learn(x[at:following], y[at:following], task[at:following])
        at = following
    np.testing.assert_array_equal(shards.model().margins(x, task), shards.margins(x, task))


@pytest.mark.parametrize("name", ["romco-auto", "arow-shared", "pa-shared", "arow-global"])
@pytest.mark.parametrize(
    "stop", [60, 137, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 200))]
)
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
    wide = Shards("romco-auto", 3, romco.Hashed(2**17), every=10)
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
        ([{"a": np.inf}], ["yes"], ["ann"]),
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
    while at < 40_000:
        places.append(at := schedule.after(at))
    lengths = np.diff([0, *places])
    assert lengths[0] == 8
    assert lengths.max() == 800
    growing = lengths[(lengths > 8) & (lengths < 800)]
    assert (np.diff(growing) >= 0).all()


def test_owners_are_spread_evenly_and_do_not_depend_on_the_form_of_a_name():
    counts = np.bincount([task_owner(f"user{i}", 8) for i in range(20_000)], minlength=8)
    assert counts.min() > 0.9 * 2500
    counts = np.bincount([task_owner(i, 7) for i in range(20_000)], minlength=7)
    assert counts.min() > 0.9 * 20_000 / 7
    assert task_owner("7", 64) == task_owner(7, 64) == task_owner(7.0, 64)


def test_owners_are_found_again_whatever_was_forgotten(monkeypatch):
    monkeypatch.setattr("romco.shards.reader.MAX_CACHED_TASKS", 5)
    tasks = TaskCodes()
    for names in (["a", "b", "a"], ["c", "d", "e"], ["f", "a"], list("abcdefgh"), ["h", 7, "7"]):
        codes = tasks.encode(names)
        assert [tasks.names[code] for code in codes] == names
        assert tasks.owners(codes, 4).tolist() == [task_owner(name, 4) for name in names]
    assert tasks.version > 0


def test_others_may_predict_while_shards_learn():
    x, y, task = events(1500, seed=3)
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


@pytest.mark.parametrize("engine", ["serial", "threads"])
def test_events_may_weigh_more_or_less(engine):
    x, y, task = events(200, seed=12)
    weight = np.random.default_rng(1).uniform(0.2, 3.0, 200)
    plain = romco.Model("romco-auto", classes=("no", "yes"))
    alone = Shards("romco-auto", 1, engine=engine, classes=("no", "yes"))
    expected = plain.learn(x, y, task, weight=weight)
    np.testing.assert_array_equal(alone.learn(x, y, task, weight=weight), expected)
    assert_same(alone.state(), plain.state())
    several = [Shards("romco-auto", 3, engine=engine, every=20) for _ in range(3)]
    several[0].learn(x, y, task, weight=weight)
    for part in (slice(0, 90), slice(90, 200)):
        several[1].learn(x[part], y[part], task[part], weight=weight[part])
    several[2].learn(x, y, task)
    assert_same(several[0].state(), several[1].state())
    assert (several[0].margins(x, task) != several[2].margins(x, task)).any()
    for one in (alone, *several):
        one.close()


@pytest.mark.parametrize("n", [1, 3])
def test_rows_of_weight_0_are_predicted_in_their_turn_and_not_learned(n):
    x, y, task = events(120, seed=13)
    weight = np.random.default_rng(2).choice([0.0, 0.5, 2.0], 120)
    weight[40:60] = 0.0
    shards, again = (Shards("romco-auto", n, classes=("no", "yes"), every=9) for _ in range(2))
    found = shards.learn(x, y, task, weight=weight)
    for i in range(120):
        if weight[i]:
            one = again.learn(x[i : i + 1], y[i : i + 1], task[i : i + 1], weight=weight[i : i + 1])
        else:
            one = again.margins(x[i : i + 1], task[i : i + 1])
        assert found[i] == one[0]
    assert_same(shards.state(), again.state())
    assert shards.events == np.count_nonzero(weight)
    if n == 1:
        plain = romco.Model("romco-auto", classes=("no", "yes"))
        np.testing.assert_array_equal(plain.learn(x, y, task, weight=weight), found)
        assert_same(shards.state(), plain.state())
    y = [*y[:-1], "a third label"]
    with pytest.raises(ValueError, match="third"):
        shards.learn(x, y, task, weight=[0.0] + [1.0] * 119)
    assert_same(shards.state(), again.state())


def test_weights_that_cannot_be_are_refused_before_anything_is_learned():
    x, y, task = events(20)
    shards = Shards("romco-auto", 2)
    for weight, reason in (
        ([1.0] * 19, "x has 20 rows but weight has 19 entries"),
        ([1.0] * 18 + [0.0], "weight has 19 entries but y has 20"),
        ([-1.0] * 20, "row 0: weight -1.0"),
    ):
        with pytest.raises(ValueError, match=reason):
            shards.learn(x, y, task, weight=weight)
    assert (shards.events, shards.classes, shards.tasks) == (0, (), [])


def test_rows_are_taken_as_scipy_does():
    x = random_array((9, 6), density=0.3, rng=np.random.default_rng(0), format="csr")
    given = Sparse(x.data, x.indices.astype(np.int32), x.indptr.astype(np.int32))
    for places in ([], [3], [8, 0, 0, 5], range(9)):
        expected = x[list(places)]
        found = select_rows(given, np.array(places, dtype=np.int64))
        for got, want in zip(
            found, (expected.data, expected.indices, expected.indptr), strict=True
        ):
            np.testing.assert_array_equal(got, want)
    with pytest.raises(IndexError):
        select_rows(given, np.array([9]))


def sizes(shards):
    """Bytes of each array of each shard, and of what they share."""
    front = shards.coordinator.front.engine.learner.arrays()
    found = [{name: a.nbytes for name, a in front.items()}]
    for state in shards.coordinator.engine.call_all(Shard.state):
        found.append({name: a.nbytes for name, a in state["arrays"].items()})
    return found


def test_a_shard_holds_only_its_own_tasks_and_nothing_grows_with_tasks_times_features():
    """Twice the tasks over twice the features take about twice the memory, not four times."""
    totals = []
    for n_tasks, d in ((400, 2**15), (800, 2**16)):  # where stores list the pairs that occurred
        rng = np.random.default_rng(3)
        columns = rng.integers(d, size=(2 * n_tasks, 5))
        x = [{int(c): 1.0 for c in row} for row in columns]
        y = np.where(rng.random(len(x)) < 0.5, "no", "yes").tolist()
        task = [f"user {t}" for t in np.tile(np.arange(n_tasks), 2)]
        shards = Shards("romco-auto", 4, romco.Hashed(d), every=100)
        shards.learn(x, y, task)
        own = shards.coordinator.engine.call_all(Shard.tasks)
        assert sorted(name for part in own for name in part) == sorted(set(task))
        for k, part in enumerate(own):
            assert all(task_owner(name, 4) == k for name in part)
            state = shards.coordinator.engine.call_one(k, Shard.state)
            assert state["learner"]["n_tasks"] < 2 * len(part) + 8  # room grows by doubling
            pairs = {(t, c) for t, row in zip(task, columns, strict=True) for c in row if t in part}
            assert len(state["arrays"]["learner.personal"]) <= len(pairs)
        assert len(shards.coordinator.front.tasks) == 0
        totals.append(sum(sum(one.values()) for one in sizes(shards)))
        every_pair = n_tasks * d * 6 * 8
        assert max(max(one.values()) for one in sizes(shards)) < every_pair / 20
        assert sum(a.nbytes for a in shards.state()["arrays"].values()) < every_pair / 20
    assert totals[1] < 2.5 * totals[0]


def test_a_store_that_would_be_too_full_is_told_before_anything_is_learned():
    x, y, task = events(60, seed=3)
    shards = Shards("romco-auto", 2, romco.Hashed(2**18))
    shards.learn(x[:30], y[:30], task[:30])
    full = shards.coordinator.engine.local_shards[1].model.engine.learner.pair_store
    full.most = full.used
    before = shards.coordinator.engine.local_shards[1].model.events
    with pytest.raises(OverflowError, match="deal the tasks out to more shards"):
        shards.learn([{"new": 1.0}], ["yes"], [next(t for t in task if task_owner(t, 2) == 1)])
    assert shards.coordinator.engine.local_shards[1].model.events == before


@pytest.mark.first_events(200)
def test_auto_learns_on_one_thread_then_on_as_many_as_help(monkeypatch, tmp_path):
    x, y, task = events(500, seed=6)

    def choose_three(entries, **_):
        return 3 if entries > 3 else 1

    monkeypatch.setattr(shards_module, "choose_threads", choose_three)
    model, expected = romco.Model(), None
    margins = model.learn(x[:200], y[:200], task[:200])
    expected = Shards.of(model, 3, every=20)
    margins = np.concatenate([margins, expected.learn(x[200:], y[200:], task[200:])])
    for sizes in ((500,), (1, 60)):
        with Shards(every=20) as auto:
            np.testing.assert_array_equal(learn(auto, (x, y, task), sizes), margins)
            assert auto.n == 3
            assert_same(auto.state(), expected.state())
            np.testing.assert_array_equal(auto.margins(x, task), expected.margins(x, task))
            auto.save(tmp_path / "m.romco")
    with Shards.load(tmp_path / "m.romco", "auto") as again:
        assert again.n == 3
        assert_same(again.state(), expected.state())
    with Shards(every=20) as early:
        early.learn(x[:60], y[:60], task[:60])
        early.save(tmp_path / "early.romco")
    with Shards.load(tmp_path / "early.romco", "auto", every=20) as again:
        np.testing.assert_array_equal(again.learn(x[60:], y[60:], task[60:]), margins[60:])
        assert again.n == 3
    narrow = Shards("romco-auto")
    learn(narrow, ([{"f1": 1.0}] * 500, y, task))
    assert narrow.n == 1
    with pytest.raises(ValueError, match="'auto' is for engine='threads'"):
        Shards(engine="serial")


def test_threads_are_chosen_by_cores_and_entries(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(8))
    entries = (0, 5, 23, 24, 60, 100, 400)
    assert [choose_threads(one, 0, 0, 0.01, 2000) for one in entries] == [1, 1, 1, 2, 5, 8, 8]


def test_no_more_threads_are_chosen_than_barriers_and_tasks_allow(monkeypatch):
    """So many threads as cost least are at least as fast as one."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(64))
    for places in (10, 50, 128, 5000):
        n = choose_threads(1000, 1, places, 0.01, 2000)
        assert 2000 / n + (n > 1) * (0.5 * n * places) <= 2000
    assert choose_threads(1000, 1, 128, 0.01, 2000) == 5
    assert choose_threads(1000, 1, 128, 0.01, 20_000) == 16
    shares = (1.0, 0.6, 0.5, 0.3)
    assert [choose_threads(1000, 1, 0, share, 2000) for share in shares] == [1, 1, 2, 3]


def test_one_thread_is_chosen_where_tasks_seldom_meet_a_feature_again(monkeypatch):
    """To spread their weights takes as long as threads gain."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(8))
    assert [choose_threads(100, pairs, 0, 0.01, 2000) for pairs in (75, 21, 19)] == [1, 1, 8]


@pytest.mark.first_events(1000)
@pytest.mark.parametrize(("tasks", "swing", "expected"), [(20, 0.0, 4), (1, 0.0, 1), (20, 4.0, 1)])
def test_auto_keeps_one_thread_for_one_task_and_for_a_drift_of_all(
    monkeypatch, tasks, swing, expected
):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(4))
    rng = np.random.default_rng(2)
    x = 0.1 * rng.normal(size=(1000, 600)) * (rng.random((1000, 600)) < 0.02)  # none has a place
    level = swing * np.sign(np.sin(np.arange(1000) / 20.0))
    y = np.where(rng.random(1000) < 1.0 / (1.0 + np.exp(-level - x[:, 0])), "yes", "no")
    task = rng.integers(tasks, size=1000).tolist()
    with Shards(features=romco.Columns(600), classes=("no", "yes")) as shards:
        shards.learn(x, y.tolist(), task)
        assert shards.n == expected
