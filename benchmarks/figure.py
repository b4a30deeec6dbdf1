"""Results as one figure: speed by system, growth curves."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.measure import Row
from benchmarks.tables import TITLES

OURS, THEIRS = "#1b6ca8", "#b9b9b9"
AXES = {"n_features": "features d", "n_tasks": "tasks m", "nnz": "non-zeros", "rank": "rank of U"}


def draw(parts: dict[str, Any], out: Path) -> list[Path]:
    """Write ``speed`` and ``growth`` as SVG and PNG where they were measured."""
    import matplotlib

    matplotlib.use("Agg")
    written = []
    bars = {part: parts[part] for part in "abcd" if part in parts}
    if bars:
        written += _save(_speed(bars), out / "speed")
    if "e" in parts:
        written += _save(_growth([Row(**row) for row in parts["e"]]), out / "growth")
    return written


def _speed(bars: dict[str, Any]) -> Any:
    from matplotlib import pyplot

    heights = [1.2 + 0.24 * len(rows) for rows in bars.values()]
    figure, axes = pyplot.subplots(
        len(bars), 1, figsize=(9, sum(heights)), height_ratios=heights, squeeze=False
    )
    for axis, (part, rows) in zip(axes[:, 0], bars.items(), strict=True):
        ran = [Row(**row) for row in rows if row["microseconds"]]
        ran.sort(key=lambda row: median(row.microseconds), reverse=True)
        costs = [median(row.microseconds) for row in ran]
        colors = [OURS if row.system.startswith("romco") else THEIRS for row in ran]
        axis.barh([row.system for row in ran], costs, color=colors)
        for place, cost in enumerate(costs):
            axis.text(cost, place, f" {cost:.3g}", va="center", fontsize=8)
        axis.set(xscale="log", xlabel="microseconds per event (log scale)")
        axis.set_title(TITLES[part], loc="left", fontsize=10)
        axis.tick_params(labelsize=8)
        axis.margins(x=0.15, y=0.02)
    return figure


def _growth(rows: list[Row]) -> Any:
    from matplotlib import pyplot

    curves = list(dict.fromkeys(row.curve for row in rows))
    figure, axes = pyplot.subplots(1, len(curves), figsize=(3.4 * len(curves), 3.4), squeeze=False)
    for axis, curve in zip(axes[0], curves, strict=True):
        for system in dict.fromkeys(row.system for row in rows):
            line = [r for r in rows if (r.curve, r.system) == (curve, system) and r.microseconds]
            at = [row.at for row in line]
            axis.plot(at, [median(row.microseconds) for row in line], "o-", label=system)
            lows = [min(row.microseconds) for row in line]
            highs = [max(row.microseconds) for row in line]
            axis.fill_between(at, lows, highs, alpha=0.15)
        axis.set(xscale="log", xlabel=AXES[curve], ylim=(0, None))
        axis.grid(alpha=0.3)
    axes[0, 0].set_ylabel("microseconds per event")
    axes[0, 0].legend(fontsize=8)
    return figure


def _save(figure: Any, stem: Path) -> list[Path]:
    from matplotlib import pyplot

    figure.tight_layout()
    paths = [stem.with_suffix(suffix) for suffix in (".svg", ".png")]
    for path in paths:
        figure.savefig(path, dpi=120)
    pyplot.close(figure)
    return paths
