"""Clients that take more than their share: others are answered, and memory stays as it was."""

from __future__ import annotations

import logging
import re
import signal
import socket
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

import romco
from romco.server import ServiceError, connection
from romco.server.app import OncePerSecond
from romco.server.protocol import LearnRequest
from tests.server.conftest import held, opened
from tests.server.processes import Process
from tests.server.requests import BODY, LEARN, PLAIN, answers, closing, receive, request

FULL_SIZE = pytest.mark.slow  # the sizes of an attack


def connect(stack: ExitStack, port: int, data: bytes = b"", buffer: int = 0) -> socket.socket:
    line = socket.socket()
    if buffer:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    stack.callback(line.close)
    line.settimeout(60.0)
    line.connect(("127.0.0.1", port))
    line.sendall(data)
    return line


def is_closed(line: socket.socket) -> bool:
    line.setblocking(False)
    try:
        return line.recv(1 << 16) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


class Others:
    """A client that predicts again and again, on a connection of its own each time."""

    def __init__(self, port: int) -> None:
        self.port, self.waits, self.statuses = port, [], set()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._done.is_set():
            begin = time.monotonic()
            self.statuses.update(answers(self.port, closing(), patience=60.0)[0])
            self.waits.append(time.monotonic() - begin)
            time.sleep(0.02)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._done.set()
        self._thread.join()
        print(f"{len(self.waits)} requests of others, slowest {max(self.waits):.3f} s")
        assert self.statuses == {200}


def memory(process: int) -> float:
    """Resident memory of a process in MB, its highest."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024


def reset_memory(process: int) -> float:
    Path(f"/proc/{process}/clear_refs").write_text("5")
    return memory(process)


@pytest.fixture
def process(tmp_path):
    """A server of its own, whose memory can be measured; and its port."""
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("needs Linux")
    server = Process(tmp_path / "data", "--classes", "no,yes")
    with server.client() as client:
        client.learn({"task": "ann", "x": {"a": 1}, "y": "yes"})
        yield server, int(server.url.rpartition(":")[2]), client
    server.end(signal.SIGTERM)


@pytest.mark.parametrize("begun", [b"", request()[:50], request()[:-5]], ids=["", "head", "body"])
def test_the_place_of_a_full_server_goes_to_who_speaks(serving, monkeypatch, begun):
    monkeypatch.setattr(connection, "MAX_CONNECTIONS", 20)
    with serving() as service, ExitStack() as stack:
        speaking = connect(stack, service.port)
        for k in range(60):
            silent = connect(stack, service.port, begun)
            if k == 0:
                first = silent
            speaking.sendall(request())
            assert receive(speaking).startswith(b"HTTP/1.1 200")
        assert is_closed(first)
        assert service.client.predict({"task": "t", "x": {}})["margin"] == 0.0


def test_who_finds_only_working_connections_is_told(serving, monkeypatch):
    monkeypatch.setattr(connection, "MAX_CONNECTIONS", 5)
    with serving() as service, ExitStack() as stack:
        learn = request(b'{"task": "t", "x": {"a": 1}, "y": "yes"}', start=LEARN)
        service.client.close()
        with held(service.service):
            lines = [connect(stack, service.port, learn) for _ in range(5)]
            while service.service.queued < 5:
                time.sleep(0.01)
            statuses, told = answers(service.port, closing())
            assert statuses in ([503], [])  # it is closed with a request unread
            assert b"too many connections" in told or not told
        for line in lines:
            assert line.recv(12) == b"HTTP/1.1 200"


def test_bad_requests_do_not_fill_the_log(serving, caplog):
    with serving() as service:
        begin = time.monotonic()
        for _ in range(50):
            assert answers(service.port, b"this is no HTTP\r\n\r\n")[0] == [400]
        seconds = time.monotonic() - begin
    lines = [record.getMessage() for record in caplog.records]
    told = [line for line in lines if line.startswith("Invalid HTTP request")]
    assert 1 <= len(told) <= seconds + 2


def test_what_was_held_back_from_the_log_is_counted():
    limit, lines = OncePerSecond(), []
    for k in range(25):
        record = logging.LogRecord("n", logging.WARNING, "", 0, "bad", (), None)
        record.created = 1000.0 + 0.1 * k
        if limit.filter(record):
            lines.append(record.getMessage())
    assert lines == ["bad", "bad (and 9 times before)", "bad (and 9 times before)"]


@FULL_SIZE
def test_eleven_hundred_silent_connections(process):
    _, port, _ = process
    with ExitStack() as stack, Others(port) as others:
        for _ in range(3):
            for _ in range(1100):
                connect(stack, port)
            time.sleep(2.0)
    assert max(others.waits) < 1.0


def test_a_head_and_a_request_have_their_time(serving, monkeypatch):
    with serving() as service, ExitStack() as stack:
        lines = [connect(stack, service.port, request()) for _ in range(2)]
        for line in lines:
            assert receive(line).startswith(b"HTTP/1.1 200")
        monkeypatch.setattr(connection, "HEAD_SECONDS", 0.2)
        monkeypatch.setattr(connection, "REQUEST_SECONDS", 0.4)
        for begun in (b"", b"\r\n", request()[:50], request()[:-5]):
            assert answers(service.port, begun)[0] == [408]
        for line, begun in zip(lines, (request()[:50], request()[:-5]), strict=True):
            line.sendall(begun)
            assert receive(line).startswith(b"HTTP/1.1 408")
        monkeypatch.undo()


@pytest.mark.parametrize(
    ("many", "buffer"), [(100_000, 4096), pytest.param(300_000, 0, marks=FULL_SIZE)]
)
def test_requests_whose_answers_are_not_read_wait_outside(process, many, buffer):
    server, port, _ = process
    begin = reset_memory(server.process.pid)
    with ExitStack() as stack, Others(port) as others:
        line = connect(stack, port, buffer=buffer)
        line.settimeout(3.0)
        with pytest.raises(TimeoutError):  # it is read no further
            line.sendall(request() * many)
    growth = memory(server.process.pid) - begin
    print(f"growth {growth:.1f} MB")
    assert growth < 30.0
    assert max(others.waits) < 60.0
    assert server.end(signal.SIGTERM) == 0
    assert "Traceback" not in "".join(server.lines), "a client that goes is no error of ours"


def test_who_does_not_read_is_left(serving, monkeypatch):
    monkeypatch.setattr(connection, "READ_SECONDS", 0.2)
    with serving() as service, ExitStack() as stack:
        line = connect(stack, service.port, buffer=4096)
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            line.sendall(request() * 200_000)


def learn_much(client, tasks: int) -> None:
    """Learn a model of 0.7 MB for each task."""
    for k in range(tasks):
        x = {f"feature {i} of {k}": 1.0 for i in range(2000)}
        client.learn({"task": f"t{k}", "x": x, "y": "yes"})


@pytest.mark.parametrize(("many", "tasks"), [(12, 10), pytest.param(100, 105, marks=FULL_SIZE)])
def test_downloads_that_are_not_read_share_a_file(process, tmp_path, many, tasks):
    server, port, client = process
    learn_much(client, tasks)
    client.model(tmp_path / "warm.romco")
    size = (tmp_path / "warm.romco").stat().st_size / 1e6
    begin = reset_memory(server.process.pid)
    get = b"GET /v1/model HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
    with ExitStack() as stack, Others(port) as others:
        lines = [connect(stack, port, get, buffer=4096) for _ in range(many)]
        statuses = [line.recv(12) for line in lines]
        begun = time.monotonic()
        client.learn({"task": "u", "x": {"f1": 1}, "y": "no"})
        waited = time.monotonic() - begun
        files = set()
        for handle in Path(f"/proc/{server.process.pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                files.add(str(handle.readlink()))
        files = {path for path in files if "/model-" in path}
        with pytest.raises(ServiceError, match="under way"):
            client._call("model", retries=False)
    growth = memory(server.process.pid) - begin
    print(f"model {size:.0f} MB, growth {growth:.0f} MB, learning {waited:.3f} s")
    assert sorted(statuses) == [b"HTTP/1.1 200"] * 4 + [b"HTTP/1.1 503"] * (many - 4)
    assert len(files) == 1, files
    assert growth < 200.0
    assert max(others.waits) < 60.0
    client.model(tmp_path / "again.romco")  # when they are gone


def test_a_download_is_of_the_moment_it_is_asked_for(serving, tmp_path):
    get = b"GET /v1/model HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
    with serving() as service, ExitStack() as stack:
        learn_much(service.client, 5)
        connect(stack, service.port, get, buffer=4096).recv(12)
        service.client.forget("t3")
        service.client.model(tmp_path / "later.romco")
        assert "t3" not in romco.load(tmp_path / "later.romco").tasks


TRAILER = b"\r\n".join([b"POST /v1/predict HTTP/1.1", *PLAIN, b"transfer-encoding: chunked"])
TRAILER += b"\r\n\r\n%x\r\n%b\r\n0\r\nx: " % (len(BODY), BODY)


def test_a_trailer_has_an_end(service):
    sent = 0
    with ExitStack() as stack:
        line = connect(stack, service.port, TRAILER)
        line.settimeout(0.05)
        got = b""
        while not got:
            line.sendall(b"a" * 8192)
            sent += 8192
            assert sent < 200_000
            with suppress(TimeoutError):
                got = line.recv(1 << 16)
    assert got.startswith(b"HTTP/1.1 431")
    assert sent >= connection.MAX_HEAD_BYTES - 8192
    whole = TRAILER + b"a" * 30_000 + b"\r\n\r\n" + closing()
    assert answers(service.port, whole)[0] == [200, 200]


def test_a_body_in_small_chunks_is_no_trailer(service):
    """They have more bytes of framing than a head may have."""
    body = BODY + b" " * 30_000
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
    lines = [b"POST /v1/predict HTTP/1.1", *PLAIN, b"transfer-encoding: chunked"]
    data = b"\r\n".join([*lines, b"connection: close", b"", chunks + b"0\r\n\r\n"])
    assert answers(service.port, data)[0] == [200]


def test_what_is_left_of_a_large_request_counts_as_waiting(tmp_path):
    """Many new classes are learned in pieces: else large requests could pile up without limit."""
    requests = [LearnRequest(y=f"label {k}", task="t", x={"a": 1.0}) for k in range(60)]
    with opened(tmp_path / "data", lambda: romco.Model(target="classes")) as service:
        with held(service):
            responses = service.learn(requests)
            counts = service.call_in_writer(lambda served: (served.model.events, service.queued))
        learned, waiting = counts.result()
        assert 0 < learned < 60
        assert waiting == 60 - learned
        assert len(responses.result()) == 60
        assert service.queued == 0
