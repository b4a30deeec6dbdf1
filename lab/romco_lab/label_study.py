"""Error against labels: policies under several budgets on one data set, as table and figure."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from romco.cli.options import parse_label_budget
from romco.compare.results import Finished, read
from romco.compare.run import Run, complete, place
from romco.compare.sources import digest_of, stream_of
from romco.presentation import page
from romco.presentation.tables import Table, as_html, mark_best, markdown
from romco_lab.figures import band, canvas, line_styles, picture, save
from romco_lab.label_policies import LABEL_POLICIES
from romco_lab.learner_runs import mean_and_spread

FULL = "all labels"
OPEN = "open-budget"  # the same policy where the end of the stream is not known
KNOWN = (*LABEL_POLICIES, OPEN)
TRUE = "true"  # the delay that a data set itself tells


Cell = tuple[str, float]  # policy, share
Found = dict[Cell, list[Finished]]
Numbers = NDArray[np.float64]
Errors = dict[Cell, Numbers]
Sets = Mapping[str, Found]  # by data set


@dataclass(frozen=True)
class LabelStudy:
    """Comparison of label policies, fixed before anything runs."""

    dataset: str
    shares: tuple[float, ...]  # of the events whose labels may be asked for
    policies: tuple[str, ...] = KNOWN
    learner: str = "romco-auto"
    shuffles: int = 5
    first: int = 0  # seed of the first shuffle
    order: str = "interleaved"
    delay: int | str = 0  # events until a label is known, or true
    data_dir: Path | None = None

    def runs(self) -> dict[tuple[str, float], list[Run]]:
        """All runs, by policy and share."""
        cells = [(name, share) for name in self.policies for share in self.shares]
        return {(FULL, 1.0): self._runs(), **{cell: self._runs(*cell) for cell in cells}}

    def _runs(self, policy: str | None = None, share: float = 1.0) -> list[Run]:
        digest = digest_of(self.dataset, self.data_dir)
        parameters = complete(self.learner, {})
        events = len(stream_of(self.dataset, self.data_dir).y)
        return [
            Run(
                self.dataset,
                digest,
                self.learner,
                parameters,
                self.order,
                seed,
                records=1,
                labels=asking(policy, share, events, seed) if policy else (),
                delay=self.delay,
            )
            for seed in range(self.first, self.first + self.shuffles)
        ]


def asking(policy: str, share: float, events: int, seed: int) -> tuple[tuple[str, Any], ...]:
    """The settings of a policy for a share of so many events.

    ``budget`` knows how many events will come, and so how many labels there are.

    >>> asking("random", 0.1, 500, 3)
    (('name', 'random'), ('share', 0.1), ('seed', 3))
    >>> dict(asking("budget", 0.1, 500, 3))["total"]
    50
    """
    if policy == "budget":
        labels = max(1, round(share * events))
        by_number = (("advance", labels), ("total", labels))
        return (("name", "budget"), ("share", labels / events), ("seed", seed), *by_number)
    name = "budget" if policy == OPEN else policy
    return (("name", name), ("share", share), ("seed", seed))


def chosen_shares(text: str) -> tuple[float, ...]:
    """Return the shares of a list such as ``1%,0.2``.

    >>> chosen_shares("1%,0.2")
    (0.01, 0.2)
    """
    found = [parse_label_budget(part) for part in text.split(",")]
    if not all(isinstance(share, float) for share in found):
        raise ValueError(f"--labels {text}: expected shares of the events, such as 1%,5%,20%")
    return tuple(found)


def chosen_delay(text: str) -> int | str:
    """Events until a label is known, or true.

    >>> chosen_delay("1000"), chosen_delay("true")
    (1000, 'true')
    """
    if text == TRUE:
        return TRUE
    if not text.isdecimal():
        raise ValueError(f"--delay {text}: expected a number of events, or true")
    return int(text)


def finished(study: LabelStudy, results: Path) -> Found:
    """The files of all runs, by policy and share."""
    return {
        cell: [read(place(run, results)) for run in runs] for cell, runs in study.runs().items()
    }


def errors(study: LabelStudy, results: Path) -> Errors:
    """Macro errors, one per shuffle, by policy and share."""
    return errors_of(finished(study, results))


def errors_of(found: Found) -> Errors:
    """Macro errors, one per shuffle, by policy and share."""
    return {cell: np.array([each.error() for each in runs]) for cell, runs in found.items()}


def table(study: LabelStudy, found: Errors) -> Table:
    """Error by policy and share, and the mean over shares relative to asking at random."""
    areas = {
        name: float(np.mean([found[name, share].mean() for share in study.shares]))
        for name in study.policies
    }
    base = areas.get("random", 1.0)
    rows = [
        [
            name,
            *(_cell(found[name, share]) for share in study.shares),
            (f"{areas[name] / base:.3f}", areas[name]),
        ]
        for name in study.policies
    ]
    mean = "mean / random" if "random" in areas else "mean"
    head = ("policy", *(f"{share:.0%}" for share in study.shares), mean)
    full = found[FULL, 1.0]
    notes = [
        f"error in %, averaged over tasks; mean ± spread over {study.shuffles} shuffles",
        f"{study.learner} with all labels: {mean_and_spread(full, 100.0)}",
        _late(study.delay),
    ]
    best = mark_best(rows, (None, *[-1] * (len(study.shares) + 1)))
    return Table(f"{study.dataset}: error against labels", head, best, notes)


def _late(delay: int | str) -> str:
    if delay == TRUE:
        return "labels come when they came in truth"
    if delay:
        return f"labels come {delay:,} events late"
    return "labels come at once"


def _cell(errors: NDArray[np.float64]) -> tuple[str, float]:
    return mean_and_spread(errors, 100.0), float(errors.mean())


def draw(study: LabelStudy, found: Errors, directory: Path) -> Path:
    """Error against labels, a line for each policy, and the error with all labels."""
    styles = line_styles(["romco", *study.policies])
    at = 100.0 * np.array(study.shares)
    with canvas(1, 1, 6.4, 3.6) as (figure, ((axes,),)):
        for name in study.policies:
            curves = 100.0 * np.stack([found[name, share] for share in study.shares], axis=1)
            style = styles["romco"] if name == "budget" else styles[name]
            band(axes, at, curves, name, style)
        full = 100.0 * found[FULL, 1.0].mean()
        axes.axhline(full, color="#777777", linewidth=0.8)
        axes.annotate(f"all labels: {full:.2f} %", (at[0], full), va="bottom", fontsize=8)
        axes.set(xscale="log", xlabel="labels, % of events", ylabel="error, %")
        axes.set_xticks(at, [f"{share:g}" for share in at])
        axes.minorticks_off()
        axes.legend(fontsize=8)
        return save(figure, directory, f"labels-{study.dataset}")


def report(study: LabelStudy, results: Path, out: Path, command: str) -> tuple[Table, Path]:
    """Read the runs' files; write the figure, the table and a page."""
    found = errors(study, results)
    shown = table(study, found)
    svg = draw(study, found, out / "figures")
    (out / "table.md").write_text(markdown(shown), encoding="utf-8")
    first: Finished = read(place(study.runs()[FULL, 1.0][0], results))
    path = page.write_page(
        out / "index.html",
        f"Error against labels on {study.dataset}",
        f"{study.learner}; every event is predicted, a share of them is asked for.",
        [as_html(shown), picture(svg, "Error of all predictions against labels asked for.")],
        page.origin(command, first.versions),
    )
    return shown, path


def report_sets(studies: Mapping[str, LabelStudy], results: Path, out: Path) -> list[Table]:
    """Tables of several studies of the same policies and shares, written beside a figure."""
    first = next(iter(studies.values()))
    sets = together(studies, results)
    tables = [
        area_table(sets, first.policies, first.shares),
        calibration_table(sets, first.policies, 0.05 if 0.05 in first.shares else first.shares[0]),
    ]
    draw_sets(sets, first.policies, first.shares, out)
    inside, total = coverage(sets, first.policies[0])
    told = f"Audit intervals of {first.policies[0]}: {inside} of {total} hold the error of all."
    text = "\n".join(map(markdown, tables)) + f"\n{told}\n"
    (out / "tables.md").write_text(text, encoding="utf-8")
    return tables


def together(studies: Mapping[str, LabelStudy], results: Path) -> Sets:
    """The files of several studies."""
    return {name: finished(study, results) for name, study in studies.items()}


def areas(found: Found, policy: str, shares: tuple[float, ...]) -> Numbers:
    """Mean error over the shares, one per shuffle, beside that of asking at random on average."""
    errors = errors_of(found)
    base = np.mean([errors["random", share].mean() for share in shares])
    return np.mean([errors[policy, share] for share in shares], axis=0) / base


def over_sets(sets: Sets, policy: str, shares: tuple[float, ...]) -> Numbers:
    """Geometric mean of the areas over data sets, one per shuffle."""
    return np.exp(
        np.mean([np.log(areas(found, policy, shares)) for found in sets.values()], axis=0)
    )


def interval(values: Numbers) -> tuple[float, float, float]:
    """Mean and its 95 % interval over shuffles."""
    mean = float(values.mean())
    n = len(values)
    half = float(student.ppf(0.975, n - 1) * values.std(ddof=1) / np.sqrt(n)) if n > 1 else np.inf
    return mean, mean - half, mean + half


def area_table(sets: Sets, policies: tuple[str, ...], shares: tuple[float, ...]) -> Table:
    """Area over random by data set and over all of them, and how far each is from the first."""
    first = over_sets(sets, policies[0], shares)
    rows = []
    for policy in policies:
        by_set = [float(areas(found, policy, shares).mean()) for found in sets.values()]
        mean, low, high = interval(over_sets(sets, policy, shares))
        behind, least, most = interval(over_sets(sets, policy, shares) - first)
        apart = "" if policy == policies[0] else f"{behind:+.3f} [{least:+.3f}, {most:+.3f}]"
        whole = (f"{mean:.3f} [{low:.3f}, {high:.3f}]", mean)
        rows.append([policy, *((f"{area:.3f}", area) for area in by_set), whole, apart])
    head = ("policy", *sets, "all", f"behind {policies[0]}")
    best = mark_best(rows, (None, *[-1] * (len(sets) + 1), None))
    notes = (
        "mean error over the shares, that of asking at random = 1; all: geometric mean over sets",
        "95 % intervals over shuffles of the events",
    )
    return Table("Area over asking at random", head, best, notes)


def calibration_table(sets: Sets, policies: tuple[str, ...], share: float) -> Table:
    """By how much probabilities are off under a budget, in points."""
    rows = [
        [
            policy,
            *(
                (f"{gap:.2f}", gap)
                for gap in (_gap(found[policy, share]) for found in sets.values())
            ),
            *_mean([_gap(found[policy, share]) for found in sets.values()]),
        ]
        for policy in policies
    ]
    full = [_gap(found[FULL, 1.0]) for found in sets.values()]
    rows.append([FULL, *((f"{gap:.2f}", np.nan) for gap in full), (f"{np.mean(full):.2f}", np.nan)])
    best = mark_best(rows, (None, *[-1] * (len(sets) + 1)))
    return Table(
        f"Calibration error at {share:.0%} of labels, in points", ("policy", *sets, "mean"), best
    )


def coverage(sets: Sets, policy: str = "budget") -> tuple[int, int]:
    """Count the runs whose audit interval holds the error of all predictions; and all runs."""
    inside = total = 0
    for found in sets.values():
        for (name, _), runs in found.items():
            for run in runs if name == policy else ():
                told = run.last["labels"]["error"]
                if told is not None:
                    total += 1
                    inside += told["low"] <= run.last["calibration"]["error"] <= told["high"]
    return inside, total


def draw_sets(
    sets: Sets, policies: tuple[str, ...], shares: tuple[float, ...], directory: Path
) -> Path:
    """Error against labels, one panel for each data set."""
    styles = line_styles(["romco", *policies])
    at, columns = 100.0 * np.array(shares), 2
    rows = -(-len(sets) // columns)
    with canvas(rows, columns, 8.2, 3.0 * rows) as (figure, panels):
        flat = [axes for row in panels for axes in row]
        for axes, (name, found) in zip(flat, sets.items(), strict=False):
            errors = errors_of(found)
            for policy in policies:
                curves = 100.0 * np.stack([errors[policy, share] for share in shares], axis=1)
                style = styles["romco"] if policy == "budget" else styles[policy]
                band(axes, at, curves, policy, style)
            axes.axhline(100.0 * errors[FULL, 1.0].mean(), color="#777777", linewidth=0.8)
            axes.set(title=name, xscale="log", xlabel="labels, % of events", ylabel="error, %")
            axes.set_xticks(at, [f"{share:g}" for share in at])
            axes.minorticks_off()
        flat[0].legend(fontsize=7)
        for axes in flat[len(sets) :]:
            axes.axis("off")
        return save(figure, directory, "labels")


def _gap(runs: list[Finished]) -> float:
    return 100.0 * float(np.mean([run.last["calibration"]["calibration"] for run in runs]))


def _mean(gaps: list[float]) -> list[tuple[str, float]]:
    return [(f"{np.mean(gaps):.2f}", float(np.mean(gaps)))]
