"""romco-auto against every learner tuned in hindsight, VW and River, in three orders of events.

``python -m romco_lab.beyond.orders`` measures what is not measured yet, one line of results for
each set and order, and writes the page. Events are those of the file, shuffled, and sorted by task;
of each set the first ``MAX_EVENTS`` of a fixed shuffle, put back into the order of the file.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.io import loadmat
from scipy.sparse import csr_array
from sklearn.metrics import roc_auc_score

from romco.learners import LEARNERS, Learner, learner
from romco.rounds import Rounds
from romco.streams.datasets import data_directory, load
from romco_lab.beyond.ablations import DEVELOPMENT_SETS, orders
from romco_lab.beyond.contest import AUTO, BATCH
from romco_lab.beyond.peers import VW, River, prequential_margins
from romco_lab.learner_runs import equal_trials

MAX_EVENTS = 3_000
MAX_SECONDS = 0.75  # a learner that would take longer for a run is left out
SETTINGS = 4  # of each learner, its default among them
FACTORS = np.geomspace(0.03, 30.0, 31)  # of margins that are no log-odds: the best in hindsight
BINS = 15
CHUNK = 4  # events between two looks at the time
ORDERS = ("file", "shuffled", "by task")
VW_SETTINGS = tuple((step, pairs) for step in (0.1, 0.5) for pairs in (False, True))
RIVER_SETTINGS = tuple((step, tasks) for step in (0.03, 0.3) for tasks in (False, True))
RATES = (0.7, 0.9, 0.97)  # of moving averages of a student's answers
Numbers = NDArray[np.float64]


class Events(NamedTuple):
    """Events of a set in the order of its file."""

    task: NDArray[np.int64]
    x: Any  # (n, d), an array or a CSR array
    y: Numbers  # -1 or +1


def amazon(data: Path) -> Events:
    """Reviews of four kinds of products."""
    files = [
        loadmat(data / "amazon" / f"{kind}_400.mat") for kind in ("books", "dvd", "elec", "kitchen")
    ]
    y = np.concatenate([file["labels"].ravel() for file in files])
    task = np.repeat(np.arange(4), [len(file["labels"]) for file in files])
    x = np.vstack([file["fts"] for file in files]).astype(float)
    return _shuffled(Events(task, x, np.where(y == y.max(), 1.0, -1.0)))


def landmine(data: Path) -> Events:
    """Radar images of 29 fields."""
    file = loadmat(data / "landmine" / "LandmineData.mat")
    labels = [label.ravel() for label in file["label"][0]]
    task = np.repeat(np.arange(len(labels)), [len(label) for label in labels])
    x = np.vstack(list(file["feature"][0])).astype(float)
    return _shuffled(Events(task, x, np.where(np.concatenate(labels) > 0, 1.0, -1.0)))


def enron(data: Path) -> Events:
    """Mail of six people, in order of time; logarithms of word counts."""
    with np.load(data / "enron" / "enron_spam_bow.npz") as file:
        counts = np.log1p(file["data"].astype(float))
        parts = counts, file["indices"].astype(np.int32), file["indptr"]
        x = csr_array(parts, shape=tuple(file["shape"]))
        when = np.argsort(file["date"], kind="stable")
        y = np.where(file["label"] > 0, 1.0, -1.0)
        return Events(file["user"].astype(np.int64)[when], x[when], y[when])


def answers(path: Path, n_students: int) -> Events:
    """Students' answers, with features made by hand from what each answered before."""
    rows = []
    columns = dict[str, int]()
    entries = list[tuple[int, float]]()
    starts = [0]
    students: dict[str, int] = {}
    with gzip.open(path, "rt") as file:
        for line in csv.DictReader(file):
            if line["user"] not in students:
                if len(students) == n_students:
                    break
                students[line["user"]], past = len(students), dict[str, list[float]]()
            correct = int(line["correct"])
            skill = f"skill {line['skill']}"
            item = line["item"]
            features = {skill: 1.0, f"item {item}": 1.0}
            for kind, key in (("all", ""), ("skill", skill), ("item", item)):
                if key in past:
                    right, wrong, *means = past[key]
                    features[f"right, {kind}"] = np.log1p(right)
                    features[f"wrong, {kind}"] = np.log1p(wrong)
                    features |= {f"{k}, {kind}": m - 0.5 for k, m in enumerate(means)}
                seen = past.setdefault(key, [0.0, 0.0, *[0.5] * len(RATES)])
                seen[1 - correct] += 1.0
                seen[2:] = [
                    r * m + (1.0 - r) * correct for r, m in zip(RATES, seen[2:], strict=True)
                ]
            found = [(columns.setdefault(name, len(columns)), v) for name, v in features.items()]
            entries += sorted((place, value) for place, value in found if value)
            starts.append(len(entries))
            rows.append((students[line["user"]], 2.0 * correct - 1.0))
    place, value = zip(*entries, strict=True)
    x = csr_array((np.array(value), np.array(place, np.int32), starts), (len(rows), len(columns)))
    task, y = zip(*rows, strict=True)
    return Events(np.array(task), x, np.array(y))


def _shuffled(events: Events) -> Events:
    order = np.random.default_rng(0).permutation(len(events.y))
    return Events(events.task[order], events.x[order], events.y[order])


def _stored(name: str) -> Callable[[Path], Events]:
    def made(data: Path) -> Events:
        stream = load(name, data)
        return Events(stream.task, stream.x, stream.y)

    return made


SETS: dict[str, Callable[[Path], Events]] = {
    **{name: _stored(name) for name in DEVELOPMENT_SETS},
    "amazon": amazon,
    "landmine": landmine,
    "enron": enron,
    "statics": lambda data: answers(data / "kt" / "statics2011_lpp.csv.gz", 30),
    "assist": lambda data: answers(data / "kt" / "assist2009_lpp.csv.gz", 200),
}


def part(events: Events, n: int) -> Events:
    """Some events of a set, in their order; tasks are numbered anew."""
    chosen = np.sort(np.random.default_rng(1).permutation(len(events.y))[:n])
    task = np.unique(events.task[chosen], return_inverse=True)[1]
    return Events(task, events.x[chosen], events.y[chosen])


def scores(y: Numbers, margins: Numbers) -> dict[str, float]:
    """Log loss, error in %, AUC in %, and expected calibration error in %, of log-odds.

    >>> scores(np.array([1.0, -1.0]), np.array([0.0, 0.0]))["error"]
    50.0
    """
    yes = 0.5 * (1.0 + np.tanh(0.5 * margins))
    bins = np.minimum((yes * BINS).astype(int), BINS - 1)
    gaps = np.bincount(bins, weights=(y > 0) - yes, minlength=BINS)
    return {
        "log_loss": float(np.logaddexp(0.0, -y * margins).mean()),
        "error": 100.0 * float(np.mean((margins >= 0) != (y > 0))),
        "auc": 100.0 * float(roc_auc_score(y > 0, margins)),
        "calibration": 100.0 * float(np.abs(gaps).sum() / len(y)),
    }


def rivals(rounds: Rounds, n_tasks: int) -> Iterator[tuple[str, Numbers]]:
    """Name and margins of each rival with each of its settings."""
    n = len(rounds.y)
    d = rounds.x.shape[1]
    for name, method in LEARNERS.items():
        if name in (AUTO, *BATCH) or method.target != "two classes":
            continue
        for setting in equal_trials(name, SETTINGS):
            margins = _replay(learner(name, d, n_tasks, **setting), rounds)
            if margins is None:
                break
            if np.isfinite(margins).all():
                yield name, margins
    for step, pairs in VW_SETTINGS:
        yield "VW", prequential_margins(VW(rounds, "logistic", step, pairs), n)
    for step, tasks in RIVER_SETTINGS:
        yield "River", prequential_margins(River(rounds, step, tasks), n)


def _replay(rival: Learner, rounds: Rounds) -> Numbers | None:
    """Margins of a learner, None where it takes too long."""
    start = time.process_time()
    parts = []
    for first in range(0, len(rounds.y), CHUNK):
        if time.process_time() - start > MAX_SECONDS:
            return None
        parts.append(rival.replay(rounds[first : first + CHUNK]))
    return np.concatenate(parts)


def measure(name: str, order: str, data: Path) -> dict[str, Any]:
    """Scores of romco-auto and of each rival at its best, by log loss."""
    events = part(SETS[name](data), MAX_EVENTS)
    at = orders(events.task)[ORDERS.index(order)]
    n_tasks = int(events.task.max()) + 1
    rounds = Rounds(events.task[at], events.x[at], events.y[at], np.arange(len(at) + 1))
    margins = learner(AUTO, rounds.x.shape[1], n_tasks).replay(rounds)
    found = {AUTO: scores(rounds.y, margins)}
    for rival, margins in rivals(rounds, n_tasks):
        loss = [np.logaddexp(0.0, -factor * rounds.y * margins).mean() for factor in FACTORS]
        one = scores(rounds.y, FACTORS[int(np.argmin(loss))] * margins)
        best = found.setdefault(rival, one)
        if one["log_loss"] < best["log_loss"]:
            found[rival] = {**one, "error": min(one["error"], best["error"])}
        best["error"] = min(one["error"], best["error"])
    return {"set": name, "order": order, "events": len(at), "tasks": n_tasks, "scores": found}


HEAD = f"""# Three orders of events

romco-auto as it is, beside all learners of this package, Vowpal Wabbit and River, each with the
best of its settings ({SETTINGS}, of the last two {len(VW_SETTINGS)}) *in hindsight on these very
events*: lowest log loss, and of all settings the lowest error. The rivals' margins are multiplied
by the factor that is best in hindsight. At most {MAX_EVENTS:,} events of each set, each predicted,
then learned, in the order of the file, shuffled, and sorted by task. All sets but amazon and
enron were looked at in development, statics and assist by their first students. Batch methods,
and learners that would have taken longer than {MAX_SECONDS:g} s for a run, were left out. Written
by `python -m romco_lab.beyond.orders`.

*Log loss / error, % / AUC, % / expected calibration error, points ({BINS} bins).*

"""


def page(lines: list[dict[str, Any]]) -> str:
    """The page of what was measured."""
    head = ("set", "order", "tasks", "romco-auto", "best other learner", "VW", "River")
    rows = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    ratios = []
    for line in lines:
        found = line["scores"]
        others = {k: v for k, v in found.items() if k not in (AUTO, "VW", "River")}
        other = min(others, key=lambda k: others[k]["log_loss"])
        rival = min(v["log_loss"] for k, v in found.items() if k != AUTO)
        ratios.append(found[AUTO]["log_loss"] / rival)
        cells = [f"{other} {_cell(found[other])}", _cell(found["VW"]), _cell(found["River"])]
        rows.append(
            f"| {line['set']} | {line['order']} | {line['tasks']} | {_cell(found[AUTO])} | "
            + " | ".join(cells)
            + " |"
        )
    best = sum(ratio <= 1.0 for ratio in ratios)
    note = (
        f"\nromco-auto has the lowest log loss in {best} of {len(ratios)} rows; log loss over that "
        f"of the best rival: {np.median(ratios):.3f} in the middle, {max(ratios):.3f} at most.\n"
    )
    return HEAD + "\n".join(rows) + "\n" + note


def _cell(one: dict[str, float]) -> str:
    parts = (f"{one['log_loss']:.3f}", f"{one['error']:.1f}", f"{one['auc']:.1f}")
    return " / ".join((*parts, f"{one['calibration']:.1f}"))


def main() -> None:
    """Measure, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("results/orders.jsonl"))
    parser.add_argument("--page", type=Path, default=Path("docs/beyond/orders.md"))
    chosen = parser.parse_args()
    chosen.results.parent.mkdir(parents=True, exist_ok=True)
    chosen.results.touch()
    lines = [json.loads(line) for line in chosen.results.read_text().splitlines()]
    sets = list(SETS)
    done = {(line["set"], line["order"]) for line in lines}
    for order in ORDERS:
        for name in SETS:
            if (name, order) not in done:
                line = measure(name, order, data_directory())
                lines.append(line)
                with chosen.results.open("a") as file:
                    file.write(json.dumps(line) + "\n")
                lines.sort(key=lambda one: (sets.index(one["set"]), ORDERS.index(one["order"])))
                chosen.page.write_text(page(lines))


if __name__ == "__main__":
    main()
