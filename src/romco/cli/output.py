"""Lines for people, on stderr, and lists as tables; stdout is for other programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console

from romco.io.schema import Schema
from romco.presentation.screen import inert as inert

if TYPE_CHECKING:
    from romco.learners import Method
    from romco.presentation.tables import Table
    from romco.streams.datasets import Description

MAX_WARNINGS = 30

console = Console(stderr=True)


def note(text: str) -> None:
    """Print a line for people."""
    console.print(inert(text), highlight=False, soft_wrap=True, markup=False)


def warn(text: str | None) -> None:
    """Print a warning, if there is one."""
    if text is not None:
        note(f"warning: {text}")


def note_schema(schema: Schema) -> None:
    """Print how each column is read, and what is suspicious."""
    for line in str(schema).splitlines() if schema.columns else ():
        note(line)
    for warning in schema.warnings[:MAX_WARNINGS]:
        warn(warning)


def note_skipped(skipped: int) -> None:
    """Print how many rows could not be read, if any."""
    if skipped:
        note(f"{skipped:,} bad rows skipped")


def learners_table(methods: Mapping[str, Method]) -> Table:
    """Return names, titles, roles and parameters."""
    from romco.presentation.tables import Table, mark_best

    rows = [
        (
            name,
            method.title,
            method.role,
            ", ".join(f"{k}={v}" for k, v in method.parameters.items()),
        )
        for name, method in methods.items()
    ]
    head = ("name", "title", "role", "parameters and defaults")
    return Table("Learners", head, mark_best(rows, (None,) * 4))


def datasets_table(found: Iterable[Description]) -> Table:
    """Return sizes of the data sets that are here, and where the others come from."""
    from romco.presentation.tables import Table, mark_best

    rows, notes = [], []
    for dataset, stream, problem in found:
        if stream is None:
            status, _, reason = problem.partition(": ")
            rows.append([dataset.name, dataset.summary, status, "", "", ""])
            notes.append(f"{dataset.name}: {reason}")
            continue
        events = np.bincount(stream.task, minlength=stream.n_tasks)
        sizes = [str(stream.n_tasks), f"{events.min()}-{events.max()}", str(stream.n_features)]
        positive = f"{np.mean(stream.y > 0):.0%}"
        rows.append([dataset.name, dataset.summary, *sizes, positive])
    head = ("data set", "what", "tasks", "events/task", "features", "positive")
    return Table("Data sets", head, mark_best(rows, (None,) * 6), notes)
