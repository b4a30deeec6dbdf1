"""Look of all printed figures: colour-blind safe, readable in print, saved three ways."""

import base64
import html
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

# Okabe and Ito's colours, told apart with any colour vision; yellow left out, black for the
# first. Styles change with the colours, so that lines differ in grey print too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (6, 1.5, 1, 1.5)))
LOOK: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e3e6ea",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "svg.hashsalt": "romco",
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
    "figure.constrained_layout.use": True,
}


def line_styles(learners: Sequence[str]) -> dict[str, dict[str, Any]]:
    """A look for each learner: ROMCO in thick lines, the rest thinner."""
    styles: dict[str, dict[str, Any]] = {}
    others = 0
    for learner in learners:
        if learner.startswith("romco"):
            index = sum(name.startswith("romco") for name in styles)
            dash = "-" if index == 0 else (0, (4, 1.2))  # both are seen where they coincide
            style = {"color": COLOURS[index % 7], "linestyle": dash, "linewidth": 2.2, "zorder": 3}
        else:
            dash = DASHES[1 + others % 3]
            colour = COLOURS[(others + 3) % 7]
            style = {"color": colour, "linestyle": dash, "linewidth": 1.2}
            others += 1
        styles[learner] = style
    return styles


@contextmanager
def canvas(rows: int, columns: int, width: float, height: float, **how: Any) -> Iterator[Any]:
    """A figure and its axes (rows, columns), in the house's look."""
    with mpl.rc_context(LOOK):
        figure = Figure(figsize=(width, height))
        yield figure, figure.subplots(rows, columns, squeeze=False, **how)


def save(figure: Figure, directory: Path, name: str) -> Path:
    """Write SVG, PNG and PDF; gives the SVG's path."""
    directory.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(LOOK):
        figure.savefig(directory / f"{name}.png", dpi=150)
        figure.set_layout_engine("none")  # laid out once is enough, and most of the time
        figure.savefig(directory / f"{name}.svg", metadata={"Date": None})
        figure.savefig(directory / f"{name}.pdf", metadata={"CreationDate": None})
    return directory / f"{name}.svg"


def band(
    axes: Any, at: NDArray[Any], curves: NDArray[np.float64], label: str, style: dict[str, Any]
) -> None:
    """Mean of the curves (shuffles, points), and one standard deviation around it."""
    mean = curves.mean(axis=0)
    axes.plot(at, mean, label=label, **style)
    if len(curves) > 1:
        spread = curves.std(axis=0, ddof=1)
        axes.fill_between(
            at, mean - spread, mean + spread, color=style["color"], alpha=0.12, linewidth=0
        )


def picture(svg: Path, caption: str) -> str:
    """Return a figure that is embedded in the page."""
    data = base64.b64encode(svg.read_bytes()).decode()
    text = html.escape(caption)
    return (
        f'<figure><img alt="{text}" src="data:image/svg+xml;base64,{data}">'
        f"<figcaption>{text}</figcaption></figure>"
    )
