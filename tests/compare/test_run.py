import json

import numpy as np
import pytest

from romco.compare import results, run
from romco.compare.controls import FREQUENCY, REFITTED
from romco.compare.results import read, records
from romco.compare.run import Run, complete, place
from romco.compare.sources import digest_of
from romco.learners import Method
from romco.learners.linear import Gradient

SMALL = "simulated@n_tasks=4,n_features=6,n_events=40,outliers=1"


def make_run(learner="ogd-unique", seed=0, **parameters):
    pairs = () if learner in (FREQUENCY, REFITTED) else complete(learner, parameters)
    return Run(SMALL, digest_of(SMALL), learner, pairs, "interleaved", seed)


def execute(one, folder, lines=records):
    return run.execute(one, folder, None, lines)


def perform(runs, folder, jobs=1, done=lambda one: None, lines=records):
    run.perform(runs, folder, None, jobs, done, lines)


def without_seconds(path):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[-1]["end"].pop("seconds")
    return lines


def test_a_run_writes_a_head_and_all_figures(tmp_path):
    found = read(execute(make_run("romco-auto"), tmp_path))
    assert found.run == make_run("romco-auto")
    assert found.failed is None
    assert 0 < found.end["error"] < 1
    row = results.Row("romco-auto", [found], None)
    assert row.losses.shape == (1, 160)
    first, events, means = row.by_experience()
    assert first[:5].tolist() == [1, 2, 3, 5, 9]
    assert events[:5].tolist() == [4, 4, 8, 16, 32]
    assert (means * events).sum() == pytest.approx(row.losses.sum(), rel=1e-5)


def test_losses_are_in_the_order_of_the_file_whatever_the_shuffle(tmp_path):
    stream = results.stream_of(SMALL, None)
    for seed in (0, 1):
        found = read(execute(make_run(seed=seed), tmp_path))
        rounds = results.shuffled(SMALL, "interleaved", seed, None)
        values = results.predict("ogd-unique", stream, rounds, dict(found.run.parameters))
        k = (rounds.events.y > 0).astype(int)
        of_event = {
            tuple(x): -np.log(max(p, 1e-6))
            for x, p in zip(rounds.x.tolist(), values[np.arange(len(k)), k], strict=True)
        }
        losses = results.Row("", [found], None).losses[0]
        expected = [of_event[tuple(x)] for x in stream.x.tolist()]
        np.testing.assert_allclose(losses, expected, rtol=1e-5)


def test_a_row_that_breaks_down_is_a_result(tmp_path, monkeypatch):
    def broken(*_):
        raise FloatingPointError("margins are not finite")

    monkeypatch.setattr(results, "predict", broken)
    found = read(execute(make_run(), tmp_path))
    assert found.failed == "FloatingPointError: margins are not finite"


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


def test_results_do_not_depend_on_the_number_of_processes(tmp_path, monkeypatch):
    """Other processes know learners that were added, too."""
    method = Method(Gradient, "Mine", fixed={"models": "unique"})
    monkeypatch.setitem(run.LEARNERS, "mine", method)
    names = ("ogd-unique", REFITTED, "mine")
    runs = [make_run(name, seed) for name in names for seed in (0, 1)]
    finished = []
    perform(runs, tmp_path / "one", jobs=1)
    perform(runs, tmp_path / "two", jobs=2, done=finished.append)
    assert set(finished) == set(runs)
    for each in runs:
        one, two = place(each, tmp_path / "one"), place(each, tmp_path / "two")
        assert read(two).failed is None
        assert without_seconds(one) == without_seconds(two)


def test_workers_end_with_an_interrupt(tmp_path):
    def interrupt(run):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        perform([make_run(seed=seed) for seed in range(4)], tmp_path, jobs=2, done=interrupt)
    perform([make_run(seed=seed) for seed in range(4)], tmp_path, jobs=1)
    (row,) = results.rows([make_run(seed=seed) for seed in range(4)], tmp_path, None)
    assert len(row.runs) == 4


def test_learners_that_no_other_process_could_import_run_in_this_one(tmp_path, monkeypatch):
    class Here(Gradient):
        """Part of no module."""

    monkeypatch.setitem(run.LEARNERS, "here", Method(Here, "Here", fixed={"models": "unique"}))
    runs = [make_run("here", seed=seed) for seed in range(2)]
    perform(runs, tmp_path, jobs=2)
    assert [read(place(one, tmp_path)).failed for one in runs] == [None, None]
