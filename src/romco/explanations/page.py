"""Explanation as a page that needs no other file, and as figures for print."""

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from romco.explanations.text import (
    COLUMNS,
    EFFECT,
    MEANINGS,
    NEAREST,
    Facts,
    TaskInsight,
    count,
    effects,
    groups,
    headline,
    kinds,
    level_text,
    level_title,
    levels,
    members,
    pairs,
    rank,
    story,
    unit,
)
from romco.presentation.charts import bars
from romco.presentation.page import STYLE, document
from romco.presentation.screen import inert

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, ORANGE = "#0072b2", "#d55e00"  # for print
MAX_PAGE_TASKS, MAX_NOTEBOOK_TASKS = 1000, 50
MAX_BARS = 200


def page(found: Facts) -> str:
    """Return a whole page, with a search and columns that can be sorted."""
    what = "the label" if found.label is None else inert(found.label)
    data = "" if found.data is None else f" in {inert(found.data)}"
    return document(f"What predicts {what}{data}", _content(found, MAX_PAGE_TASKS))


def body(found: Facts) -> str:
    """Return the part between the tags of a page, as a notebook wants it: no script."""
    content = _content(found, MAX_NOTEBOOK_TASKS)
    return f"<style>{STYLE}</style><div class='romco'>{content}</div>"


def _content(found: Facts, most: int) -> str:
    sentences = (headline(found), *levels(found), *effects(found), kinds(found))
    parts = [f"<p>{escape(sentence)}</p>" for sentence in sentences]
    parts += [_picture(found), _meanings(found)]
    parts.append(_list("<h2>Groups</h2>", [("", group) for group in groups(found)]))
    parts += [f"<p>{escape(sentence)}</p>" for sentence in found.findings]
    parts += ["<h2>Task by task</h2>", _different(found), _tasks(found, most)]
    if len(found.tasks) > most:
        parts.append(f"<p><small>and {len(found.tasks) - most:,} more tasks</small></p>")
    terms = "".join(f"<p>{escape(line)}</p>" for line in (rank(found), *found.notes))
    spectrum = [(f"dimension {k + 1}", value) for k, value in enumerate(found.spectrum[:40])]
    drawn = bars(spectrum, "Singular values of U") if spectrum else "<p>Nothing is shared yet.</p>"
    fold = f"<details><summary>In terms of the method</summary>{terms}{drawn}</details>"
    return "".join([*parts, fold])


def _picture(found: Facts) -> str:
    """Levels of the tasks as bars; how much is their own where levels are not known."""
    known = [task for task in found.tasks if task.level is not None and task.events]
    if len(known) > 1 and found.positive is not None:
        ordered = sorted(known, key=lambda task: -(task.level or 0.0))
        title = f"{level_title(found)}, one bar for each task, from 0 to 100 %"
        values = [(inert(str(task.task)), task.level or 0.0) for task in _thinned(ordered)]
    else:
        title = "Part of a task's weights that is its own, one bar for each task"
        ordered = sorted(found.tasks, key=lambda task: -task.share)
        values = [(inert(str(task.task)), task.share) for task in _thinned(ordered)]
    return bars(values, title, height=140, top=1.0, percent=True) if len(values) > 1 else ""


def _thinned(tasks: Sequence[TaskInsight]) -> Sequence[TaskInsight]:
    at = np.unique(np.linspace(0, len(tasks) - 1, min(len(tasks), MAX_BARS)).astype(int))
    return [tasks[k] for k in at.tolist()]


def _meanings(found: Facts) -> str:
    of_kind = {kind: [t for t in found.tasks if t.kind == kind] for kind in found.kinds}
    return _list(
        "<h2>Kinds of tasks</h2>",
        [(kind, f"{MEANINGS.get(kind, '')}. {members(of)}") for kind, of in of_kind.items() if of],
    )


def _list(title: str, items: Sequence[tuple[str, str]]) -> str:
    """Return a title and a list of texts, each after a name in bold if it has one; "" if empty."""
    lines = [
        f"<b>{escape(name)}</b>: {escape(text)}" if name else escape(text) for name, text in items
    ]
    return f"{title}<ul>{''.join(f'<li>{line}</li>' for line in lines)}</ul>" if lines else ""


def _different(found: Facts) -> str:
    known = [task for task in found.personal if task.features or task.nearest][:MAX_BARS]
    return _list("", [(inert(str(task.task)), story(task, found)) for task in known])


def _tasks(found: Facts, most: int) -> str:
    longest = max((t.personal + t.shared for t in found.tasks), default=0.0) or 1.0
    with_level = any(task.level is not None for task in found.tasks)
    head = "".join(f"<th>{name}</th>" for name in COLUMNS if name != "level" or with_level)
    rows = "".join(_row(found, task, longest, with_level) for task in found.tasks[:most])
    return (
        f"<p>Level: {escape(level_title(found))}. Differs in: {escape(unit(found))}, beyond what "
        "tasks share. Its own: the orange part "
        "of the bar; blue is shared with others. The most personal come first.</p>"
        '<div class="table"><table class="sortable stacked told">'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _row(found: Facts, task: TaskInsight, longest: float, with_level: bool) -> str:
    kind = f"<b>{escape(task.kind)}</b>" if task.different else escape(task.kind)
    bar = _bar(task, longest)
    events = "" if task.events is None else str(task.events)
    level = ""
    if with_level:
        value = "" if task.level is None else f"{task.level:.6g}"
        text = level_text(found, task.level)
        level = f'<td data-label="level" data-value="{value}">{text}</td>'
    return (
        f"<tr><td data-text>{escape(inert(str(task.task)))}</td>"
        f'<td data-label="events" data-value="{events}">{count(task.events)}</td>{level}'
        f"<td>{kind}</td>"
        f'<td class="text">{escape(pairs(task.features[:3], EFFECT))}</td>'
        f'<td class="text">{escape(pairs(task.nearest[:2], NEAREST))}</td>'
        f'<td data-label="its own" data-value="{task.share:.6f}">{task.share:.0%}{bar}</td></tr>'
    )


def _bar(task: TaskInsight, longest: float, width: int = 120) -> str:
    shared, personal = (round(width * x / longest, 1) for x in (task.shared, task.personal))
    return (
        f'<svg width="{width}" height="14" role="img"><title>shared and personal</title>'
        f'<rect class="shared" y="3" width="{shared}" height="9"/>'
        f'<rect class="own" x="{shared}" y="3" width="{personal}" height="9"/></svg>'
    )


def figures(found: Facts) -> "dict[str, Figure]":
    """Return the figures ``spectrum`` and ``tasks``; needs matplotlib."""
    from matplotlib.figure import Figure  # here: it is slow to import

    spectrum = Figure(figsize=(5, 3), layout="constrained")
    axes = spectrum.subplots()
    axes.bar(np.arange(1, found.rank + 1), found.spectrum, color=BLUE)
    axes.set(xlabel="dimension", ylabel="singular value of U", title=f"Shared: rank {found.rank}")
    shown = found.tasks[:30][::-1]
    tasks = Figure(figsize=(6, 1.2 + 0.22 * len(shown)), layout="constrained")
    axes = tasks.subplots()
    names = [inert(str(task.task)).replace("$", r"\$") for task in shown]  # no formula
    shared = np.array([task.shared for task in shown])
    axes.barh(names, shared, color=BLUE, label="shared")
    axes.barh(names, [task.personal for task in shown], left=shared, color=ORANGE, label="personal")
    axes.set(xlabel="norm of the weights", title="Tasks, the most personal on top")
    axes.legend()
    return {"spectrum": spectrum, "tasks": tasks}
