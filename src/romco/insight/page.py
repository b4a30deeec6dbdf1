"""An explanation as HTML: no script, no file beside it; bars are inline SVG."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from romco.insight.facts import Facts
from romco.insight.text import COLUMNS, cells, headline

BLUE, ORANGE = "#0072b2", "#d55e00"  # told apart by colour-blind readers too
STYLE = """
.romco{font:14px/1.5 system-ui,sans-serif;color:#222;max-width:72em}
.romco table{border-collapse:collapse;font-variant-numeric:tabular-nums}
.romco th,.romco td{text-align:left;vertical-align:top;padding:.15em .8em .15em 0}
.romco th,.romco td{border-bottom:1px solid #ddd}
.romco h2{font-size:1.1em;margin:1.2em 0 .4em}
.romco svg{display:block}
.romco small{color:#555}
"""


def page(found: Facts) -> str:
    """A whole page."""
    title = escape(f"What {found.learner} has learned")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width,initial-scale=1"></head>'
        f"<body><h1 style='font:600 1.4em system-ui,sans-serif'>{title}</h1>"
        f"{body(found)}</body></html>\n"
    )


def body(found: Facts, most: int = 50) -> str:
    """The part between the tags of a page, as a notebook wants it."""
    parts = [
        f"<style>{STYLE}</style><div class='romco'><p>{escape(headline(found))}</p>",
        *(f"<p>{escape(sentence)}</p>" for sentence in found.findings),
        "<h2>What is shared: singular values of U</h2>",
        _spectrum(found.spectrum[:40]),
        f"<h2>Tasks: <span style='color:{BLUE}'>shared</span> and "
        f"<span style='color:{ORANGE}'>personal</span> part, the most personal first</h2>",
        _tasks(found, most),
    ]
    if len(found.tasks) > most:
        parts.append(f"<p><small>and {len(found.tasks) - most:,} more tasks</small></p>")
    parts += [f"<p><small>{escape(note)}</small></p>" for note in found.notes]
    return "".join(parts) + "</div>"


def _tasks(found: Facts, most: int) -> str:
    longest = max((t.personal + t.shared for t in found.tasks), default=0.0) or 1.0
    head = "".join(f"<th>{name}</th>" for name in ("", *COLUMNS))
    rows = []
    for task in found.tasks[:most]:
        bar = _bar([task.shared / longest, task.personal / longest])
        data = "".join(f"<td>{escape(cell)}</td>" for cell in cells(task))
        rows.append(f"<tr><td>{bar}</td>{data}</tr>")
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>"


def _bar(parts: Sequence[float], width: int = 160) -> str:
    """Two lengths end to end, as shares of the width."""
    shared, personal = (round(width * part, 1) for part in parts)
    return (
        f'<svg width="{width}" height="14" role="img"><title>shared and personal</title>'
        f'<rect y="3" width="{shared}" height="9" fill="{BLUE}"/>'
        f'<rect x="{shared}" y="3" width="{personal}" height="9" fill="{ORANGE}"/></svg>'
    )


def _spectrum(values: Sequence[float], height: int = 90) -> str:
    if not values:
        return "<p>Nothing is shared yet.</p>"
    bars = [
        f'<rect x="{18 * k}" y="{height - height * value / values[0]:.1f}" width="14" '
        f'height="{height * value / values[0]:.1f}" fill="{BLUE}"><title>{value:.4g}</title></rect>'
        for k, value in enumerate(values)
    ]
    return f'<svg width="{18 * len(values)}" height="{height}" role="img">{"".join(bars)}</svg>'
