"""romco-auto on the newer data sets and in order of time, beside peers of other packages.

``development(stream)`` is the first half of a set in the order of its file, to be looked at while
romco-auto is changed; what is reported is measured on ``test(stream)``, the second half.
``python -m romco_lab.beyond.newer`` measures what is not measured yet and writes the page.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, hstack
from sklearn.metrics import roc_auc_score

from romco.learners import learner
from romco.presentation.tables import Cell, Table, mark_best, markdown
from romco.rounds import Rounds
from romco.streams import Stream, synchronous
from romco.streams.datasets import load
from romco_lab.beyond.ablations import ABLATIONS, variant
from romco_lab.beyond.contest import TEST
from romco_lab.beyond.newcomers import first_events
from romco_lab.beyond.peers import VW, Margins, Own, Peer, River, prequential_margins
from romco_lab.datasets import fars, flights, nlswork, star, swissmetro

MOST = 6_000  # events of a set that is in no order of time: enough to tell, and quick
STEPS = (0.01, 0.03, 0.1, 0.3)
VW_GRID = (  # loss, step, whether features are crossed with tasks
    ("logistic", 0.1, False),
    ("logistic", 0.5, False),
    ("logistic", 0.1, True),
    ("logistic", 0.5, True),
    ("hinge", 0.1, True),
    ("hinge", 0.5, True),
)
Make = Callable[[Rounds, int], Peer]
OLDER = ("spam", "emails", "mhc", "movies")
POWERS = "columns times 10^k"  # k from -6 to 6, another one for each
CONSTANT = "and a column of 10^6"
NEWCOMERS = ("emails", "mhc", "movies", "fars", "star")
SETS: dict[str, Callable[..., Stream]] = {
    "swissmetro": swissmetro.load,
    "fars": fars.load,
    "nlswork": nlswork.load,
    "star": star.load,
}


class Entry(NamedTuple):
    """One run: which events, who learns them, and how late answers come."""

    stream: str
    peer: str
    make: Make
    scaled: bool = True
    delay: int = 0
    change: str = ""  # of the columns, before the stream starts

    @property
    def name(self) -> str:
        """Of its line in the results."""
        units = self.change or ("standardised" if self.scaled else "raw")
        return f"{self.stream}, {units}, {self.delay} late: {self.peer}"


def development(stream: Stream) -> Rounds:
    """The first half, one event at a time."""
    return _events(stream, slice(0, stream.n_events // 2))


def test(stream: Stream) -> Rounds:
    """The second half, one event at a time."""
    return _events(stream, slice(stream.n_events // 2, stream.n_events))


def _events(stream: Stream, part: slice) -> Rounds:
    n = part.stop - part.start
    return Rounds(stream.task[part], stream.x[part], stream.y[part], np.arange(n + 1))


def peers() -> Iterator[tuple[str, Make]]:
    """Rivals with every setting that is tried; the best in hindsight is reported."""
    for c in (0.01, 0.03, 0.1, 0.3, 1.0):
        yield f"pa-shared C={c}", partial(_own, "pa-shared", {"C": c})
    for r in (0.3, 1.0, 3.0, 10.0):
        yield f"arow-shared r={r}", partial(_own, "arow-shared", {"r": r})
    for tasks in (False, True):
        for step in STEPS:
            kind = "one-hot task" if tasks else "global"
            yield f"River {kind} step={step}", partial(_river, step, tasks)
    for loss, step, pairs in VW_GRID:
        name = f"VW {loss} step={step}{' -q' if pairs else ''}"
        yield name, partial(_vw, loss, step, pairs)


def _own(name: str, parameters: dict[str, float], rounds: Rounds, n_tasks: int) -> Peer:
    return Own(learner(name, rounds.x.shape[1], n_tasks, **parameters), rounds)


def _part(name: str, rounds: Rounds, n_tasks: int) -> Peer:
    return Own(variant(name, rounds.x.shape[1], n_tasks), rounds)


def _river(step: float, tasks: bool, rounds: Rounds, n_tasks: int) -> Peer:
    return River(rounds, step, tasks)


def _vw(loss: str, step: float, pairs: bool, rounds: Rounds, n_tasks: int) -> Peer:
    return VW(rounds, loss, step, pairs)


def plan() -> Iterator[Entry]:
    """All runs, the quickest sets first."""
    auto: tuple[str, Make] = "romco-auto", partial(_own, "romco-auto", {})
    for stream in (*SETS, "flights"):
        for change in (POWERS, CONSTANT):
            yield Entry(stream, *auto, change=change)
        for part in ABLATIONS:
            yield Entry(stream, part, partial(_part, part))
    for stream in SETS:
        yield Entry(stream, *auto, scaled=False)
        for peer in (auto, *peers()):
            yield Entry(stream, *peer)
    yield Entry("flights", *auto, scaled=False)
    for peer in (auto, *peers()):
        yield Entry("flights", *peer)
    for name, make in (auto, *peers()):
        if name.startswith(("romco-auto", "River global")):
            yield Entry("flights", name, make, delay=1000)


def measure(entry: Entry, data_dir: Path | None) -> dict[str, Any]:
    """Error, log loss and area under the ROC curve of a run on test data."""
    loader = flights.load if entry.stream == "flights" else SETS[entry.stream]
    stream = loader(data_dir, scaled=entry.scaled)
    rounds = test(stream)
    if entry.stream != "flights":
        rounds = rounds[:MOST]
    n = len(rounds)
    x = changed(rounds.x[:n], entry.change)
    rounds = Rounds(rounds.task[:n], x, rounds.y[:n], np.arange(n + 1))
    peer = entry.make(rounds, stream.n_tasks)
    if isinstance(peer, Own) and not entry.delay:  # the same, compiled
        margins = peer.learner.replay(rounds)
    else:
        margins = prequential_margins(peer, n, entry.delay)
    return {"name": entry.name, "events": n, **scores(rounds.y, margins)}


def changed(x: Any, change: str) -> Any:
    """Rows (n, d) with columns in other units, or with one more that is constant."""
    x = csr_array(x)
    if change == POWERS:
        power = np.random.default_rng(0).integers(-6, 7, size=x.shape[1])
        return csr_array((x.data * 10.0 ** power[x.indices], x.indices, x.indptr), shape=x.shape)
    if change == CONSTANT:
        return csr_array(hstack([x, np.full((x.shape[0], 1), 1e6)]))
    return x


def scores(y: Margins, margins: Margins) -> dict[str, float]:
    """Error in %, log loss of margins as log-odds, and AUC in %."""
    return {
        "error": 100 * float(np.mean((margins >= 0) != (y > 0))),
        "log_loss": float(np.mean(np.logaddexp(0.0, -y * margins))),
        "auc": 100 * float(roc_auc_score(y > 0, margins)),
    }


def run(results: Path, data_dir: Path | None) -> None:
    """Measure what is not measured yet; one line for each run."""
    done = read(results)
    waiting = [(entry.name, partial(measure, entry, data_dir)) for entry in plan()]
    waiting += [(f"older: {name}", partial(older, name, data_dir)) for name in OLDER]
    waiting += [(f"newcomers: {name}", partial(newcomers, name, data_dir)) for name in NEWCOMERS]
    for name, measured in waiting:
        if name not in done:
            with results.open("a") as file:
                file.write(json.dumps({**measured(), "name": name}) + "\n")


def older(name: str, data_dir: Path | None) -> dict[str, Any]:
    """Macro error of romco-auto on the test shuffles of an older set."""
    stream = load(name, data_dir)
    found = []
    for seed in TEST:
        rounds = synchronous(stream, seed)
        margins = learner("romco-auto", stream.n_features, stream.n_tasks).replay(rounds)
        wrong = (margins >= 0) != (rounds.y > 0)
        found.append(np.mean([wrong[rounds.task == i].mean() for i in range(stream.n_tasks)]))
    return {"error": 100 * float(np.mean(found))}


def newcomers(name: str, data_dir: Path | None) -> dict[str, Any]:
    """First events of tasks held out in folds, told of tasks and not; fresh shuffles."""
    stream = load(name, data_dir)
    told, untold = (
        np.mean([first_events(stream, way, 3000, seed) for seed in TEST], axis=0)
        for way in (True, False)
    )
    return {"told": told.tolist(), "untold": untold.tolist()}


def read(results: Path) -> dict[str, dict[str, Any]]:
    """Runs by name."""
    if not results.exists():
        return {}
    return {line["name"]: line for line in map(json.loads, results.read_text().splitlines())}


HEAD = f"""# Newer data sets and order of time

Second halves of the sets in the order of their files (at most {MOST:,} events of those in no order
of time), each event predicted, then learned; romco-auto as it is, the others with
the best of the settings tried *in hindsight on these very events*: lowest error, and beside it
the family's lowest log loss and highest AUC. **Only flights are held-out data**: nothing but their
first half was used in development. The other sets are development data: their rows show that
nothing broke, not how well it carries over.
Where answers come late, romco-auto is told what it had said of the event (`update_delayed`).
Written by `python -m romco_lab.beyond.newer` from stored results; what is missing was not run.

"""


def page(done: dict[str, dict[str, Any]]) -> str:
    """What was measured, as a page."""
    tables = [_table(stream, done) for stream in (*SETS, "flights")]
    tables += [_unit_table(done), _part_table(done), _older_table(done), _newcomer_table(done)]
    return HEAD + "\n".join(markdown(table) for table in tables if table.rows)


def _unit_table(done: dict[str, dict[str, Any]]) -> Table:
    """Error in whatever units."""
    units = ("standardised", "raw", POWERS, CONSTANT)
    rows = []
    for stream in (*SETS, "flights"):
        found = [done.get(f"{stream}, {unit}, 0 late: romco-auto") for unit in units]
        if all(found):
            rows.append([stream, *(f"{line['error']:.2f}" for line in found if line)])
    note = "k from -6 to 6, another one for each column; both changes after standardising"
    return Table("Units: error of romco-auto, %", ("data set", *units), _plain(rows), [note])


def _part_table(done: dict[str, dict[str, Any]]) -> Table:
    """What each part is worth."""
    sets = (*SETS, "flights")
    rows = [["romco-auto", *(_error_and_loss(done, stream, "romco-auto") for stream in sets)]]
    rows += [
        [part, *(_error_and_loss(done, stream, part) for stream in sets)] for part in ABLATIONS
    ]
    rows = [row for row in rows if any(row[1:])]
    return Table("Without a part: error, % / log loss", ("learner", *sets), _plain(rows))


def _error_and_loss(done: dict[str, dict[str, Any]], stream: str, learner: str) -> str:
    line = done.get(f"{stream}, standardised, 0 late: {learner}")
    if line:
        return f"{line['error']:.2f} / {line['log_loss']:.4f}"
    return ""


def _plain(rows: list[list[str]]) -> list[list[Cell]]:
    if rows:
        return mark_best(rows, (None,) * len(rows[0]))
    return []


def _older_table(done: dict[str, dict[str, Any]]) -> Table:
    rows = [
        [name, f"{now:.2f}"]
        for name in OLDER
        if (now := done.get(f"older: {name}", {}).get("error"))
    ]
    head = ("data set", "romco-auto")
    note = "macro error, %, on the ten test shuffles of [the older sets](report.md)"
    return Table("The older sets", head, _plain(rows), [note])


def _newcomer_table(done: dict[str, dict[str, Any]]) -> Table:
    rows = []
    for name in NEWCOMERS:
        if line := done.get(f"newcomers: {name}"):
            cells = [f"{e:.2f} / {a:.1f}" for e, a in (line["told"], line["untold"])]
            rows.append([name, *cells])
    head = ("data set", "told of tasks", "told of none")
    note = (
        "error / AUC, %, of the first 10 events of tasks held out in folds, after 3,000 events; "
        f"{len(TEST)} shuffles"
    )
    return Table("Newcomers", head, mark_best(rows, (None,) * 3), [note])


def _table(stream: str, done: dict[str, dict[str, Any]]) -> Table:
    rows: list[list[Any]] = []
    for delay in (0, 1000):
        for units in ("raw", "standardised"):
            found = [
                (name.split(": ")[1], line)
                for name, line in done.items()
                if name.startswith(f"{stream}, {units}, {delay} late")
                and not name.endswith(tuple(ABLATIONS))
            ]
            rows += _best(found, units, delay)
    head = ("learner", "units", "answers", "error, %", "log loss", "AUC, %")
    events = max((line["events"] for n, line in done.items() if n.startswith(stream)), default=0)
    return Table(f"{stream}: {events:,} events", head, mark_best(rows, (None,) * len(head)))


def _best(found: list[tuple[str, dict[str, Any]]], units: str, delay: int) -> Iterator[list[Any]]:
    """Of each family of settings the one of lowest error, and its lowest log loss and best AUC."""
    families: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for name, line in found:
        families.setdefault(name.split(" ")[0], []).append((name, line))
    for runs in families.values():
        name, least = min(runs, key=lambda pair: pair[1]["error"])
        loss = min(line["log_loss"] for _, line in runs)
        auc = max(line["auc"] for _, line in runs)
        late = f"{delay:,} events later" if delay else "at once"
        yield [name, units, late, f"{least['error']:.2f}", f"{loss:.4f}", f"{auc:.1f}"]


def main() -> None:
    """Measure, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("results/newer.jsonl"))
    parser.add_argument("--page", type=Path, default=Path("docs/beyond/newer.md"))
    parser.add_argument("--data-dir", type=Path, default=None)
    chosen = parser.parse_args()
    chosen.results.parent.mkdir(parents=True, exist_ok=True)
    run(chosen.results, chosen.data_dir)
    chosen.page.write_text(page(read(chosen.results)))


if __name__ == "__main__":
    main()
