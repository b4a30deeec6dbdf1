"""Raw HTTP: requests byte by byte, and all that is answered."""

from __future__ import annotations

import json
import re
import socket

BODY = json.dumps({"task": "ann", "x": {"a": 1.0}}).encode()
PLAIN = [b"host: 127.0.0.1", b"content-type: application/json"]
LEARN = b"POST /v1/learn HTTP/1.1"


def request(body=BODY, lines=PLAIN, length=None, start=b"POST /v1/predict HTTP/1.1"):
    lines = [start, *lines, b"content-length: %d" % (len(body) if length is None else length)]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def closing(body=BODY, lines=PLAIN, **more):
    return request(body, [*lines, b"connection: close"], **more)


def receive(line):
    """Return one whole response."""
    with line.makefile("rb") as file:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            text = file.readline()
            assert text, head
            head += text
        return head + file.read(int(re.search(rb"content-length: (\d+)", head)[1]))


def answers(port, *parts, half=False, patience=60.0):
    """Send parts, read until the server closes: statuses, and all bytes."""
    with socket.create_connection(("127.0.0.1", port), timeout=patience) as line:
        got = b""
        try:
            for part in parts:
                line.sendall(part)
            if half:
                line.shutdown(socket.SHUT_WR)
            while data := line.recv(1 << 16):
                got += data
        except (ConnectionResetError, BrokenPipeError):  # closed before all was sent
            pass
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+)", got)], got


def exchange(service, *parts, count=1):
    """Send parts one by one; status, headers and body of each answer."""
    with socket.create_connection(("127.0.0.1", service.port), timeout=60.0) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        file, told = line.makefile("rb"), []
        for part in parts:
            line.sendall(part)
        for _ in range(count):
            status = int(file.readline().split()[1])
            headers = []
            while (text := file.readline()) not in (b"\r\n", b""):
                headers.append(text)
            length = int(re.search(rb"content-length: (\d+)", b"".join(headers))[1])
            told.append((status, headers, file.read(length)))
    return told
