"""`romco serve` as a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path

from romco.server import Client


class Process:
    """A server that was started by the command line; its log is shown where a test fails."""

    def __init__(self, folder: Path, *options: str) -> None:
        command = [sys.executable, "-m", "romco", "serve", "--data", str(folder)]
        command += ["--port", "0", *options]
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env={**os.environ, "NO_COLOR": "1"}
        )
        self.lines: list[str] = []  # of its log, all of them once it has ended
        self._url: Future[str] = Future()
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        self.url = self._url.result()

    def _read_log(self) -> None:
        """Read to the end, so that the server never waits; pytest shows a failed test's stderr."""
        assert self.process.stderr is not None
        with self.process.stderr as log:
            for line in log:
                self.lines.append(line)
                print(f"server {self.process.pid}: {line}", end="", file=sys.stderr)
                found = re.search(r"page: (http://\S+)/", line)
                if found and not self._url.done():
                    self._url.set_result(found[1])
        if not self._url.done():
            text = "".join(self.lines)
            self._url.set_exception(RuntimeError(f"ended with {self.process.wait()}: {text}"))

    def client(self, **options: object) -> Client:
        return Client(self.url, **{"timeout": 60.0, **options}).wait(60.0)

    def end(self, how: signal.Signals) -> int:
        self.process.send_signal(how)
        code = self.process.wait(60.0)
        self._reader.join(60.0)
        return code
