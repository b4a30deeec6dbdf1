"""Pictures of pages: run the examples of each page, draw the curves that they compute.

``python -m romco_lab.gallery docs/gallery/*.md docs/what-a-column-does.md`` writes PAGE.svg beside
each page that sets ``curves``, ``x``, ``x_label`` and ``y_label``, or ``found``, an explanation.
"""

import doctest
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from romco_lab.figures import COLOURS, DASHES, LOOK, canvas


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
        _save(names["found"].figures()["columns"], path)
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


def _save(figure: Figure, path: Path) -> None:
    with mpl.rc_context(LOOK):
        figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    for one in sys.argv[1:]:
        print(draw(Path(one)))
