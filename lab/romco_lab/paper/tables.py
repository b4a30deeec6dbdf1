"""The paper's five tables, measured, beside the printed numbers."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from romco.compare.controls import title_of
from romco.presentation.tables import Table, mark_best
from romco_lab.learner_runs import MEASURES, Outcome, in_common, mean_and_spread, paired
from romco_lab.paper.experiment import PaperData
from romco_lab.paper.printed import printed, printed_numbers

Measured = Mapping[PaperData, Sequence[Outcome]]
COLUMNS = (
    *("dataset", "learner", "task", "measure"),
    *("mean", "std_over_shuffles", "std_over_tasks", "printed"),
)
SHORT = {"error_rate": "error", "f1_positive": "F1 +1", "f1_negative": "F1 -1"}


def statistics_table(measured: Measured) -> Table:
    """Table 1."""
    rows = []
    for source, outcomes in measured.items():
        stream = outcomes[0].runs[0].stream
        events = np.array(stream["events"])
        positive = np.array(stream["positive"])
        counts = [len(events), events.sum(), events.min(), events.max(), stream["features"]]
        shares = positive / events
        balance = f"{shares.min():.0%} to {shares.max():.0%}"
        rows.append(
            [source.title, *map(str, counts), f"{positive.sum() / events.sum():.0%}", balance]
        )
    head = ("data set", "tasks", "events", "fewest", "most", "features", "positive", "by task")
    return Table("Table 1. The data sets", head, mark_best(rows, (None,) * len(head)))


def averages_table(number: str, source: PaperData, outcomes: Sequence[Outcome]) -> Table:
    """Tables 2, 4 and 5: averages over tasks, ours, printed, and the difference."""
    head = ["method"]
    for short in SHORT.values():
        head += [f"{short} %", "over tasks", "printed", "difference"]
    rows = [_average_row(source, outcome) for outcome in outcomes]
    keys = (None, *(-1, None, None, None), *(1, None, None, None) * 2)
    kept = [0, *(i for i in range(1, len(head)) if any(_text(row[i]) for row in rows))]
    table = mark_best(rows, keys)
    return Table(
        f"{number}. {source.title}: averages over tasks",
        [head[i] for i in kept],
        [[row[i] for i in kept] for row in table],
        [*_how(outcomes), *_winners(source, outcomes, "macro"), *_limits(source, outcomes)],
    )


def tasks_table(number: str, source: PaperData, outcomes: Sequence[Outcome], measure: str) -> Table:
    """One measure for every task; the printed number in brackets where there is one."""
    whole = [outcome for outcome in outcomes if not outcome.failed]
    tasks = whole[0].runs[0].stream["tasks"]
    rows = []
    for outcome in whole:
        values = 100 * outcome.per_task(measure)
        cells: list[Any] = [outcome.title]
        for i, task in enumerate(tasks):
            was = _printed(source, outcome, task, measure)
            text = mean_and_spread(values[:, i]) + ("" if was is None else f" ({was:.2f})")
            cells.append((text, values[:, i].mean()))
        rows.append(cells)
    best = -1 if measure == "error_rate" else 1
    notes = ["mean ± standard deviation over shuffles (printed number)"]
    for task in tasks:
        notes += _winners(source, outcomes, task, (measure,))
    return Table(
        f"{number}. {source.title}: {SHORT[measure]} of each task, %",
        ("method", *tasks),
        mark_best(rows, (None, *(best,) * len(tasks))),
        [*notes, *_limits(source, outcomes)],
    )


def time_table(measured: Measured) -> Table:
    """Table 3: seconds for a whole stream, printed ones, and both relative to ROMCO-NuCl."""
    head: list[str] = ["method"]
    rows: dict[str, list[Any]] = {}
    for source, outcomes in measured.items():
        head += [f"{source.title}, s", "printed", "times NuCl", "printed"]
        base = next((o for o in outcomes if o.learner == "romco-nucl" and not o.failed), None)
        for outcome in outcomes:
            rows.setdefault(outcome.learner, [outcome.title]).extend(_times(source, outcome, base))
    keys = (None, *(-1, None, None, None) * len(measured))
    kept = [0, *(i for i in range(1, len(head)) if any(_text(row[i]) for row in rows.values()))]
    table = mark_best(rows.values(), keys)
    return Table(
        "Table 3. Run time of a whole stream",
        [head[i] for i in kept],
        [[row[i] for i in kept] for row in table],
        [
            "processor time of one core, mean over shuffles, after an untimed warm-up; predicting "
            "and learning, not scoring; batch methods retrain after every 100 events",
            "times NuCl: relative to ROMCO-NuCl here, and as printed",
        ],
    )


def paired_table(measured: Measured, reference: str) -> Table:
    """Each method minus one ROMCO variant on the same shuffles."""
    head: list[str] = ["method"]
    rows: dict[str, list[Any]] = {}
    for source, outcomes in measured.items():
        head += [source.title]
        mine = next((o for o in outcomes if o.learner == reference and not o.failed), None)
        for outcome in outcomes:
            if outcome.learner != reference:
                rows.setdefault(outcome.learner, [outcome.title]).append(_gap(outcome, mine))
    return Table(
        f"Each method against {title_of(reference)} on the same shuffles",
        head,
        mark_best(rows.values(), (None,) * len(head)),
        [
            "points of percent of macro error, method minus ROMCO: positive means ROMCO is better; "
            "95 % interval over shuffles; in how many shuffles ROMCO has the lower error",
            "all shuffles hold the same events, so the interval covers their order, not the sample",
        ],
    )


def summary(measured: Measured, path: Path) -> None:
    """Every reported number in one file."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for source, outcomes in measured.items():
            for outcome in outcomes:
                if not outcome.failed:
                    writer.writerows(_lines(source, outcome))


def _lines(source: PaperData, outcome: Outcome) -> Iterator[list[Any]]:
    tasks = outcome.runs[0].stream["tasks"]
    for measure in MEASURES:
        per_task = 100 * outcome.per_task(measure)
        macro = 100 * outcome.macro(measure)
        for i, task in enumerate(tasks):
            yield _line(source, outcome, task, measure, per_task[:, i], "")
        spread = per_task.mean(axis=0).std(ddof=1) if len(tasks) > 1 else 0.0
        yield _line(source, outcome, "macro", measure, macro, f"{spread:.6g}")
    yield _line(source, outcome, "macro", "seconds", outcome.seconds(), "")


def _line(
    source: PaperData, outcome: Outcome, task: str, measure: str, values: Any, over_tasks: str
) -> list[Any]:
    spread = f"{values.std(ddof=1):.6g}" if len(values) > 1 else ""
    was = _printed(source, outcome, task, measure)
    names = [source.dataset, outcome.learner, task, measure]
    return [*names, f"{values.mean():.6g}", spread, over_tasks, "" if was is None else f"{was:g}"]


def _printed(source: PaperData, outcome: Outcome, task: str, measure: str) -> float | None:
    if source.real:
        return printed(source.name, outcome.learner, task, measure)
    return None


def _average_row(source: PaperData, outcome: Outcome) -> list[Any]:
    if outcome.failed:
        return [outcome.title, "failed", *[""] * 11]
    cells: list[Any] = [outcome.title]
    for measure in SHORT:
        values = 100 * outcome.macro(measure)
        tasks = 100 * outcome.per_task(measure).mean(axis=0)
        was = _printed(source, outcome, "macro", measure)
        cells += [(mean_and_spread(values), values.mean()), f"{tasks.std(ddof=1):.2f}"]
        cells += ["", ""] if was is None else [f"{was:.2f}", f"{values.mean() - was:+.2f}"]
    return cells


def _times(source: PaperData, outcome: Outcome, base: Outcome | None) -> list[Any]:
    if outcome.failed or base is None:
        return ["failed" if outcome.failed else "", "", "", ""]
    seconds = float(outcome.seconds().mean())
    was = _printed(source, outcome, "macro", "seconds")
    then = _printed(source, base, "macro", "seconds")
    told = ["", ""] if was is None or then is None else [f"{was:.3g}", f"{was / then:.2g}"]
    ratio = f"{seconds / base.seconds().mean():.2g}"
    return [(f"{seconds:.3g}", seconds), told[0], ratio, told[1]]


def _gap(outcome: Outcome, mine: Outcome | None) -> str:
    if outcome.failed or mine is None:
        return "failed"
    theirs, ours = in_common(outcome, mine)
    gap = paired(theirs, ours)
    ties = int((theirs == ours).sum())
    interval = f" [{gap.low:+.2f}, {gap.high:+.2f}]" if np.isfinite(gap.low) else ""
    return f"{gap.mean:+.2f}{interval}, {gap.shuffles - gap.wins - ties} of {gap.shuffles}"


def _how(outcomes: Sequence[Outcome]) -> list[str]:
    run = outcomes[0].runs[0].run
    n = len(outcomes[0].runs)
    fewer = {len(o.runs) for o in outcomes} - {n}
    of_some = f" ({min(fewer)} for batch methods)" if fewer else ""
    told = f"mean ± standard deviation over {n} shuffles{of_some}, {run.order} order"
    failed = [f"{o.title} broke down: {o.failed}" for o in outcomes if o.failed]
    return [f"{told}; over tasks: standard deviation over tasks of their means", *failed]


def _limits(source: PaperData, outcomes: Sequence[Outcome]) -> list[str]:
    notes = [f"limits of the data: {note}" for note in outcomes[0].runs[0].stream["notes"]]
    if source.real:
        return notes
    return ["SIMULATED data, not comparable with the paper", *notes]


def _winners(
    source: PaperData,
    outcomes: Sequence[Outcome],
    task: str,
    measures: Sequence[str] = tuple(SHORT),
) -> list[str]:
    """Return the winners here, and the winners as printed."""
    notes = []
    for measure in measures:
        sign = 1 if measure == "error_rate" else -1
        theirs = {
            key[1]: value * sign
            for key, value in printed_numbers().items()
            if source.real
            and (key[0], key[2], key[3]) == (source.name, task.partition(" (")[0], measure)
        }
        ours = {o.learner: sign * _mean(o, task, measure) for o in outcomes if not o.failed}
        among = {name: value for name, value in ours.items() if name in theirs}
        if among:
            where = SHORT[measure] + ("" if task == "macro" else f", {task}")
            notes.append(
                f"{where}: best of the paper's methods here {_lowest(among)}, "
                f"as printed {_lowest(theirs)}; best of all here {_lowest(ours)}"
            )
    return notes


def _lowest(values: Mapping[str, float]) -> str:
    return title_of(min(values, key=values.__getitem__))


def _mean(outcome: Outcome, task: str, measure: str) -> float:
    if task == "macro":
        return float(outcome.macro(measure).mean())
    index = outcome.runs[0].stream["tasks"].index(task)
    return float(outcome.per_task(measure)[:, index].mean())


def _text(cell: Any) -> str:
    return str(cell[0] if isinstance(cell, tuple) else cell)
