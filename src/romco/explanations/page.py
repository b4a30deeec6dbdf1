"""An explanation as HTML with no file beside it: plain words first; bars are inline SVG."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from romco.explanations.facts import ALONE, Facts, TaskInsight
from romco.explanations.text import (
    MEANING,
    groups,
    headline,
    kinds,
    members,
    spectrum,
    story,
    whole,
)
from romco.presentation.names import inert
from romco.presentation.styles import STYLE, document

BLUE, ORANGE = "#0072b2", "#d55e00"  # told apart by colour-blind readers too; for print
COLUMNS = ("task", "kind", "events", "its own", "in words")
MOST = 1000  # tasks on a page: more are slow to show


def page(found: Facts) -> str:
    """A whole page, with a search and columns that can be sorted."""
    return document(f"What {found.learner} has learned", _told(found, MOST))


def body(found: Facts, most: int = 50) -> str:
    """The part between the tags of a page, as a notebook wants it: no script."""
    return f"<style>{STYLE}</style><div class='romco'>{_told(found, most)}</div>"


def _told(found: Facts, most: int) -> str:
    parts = [
        *(f"<p>{escape(sentence)}</p>" for sentence in (headline(found), kinds(found))),
        _kinds(found),
        *_groups(found),
        *(f"<p>{escape(sentence)}</p>" for sentence in found.findings),
        "<h2>Task by task</h2>",
        "<p>How much of what a task goes by is its own: the orange part of its bar; blue is shared "
        "with others. The most personal come first.</p>",
        _tasks(found, most),
    ]
    if len(found.tasks) > most:
        parts.append(f"<p><small>and {len(found.tasks) - most:,} more tasks</small></p>")
    parts += ["<h2>In terms of the method</h2>", f"<p>{escape(spectrum(found))}</p>"]
    parts += [_spectrum(found.spectrum[:40])]
    parts += [f"<p><small>{escape(note)}</small></p>" for note in found.notes]
    return "".join(parts)


def _kinds(found: Facts) -> str:
    """What each kind means, and who is of it."""
    lines = []
    for kind in found.kinds:
        of = [task for task in found.tasks if task.kind == kind]
        if of:
            meaning = escape(MEANING.get(kind, ""))
            lines.append(f"<li><b>{escape(kind)}</b>: {meaning}. {escape(members(of))}</li>")
    return f"<h2>Kinds of tasks</h2><ul>{''.join(lines)}</ul>" if lines else ""


def _groups(found: Facts) -> list[str]:
    lines = "".join(f"<li>{escape(group)}</li>" for group in groups(found))
    return [f"<h2>Groups</h2><ul>{lines}</ul>"] if lines else []


def _tasks(found: Facts, most: int) -> str:
    longest = max((t.personal + t.shared for t in found.tasks), default=0.0) or 1.0
    head = "".join(f"<th>{name}</th>" for name in COLUMNS)
    rows = "".join(_row(task, longest) for task in found.tasks[:most])
    return (
        '<div class="table"><table class="sortable stacked told">'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _row(task: TaskInsight, longest: float) -> str:
    kind = f"<b>{ALONE}</b>" if task.different else escape(task.kind)
    bar = _bar([task.shared / longest, task.personal / longest])
    events = "" if task.events is None else str(task.events)
    return (
        f"<tr><td data-text>{escape(inert(str(task.task)))}</td><td>{kind}</td>"
        f'<td data-label="events" data-value="{events}">{whole(task.events)}</td>'
        f'<td data-label="its own" data-value="{task.share:.6f}">{task.share:.0%}{bar}</td>'
        f'<td class="text">{escape(story(task))}</td></tr>'
    )


def _bar(parts: Sequence[float], width: int = 120) -> str:
    """Two lengths end to end, as shares of the width."""
    shared, personal = (round(width * part, 1) for part in parts)
    return (
        f'<svg width="{width}" height="14" role="img"><title>shared and personal</title>'
        f'<rect class="shared" y="3" width="{shared}" height="9"/>'
        f'<rect class="own" x="{shared}" y="3" width="{personal}" height="9"/></svg>'
    )


def _spectrum(values: Sequence[float], height: int = 90) -> str:
    if not values:
        return "<p>Nothing is shared yet.</p>"
    bars = [
        f'<rect class="shared" x="{18 * k}" y="{height - height * value / values[0]:.1f}" '
        f'width="14" height="{height * value / values[0]:.1f}"><title>{value:.4g}</title></rect>'
        for k, value in enumerate(values)
    ]
    return f'<svg width="{18 * len(values)}" height="{height}" role="img">{"".join(bars)}</svg>'
