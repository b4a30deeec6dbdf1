"""Exact forgetting: processor time and disk space by the number of events in the log.

``python -m benchmarks.forgetting 10000 100000`` learns events of 1,000 people with 8 features, and
forgets the person of the first event, so that the whole log is replayed.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

import romco
from romco.forgetting import open_service
from romco.server.protocol import LearnRequest, Settings
from romco.server.writer import Service

PEOPLE, FEATURES = 1_000, 8
REQUEST_EVENTS = 1_000
NAMES = [f"f{j}" for j in range(FEATURES)]


def learn(service: Service, events: int) -> None:
    rng = np.random.default_rng(0)
    for _ in range(0, events, REQUEST_EVENTS):
        x = rng.normal(size=(REQUEST_EVENTS, FEATURES))
        task = rng.integers(PEOPLE, size=REQUEST_EVENTS).tolist()
        label = np.where(x[:, 0] + x[:, 1] > 0.0, "yes", "no").tolist()
        group = []
        for row, person, y in zip(x.tolist(), task, label, strict=True):
            features = dict(zip(NAMES, row, strict=True))
            group.append(LearnRequest(task=f"p{person}", x=features, y=y))
        service.learn(group).result()


def measure(events: int, folder: Path) -> str:
    """Return a line of the table."""
    settings = Settings(keep_log=True)
    service = open_service(folder, lambda: romco.Model(classes=("no", "yes")), settings)
    try:
        service.start()
        learn(service, events)
        first = service.served.model.tasks[0]
        begin = time.process_time()
        certificate = service.forget(first, True).result()
        seconds = time.process_time() - begin
    finally:
        service.close()
    size = sum(path.stat().st_size for path in folder.iterdir())
    removed = certificate.removed["events"]
    each = 1e6 * seconds / events
    return f"| {events:,} | {removed:,} | {seconds:.1f} | {each:.0f} | {size / 1e6:,.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("events", type=int, nargs="*", default=[10_000, 100_000])
    options = parser.parse_args()
    print("| events | of the person | CPU s | us an event | MB of the folder |")
    print("|--:|--:|--:|--:|--:|")
    for events in options.events:
        with tempfile.TemporaryDirectory() as folder:
            print(measure(events, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
