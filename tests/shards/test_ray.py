"""Shards on Ray equal shards in one process, whoever is killed and when."""

import os
import signal
import time
from dataclasses import replace
from random import Random

import numpy as np
import pytest

import romco
from benchmarks.scaling_speed import watched, wide_files
from romco.io.formats import BadRow
from romco.shards import Shards
from romco.shards.files import learn as learn_files
from romco.shards.files import read as read_files
from romco.shards.files import start
from romco.shards.ray import Ray, StoreFullError, WorkersLostError
from romco.shards.shard import Shard
from tests.cli.test_without import PEOPLE, compare
from tests.shards.streams import assert_same, events, learn
from tests.shards.test_files import STREAM as FILE_STREAM
from tests.shards.test_files import direct, files, without_section, write

pytestmark = pytest.mark.usefixtures("ray")
SLOW = pytest.mark.slow  # to start a worker takes seconds

STREAM = events(300, seed=8)
SETTINGS = {"n": 2, "every": 20}


@pytest.fixture(scope="module")
def expected():
    shards = Shards(**SETTINGS)
    margins = learn(shards, STREAM, (60,))
    return margins, shards.state()


def killing(monkeypatch, moments, shard=1, pause=0.0, again=False):
    """Kill a shard's worker during the n-th call of a kind, for each (kind, n); gives the kills."""
    issue, seen, kills = Ray._send, dict.fromkeys(dict(moments), 0), []

    def struck(self, k, calls):
        pid, struck_by = None, None
        for name, _ in calls if k == shard else ():
            if name in seen:
                seen[name] += 1
                if (name, seen[name]) in moments or (again and kills):
                    pid, struck_by = self._ray.get(self._actors[k].pid.remote()), name
        ref = issue(self, k, calls)
        if pid is not None:
            time.sleep(pause)
            os.kill(pid, signal.SIGKILL)
            kills.append(struck_by)
        return ref

    monkeypatch.setattr(Ray, "_send", struck)
    return kills


def check_lost_readers(monkeypatch, folder, stream, **target):
    """Workers that read files by themselves, and are lost meanwhile, change no bit."""
    x, y, task = stream
    rows = [{**row, "skill": f"s{k % 5}"} for k, row in enumerate(x)]
    given = files(write(folder / "in", (rows, y, task)), kinds={"skill": "category"})
    given = replace(given, **target)
    source = replace(given.source, path=given.paths[0]).resolve()
    past = {"history": ["skill"], "schema": source.schema}
    settings = {"n": 2, "every": 20, "checkpoint_every": 8, **past}
    *_, quiet = learn_files(given, folder / "serial.romco", **settings)
    kills = killing(monkeypatch, [("read", 11), ("state", 2)])
    *_, last = learn_files(given, folder / "ray.romco", engine="ray", **settings)
    assert len(kills) == 2
    assert last.lost == 2
    assert (last.events, last.loss) == (quiet.events, quiet.loss)
    assert (folder / "ray.romco").read_bytes() == (folder / "serial.romco").read_bytes()


def check_what_was_saved(checkpoint, expected):
    """The stream is learned from there to its end, here without Ray, with the same bits."""
    with Shards(**SETTINGS, checkpoint=checkpoint) as shards:
        x, y, task = STREAM
        begin = shards.events
        assert begin > 0
        learn(shards, (x[begin:], y[begin:], task[begin:]))
        assert_same(shards.state(), expected[1])


def test_ray_equals_one_process(expected, tmp_path):
    with Shards(**SETTINGS, engine="ray") as shards:
        np.testing.assert_array_equal(learn(shards, STREAM, (60,)), expected[0])
        assert_same(shards.state(), expected[1])
        x, _, task = STREAM
        one = Shards.of(expected[1])
        asked = [*task[:9], "nobody"]
        np.testing.assert_array_equal(shards.margins(x[:10], asked), one.margins(x[:10], asked))
        shards.forget("user 3")
        one.forget("user 3")
        assert_same(shards.state(), one.state())
        with pytest.raises(KeyError, match="nobody"):  # a refusal is raised as it is
            shards.forget("nobody")
        with pytest.raises(AttributeError):
            shards.coordinator.engine.call_one(0, Shard.resume, None)
        shards.save(tmp_path / "m.romco")
    assert romco.load(tmp_path / "m.romco").events == 300


@SLOW
@pytest.mark.parametrize("checkpoints", ["", "--checkpoint-every 60"])
def test_people_have_never_been_there(checkpoints, tmp_path):
    """Workers replay from a log of calls alone, or from checkpoints along it."""
    random = Random(checkpoints)
    how = f"--shards 2 --engine ray --hash 10 {checkpoints}"
    for seed in range(2):
        gone = [f"p{person}" for person in random.sample(range(PEOPLE), 5)]
        compare(tmp_path, ".csv", how, gone, seed)


CALLS = ("learn", "update", "subspace_sums", "apply", "take_subspaces", "state")


@SLOW
def test_lost_workers_change_no_bit(monkeypatch, expected, tmp_path):
    """One is lost while it is saved; what was saved goes on to the same bits."""
    kills = killing(monkeypatch, list(zip(CALLS, (5, 9, 2, 15, 2, 2), strict=True)))
    with Shards(**SETTINGS, engine="ray", checkpoint=tmp_path, checkpoint_every=9) as shards:
        np.testing.assert_array_equal(learn(shards, STREAM, (60,)), expected[0])
        assert_same(shards.state(), expected[1])
    assert set(kills) == set(CALLS)
    check_what_was_saved(tmp_path, expected)


def test_lost_workers_that_read_by_themselves_change_no_bit(monkeypatch, tmp_path):
    check_lost_readers(monkeypatch, tmp_path, FILE_STREAM)


@SLOW
def test_workers_lost_at_the_first_and_last_call_change_no_bit(monkeypatch, tmp_path):
    given = files(write(tmp_path / "in"))
    settings = {"n": 2, "every": 20, "checkpoint_every": 100}  # states at the end only
    *_, quiet = learn_files(given, tmp_path / "serial.romco", **settings)
    kills = killing(monkeypatch, [("open", 1), ("state", 1)])
    *_, last = learn_files(given, tmp_path / "ray.romco", engine="ray", **settings)
    assert (last.rows, last.events, last.loss) == (quiet.rows, quiet.events, quiet.loss)
    assert len(kills) == 2
    assert last.lost >= 1
    assert (tmp_path / "ray.romco").read_bytes() == (tmp_path / "serial.romco").read_bytes()


@SLOW
def test_a_bad_row_among_the_first_is_told_as_by_any_shard(tmp_path):
    folder = write(tmp_path / "in")
    text = (folder / "1.csv").read_text().replace(",no,", ",maybe,", 1)
    (folder / "1.csv").write_text(text)
    with pytest.raises(BadRow, match=r"1\.csv, line"):
        list(learn_files(files(folder), tmp_path / "m.romco", n=2, engine="ray"))


@SLOW
def test_a_worker_that_dies_again_and_again_is_an_error(monkeypatch, expected, tmp_path):
    monkeypatch.setattr("romco.shards.ray.MAX_RESTARTS", 1)
    settings = {**SETTINGS, "engine": "ray", "checkpoint": tmp_path, "checkpoint_every": 4}
    killing(monkeypatch, [("learn", 9)], again=True)
    with (
        Shards(**settings) as shards,
        pytest.raises(WorkersLostError, match="worker of shard 1 of 2 died 2 times"),
    ):
        learn(shards, STREAM, (60,))
    check_what_was_saved(tmp_path, expected)


@SLOW
def test_an_object_store_without_room_is_told_and_what_was_saved_stays(
    monkeypatch, ray, expected, tmp_path
):
    monkeypatch.setattr("romco.shards.ray.MAX_MESSAGE_BYTES", 0)  # all goes through the store
    settings = {**SETTINGS, "engine": "ray", "checkpoint": tmp_path, "checkpoint_every": 4}
    put, calls = ray.put, []

    def full(value):
        calls.append(value)
        if len(calls) == 60:
            raise ray.exceptions.OutOfDiskError("Local disk is full")
        return put(value)

    with Shards(**settings) as shards, monkeypatch.context() as patch:
        patch.setattr(ray, "put", full)
        with pytest.raises(StoreFullError, match="Local disk is full; what was saved is untouch"):
            learn(shards, STREAM, (60,))
    check_what_was_saved(tmp_path, expected)


@SLOW
@pytest.mark.first_events(100)
def test_shards_on_ray_replace_the_only_worker(tmp_path):
    given, model = files(write(tmp_path / "in")), tmp_path / "m.romco"
    with start(given, model, n=2, engine="ray", every=20) as shards:
        for _ in read_files(shards, given):
            pass
        assert shards.n == 2
        assert shards.coordinator.engine.lost_workers == 0
        expected = without_section(direct(2, every=20))
        assert_same(without_section(shards.state()), expected)


@SLOW
def test_the_measurement_of_workers_tells_whose_time_it_was(tmp_path):
    run = watched(wide_files(tmp_path / "in", 300, width=5), tmp_path / "m.romco", 2)
    assert 290 < run["events"] < 300  # those after the first period
    assert run["barriers"] > 5
    assert 0.0 < run["merges"] < run["driver"]
    assert run["workers"] > 0.0


def killing_at_random(monkeypatch, rng, share):
    """Kill the worker of a share of all messages at some moment; gives what it was asked to do."""
    issue, kills, spared = Ray._send, [], {}

    def struck(self, k, calls):
        pid = None
        if spared.get(k, 0) == 0 and rng.random() < share:
            pid = self._ray.get(self._actors[k].pid.remote())
            spared[k] = 2  # not again and again, or the shard is given up
        else:
            spared[k] = max(0, spared.get(k, 0) - 1)
        ref = issue(self, k, calls)
        if pid is not None:
            time.sleep(rng.exponential(0.003))
            os.kill(pid, signal.SIGKILL)
            kills.append([name for name, _ in calls])
        return ref

    monkeypatch.setattr(Ray, "_send", struck)
    return kills


@SLOW
def test_fifty_kills_at_random_moments_change_no_bit(monkeypatch, tmp_path):
    """In a batch, in a merge, in a checkpoint, and while the loss before is being made good."""
    stream, settings = events(900, seed=21), {"n": 2, "every": 20}
    expected = Shards(**settings)
    margins = learn(expected, stream, (60,))
    rng, done = np.random.default_rng(1), []
    while len(done) < 50:
        with monkeypatch.context() as patch:
            kills = killing_at_random(patch, rng, 0.15)
            given = {"checkpoint": tmp_path / str(len(done)), "checkpoint_every": 3}
            with Shards(**settings, **given, engine="ray") as shards:
                np.testing.assert_array_equal(learn(shards, stream, (60,)), margins)
                assert_same(shards.state(), expected.state())
        assert kills
        done += kills
    struck = {name for names in done for name in names}
    assert {"learn", "update", "apply", "state"} <= struck
