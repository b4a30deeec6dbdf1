"""Faults that were found by attacking the service, each through HTTP alone."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from romco.server import ServiceError
from tests.server.processes import Process
from tests.server.requests import BODY, LEARN, PLAIN, answers, request

EVENT = b'{"id": "smuggled", "task": "eve", "x": {"a": 1}, "y": "no"}'


@pytest.fixture(scope="module")
def open_server(tmp_path_factory):
    """One that anybody on this machine may use."""
    server = Process(tmp_path_factory.mktemp("open") / "data", "--classes", "no,yes")
    with server.client() as client:
        client.learn({"id": "e1", "task": "ann", "x": {"a": 1}, "y": "yes"})
        yield int(server.url.rpartition(":")[2]), client
    server.end(signal.SIGTERM)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """One that needs tokens: its port, and a token that may read."""
    folder = tmp_path_factory.mktemp("guarded")
    tokens = {}
    for scope in ("read", "read,write"):
        command = [sys.executable, "-m", "romco", "token", "tokens", "--scopes", scope]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
        tokens[scope] = done.stdout.strip()
    server = Process(folder / "data", "--classes", "no,yes", "--token-file", str(folder / "tokens"))
    with server.client(token=tokens["read,write"]) as client:
        client.learn({"task": "ann", "x": {"a": 1}, "y": "yes"})
        yield int(server.url.rpartition(":")[2]), tokens["read"], client
    server.end(signal.SIGTERM)


def changes(client):
    """How many changes there were; a list of tasks may be a second old."""
    return client.predict({"task": "ann", "x": {}})["version"]


@pytest.mark.parametrize("protocol", [b"h2c", b"websocket"])
@pytest.mark.parametrize(
    "inner",
    [
        request(EVENT, start=LEARN),
        b"DELETE /v1/tasks/ann HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
    ],
)
@pytest.mark.parametrize("apart", [False, True])
def test_a_body_after_upgrade_is_not_the_next_request(open_server, protocol, inner, apart):
    port, client = open_server
    before = changes(client)
    lines = [*PLAIN, b"connection: upgrade", b"upgrade: " + protocol]
    whole = request(inner, lines)
    got = b""
    with socket.create_connection(("127.0.0.1", port), timeout=60.0) as line:
        line.sendall(whole[: -len(inner)] if apart else whole)
        with suppress(ConnectionResetError, BrokenPipeError):
            if apart:
                got = line.recv(1 << 16)
                line.sendall(inner)
            while data := line.recv(1 << 16):
                got += data
    assert re.findall(rb"HTTP/1\.1 \d+", got) == [b"HTTP/1.1 400"]
    assert b"send HTTP/1.1 without Upgrade" in got
    assert changes(client) == before
    assert client.task("ann")["events"] == 1


def chunked(lines, trailer, body=BODY):
    head = b"\r\n".join([b"POST /v1/predict HTTP/1.1", *lines, b"transfer-encoding: chunked"])
    data = b"%x\r\n%b\r\n0\r\n" % (len(body), body)
    return head + b"\r\nconnection: close\r\n\r\n" + data + trailer + b"\r\n\r\n"


def test_headers_of_a_trailer_are_not_believed(open_server, guarded):
    port, _ = open_server
    evil = [b"host: evil", PLAIN[1]]
    assert answers(port, chunked(evil, b"host: 127.0.0.1"))[0] == [421]
    assert answers(port, chunked([PLAIN[1]], b"host: 127.0.0.1"))[0] == [421]
    foreign = [*PLAIN, b"origin: http://evil"]
    assert answers(port, chunked(foreign, b"origin: http://127.0.0.1"))[0] == [403]
    port, token, _ = guarded
    trailer = b"authorization: Bearer " + token.encode()
    assert answers(port, chunked(PLAIN, trailer))[0] == [401]


@pytest.mark.parametrize("end", ["%0A", "%0a", "%0D", "%00", "%20", "%2F", "/", "%C2%85"])
@pytest.mark.parametrize("path", ["/v1/checkpoint", "/v1/learn", "/v1/predict", "/v1/explain"])
def test_a_path_with_a_control_character_is_no_other_path(guarded, path, end):
    port, token, _ = guarded
    lines = [*PLAIN, b"authorization: Bearer " + token.encode(), b"connection: close"]
    start = f"POST {path}{end} HTTP/1.1".encode()
    assert answers(port, request(BODY, lines, start=start))[0] == [404]


@pytest.mark.parametrize("name", ["ann\n", "a\nb", "\n", "ann\x00", "a%0Ab", "a/b", "ü", " ann "])
def test_the_task_that_was_named_is_forgotten_and_no_other(open_server, name):
    _, client = open_server
    client.learn({"task": name, "x": {"a": 1}, "y": "no"})
    assert client.task(name)["task"] == name
    assert client.forget(name)["status"] == "forgotten"
    with pytest.raises(ServiceError, match="404"):
        client.task(name)
    assert client.task("ann")["events"] == 1


def test_a_path_that_is_no_text_reaches_no_task(open_server):
    port, client = open_server
    client.learn({"task": "\ufffd", "x": {"a": 1}, "y": "no"})
    start = b"DELETE /v1/tasks/%ff HTTP/1.1"
    assert answers(port, request(b"", [*PLAIN, b"connection: close"], start=start))[0] == [400]
    assert client.task("\ufffd")["events"] == 1


@pytest.mark.slow
def test_a_request_of_many_new_classes_does_not_stop_others(tmp_path):
    """985 of them took a minute, in which nobody else could learn."""
    server = Process(tmp_path / "data", "--target", "classes")
    some = [{"id": f"c{k}", "task": "t", "x": {"a": k % 7}, "y": f"class{k}"} for k in range(40)]
    own, sequences = [], []

    def learn():
        with server.client(timeout=600.0) as other:
            own.extend(outcome["sequence"] for outcome in other.learn(some))

    with server.client(timeout=600.0) as client:
        client.learn({"task": "u", "x": {"a": 1}, "y": "class0"})
        long = threading.Thread(target=learn)
        long.start()
        while long.is_alive():
            one = client.learn({"task": "u", "x": {"a": 1}, "y": "class0"})
            sequences.append(one["sequence"])
        long.join()
        between = [sequence for sequence in sequences if own[0] < sequence < own[-1]]
        assert between, "no other request was learned before the end of the long one"
        assert client.tasks()["total"] == 2
    server.end(signal.SIGTERM)


EARLY = """
import os, runpy, sys, uvicorn

def run(self, sockets, real=uvicorn.Server.run):
    os.kill(os.getpid(), {how:d})
    real(self, sockets)

uvicorn.Server.run = run
sys.argv = ["romco", "serve", "--data", "data", "--port", "0"]
runpy.run_module("romco", run_name="__main__")
"""


@pytest.mark.parametrize(
    "how", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_a_signal_just_before_it_runs_ends_it(tmp_path, how):
    command = [sys.executable, "-c", EARLY.format(how=how)]
    subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120.0, check=True)


@pytest.mark.slow
def test_predictions_with_ids_do_not_fill_the_disk(tmp_path):
    """They are bounded on the disk as in memory, whoever makes them."""
    server = Process(tmp_path / "data", "--pending-events", "50", "--classes", "no,yes")
    x = {f"feature number {k}": 1.5 for k in range(1200)}
    with server.client() as client:
        for k in range(40):
            client.predict([{"id": f"{k} {i}", "task": "t", "x": x} for i in range(10)])
        used = sum(path.stat().st_size for path in (tmp_path / "data").rglob("*"))
        page = json.dumps(x)
    server.end(signal.SIGTERM)
    assert used < 100 * len(page) + 8e6, f"{used / 1e6:.1f} MB"


@pytest.fixture
def few_inodes(tmp_path):
    """A file system with room for a service's files and few others."""
    folder = tmp_path / "small"
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", "size=64m,nr_inodes=20", "tmpfs", str(folder)]
    if subprocess.run(["mount", *options], capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a file system")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.slow
def test_learning_goes_on_while_no_inode_is_left_and_after(few_inodes):
    server = Process(few_inodes / "data", "--classes", "no,yes")
    event = {"task": "ann", "x": {"a": 1}, "y": "yes"}
    with server.client(retries=0) as client:
        client.learn(event)
        fillers = [few_inodes / f"filler{k}" for k in range(50)]
        with pytest.raises(OSError, match="No space"):
            list(map(Path.touch, fillers))
        for attempt in (client.checkpoint, lambda: client.model(few_inodes.parent / "copy")):
            with pytest.raises(ServiceError, match="507"):
                attempt()
        assert client.learn(event)["sequence"] == 2  # the log has its files already
        for filler in fillers:
            filler.unlink(missing_ok=True)
        assert client.checkpoint() == 2
        assert client.learn(event)["sequence"] == 3
    assert server.end(signal.SIGTERM) == 0
    again = Process(few_inodes / "data")
    with again.client() as client:
        assert changes(client) == 3
    assert again.end(signal.SIGTERM) == 0
