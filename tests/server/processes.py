"""`romco serve` as a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from romco.server import Client


class Process:
    """A server that was started by the command line."""

    def __init__(self, folder: Path, *options: str) -> None:
        command = [sys.executable, "-m", "romco", "serve", "--data", str(folder)]
        command += ["--port", "0", *options]
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env={**os.environ, "NO_COLOR": "1"}
        )
        self.lines: list[str] = []
        self.url = self._address()

    def _address(self) -> str:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            found = re.search(r"page: (http://\S+)/", line)
            if found:
                return found[1]
        said = "".join(self.lines)
        raise RuntimeError(f"ended with {self.process.wait(60.0)}: {said}")

    def client(self, **options: object) -> Client:
        return Client(self.url, **{"timeout": 60.0, **options}).wait(60.0)

    def end(self, how: signal.Signals) -> int:
        self.process.send_signal(how)
        code = self.process.wait(60.0)
        assert self.process.stderr is not None
        self.process.stderr.close()
        return code
