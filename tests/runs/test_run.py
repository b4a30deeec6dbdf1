"""Learning from files: killed, resumed, grown, damaged; the result is always the same."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import romco
from romco.files import load
from romco.io.formats import BadRow
from romco.io.reader import BLOCK_EVENTS
from romco.model import Hashed, Model
from romco.runs import Source, Stop, evaluate, learn, predict
from romco.runs.learn import SaveSchedule, Stopped

STREAM = romco.streams.simulated(n_tasks=6, n_features=5, n_events=100, outliers=1)
ROUNDS = romco.streams.interleaved(STREAM, seed=0)


def write(path, events=range(600), extra=""):
    lines = ["user,spam," + ",".join("abcde")]
    for i in events:
        label = "yes" if ROUNDS.y[i] > 0 else "no"
        cells = ",".join(f"{v:.17g}" for v in ROUNDS.x[i])
        lines.append(f"user {ROUNDS.task[i]},{label},{cells}")
    path.write_text("\n".join(lines) + "\n" + extra)
    return Source(str(path), task="user", label="spam")


def run(source, path, model=None, **options):
    return list(learn(source, path, model or Model("romco-nucl"), **options))[-1]


def contents(path):
    state = load(path).state()
    arrays = state.pop("arrays")
    return state, {name: a.tobytes() for name, a in arrays.items()}


def test_same_margins_as_the_bare_learner(tmp_path):
    source = write(tmp_path / "e.csv")
    model = Model("ogd-unique", new_task="zero", classes=("no", "yes"))
    last = run(source, tmp_path / "m.romco", model, predictions=tmp_path / "p.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    expected = romco.learner("ogd-unique", 5, 6).replay(ROUNDS)
    np.testing.assert_allclose([row["margin"] for row in rows], expected, rtol=1e-12, atol=1e-14)
    first = {"line": 2, "task": f"user {ROUNDS.task[0]}", "predicted": "yes", "probability": 0.5}
    first |= {"positive": "yes", "margin": 0.0, "label": "yes" if ROUNDS.y[0] > 0 else "no"}
    assert rows[0] == first
    wrong = np.mean(np.where(expected >= 0, 1, -1) != ROUNDS.y)
    assert last.score.error == pytest.approx(wrong)
    assert last.events == 600


@pytest.mark.parametrize("every", [10, 37, 250, 10_000])
def test_checkpoints_do_not_change_the_result(every, tmp_path):
    source = write(tmp_path / "e.csv")
    run(source, tmp_path / "a.romco")
    run(source, tmp_path / "b.romco", every=every)
    assert contents(tmp_path / "a.romco") == contents(tmp_path / "b.romco")


def test_learning_again_finds_nothing_to_do_and_a_grown_file_is_gone_on_with(tmp_path):
    source = write(tmp_path / "e.csv", range(400))
    run(source, tmp_path / "m.romco")
    before = (tmp_path / "m.romco").read_bytes()
    assert run(source, tmp_path / "m.romco").resumed == 400
    assert (tmp_path / "m.romco").read_bytes() == before
    write(tmp_path / "e.csv")
    run(source, tmp_path / "m.romco")
    run(source, tmp_path / "whole.romco")
    assert contents(tmp_path / "m.romco") == contents(tmp_path / "whole.romco")


def test_a_second_source_is_learned_from_its_beginning(tmp_path):
    first, second = (
        write(tmp_path / "1.csv", range(300)),
        write(tmp_path / "2.csv", range(300, 600)),
    )
    run(first, tmp_path / "m.romco")
    assert run(second, tmp_path / "m.romco").events == 300
    assert load(tmp_path / "m.romco").events == 600


def test_bad_rows_stop_with_their_place_or_are_counted(tmp_path):
    source = write(tmp_path / "e.csv", extra="user 1,yes,inf,0,0,0,0\nuser 1,maybe,1,0,0,0,0\n")
    with pytest.raises(BadRow, match="line 602, column 'a'"):
        run(source, tmp_path / "m.romco")
    assert load(tmp_path / "m.romco").events == 600  # all before it is kept
    skipping = Source(**{**source.__dict__, "skip_bad": True})
    last = run(skipping, tmp_path / "m.romco")
    assert (last.events, last.skipped) == (601, 2)
    third = write(tmp_path / "f.csv", range(100), extra="user 1,maybe,1,0,0,0,0\n")
    with pytest.raises(BadRow, match="line 102, column 'spam': a third label 'maybe'"):
        run(third, tmp_path / "n.romco")
    assert load(tmp_path / "n.romco").events == 100


def test_other_columns_are_refused(tmp_path):
    source = write(tmp_path / "e.csv")
    run(source, tmp_path / "m.romco")
    with pytest.raises(ValueError, match="learned with"):
        run(Source(source.path, task="user", label="a"), tmp_path / "m.romco")


def test_each_pipe_is_a_new_source(tmp_path, monkeypatch):
    text = write(tmp_path / "e.csv")
    source = Source("-", "user", "spam", format="csv")

    pipes = []

    def pipe():
        pipes.append((tmp_path / "e.csv").open())
        monkeypatch.setattr("sys.stdin", pipes[-1])

    pipe()
    steps = learn(source, tmp_path / "m.romco", Model("romco-nucl"), every=100)
    for _ in range(3):
        next(steps)
    del steps  # cut after 300
    pipe()
    assert run(source, tmp_path / "m.romco", every=100).resumed == 0
    assert load(tmp_path / "m.romco").events == 900
    (tmp_path / "m.romco").unlink()
    pipe()
    run(source, tmp_path / "m.romco", every=100)
    run(text, tmp_path / "file.romco", every=100)
    ours, theirs = contents(tmp_path / "m.romco"), contents(tmp_path / "file.romco")
    assert ours[1] == theirs[1]
    pipe()
    assert run(source, tmp_path / "m.romco").resumed == 0
    assert load(tmp_path / "m.romco").events == 1200
    for opened in pipes:
        opened.close()


def kill_runs(start, finished, path, kills):
    """Start and kill -9 at a random moment until so many were killed; call one that finished."""
    moments = random.Random(0)
    while kills:
        pid = start()
        time.sleep(moments.uniform(0.0, 0.02))
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status):
            kills -= 1
        else:
            finished()
        if path.exists():
            load(path)  # whole at every moment


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("kills", [12, pytest.param(40, marks=pytest.mark.slow)])
def test_kill_at_random_moments_gives_the_uninterrupted_model(tmp_path, kills):
    source = write(tmp_path / "e.csv")
    options = {"every": 7}
    run(source, tmp_path / "whole.romco", predictions=tmp_path / "whole.jsonl", **options)
    path, predictions = tmp_path / "m.romco", tmp_path / "p.jsonl"

    def start():
        pid = os.fork()
        if pid == 0:
            try:
                run(source, path, predictions=predictions, **options)
            finally:
                os._exit(0)
        return pid

    def finished():
        assert contents(path) == contents(tmp_path / "whole.romco")
        assert predictions.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
        path.unlink()
        (tmp_path / "m.romco.bak").unlink()
        predictions.unlink()

    kill_runs(start, finished, path, kills=kills)
    run(source, path, predictions=predictions, **options)
    finished()


@pytest.mark.slow
def test_kill_of_the_command_at_random_moments(tmp_path):
    source = write(tmp_path / "e.csv")
    run(source, tmp_path / "whole.romco", Model(), every=5)
    path = tmp_path / "m.romco"
    command = [sys.executable, "-c", "from romco.cli.main import app; app()", "learn", source.path]
    command += ["--task", "user", "--label", "spam", "--model", path, "--checkpoint-every", "5"]
    moments = random.Random(1)
    for kill in range(20):
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        before = path.stat().st_mtime_ns if path.exists() else 0
        while process.poll() is None and (not path.exists() or path.stat().st_mtime_ns == before):
            time.sleep(0.01)
        time.sleep(moments.uniform(0.0, 0.1))
        process.kill()
        process.wait()
        assert load(path).events > 0, kill
    subprocess.run(command, check=True)
    assert contents(path)[1] == contents(tmp_path / "whole.romco")[1]


def test_predict_and_evaluate_use_the_models_columns(tmp_path):
    source = write(tmp_path / "e.csv")
    run(source, tmp_path / "m.romco", Model("romco-nucl", Hashed(256)))
    model = load(tmp_path / "m.romco")
    answers = list(predict(model, Source(source.path)))  # the label column is there, but no feature
    assert len(answers) == 600
    rows = [dict(zip("abcde", x.tolist(), strict=True)) for x in ROUNDS.x]
    expected = model.margins(rows, [f"user {i}" for i in ROUNDS.task])
    np.testing.assert_allclose([a["margin"] for a in answers], expected, atol=1e-12)
    assert {a["predicted"] for a in answers} == {"yes", "no"}
    assert all((a["probability"] >= 0.5) == (a["predicted"] == "yes") for a in answers)
    assert {a["positive"] for a in answers} == {"yes"}
    truth = ["yes" if y > 0 else "no" for y in ROUNDS.y]
    assert [a["label"] for a in answers] == truth  # where known, it is told
    found = evaluate(model, Source(source.path))
    scores = found.tasks
    assert found.skipped == 0
    assert found.whole.events == sum(score.events for score in scores.values()) == 600
    wrong = np.mean(np.where(expected >= 0, 1, -1) != ROUNDS.y)
    total = sum(score.error * score.events for score in scores.values())
    assert total / 600 == pytest.approx(wrong)


def test_a_users_notes_are_the_users(tmp_path):
    """Setting them once made the same command learn everything twice."""
    source, path = write(tmp_path / "e.csv"), tmp_path / "m.romco"
    run(source, path)
    model = load(path)
    model.notes = {"mine": 1}
    romco.save(model, path)
    assert run(source, path).resumed == 600
    assert (load(path).events, load(path).notes) == (600, {"mine": 1})


def test_a_file_is_known_by_its_content_and_not_by_its_path(tmp_path, monkeypatch):
    source, path = write(tmp_path / "e.csv", range(300)), tmp_path / "m.romco"
    run(source, path)
    monkeypatch.chdir(tmp_path)
    same = Source("./e.csv", task="user", label="spam")
    assert run(same, path).resumed == 300
    (tmp_path / "e.csv").rename(tmp_path / "moved.csv")
    assert run(Source("moved.csv", task="user", label="spam"), path).resumed == 300
    write(tmp_path / "e.csv", range(300, 600))  # replaced
    with pytest.raises(ValueError, match="not the file that was learned before"):
        run(source, path)
    assert load(path).events == 300


def test_two_learn_into_one_file_the_second_is_refused(tmp_path):
    source, path = write(tmp_path / "e.csv"), tmp_path / "m.romco"
    first = learn(source, path, Model("romco-nucl"), every=100)
    next(first)
    with pytest.raises(BlockingIOError, match="another process is learning"):
        run(source, path)
    for _ in first:
        pass
    assert run(source, path).resumed == 600
    assert sorted(p.name for p in tmp_path.iterdir()) == ["e.csv", "m.romco", "m.romco.bak"]


def test_asked_to_stop_it_saves_and_goes_on_later(tmp_path):
    source, path, stop = write(tmp_path / "e.csv"), tmp_path / "m.romco", Stop()
    steps = learn(source, path, Model("romco-nucl"), every=250, stop=stop)
    next(steps)
    stop.request()
    assert list(steps)[-1].events == 250
    assert load(path).events == 250
    run(source, path)
    run(source, tmp_path / "whole.romco")
    assert contents(path)[1] == contents(tmp_path / "whole.romco")[1]


def test_a_stop_breaks_off_waiting_once():
    stop = Stop()
    with pytest.raises(Stopped), stop.waiting():
        stop.request()
    stop.request()  # a second signal, when nothing is waited for
    with stop.waiting():
        stop.request()
    assert stop.wanted


@pytest.mark.skipif(os.name == "nt", reason="needs SIGTERM")
def test_sigterm_saves_what_was_learned_and_says_so(tmp_path):
    write(tmp_path / "e.csv")
    path, rows = tmp_path / "m.romco", (tmp_path / "e.csv").read_bytes()
    command = [sys.executable, "-m", "romco", "learn", "-", "--format", "csv", "--task", "user"]
    command += ["--label", "spam", "--model", path, "--learner", "ogd-unique"]
    process = subprocess.Popen(
        [*command, "--checkpoint-every", "100"], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdin.write(rows)
    process.stdin.flush()  # and kept open: it waits for more
    while not path.exists() and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 143, told
    assert b"the same command goes on" in told
    assert load(path).events % 100 == 0


def test_saves_that_take_long_are_seldom():
    saves = SaveSchedule(None)
    assert not saves.due(1_000_000)  # learning has just begun
    saves = SaveSchedule(None, next_time=0.0)
    assert not saves.due(9_999)
    assert saves.due(10_000)
    saves.record(10_000, seconds=30.0)
    assert not saves.due(1_000_000)  # ten minutes have not passed
    saves.record(10_000, seconds=0.0)
    assert not saves.due(19_999)
    assert saves.due(20_000)
    assert [saves.room(1), SaveSchedule(300).room(250)] == [BLOCK_EVENTS, 50]
