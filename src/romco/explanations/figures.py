"""An explanation as figures for print."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from romco.explanations.facts import Facts
from romco.explanations.page import BLUE, ORANGE
from romco.presentation.names import inert


def figures(found: Facts) -> dict[str, Figure]:
    """``spectrum`` and ``tasks``."""
    return {"spectrum": _spectrum(found), "tasks": _tasks(found)}


def _spectrum(found: Facts) -> Figure:
    figure = Figure(figsize=(5, 3), layout="constrained")
    axes = figure.subplots()
    axes.bar(np.arange(1, found.rank + 1), found.spectrum, color=BLUE)
    axes.set(xlabel="dimension", ylabel="singular value of U", title=f"Shared: rank {found.rank}")
    return figure


def _tasks(found: Facts, most: int = 30) -> Figure:
    tasks = found.tasks[:most][::-1]
    figure = Figure(figsize=(6, 1.2 + 0.22 * len(tasks)), layout="constrained")
    axes = figure.subplots()
    names = [inert(str(task.task)).replace("$", r"\$") for task in tasks]  # no formula
    shared = np.array([task.shared for task in tasks])
    axes.barh(names, shared, color=BLUE, label="shared")
    axes.barh(names, [task.personal for task in tasks], left=shared, color=ORANGE, label="personal")
    axes.set(xlabel="length of the weights", title="Tasks, the most personal on top")
    axes.legend()
    return figure
