"""Tables of the report beyond the paper, from stored results."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romco.compare.controls import title_of
from romco.compare.results import Finished
from romco.learners import LEARNERS
from romco.presentation.tables import Table, mark_best
from romco_lab.beyond.ablations import ABLATIONS, SINGLE
from romco_lab.beyond.contest import AUTO, LATE_LEARNERS, PEERS, Contest, mean_error
from romco_lab.beyond.scenes import CLAIMS, CROWDS, INTERCEPT, RARE, late_tasks
from romco_lab.learner_runs import paired

Numbers = NDArray[np.float64]
FIRST = (10, 20, 50)  # events of a new task


def errors(files: Sequence[Finished]) -> Numbers:
    """Macro errors, one per shuffle."""
    return np.array([file.error() for file in files])


def score(files: Sequence[Finished], name: str) -> float:
    """Mean over shuffles of a score."""
    return float(np.mean([file.last["scores"][name] for file in files]))


def error_table(contest: Contest) -> Table:
    """Every learner's error with its best setting."""
    rows = [
        [title_of(name), *(_percent(contest.best(dataset, name)) for dataset in contest.datasets)]
        for name in LEARNERS
        if all(contest.stored(dataset, name) for dataset in contest.datasets)
    ]
    title = "Macro error, %; all but ROMCO-Auto tuned in hindsight"
    return _table(title, contest.datasets, rows)


def difference_table(contest: Contest) -> Table:
    """ROMCO-Auto against every other learner."""
    title = "ROMCO-Auto minus the learner, points of %: mean [95 % interval], shuffles won"
    names = [
        name
        for name in LEARNERS
        if name != AUTO and all(contest.stored(dataset, name) for dataset in contest.datasets)
    ]
    if not names:
        raise FileNotFoundError("no runs of peers")
    return _against(contest, title, {name: title_of(name) for name in names}, contest.best)


def intercept_table(contest: Contest) -> Table:
    """ROMCO-Auto against peers whose events have a constant feature."""

    def files_of(dataset: str, name: str) -> list[Finished]:
        return contest.best(dataset + INTERCEPT, name)

    title = "Error of peers that are given a constant feature, %, and ROMCO-Auto minus it"
    names = {name: f"{title_of(name)} with intercept" for name in PEERS}
    return _against(contest, title, names, files_of, with_error=True)


def ablation_table(contest: Contest) -> Table:
    """Return the table of what each part is worth."""
    title = "Error without a part, %, and the whole minus it (negative: the part helps)"
    names = {name: name.replace("auto", "ROMCO-Auto") for name in ABLATIONS}
    return _against(contest, title, names, contest.default, with_error=True)


def claims_table(contest: Contest) -> Table:
    """Simulated streams: error of ROMCO-Auto and of what it must not lose to."""
    names = ("arow-unique", "arow-global", "arow-shared")
    rows = []
    for claim in CLAIMS:
        if any(contest.stored(claim, name) is None for name in names):  # not run yet
            continue
        cells: list[Any] = [claim, _percent(contest.best(claim, AUTO))]
        for name in names:
            tuned = contest.best(claim, name)
            plain = contest.default(claim, name)
            cells.append(f"{_percent(plain)[0]} / {_percent(tuned)[0]}")
        rows.append(cells)
    head = ("stream", "ROMCO-Auto", *(f"{title_of(n)}: default / tuned" for n in names))
    note = (
        "20 tasks, 50 features, 400 events per task (changing: 1000, in order); a new stream for "
        "each shuffle"
    )
    cells = mark_best(rows, (None,) * len(head))
    return Table("Macro error on simulated streams, %", head, cells, [note])


def ranking_table(contest: Contest) -> Table:
    """Area under the ROC curve with 3 % positives, all events pooled."""
    rows = []
    for claim in RARE:
        for key, what in (("auc", "all"), ("auc_late", "without the first 10 rounds")):
            auto = 100 * score(contest.best(claim, AUTO), key)
            single = [100 * score(contest.default(claim, name), key) for name in SINGLE]
            peers = [
                100 * score(contest.default(claim, n), key) for n in ("arow-global", "arow-unique")
            ]
            rows.append([claim, what, *(f"{v:.2f}" for v in (auto, *single, *peers))])
    peers_head = ("AROW-Global", "AROW-Unique")
    head = ("stream", "events", "ROMCO-Auto", *(n.removeprefix("only ") for n in SINGLE))
    title = "Area under the ROC curve, %: ROMCO-Auto, its five copies each alone, two peers"
    return Table(title, (*head, *peers_head), mark_best(rows, (None,) * (len(head) + 2)))


def cold_table(contest: Contest) -> Table:
    """Error over the first events of tasks that appear in mid-stream."""
    rows = []
    for dataset in contest.datasets:
        for name in LATE_LEARNERS:
            if cells := _first_events(contest, dataset, name):
                rows.append([dataset, title_of(name), *cells])
    head = ("data set", "learner", *(f"first {n}" for n in FIRST))
    notes = ["every fourth task appears when a task of median length is half done; peers as tuned"]
    shown = mark_best(rows, (None,) * len(head))
    return Table("Error over the first events of a new task, %", head, shown, notes)


def _first_events(contest: Contest, dataset: str, name: str) -> list[str]:
    if contest.stored(dataset, name) is None:
        return []
    found = [early(file, late=True) for file in contest.late(dataset, name)]
    return [f"{mean:.1f}" for mean in 100 * np.mean(found, axis=0)]


def early(file: Finished, late: bool) -> list[float]:
    """Error over the first 10, 20, 50 events of the late tasks, or of all."""
    wrong, events = (np.array(part) for part in file.last["scores"]["by_turn"])
    kept = late_tasks(wrong.shape[1], file.run.seed) if late else slice(None)
    sums = [np.cumsum(part[:, kept].sum(axis=1)) for part in (wrong, events)]
    return [float(sums[0][k] / sums[1][k]) for k in (1, 2, 3)]  # as EDGES has 5, 10, 20, 50


def cost_table(contest: Contest) -> Table:
    """Time per event, and as a ratio within one process to AROW-Shared."""
    rows = []
    for dataset in contest.datasets:
        auto = contest.best(dataset, AUTO)
        other = contest.default(dataset, "arow-shared")
        rows.append([dataset, *_costs(auto, other), ""])
    for dataset in CROWDS:
        auto = contest.crowd(dataset, AUTO)
        other = contest.crowd(dataset, "arow-shared")
        size = [f"{file[0].end['megabytes']:.0f}" for file in (auto, other)]
        rows.append([f"{dataset}, 2^18 features", *_costs(auto, other), " / ".join(size)])
    head = ("stream", "ROMCO-Auto, us", "AROW-Shared, us", "ratio", "state, MB: auto / shared")
    note = "processor time to predict and learn one event, medians over shuffles, one thread"
    return Table("Cost of an event", head, mark_best(rows, (None,) * len(head)), [note])


def ratio(auto: Sequence[Finished], other: Sequence[Finished]) -> float:
    """Median over shuffles of the times' ratio."""
    times = [np.array([file.last["seconds"] for file in files]) for files in (auto, other)]
    return float(np.median(times[0] / times[1]))


def per_event(files: Sequence[Finished]) -> float:
    """Median microseconds."""
    return float(np.median([1e6 * file.last["seconds"] / file.last["events"] for file in files]))


def calibration_table(contest: Contest) -> Table:
    """Brier scores."""
    rows = []
    for dataset in contest.datasets:
        files = contest.best(dataset, AUTO)
        bins = np.sum([file.last["scores"]["bins"] for file in files], axis=0)
        share = bins[:, 2].sum() / bins[:, 0].sum()
        gap = np.abs(bins[:, 1] - bins[:, 2]).sum() / bins[:, 0].sum()
        brier = score(files, "brier")
        rows.append([dataset, f"{brier:.4f}", f"{share * (1 - share):.4f}", f"{100 * gap:.2f}"])
    head = ("data set", "Brier score", "of the share of positives", "calibration error, points")
    return Table("Probabilities of ROMCO-Auto", head, mark_best(rows, (None,) * 4))


def _costs(auto: Sequence[Finished], other: Sequence[Finished]) -> list[str]:
    return [f"{per_event(auto):.1f}", f"{per_event(other):.1f}", f"{ratio(auto, other):.1f}"]


def _percent(files: Sequence[Finished]) -> tuple[str, float]:
    mean = 100 * mean_error(list(files))
    if np.isfinite(mean):
        return (f"{mean:.2f}", mean)
    return ("failed", np.nan)


def _against(
    contest: Contest,
    title: str,
    names: Mapping[str, str],
    files_of: Callable[[str, str], list[Finished]],
    with_error: bool = False,
) -> Table:
    """Return a table of ROMCO-Auto minus each name; ``with_error`` puts that error before."""

    def cell(dataset: str, name: str) -> str:
        files = files_of(dataset, name)
        if any(file.failed for file in files):
            return "failed"
        prefix = f"{_percent(files)[0]}: " if with_error else ""
        auto = errors(contest.best(dataset, AUTO))[: len(files)]
        return f"{prefix}{paired(auto, errors(files))}"

    rows = [
        [label, *(cell(dataset, name) for dataset in contest.datasets)]
        for name, label in names.items()
    ]
    return _table(title, contest.datasets, rows, best=None)


def _table(
    title: str, datasets: Sequence[str], rows: Sequence[Sequence[Any]], best: int | None = -1
) -> Table:
    return Table(title, ("learner", *datasets), mark_best(rows, (None, *[best] * len(datasets))))
