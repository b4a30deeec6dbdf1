"""Many classes in shards: the same promises as two classes."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import romco
from romco.__main__ import main
from romco.kernels.auto.discriminant import COLUMN_FIELDS
from romco.learners.classes import auto_members
from romco.model import Hashed
from romco.shards import Shards
from romco.shards.files import learn as learn_files
from tests.shards.streams import assert_same, events, pieces
from tests.shards.test_files import files, without_section, write
from tests.shards.test_ray import check_lost_readers


def classes(n, k, seed=0, **shape):
    """Rows, one of k labels each, tasks; the last label comes late, and f0 is far from normal."""
    x, _, task = events(n, seed=seed, **shape)
    rng = np.random.default_rng(seed)
    rows = x
    if isinstance(x, list):
        rows = np.array([[row.get(f"f{j}", 0.0) for j in range(9)] for row in x])
    level = rng.normal(size=(12, k))
    own = level[[int(name.split()[1]) for name in task]]
    scores = rows @ rng.normal(size=(9, k)) + own + rng.gumbel(size=(n, k))
    scores[: n // 2, -1] = -np.inf
    if isinstance(x, list):
        x = [row | {"f0": np.expm1(2.0 * row["f0"])} if "f0" in row else row for row in x]
    return x, [f"label {best}" for best in scores.argmax(axis=1)], task


FEW, MANY = classes(240, 4), classes(80, 11)  # by pairs and softmax; by softmax from the 11th on

LINE_FIELDS = ("feature", "order", "is_score")


def shards_of(n, **settings):
    return Shards("romco-auto", n, target="classes", every=20, **settings)


@pytest.mark.parametrize("history", [pytest.param(None, marks=pytest.mark.slow), ["f1"]])
@pytest.mark.parametrize("given", [{}, {"weight": True}, {"offset": True}])
@pytest.mark.parametrize("stream", [FEW, MANY], ids=["few", "many"])
def test_one_shard_is_the_model_to_the_last_bit(stream, given, history):
    x, y, task = stream
    rng = np.random.default_rng(1)
    labels = sorted(set(y))
    offset = rng.normal(size=(len(y), len(labels)))
    numbers = {"weight": rng.uniform(0.2, 3.0, len(y)), "offset": offset}
    given = {name: numbers[name] for name in given}
    past = {}
    if history:
        x = [{**row, "f1": f"s{k % 4}"} for k, row in enumerate(x)]
        past = {"history": history}
    if "offset" in given:
        past["classes"] = labels
    model = romco.Model(target="classes", **past)
    shards = shards_of(1, **past)
    expected = model.learn(x, y, task, **given)
    np.testing.assert_array_equal(shards.learn(x, y, task, **given), expected)
    assert_same(shards.state(), model.state())
    asked = [*task[:20], "nobody"]
    offset = {"offset": given["offset"][:21]} if "offset" in given else {}
    assert (
        shards.predict(x[:21], asked, **offset).tolist()
        == model.predict(x[:21], asked, **offset).tolist()
    )
    np.testing.assert_array_equal(
        shards.probabilities(x[:21], asked, **offset), model.predict_proba(x[:21], asked, **offset)
    )


@pytest.mark.parametrize("make", [partial(romco.Model, target="classes"), partial(shards_of, 2)])
@pytest.mark.parametrize("past", [{}, {"history": ["f1"]}])
def test_the_second_class_is_unknown_until_it_comes_in_whatever_call(make, past):
    rows = [{"f0": 0.5 * k, "f1": f"s{k % 2}"} for k in range(30)]
    y, task = ["x"] * 20 + ["y", "z"] * 5, ["ann", "bob"] * 15
    whole, parts = make(**past), make(**past)
    expected = whole.learn(rows, y, task)
    assert expected[1:21].tolist() == [[0.0, -np.inf, -np.inf]] * 20
    found = parts.learn(rows[:10], y[:10], task[:10])
    np.testing.assert_array_equal(found, expected[:10, :2])
    np.testing.assert_array_equal(parts.learn(rows[10:], y[10:], task[10:]), expected[10:])


@pytest.fixture(scope="module", params=[FEW, MANY], ids=["few", "many"])
def whole(request):
    """A stream, three shards that have learned it in one call, and the margins."""
    shards = shards_of(3, engine="serial")
    margins = shards.learn(*request.param)
    return request.param, shards, margins


def test_engines_and_calls_change_no_bit(whole):
    stream, expected, margins = whole
    with shards_of(3, engine="threads") as shards:
        found = []
        for part in pieces(len(margins), (7, 1, 30)):
            found += list(shards.learn(*(column[part] for column in stream)))
        for row, one in zip(margins, found, strict=True):  # which may know fewer classes
            np.testing.assert_array_equal(row[: len(one)], one)
        assert_same(shards.state(), expected.state())
        assert shards.classes == expected.classes


@pytest.mark.parametrize("stop", [pytest.param(1, marks=pytest.mark.slow), 57])
def test_saved_shards_go_on_as_if_they_had_never_stopped(tmp_path, whole, stop):
    (x, y, task), expected, _ = whole
    first = shards_of(3)
    first.learn(x[:stop], y[:stop], task[:stop])
    first.save(tmp_path / "m.romco")
    second = Shards.load(tmp_path / "m.romco", engine="threads")
    assert_same(second.state(), first.state())
    second.learn(x[stop:], y[stop:], task[stop:])
    assert_same(second.state(), expected.state())


@pytest.mark.parametrize("stream", [FEW, MANY], ids=["few", "many"])
def test_at_a_barrier_the_model_answers_exactly_as_the_shards(stream):
    x, y, task = stream
    shards, at = shards_of(3), 0
    while at + 60 < len(y):
        following = shards.coordinator.schedule.after(at)
        shards.learn(x[at:following], y[at:following], task[at:following])
        at = following
    model = shards.model()
    np.testing.assert_array_equal(model.predict_proba(x, task), shards.probabilities(x, task))


def test_a_number_becomes_a_score_in_all_shards():
    """Then the sums of tasks, which shards have, still add up to the common ones."""
    shards, stream = shards_of(3), classes(240, 11)
    shards.learn(*stream)
    shards.learn(*(column[: 400 - 240] for column in stream))
    barrier = shards.coordinator.schedule.after(400)
    shards.learn(*(column[: barrier - 400] for column in stream))
    model = shards.model()
    arrays = model.engine.learner.arrays()
    columns = arrays["softmax_columns"].T
    feature, order, is_score = (columns[COLUMN_FIELDS.index(name)] for name in LINE_FIELDS)
    lines = np.flatnonzero((feature > 0.0) & (order == 0.0))
    scores = [model.features.name(int(number) - 1) for number in feature[is_score == 1.0]]
    assert scores == ["f0"]
    of_tasks = arrays["softmax_groups"].sum(axis=0)[:, : len(lines)]
    np.testing.assert_allclose(of_tasks, arrays["softmax_sums"][:, lines], rtol=0.0, atol=1e-11)


@pytest.mark.parametrize("n", [2, pytest.param(16, marks=pytest.mark.slow)])
def test_a_feature_keeps_its_unit_where_a_shard_had_no_event_of_a_pair_of_classes(n):
    """Such a shard may have had the feature more often than the others, in other classes."""
    x, y, task = classes(300, 5, sparse=False)
    shards = Shards("romco-auto", n, romco.Columns(9), target="classes", engine="serial")
    shards.learn(x, y, task)
    units = [member.arrays()["units"] for member in auto_members(shards.model().engine.learner)]
    for counts, *_, size in (one[:, :5].T for one in units):
        assert (size[counts > 0.0] > 0.0).all()
    assert len(units) > 5


def test_a_model_is_spread_over_shards_and_learns_on_as_well():
    x, y, task = classes(900, 4)
    model = romco.Model(target="classes")
    model.learn(x[:500], y[:500], task[:500])
    shards = Shards.of(model, 3)
    losses = []
    for one in (model, shards):
        scores = one.learn(x[500:], y[500:], task[500:])
        at = [one.classes.index(label) for label in y[500:]]
        losses.append(-scores[np.arange(400), at].mean())
    assert losses[1] < 1.05 * losses[0]


def test_a_class_that_only_one_shard_has_seen_is_known_to_all():
    x, y, task = FEW
    shards = shards_of(3)
    shards.learn(x, y, task)
    shards.learn([{"f1": 9.0, "rare": 1.0}] * 9, ["new"] * 9, ["user 1"] * 9)
    shards.learn(x[:30], y[:30], task[:30])  # beyond a barrier
    assert shards.predict_one({"f1": 9.0, "rare": 1.0}, "somebody else") == "new"


def test_tasks_are_forgotten_and_bad_rows_change_nothing():
    x, y, task = FEW
    shards = shards_of(2)
    shards.learn(x, y, task)
    before = shards.state()
    with pytest.raises(ValueError, match="task"):
        shards.learn(x[:2], ["another", y[0]], [task[0], None])
    assert_same(shards.state(), before)
    shards.forget("user 3")
    assert "user 3" not in shards.tasks
    assert shards.events_of("user 3") == 0


def test_files_and_the_command_line_learn_classes_as_rows(tmp_path, monkeypatch, capsys):
    stream = classes(260, 3, seed=4)
    folder, labels = write(tmp_path / "in", stream), tuple(sorted(set(stream[1])))
    given = replace(files(folder), classes=labels, target="classes")
    *_, last = learn_files(given, tmp_path / "m.romco", n=3, engine="threads", every=20)
    assert (last.rows, last.events, last.skipped) == (260, 260, 0)
    fed = shards_of(3, features=Hashed(64), classes=labels)
    scores = fed.learn(*stream)
    assert last.error == np.mean(fed.target.labels_of(scores) != np.array(stream[1]))
    expected = without_section(fed.state())
    assert_same(without_section(Shards.load(tmp_path / "m.romco").state()), expected)
    source = [str(folder), "--task", "user", "--label", "spam", "--hash", "6", "--every", "20"]
    named = ["--shards", "3", "--classes", ",".join(labels)]
    folded = [str(folder / "2.jsonl"), *source[1:]]
    for options in ([*source, *named], [*folded, "--threads", "2"]):
        out = tmp_path / f"{options[-2][2:]}.romco"
        monkeypatch.setattr("sys.argv", ["romco", "learn", *options, "--model", str(out)])
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr().err
        assert not end.value.code, said
    assert_same(without_section(Shards.load(tmp_path / "classes.romco").state()), expected)
    threaded = romco.load(tmp_path / "threads.romco")
    assert (threaded.events, threaded.engine.target.kind) == (80, "classes")


@pytest.mark.slow  # to start a worker takes seconds
@pytest.mark.usefixtures("ray")
def test_lost_workers_that_read_classes_by_themselves_change_no_bit(monkeypatch, tmp_path):
    x, y, task = classes(260, 4, seed=4)
    named = {"classes": tuple(sorted(set(y))), "target": "classes"}
    check_lost_readers(monkeypatch, tmp_path, (x, y, task), **named)
