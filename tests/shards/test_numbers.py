"""Numbers in shards: the same promises as two classes."""

from dataclasses import replace

import numpy as np
import pytest

import romco
from romco.__main__ import main
from romco.model import Hashed
from romco.shards import Shards
from romco.shards.files import learn as learn_files
from tests.shards.streams import assert_same, events, learn
from tests.shards.test_files import files, without_section, write
from tests.shards.test_ray import check_lost_readers


def numbers(n, seed=0, **shape):
    """Rows of columns in different units, numbers far from 0, tasks."""
    x, _, task = events(n, seed=seed, **shape)
    rng = np.random.default_rng(seed)
    units = {f"f{j}": 10.0 ** rng.integers(-2, 3) for j in range(9)}
    rows = [{name: value * units[name] for name, value in row.items()} for row in x]
    for row in rows[n // 2 :]:
        row["late"] = 500.0 + 7.0 * rng.random()  # a column that comes late, in a unit of its own
    weights = {name: rng.normal() / unit for name, unit in units.items()} | {"late": 0.3}
    signal = [sum(weights[name] * value for name, value in row.items()) for row in rows]
    level = rng.normal(size=12)
    own = np.array([level[int(name.split()[1])] for name in task])
    answers = 1e4 + 30.0 * (np.array(signal) + own + 0.2 * rng.normal(size=n))
    return rows, np.round(answers, 6).tolist(), task


STREAM = numbers(300)


def shards_of(n, **settings):
    return Shards("romco-auto", n, target="number", every=20, **settings)


@pytest.mark.parametrize("history", [None, ["f1"]])
@pytest.mark.parametrize("given", [{}, {"weight": True}, {"offset": True}])
def test_one_shard_is_the_model_to_the_last_bit(given, history):
    x, y, task = STREAM
    rng = np.random.default_rng(1)
    given = {name: rng.uniform(0.2, 3.0, len(y)) for name in given}
    past = {}
    if history:
        x = [{**row, "f1": f"s{k % 4}"} for k, row in enumerate(x)]
        past = {"history": history}
    model = romco.Model(target="number", **past)
    shards = shards_of(1, **past)
    expected = model.learn(x, y, task, **given)
    np.testing.assert_array_equal(shards.learn(x, y, task, **given), expected)
    assert_same(shards.state(), model.state())
    asked = [*task[:20], "nobody"]
    offset = {"offset": given["offset"][:21]} if "offset" in given else {}
    np.testing.assert_array_equal(
        shards.predict(x[:21], asked, **offset), model.predict(x[:21], asked, **offset)
    )
    with pytest.raises(ValueError, match="no probability"):
        shards.probabilities(x[:1], task[:1])


@pytest.mark.parametrize("n", [2, 5])
@pytest.mark.parametrize("sizes", [(7, 1, 30), (300,)])
def test_engines_and_calls_change_no_bit(n, sizes):
    expected = shards_of(n, engine="serial")
    margins = learn(expected, STREAM)
    with shards_of(n, engine="threads") as shards:
        np.testing.assert_array_equal(learn(shards, STREAM, sizes), margins)
        assert_same(shards.state(), expected.state())


def test_dense_rows_weights_and_offsets_change_no_bit_with_the_engine():
    x, _, task = events(200, sparse=False, seed=3)
    y = 5.0 * x[:, 0] - 200.0
    rng = np.random.default_rng(2)
    given = {"weight": rng.choice([0.0, 0.5, 2.0], 200), "offset": rng.normal(size=200)}
    states = []
    for engine in ("serial", "threads"):
        with shards_of(3, features=romco.Columns(9), engine=engine) as shards:
            shards.learn(x, y, task, **given)
            states.append(shards.state())
    assert_same(*states)


@pytest.mark.parametrize(
    "stop", [1, 137, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 60, 200))]
)
def test_saved_shards_go_on_as_if_they_had_never_stopped(tmp_path, stop):
    x, y, task = STREAM
    whole, first = shards_of(3), shards_of(3)
    learn(whole, STREAM)
    learn(first, (x[:stop], y[:stop], task[:stop]))
    first.save(tmp_path / "m.romco")
    second = Shards.load(tmp_path / "m.romco", engine="threads")
    assert_same(second.state(), first.state())
    learn(second, (x[stop:], y[stop:], task[stop:]))
    assert_same(second.state(), whole.state())


def test_at_a_barrier_the_model_answers_exactly_as_the_shards():
    x, y, task = STREAM
    shards, at = shards_of(3), 0
    while at + 60 < len(y):
        following = shards.coordinator.schedule.after(at)
        shards.learn(x[at:following], y[at:following], task[at:following])
        at = following
    model = shards.model()
    np.testing.assert_array_equal(model.predict(x, task), shards.predict(x, task))
    low, high = model.intervals(x[:at], task[:at], level=0.9).T
    assert 0.8 < np.mean((low <= y[:at]) & (y[:at] <= high)) <= 1.0


@pytest.mark.parametrize("n", [2, 4])
def test_a_model_is_spread_over_shards_and_learns_on_as_well(n):
    x, y, task = numbers(600)
    model = romco.Model(target="number")
    model.learn(x[:400], y[:400], task[:400])
    shards = Shards.of(model, n)
    errors = []
    for one in (model, shards):
        errors.append(np.abs(one.learn(x[400:], y[400:], task[400:]) - y[400:]).mean())
    assert errors[1] < 1.1 * errors[0]


@pytest.mark.parametrize("scale", [1e-6, 1e9])
def test_unit_and_origin_of_the_answers_do_not_matter(scale):
    x, y, task = numbers(400)
    plain, scaled = shards_of(4), shards_of(4)
    expected = plain.learn(x, y, task)
    found = scaled.learn(x, scale * (np.array(y) + 1e4), task)
    np.testing.assert_allclose(found[8:] / scale - 1e4, expected[8:], rtol=1e-5)


def test_rows_without_features_are_learned():
    y = (50.0 + np.arange(40) % 5).tolist()
    shards = shards_of(3)
    shards.learn([{}] * 40, y, [f"user {k % 5}" for k in range(40)])
    assert abs(shards.predict_one({}, "user 1") - 51.0) < 0.5


def test_files_and_the_command_line_learn_numbers_as_rows(tmp_path, monkeypatch, capsys):
    stream = tuple(part[:260] for part in numbers(260, seed=4))
    folder, model = write(tmp_path / "in", stream), tmp_path / "m.romco"
    given = replace(files(folder), classes=None)
    *_, last = learn_files(given, model, n=3, engine="threads", every=20)
    assert (last.rows, last.events, last.skipped) == (260, 260, 0)
    fed = shards_of(3, features=Hashed(64))
    fed.learn(*stream)
    expected = without_section(fed.state())
    assert_same(without_section(Shards.load(model).state()), expected)
    command = ["romco", "learn", str(folder), "--task", "user", "--label", "spam", "--hash", "6"]
    options = ["--shards", "3", "--every", "20", "--model", str(tmp_path / "shards.romco")]
    for _ in range(2):  # what was learned is not learned again
        monkeypatch.setattr("sys.argv", [*command, *options])
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr().err
        assert not end.value.code, said
    assert f"RMSE {last.error**0.5:.4g}" in said
    found = Shards.load(tmp_path / "shards.romco").state()
    assert_same(without_section(found), expected)
    command = ["romco", "learn", str(folder / "2.jsonl"), *command[3:], "--threads", "2"]
    options = [
        "--model",
        str(tmp_path / "threads.romco"),
        "--predictions",
        str(tmp_path / "p.jsonl"),
    ]
    monkeypatch.setattr("sys.argv", [*command, *options])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code, capsys.readouterr().err
    threaded = romco.load(tmp_path / "threads.romco")
    assert (threaded.events, threaded.engine.target.kind) == (80, "number")
    assert len((tmp_path / "p.jsonl").read_text().splitlines()) == 80


@pytest.mark.slow  # to start a worker takes seconds
@pytest.mark.usefixtures("ray")
def test_lost_workers_that_read_numbers_by_themselves_change_no_bit(monkeypatch, tmp_path):
    check_lost_readers(monkeypatch, tmp_path, numbers(260, seed=4), classes=None)
