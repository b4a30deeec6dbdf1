from __future__ import annotations

import signal
import subprocess
import sys

import pytest

import romco
from romco.server.stores import Store
from tests.server.processes import Process
from tests.server.same import assert_same_bits
from tests.server.streams import learned, lessons, model

LESSONS = lessons(60, seed=5)
STREAM = [{"id": e.id, "task": e.task, "x": e.x, "y": e.y} for e in LESSONS]
CLASSES = ("--classes", "no,yes")


def test_killed_restarted_and_stopped_cleanly(tmp_path):
    first = Process(tmp_path / "data", *CLASSES)
    with first.client() as client:
        client.predict([{k: e[k] for k in ("id", "task", "x")} for e in STREAM])
        client.learn(STREAM[:30])
    assert first.end(signal.SIGKILL) == -signal.SIGKILL
    second = Process(tmp_path / "data", *CLASSES)
    with second.client() as client:
        told = client.learn([{"id": e["id"], "y": e["y"]} for e in STREAM[20:]])
        assert [o["status"] for o in told] == ["duplicate"] * 10 + ["applied"] * 30
    assert second.end(signal.SIGTERM) == 0
    assert len(list((tmp_path / "data").glob("log-*"))) == 1
    with Store(tmp_path / "data", model) as store:
        assert store.live.sequence == 60
        assert_same_bits(store.live.model, learned(LESSONS))


def test_beginning_with_a_model_file(tmp_path):
    romco.save(learned(LESSONS), tmp_path / "m.romco")
    server = Process(tmp_path / "data", str(tmp_path / "m.romco"))
    with server.client() as client:
        assert client.tasks()["total"] == len(learned(LESSONS).tasks)
    assert server.end(signal.SIGINT) == 0


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--host", "0.0.0.0"], "--token-file"),
        (["--hash", "18", "--columns", "3"], "contradict"),
        (["--target", "what"], "auto, two-classes, classes, number"),
        (["--labels", "500"], "give a share"),
        (["--learner", "what"], "unknown learner"),
        (["--durability", "what"], "durable, logged or none"),
        (["--token-file", "missing"], "missing"),
    ],
)
def test_what_cannot_be_served_is_told_in_a_line(tmp_path, options, why):
    command = [sys.executable, "-m", "romco", "serve", "--data", "d", "--port", "0", *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60.0)
    assert done.returncode == 2
    assert why in done.stderr
    assert "Traceback" not in done.stderr


def test_a_damaged_log_is_told_in_a_line(tmp_path):
    with Store(tmp_path / "d", model) as store:
        for lesson in LESSONS[:4]:
            store.writer.learn([lesson]).result()
        path = next((tmp_path / "d").glob("log-*"))
        damaged = bytearray(path.read_bytes())
        damaged[40] ^= 1
        checkpoint = next((tmp_path / "d").glob("checkpoint-*"))
        (tmp_path / "e").mkdir()
        checkpoint.rename(tmp_path / "e" / checkpoint.name)
        (tmp_path / "e" / path.name).write_bytes(bytes(damaged))
    command = [sys.executable, "-m", "romco", "serve", "--data", "e", "--port", "0"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60.0)
    assert done.returncode == 2
    assert "is damaged at byte 0" in done.stderr
    assert "Traceback" not in done.stderr


def test_tokens_by_the_command_line(tmp_path):
    command = [sys.executable, "-m", "romco", "token", "tokens", "--scopes", "read"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60.0)
    secret = done.stdout.strip()
    server = Process(tmp_path / "data", "--token-file", str(tmp_path / "tokens"))
    with server.client(token=secret) as client:
        assert client.tasks()["total"] == 0
    server.end(signal.SIGTERM)
