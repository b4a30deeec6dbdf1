"""Policies over several data sets: area over asking at random, calibration, what audits tell."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from romco.compare.labelling import FULL, Found, LabelStudy, errors_of, finished
from romco.compare.results import Finished
from romco.presentation.figures import band, canvas, line_styles, save
from romco.presentation.tables import Table, mark_best, markdown

Numbers = NDArray[np.float64]
Sets = Mapping[str, Found]  # by data set


def report(studies: Mapping[str, LabelStudy], results: Path, out: Path) -> list[Table]:
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
    mean, n = float(values.mean()), len(values)
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
    """Of how many runs the audit's interval holds the error of all predictions; and all runs."""
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
