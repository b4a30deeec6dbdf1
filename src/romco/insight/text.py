"""An explanation as plain text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from romco.insight.facts import Facts, TaskInsight

COLUMNS = ("task", "events", "shared", "personal", "share", "since", "most like", "differs in")


def headline(found: Facts) -> str:
    """One or two sentences.

    >>> headline(Facts("romco-nucl", 90, 3, 10, (2.0, 0.5), ()))
    'romco-nucl, 90 events, 3 tasks, 10 features. Shared: rank 2. Different: 0 of 3.'
    """
    events = "" if found.events is None else f"{found.events:,} events, "
    return (
        f"{found.learner}, {events}{found.n_tasks:,} tasks, {found.n_features:,} features. "
        f"Shared: rank {found.rank}. Different: {len(found.personal):,} of {found.n_tasks:,}."
    )


def table(found: Facts, most: int = 20) -> str:
    """The headline, the spectrum, and a table of the most personal tasks."""
    rows = [COLUMNS, *(cells(task) for task in found.tasks[:most])]
    widths = [max(len(row[k]) for row in rows) for k in range(len(COLUMNS))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    spectrum = " ".join(f"{value:.3g}" for value in found.spectrum[:10])
    more = [f"... and {len(found.tasks) - most:,} more"] if len(found.tasks) > most else []
    head = [headline(found), *found.findings, f"Spectrum: {spectrum or 'empty'}"]
    return "\n".join([*head, "", *lines, *more, *found.notes])


def cells(task: TaskInsight) -> tuple[str, ...]:
    """A task's row of the table."""
    return (
        str(task.task),
        _whole(task.events),
        f"{task.shared:.3g}",
        f"{task.personal:.3g}",
        f"{task.share:.0%}",
        _whole(task.since),
        pairs(task.nearest[:2], "{name} ({value:.2f})"),
        pairs(task.features[:3], "{name} {value:+.2g}"),
    )


def pairs(found: Sequence[tuple[Any, float]], form: str) -> str:
    """Names with their numbers in one line."""
    return ", ".join(form.format(name=name, value=value) for name, value in found) or "-"


def _whole(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"
