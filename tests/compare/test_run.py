import json

import pytest

from romco.compare import run as running
from romco.compare.plan import Run, complete
from romco.compare.results import outcomes, read
from romco.compare.run import execute, perform, place
from romco.compare.sources import digest_of
from romco.learners import Method
from romco.learners.linear import Gradient


def make_run(learner="ogd-unique", seed=0, **parameters):
    pairs = complete(learner, parameters)
    digest = digest_of("simulated")
    return Run("simulated", digest, learner, pairs, "synchronous", seed, rounds=40, records=5)


def without_seconds(path):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "seconds"} for line in lines]


def test_a_run_writes_a_head_records_and_an_end(tmp_path):
    found = read(execute(make_run("romco-nucl"), tmp_path))
    assert found.run == make_run("romco-nucl")
    assert [record["rounds"] for record in found.records] == [8, 16, 24, 32, 40]
    assert found.last["events"] == 40 * 20
    assert 0 < found.error() < 1
    assert found.last["seconds"] > 0
    assert len(found.last["structure"]["personal_norms"]) == 20
    assert len(found.end["shared"]) == len(found.end["features"])
    assert 2 <= len(found.end["features"]) <= 48
    assert found.stream["outliers"] is not None


def test_a_finished_run_is_never_repeated(tmp_path):
    def never(run, data_dir):
        pytest.fail("ran again")

    path = execute(make_run(), tmp_path)
    assert execute(make_run(), tmp_path, lines=never) == path
    perform([make_run(), make_run()], tmp_path, jobs=2, lines=never)


def test_an_interrupted_run_is_not_seen_and_starts_again(tmp_path):
    def interrupted(run, data_dir):
        yield {"run": "half"}
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        perform([make_run(seed=0), make_run(seed=1)], tmp_path, jobs=1, lines=interrupted)
    assert not place(make_run(), tmp_path).exists()
    perform([make_run()], tmp_path, jobs=1)
    assert [path.suffix for path in tmp_path.iterdir()] == [".jsonl"]


def test_results_do_not_depend_on_the_number_of_processes(tmp_path):
    runs = [make_run(name, seed) for name in ("ogd-unique", "romco-logd") for seed in (0, 1)]
    finished = []
    perform(runs, tmp_path / "one", jobs=1)
    perform(runs, tmp_path / "two", jobs=2, done=finished.append)
    assert set(finished) == set(runs)
    for run in runs:
        one, two = place(run, tmp_path / "one"), place(run, tmp_path / "two")
        assert without_seconds(one) == without_seconds(two)


def test_workers_end_with_an_interrupt(tmp_path):
    def interrupt(run):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        perform([make_run(seed=seed) for seed in range(4)], tmp_path, jobs=2, done=interrupt)
    perform([make_run(seed=seed) for seed in range(4)], tmp_path, jobs=1)
    assert len(outcomes([make_run(seed=seed) for seed in range(4)], tmp_path)[0].runs) == 4


def test_learners_that_were_added_are_known_to_other_processes(tmp_path, monkeypatch):
    method = Method(Gradient, "Mine", fixed={"models": "unique"})
    monkeypatch.setitem(running.LEARNERS, "mine", method)
    runs = [make_run("mine", seed=seed) for seed in range(2)]
    perform(runs, tmp_path, jobs=2)
    assert [read(place(run, tmp_path)).failed for run in runs] == [None, None]


def test_learners_that_no_other_process_could_import_run_in_this_one(tmp_path, monkeypatch):
    class Here(Gradient):
        """Part of no module."""

    monkeypatch.setitem(running.LEARNERS, "here", Method(Here, "Here", fixed={"models": "unique"}))
    runs = [make_run("here", seed=seed) for seed in range(2)]
    perform(runs, tmp_path, jobs=2)
    assert [read(place(run, tmp_path)).failed for run in runs] == [None, None]


def test_a_setting_that_breaks_down_is_a_result(tmp_path, monkeypatch):
    class Broken:
        def __init__(self, n_features, n_tasks, *, eta, step):
            self.n_tasks = n_tasks

        def replay(self, rounds):
            raise FloatingPointError("margins are not finite")

    run = make_run()
    monkeypatch.setitem(running.LEARNERS, "ogd-unique", Broken)
    found = read(execute(run, tmp_path))
    assert found.failed == "FloatingPointError: margins are not finite"
    assert found.error() == float("inf")


def test_future_labels_change_no_earlier_record(tmp_path, monkeypatch):
    run = make_run("romco-nucl")
    for part in ("a", "b"):
        (tmp_path / part).mkdir()
    before = read(execute(run, tmp_path / "a"))
    whole = running.shuffled

    def altered(*where):
        rounds = whole(*where)
        y = rounds.y.copy()
        y[rounds.starts[24] :] *= -1
        return type(rounds)(rounds.task, rounds.x, y, rounds.starts)

    monkeypatch.setattr(running, "shuffled", altered)
    after = read(execute(run, tmp_path / "b"))
    for one, two in zip(before.records[:3], after.records[:3], strict=True):
        assert one["scores"] == two["scores"]
    assert before.last["scores"] != after.last["scores"]
