"""``python -m romco_lab.server_demo``: a server is killed half-way, and nothing is lost.

200 users are predicted, and answer later. Half-way the server is killed by SIGKILL and started
again. At the end its model is compared, bit for bit, with one that learned the same answers in
one go.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from romco.files import load
from romco.model import Model
from romco.server.client import Client

USERS, LATE, AT_ONCE = 200, 400, 40  # answers come 400 events late, 40 at a time


def stream(n: int, seed: int = 0) -> list[dict[str, Any]]:
    """Events of users of whom one in ten likes what the others do not."""
    draw = Random(seed)
    made = []
    for k in range(n):
        user = draw.randrange(USERS)
        x = {f"topic{draw.randrange(40)}": round(draw.gauss(0.0, 1.0), 3) for _ in range(6)}
        liked = sum(v if int(name[5:]) % 3 else -v for name, v in x.items()) > 0
        y = "likes" if liked != (user % 10 == 0) else "passes"
        made.append({"id": f"event{k}", "task": f"user{user}", "x": x, "y": y})
    return made


@contextmanager
def server(folder: Path, port: int = 0) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """``romco serve`` in a process of its own, and its address."""
    command = [sys.executable, "-m", "romco", "serve", "--data", str(folder), "--port", str(port)]
    process = subprocess.Popen(
        [*command, "--classes", "passes,likes"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "NO_COLOR": "1"},
    )
    assert process.stderr is not None
    try:
        said = []
        for line in process.stderr:
            said.append(line)
            if found := re.search(r"http://\S+", line):
                yield process, found[0]
                return
        raise RuntimeError("".join(said))
    finally:
        process.terminate()
        process.wait(60.0)
        process.stderr.close()


def play(client: Client, events: list[dict[str, Any]], begin: int, end: int) -> None:
    """Predict events, and send the answers of those that were predicted LATE events ago."""
    for at in range(begin, end, AT_ONCE):
        some = events[at : at + AT_ONCE]
        client.predict([{name: e[name] for name in ("id", "task", "x")} for e in some])
        late = events[max(0, at - LATE) : max(0, at - LATE + AT_ONCE)]
        client.learn([{"id": e["id"], "y": e["y"]} for e in late])


def main(n: int = 8000) -> None:
    """Play, kill, restart, compare."""
    events = stream(n)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with server(folder / "data") as (process, url), Client(url) as client:
            print(f"page: {url}", flush=True)
            play(client, events, 0, n // 2)
            process.send_signal(signal.SIGKILL)
            process.wait(60.0)
        port = int(url.rstrip("/").rpartition(":")[2])
        print(f"killed with signal 9 after {n // 2:,} of {n:,} events; starting again", flush=True)
        with server(folder / "data", port) as (_, url), Client(url) as client:
            print(f"page: {url}", flush=True)
            play(client, events, n // 2, n)
            told = client.learn([{"id": e["id"], "y": e["y"]} for e in events])  # all once more
            client.model(folder / "served.romco")
            twice = sum(outcome["status"] == "duplicate" for outcome in told)
            print(f"all {n:,} answers sent again: {twice:,} were known", flush=True)
        _compare(load(folder / "served.romco"), events)


def uninterrupted(events: list[dict[str, Any]]) -> Model:
    """A model that predicts and learns the same, in the same order, and is never killed."""
    model, answered = Model("romco-auto", classes=("passes", "likes")), 0
    for at in range(0, len(events), AT_ONCE):
        some = events[at : at + AT_ONCE]
        rows = [e["x"] for e in some]
        tasks = [e["task"] for e in some]
        model.predict(rows, tasks, id=[e["id"] for e in some])
        while answered < at - LATE + AT_ONCE:
            model.answer(events[answered]["id"], events[answered]["y"])
            answered += 1
    for event in events[answered:]:
        model.answer(event["id"], event["y"])
    return model


def _compare(served: Model, events: list[dict[str, Any]]) -> None:
    whole = uninterrupted(events)
    ours = whole.state()
    theirs = served.state()
    arrays = ours.pop("arrays")
    others = theirs.pop("arrays")
    same = ours == theirs and all(np.array_equal(arrays[name], others[name]) for name in arrays)
    print(f"{served.events:,} events learned by the server, {whole.events:,} by a model in one go")
    print("same bits" if same else "THE BITS DIFFER")
    if not same:
        sys.exit(1)


if __name__ == "__main__":
    main()
