"""A fuzzer of the service: mutated requests, byte by byte, to a server in this process.

Each connection sends one request whose JSON, path or bytes were changed, and nothing more. It is
answered by a status below 500, or closed. After MAX_CHANGES changes a new server takes over, so
that what is learned does not hide memory that is never given back.
"""

import re
import resource
import socket
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

from numpy.random import Generator

from romco import Model
from romco.forgetting import open_service
from romco.server.app import Server
from romco.server.protocol import Settings
from romco.server.routes import ROUTES, Access
from romco_lab.fuzz.files import File
from romco_lab.fuzz.mutations import one_of
from romco_lab.fuzz.strangers import retyped

EVENT = '{"id": "e1", "task": "user1", "x": {"a": 1.5, "b": "red", "c": null}, "y": "yes"}'
PREDICTED = EVENT.replace(', "y": "yes"', "")
BODIES = {
    "predict": (PREDICTED, f"[{PREDICTED}, {PREDICTED}]"),
    "learn": (EVENT, f"[{EVENT}, {EVENT}]", '{"id": "e1", "y": "no"}'),
    "explain": (PREDICTED,),
    "choose": ('{"id": "c1", "task": "user1", "x": {"a": 1.5}, "actions": ["a", "b"]}',),
    "reward": ('{"id": "c1", "reward": 1}',),
}
QUERIES = ("", "", "?limit=3&order=events", "?exact=true", "?search=u&offset=1&descending=true")
BYTES = (b"", b"\0", b"\r\n", b"\n", b" ", b"\xff", b"%00", b"%2F", b"{", b"9" * 400, b"a" * 70_000)
MAX_CHANGES = 2000  # learned by one server
SETTLED = 2000  # requests after which memory is constant,
SLACK = 128 * 2**20  # but for so many bytes
SECONDS = 60.0  # in which any request is answered


class Target:
    """A server in a thread, with a model that knows two labels."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        settings = Settings("none", ids=1000, pending_events=1000)
        self.service = open_service(Path(self.folder.name) / "data", _model, settings)
        self.server = Server(self.service, Access(), "127.0.0.1")
        self.thread = threading.Thread(target=self.server.run)
        self.thread.start()
        while not self.server.uvicorn.started:
            self.thread.join(0.01)

    def stop(self) -> None:
        self.server.uvicorn.should_exit = True
        self.thread.join(SECONDS)
        self.folder.cleanup()


class Targets:
    """One server after the other, and how many requests there were."""

    def __init__(self) -> None:
        self.now: Target | None = None
        self.requests = self.settled_bytes = 0

    def port(self) -> int:
        if self.now is not None and self.now.service.served.sequence > MAX_CHANGES:
            self.stop()
        if self.now is None:
            self.now = Target()
        return self.now.server.port

    def stop(self) -> None:
        if self.now is not None:
            self.now.stop()
            self.now = None

    def count(self) -> None:
        """Count a request; memory may not grow with their number."""
        self.requests += 1
        if self.requests == SETTLED:
            self.settled_bytes = _resident_bytes()
        if self.requests > SETTLED and self.requests % 1000 == 0:
            grown = _resident_bytes() - self.settled_bytes
            assert grown < SLACK, f"{grown:,} bytes more after {self.requests:,} requests"


TARGETS = Targets()


def try_request(rng: Generator, seeds: list[File], folder: Path) -> str:
    """Send one mutated request; any status below 500 will do."""
    sent = mutated(rng)
    answer = _exchange(TARGETS.port(), sent)
    TARGETS.count()
    statuses = [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", answer)]
    assert all(status < 500 for status in statuses), (sent[:2000], answer[:2000])
    if 200 in statuses:
        return "used"
    return "refused"


def mutated(rng: Generator) -> bytes:
    """A request of any route with a changed body, path or bytes, or two of them."""
    route = one_of(rng, ROUTES)
    body = one_of(rng, BODIES.get(route.name, ("",)))
    path = route.path.replace("{task}", "user1") + one_of(rng, QUERIES)
    while rng.random() < 0.7:
        body = retyped(rng, body)
    if rng.random() < 0.2:
        path = path.replace("user1", f"user{rng.integers(5)}")
    content = body.encode("utf-8", "surrogatepass")
    head = [f"{route.method} {path} HTTP/1.1", "host: 127.0.0.1", "content-type: application/json"]
    head.append(f"content-length: {len(content)}")
    whole = "\r\n".join(head).encode() + b"\r\n\r\n" + content
    while rng.random() < 0.4:
        begin, end = sorted(rng.integers(len(whole) + 1, size=2).tolist())
        end = min(end, begin + int(rng.integers(8)))
        whole = whole[:begin] + one_of(rng, BYTES) + whole[end:]
    return whole


def _exchange(port: int, sent: bytes) -> bytes:
    """Send all and nothing more; return what is answered until the server closes."""
    found = b""
    address = ("127.0.0.1", port)
    closed = suppress(ConnectionError)  # before all was sent
    with closed, socket.create_connection(address, timeout=SECONDS) as line:
        line.sendall(sent)
        with suppress(OSError):  # not connected any more
            line.shutdown(socket.SHUT_WR)
        while data := line.recv(1 << 16):
            found += data
    return found


def _model() -> Model:
    return Model(classes=("no", "yes"))


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
