"""Pictures of pages: run the examples of each page, draw the curves that they compute.

``python -m romco_lab.gallery docs/gallery/*.md docs/what-a-column-does.md`` writes PAGE.svg beside
each page that sets ``curves``, ``x``, ``x_label`` and ``y_label``, or ``found``, an explanation.
"""

import doctest
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from romco.explanations.curves import Cross, Curve, map_labels
from romco.explanations.text import change
from romco.presentation.screen import inert
from romco_lab.figures import COLOURS, DASHES, LOOK, canvas

DIVERGING = LinearSegmentedColormap.from_list("romco", [COLOURS[1], "#ffffff", COLOURS[0]])
MAX_CURVES, MAX_MAPS = 6, 3
PANELS = 3  # of a row


def run(page: Path) -> dict[str, Any]:
    """Return the names that the examples of a page define."""
    names: dict[str, Any] = {}
    for example in doctest.DocTestParser().get_examples(page.read_text(encoding="utf-8")):
        exec(compile(example.source, page.name, "single"), names)
    return names


def draw(page: Path) -> Path | None:
    """Draw the curves of a page; None if it has none."""
    names = run(page)
    path = page.with_suffix(".svg")
    if "found" in names:
        found = names["found"]
        _save(_draw_columns(found.curves, found.crosses, change(found)), path)
        return path
    if "curves" not in names:
        return None
    with canvas(1, 1, 6.4, 3.2) as (figure, ((axes,),)):
        for k, (title, curve) in enumerate(names["curves"].items()):
            look = {"color": COLOURS[k], "linestyle": DASHES[k], "linewidth": 1.4 if k else 2.2}
            axes.plot(list(names["x"]), curve, label=title, **look)
        axes.set(xlabel=names["x_label"], ylabel=names["y_label"])
        axes.set_ylim(bottom=0.0)
        axes.legend()
        _save(figure, path)
    return path


def _draw_columns(curves: Sequence[Curve], crosses: Sequence[Cross], unit: str) -> Figure:
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
    axes.fill_between(
        curve.values, curve.low, curve.high, color=COLOURS[0], alpha=0.18, linewidth=0.0
    )
    axes.plot(curve.values, curve.effect, color=COLOURS[0], linewidth=2.0)
    for dash, one in zip(DASHES[1:], curve.people, strict=False):
        look = {"color": COLOURS[1], "linestyle": dash, "linewidth": 1.2}
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


def _save(figure: Figure, path: Path) -> None:
    with mpl.rc_context(LOOK):
        figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    for one in sys.argv[1:]:
        print(draw(Path(one)))
