"""Figures of an explanation for print; they need matplotlib."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from romco.explanations.curves import Cross, Curve, map_labels
from romco.presentation.screen import inert

BLUE, ORANGE = "#0072b2", "#d55e00"
DIVERGING = LinearSegmentedColormap.from_list("romco", [ORANGE, "#ffffff", BLUE])
DASHES: tuple[Any, ...] = ((0, (5, 1.5)), (0, (1, 1)), (0, (6, 1.5, 1, 1.5)))
MAX_TASKS = 30
MAX_CURVES, MAX_MAPS = 6, 3
PANELS = 3  # of a row


def draw_spectrum(spectrum: Sequence[float]) -> Figure:
    """Draw the singular values of U."""
    figure = Figure(figsize=(5, 3), layout="constrained")
    axes = figure.subplots()
    rank = len(spectrum)
    axes.bar(np.arange(1, rank + 1), spectrum, color=BLUE)
    axes.set(xlabel="dimension", ylabel="singular value of U", title=f"U: rank {rank}")
    return figure


def draw_tasks(tasks: Sequence[tuple[str, float, float]]) -> Figure:
    """Draw the norms of the shared and the personal weights of tasks."""
    shown = tasks[:MAX_TASKS][::-1]
    figure = Figure(figsize=(6, 1.2 + 0.22 * len(shown)), layout="constrained")
    axes = figure.subplots()
    names = [_plain(name) for name, *_ in shown]
    lengths = np.array([norms for _, *norms in shown]).reshape(-1, 2)
    shared, personal = lengths.T
    axes.barh(names, shared, color=BLUE, label="shared")
    axes.barh(names, personal, left=shared, color=ORANGE, label="personal")
    axes.set(xlabel="norm of the weights", title="Tasks, the most personal on top")
    axes.legend()
    return figure


def draw_columns(curves: Sequence[Curve], crosses: Sequence[Cross], unit: str) -> Figure:
    """Draw the largest curves, then the largest products."""
    curves, crosses = curves[:MAX_CURVES], crosses[:MAX_MAPS]
    rows = -(-len(curves) // PANELS) - (-len(crosses) // PANELS)
    figure = Figure(figsize=(3.2 * PANELS, 2.5 * rows), layout="constrained")
    panels = figure.subplots(rows, PANELS, squeeze=False)
    for axes in panels.flat:
        axes.set_visible(False)
    for axes, curve in zip(panels.flat, curves, strict=False):
        _draw_curve(axes, curve)
    for axes, cross in zip(panels[-(-len(curves) // PANELS) :].flat, crosses, strict=False):
        _draw_map(figure, axes, cross)
    for axes in panels[: -(-len(curves) // PANELS), 0]:
        axes.set_ylabel(_plain(unit))
    return figure


def _draw_curve(axes: Axes, curve: Curve) -> None:
    axes.set_visible(True)
    axes.fill_between(curve.values, curve.low, curve.high, color=BLUE, alpha=0.18, linewidth=0.0)
    axes.plot(curve.values, curve.effect, color=BLUE, linewidth=2.0)
    for dash, one in zip(DASHES, curve.people, strict=False):
        look = {"color": ORANGE, "linestyle": dash, "linewidth": 1.2}
        axes.plot(curve.values, one.effect, label=_plain(one.task), **look)
    for decile in curve.deciles.tolist():
        axes.axvline(decile, ymax=0.04, color="#57606a", linewidth=0.8)
    axes.set_title(_plain(curve.column))
    if curve.people:
        axes.legend(fontsize="small", frameon=False)


def _draw_map(figure: Figure, axes: Axes, cross: Cross) -> None:
    axes.set_visible(True)
    largest = float(np.abs(cross.effect).max()) or 1.0
    look: dict[str, Any] = {"cmap": DIVERGING, "vmin": -largest, "vmax": largest}
    image = axes.imshow(cross.effect, origin="lower", aspect="auto", **look)
    figure.colorbar(image, ax=axes)
    first, second = map(_plain, cross.columns)
    axes.set(xlabel=first, ylabel=second)
    for axis, values in ((axes.xaxis, cross.x), (axes.yaxis, cross.y)):
        labels = map_labels(values.tolist())
        every = max(1, len(labels) // 4)
        axis.set_ticks(list(range(len(labels)))[::every], labels[::every])


def _plain(name: Any) -> str:
    """Return a name as text that is no formula."""
    return inert(str(name)).replace("$", r"\$")
