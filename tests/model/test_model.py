"""The model against bare learners, loops against batches, before against after a pause."""

import pickle
import sys

import numpy as np
import pytest

import romco
from romco.learners.capabilities import StartedTasks
from romco.model import Columns, Hashed, Model, Names, transaction
from romco.model.rows import Rows

STREAM = romco.streams.simulated(n_tasks=5, n_features=12, n_events=60, outliers=1, sparsity=0.5)
ROUNDS = romco.streams.interleaved(STREAM, seed=0)
NAMES = [f"user {i}" for i in range(5)]
TASKS = [NAMES[i] for i in ROUNDS.task]
LABELS = np.where(ROUNDS.y > 0, "spam", "ham").tolist()
ROWS = [
    {f"f{j}": v for j, v in zip(row.indices.tolist(), row.data.tolist(), strict=True)}
    for row in (ROUNDS.x[[i]] for i in range(len(LABELS)))
]
FAST = [name for name, method in romco.LEARNERS.items() if not method.make.keeps_events]


def same(a, b):
    left, right = a.state(), b.state()
    first, second = left.pop("arrays"), right.pop("arrays")
    assert left == right
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], second[name], err_msg=name)


@pytest.mark.parametrize("name", FAST)
def test_same_margins_as_the_bare_learner(name):
    bare = romco.learner(name, 12, 5)
    model = Model(name, Columns(12), classes=("ham", "spam"), tasks=NAMES)
    margins = model.learn(ROUNDS.x, LABELS, TASKS)
    np.testing.assert_array_equal(margins, bare.replay(ROUNDS))
    np.testing.assert_array_equal(
        model.margins(ROUNDS.x, TASKS), bare.predict_frozen(ROUNDS.events)
    )


@pytest.mark.parametrize("features", [Names, lambda: Hashed(64)])
@pytest.mark.parametrize("name", ["romco-nucl", "romco-logd", "ogd-unique", "romco-auto", "coml"])
def test_batch_is_the_loop(name, features):
    parameters = {"max_rank": 3} if name == "romco-logd" else {}
    # More tasks than the first capacity, new names all along: both must grow at the same events.
    tasks = [f"{task} {i // 10}" for i, task in enumerate(TASKS)]
    rows = [{**row, f"only {i}": 0.1} for i, row in enumerate(ROWS)]
    one, many, halves = (Model(name, features(), **parameters) for _ in range(3))
    looped = [one.learn_one(*event) for event in zip(rows, LABELS, tasks, strict=True)]
    np.testing.assert_array_equal(many.learn(rows, LABELS, tasks), looped)
    halves.learn(rows[:77], LABELS[:77], tasks[:77])
    halves.learn(rows[77:], LABELS[77:], tasks[77:])
    same(one, many)
    same(one, halves)


def test_together_is_one_round():
    bare = romco.learner("romco-nucl", 12, 5)
    model = Model("romco-nucl", Columns(12), classes=("ham", "spam"), tasks=NAMES)
    model.learn(ROUNDS.x, LABELS, TASKS, together=True)
    bare.update(ROUNDS.events)
    np.testing.assert_array_equal(model.engine.learner.weights(), bare.weights())


def common(learner, started):
    """Weights of a newcomer, read off as margins of single features."""
    d = learner.n_features
    return learner.common(started).margins(romco.Round(np.zeros(d, int), np.eye(d), np.empty(0)))


@pytest.mark.parametrize("n_tasks", [5, 100])
def test_starting_and_forgetting_change_one_column_only(n_tasks):
    learner = romco.learner("romco-nucl", 12, n_tasks)
    learner.replay(ROUNDS)
    U, V = learner.shared(), learner.personal()
    five = np.arange(n_tasks) < 5
    assert np.linalg.norm(V, axis=0).max() > 0
    learner.forget_task(2)
    U[:, 2] = V[:, 2] = 0.0
    np.testing.assert_allclose(learner.shared(), U, atol=1e-12)
    np.testing.assert_allclose(learner.personal(), V, atol=1e-12)
    learner.start_task(2, StartedTasks(five & (np.arange(n_tasks) != 2), 4))
    U[:, 2] = U.sum(axis=1) / 4
    np.testing.assert_allclose(learner.shared(), U, atol=1e-12)
    learner.replay(ROUNDS)  # and it goes on as a learner with these weights would
    mean = learner.shared().sum(axis=1) / 5
    np.testing.assert_allclose(common(learner, StartedTasks(five, 5)), mean, atol=1e-12)


def test_sum_of_columns_is_kept_up_over_a_long_stream():
    rng = np.random.default_rng(1)
    learner = romco.learner("romco-nucl", 30, 200, lambda1=0.05)
    for part in range(4):
        task, x = rng.integers(0, 200, 2000), rng.normal(size=(2000, 30))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        y = np.where(x[:, 0] + 0.3 * rng.normal(size=2000) > 0, 1.0, -1.0)
        learner.replay(romco.Rounds(task, x, y, np.arange(2001)))
        expected = learner.shared().mean(axis=1)
        found = common(learner, StartedTasks(np.ones(200, dtype=bool), 200))
        np.testing.assert_allclose(found, expected, atol=1e-11, err_msg=str(part))
        learner = romco.restore(learner.state())


def test_zero_start_is_the_papers():
    model = Model("romco-nucl", Columns(12), tasks=NAMES, new_task="zero")
    model.learn(ROUNDS.x, LABELS, TASKS)
    np.testing.assert_array_equal(model.margins(ROUNDS.x[:3], ["new"] * 3), 0.0)
    assert model.learn(ROUNDS.x[[0]], ["ham"], ["new"])[0] == 0.0


@pytest.mark.parametrize("name", FAST)
def test_forgotten_task_is_as_new(name):
    model = Model(name, Columns(12), tasks=NAMES, new_task="zero")
    model.learn(ROUNDS.x, LABELS, TASKS)
    others = [task for task in NAMES if task != "user 2"]
    before = model.margins(ROUNDS.x[:4], others)
    model.forget("user 2")
    assert model.tasks == others
    assert model.engine.events_of("user 2") == 0
    np.testing.assert_allclose(model.margins(ROUNDS.x[:4], others), before, atol=1e-12)
    fresh = model.margins(ROUNDS.x[:9], ["user 2"] * 9)
    np.testing.assert_allclose(fresh, model.margins(ROUNDS.x[:9], ["nobody"] * 9))
    model.learn(ROUNDS.x[:9], LABELS[:9], ["user 9"] * 9)
    assert model.engine.tasks.numbers(["user 9"]).tolist() == [2]
    with pytest.raises(KeyError, match="user 2"):
        model.forget("user 2")


@pytest.mark.parametrize("name", ["pa-shared", "arow-shared", "romco-auto", "romco-nucl"])
def test_forgotten_task_is_as_new_where_weights_are_kept_in_tables(name):
    model = Model(name, Hashed(2**18), tasks=range(8), new_task="zero")
    model.learn(ROWS, LABELS, ROUNDS.task.tolist())
    model.forget(2)
    fresh = model.margins(ROWS[:9], ["nobody"] * 9)
    assert model.engine.tasks.numbers([2]).tolist() == [-1]
    model.engine.tasks.add("next")
    assert model.engine.tasks.numbers(["next"]).tolist() == [2]
    np.testing.assert_allclose(model.margins(ROWS[:9], ["next"] * 9), fresh, atol=1e-12)


def test_a_task_named_twice_is_one_task():
    assert Model(tasks=["a", "b", "a"]).tasks == ["a", "b"]


def test_bad_input_changes_nothing():
    model = Model("romco-nucl")
    model.learn(ROWS[:50], LABELS[:50], TASKS[:50])
    before = pickle.loads(pickle.dumps(model))
    good = (ROWS[:3], LABELS[:3], TASKS[:3])
    for x, y, task in [
        ([*ROWS[:2], {"new name": np.inf}], *good[1:]),
        (good[0], ["ham", "spam", "eggs"], good[2]),
        (good[0], ["ham", "spam", None], good[2]),
        (good[0], good[1], ["a", "b", None]),
        (good[0], good[1], ["a", "b", ["c"]]),
        (good[0], good[1][:2], good[2]),
        (good[0], good[1], good[2][:2]),
        (good[0], good[1], "abc"),
        ([1.0, 2.0, 3.0], *good[1:]),
    ]:
        with pytest.raises(ValueError, match=r"."):
            model.learn(x, y, task)
        same(model, before)
    with pytest.raises(ValueError, match="rows"):
        model.margins(ROWS[:2], TASKS[:1])
    with pytest.raises(ValueError, match="put it in a list"):
        model.margins(ROWS[:2], "ab")
    with pytest.raises(ValueError, match="cannot be a name"):
        model.margins(ROWS[:1], [["a"]])
    with pytest.raises(ValueError, match="new_task"):
        Model(new_task="guess")


def test_nothing_to_do_is_no_error():
    model = Model()
    assert model.learn([], [], []).shape == (0,)
    assert model.margins([], []).shape == (0,)
    assert model.predict_one({"a": 1.0}, "somebody") is None


def test_personal_since_is_found_and_kept():
    stream = romco.streams.simulated(n_tasks=6, n_features=20, n_events=700, outliers=1, seed=4)
    rounds = romco.streams.interleaved(stream, seed=0)
    model = Model("romco-nucl", Columns(20), tasks=range(6), lambda2=0.02)
    model.learn(rounds.x, rounds.y, rounds.task)
    norms = model.engine.learner.personal_norms()
    found = [model.engine.personal_since(task) for task in range(6)]
    assert any(found)
    assert all(since is None or (since % 1000 == 0 and since <= 4000) for since in found)
    model.engine.body.note_personal_tasks()
    assert [model.engine.personal_since(task) is not None for task in range(6)] == (
        norms > 0
    ).tolist()


def test_probabilities_are_calibrated_enough_to_trust():
    stream = romco.streams.simulated(n_tasks=6, n_features=8, n_events=700, noise=0.1)
    rounds = romco.streams.interleaved(stream, seed=0)
    strengths = {"lambda1": 0.01, "lambda2": 0.01}
    model = Model("romco-nucl", Columns(8), tasks=range(6), classes=(-1, 1), **strengths)
    model.learn(rounds.x[:3600], rounds.y[:3600], rounds.task[:3600])
    x, y, task = rounds.x[3600:], rounds.y[3600:] > 0, rounds.task[3600:]
    p, margins = model.engine.probabilities(Rows(x, task)), model.margins(x, task)
    np.testing.assert_array_equal(p >= 0.5, margins >= 0)
    # As good, within 0.01, as the best scale that could have been chosen knowing the answers.
    best = min(np.mean((1 / (1 + np.exp(-a * margins)) - y) ** 2) for a in np.logspace(-2, 2, 60))
    assert np.mean((p - y) ** 2) < best + 0.01 < 0.2  # a coin has 0.25


@pytest.mark.slow
def test_many_tasks_and_hashed_features_in_bounded_memory():
    import resource

    rng = np.random.default_rng(0)
    n_tasks, nnz, events = 100_000, 50, 200_000
    words = [f"w{j}" for j in range(400_000)]
    model = Model("romco-nucl", Hashed(2**18), classes=(-1, 1))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(events // 1000):
        tasks = rng.integers(0, n_tasks, 1000).tolist()
        at = (400_000 * rng.random((1000, nnz)) ** 3).astype(int)
        rows = [{words[j]: 0.14 for j in row} for row in at.tolist()]
        model.learn(rows, np.where(at[:, 0] % 2, 1, -1).tolist(), tasks)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert len(model.tasks) > 80_000
    assert grown < 1000, f"{grown:.0f} MB"


@pytest.mark.parametrize("name", ["romco-auto", "pa-unique", "romco-nucl"])
def test_rows_that_need_no_room_are_learned_in_few_pieces(name, monkeypatch):
    counted, plan = [], transaction.plan_chunk

    def counting(*given):
        counted.append(plan(*given))
        return counted[-1]

    monkeypatch.setattr(transaction, "plan_chunk", counting)
    rng = np.random.default_rng(0)
    rows = [{"a": value, "b": 1.0} for value in rng.standard_normal(1000).tolist()]
    labels, tasks = rng.integers(0, 2, 1000).tolist(), [f"u{i % 4}" for i in range(1000)]
    model = Model(name)
    model.learn(rows, labels, tasks)
    model.learn(rows, labels, tasks)
    assert len(counted) <= 20  # 4 or 5 each, and one for each new task that must be started


@pytest.mark.parametrize("name", list(romco.LEARNERS))
@pytest.mark.parametrize("features", [Columns(2), Names(), Hashed(16)])
def test_a_value_that_cannot_be_learned_is_refused_with_its_row_and_column(
    name, features, tmp_path
):
    """One huge number once made a model that could never be saved again."""
    model = Model(name, features, classes=("no", "yes"))
    named = not isinstance(features, Columns)
    rows = [{"a": 1.0, "b": 2.0}, {"a": 1.0, "b": 1e200}] if named else [[1.0, 2.0], [1.0, 1e200]]
    with pytest.raises(ValueError, match=r"row 1: feature ('b'|1|'#\d+') is .*"):
        model.learn(rows, ["no", "yes"], ["ann", "bob"])
    assert (model.events, model.tasks) == (0, [])
    large = [[1e60, 1e-3], [-1e60, 1e60]]
    if named:
        large = [dict(zip("ab", row, strict=True)) for row in large]
    try:
        model.learn(large * 3, ["no", "yes"] * 3, ["ann", "bob"] * 3)
        model.margins(large, ["ann", "bob"])
    except (ValueError, FloatingPointError):
        pass  # a learner may say that it cannot
    romco.save(model, tmp_path / "m.romco")
    again = romco.load(tmp_path / "m.romco")
    assert again.events == model.events


@pytest.mark.parametrize("bad", ["\ud800", "ab\udfff"])
def test_half_a_surrogate_pair_is_no_name(bad):
    model = Model("ogd-unique")
    for row, label, task in (({bad: 1.0}, 1, "t"), ({"a": 1.0}, bad, "t"), ({"a": 1.0}, 1, bad)):
        with pytest.raises(ValueError, match="half a surrogate pair"):
            model.learn_one(row, label, task)
    assert (model.events, model.tasks, model.features.width) == (0, [], 0)


def test_the_model_has_few_public_members():
    assert len([name for name in dir(Model) if not name.startswith("_")]) <= 18


def test_an_event_passes_few_python_files():
    """All but the front and its engine is compiled, and no array is made on the way."""
    model = Model(classes=(0, 1), tasks=["ann"])
    files, arrays, before = set(), [], sys.getprofile()

    def profile(frame, event, what):
        if event == "call":
            files.add(frame.f_code.co_filename)
        elif event == "c_call" and getattr(what, "__module__", "").startswith("numpy"):
            arrays.append(what)

    sys.setprofile(profile)
    try:
        model.learn_one({"a": 1.0, "b": 2.0}, 1, "ann")
        model.predict_one({"a": 1.0, "b": 2.0}, "ann")
    finally:
        sys.setprofile(before)
    own = {name for name in files if "romco" in name} - {__file__}
    assert (model.events, len(own) <= 6, arrays) == (1, True, [])


@pytest.mark.parametrize("name", ["romco-auto", "pa-shared"])
def test_a_state_holds_the_live_arrays_only_if_asked(name):
    model = Model(name)
    model.learn_one({"a": 1.0, "b": 2.0}, "yes", "ann")
    copied, live = model.state()["arrays"], model.state(copy=False)["arrays"]
    assert copied.keys() == live.keys()
    for key, array in model.engine.learner.arrays().items():
        assert np.shares_memory(live[f"learner.{key}"], array) == (array.size > 0)
        assert not np.shares_memory(copied[f"learner.{key}"], array)
        np.testing.assert_array_equal(copied[f"learner.{key}"], array)


@pytest.mark.parametrize("features", [3, "names", romco.Columns])
def test_features_that_are_none_are_refused(features):
    with pytest.raises(TypeError, match=r"features must be romco\.Columns, Names or Hashed, not"):
        romco.Model(features=features)
