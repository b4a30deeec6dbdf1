"""HTML pages that need no other file: one style, one script, and the parts of a page."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Sequence
from pathlib import Path

# All under one class, so that a part of a page can be shown inside another, as notebooks do.
STYLE = """
.romco { color-scheme: light dark; --ink: #1b1f24; --soft: #57606a; --paper: #fff; --line: #e3e6ea;
  --mark: #e8f1fb; --blue: #0072b2; --orange: #d55e00; --good: #00695c; --bad: #b3261e;
  --open: #6b5900; font: 16px/1.5 system-ui, sans-serif; color: var(--ink); max-width: 68rem;
  background: var(--paper); overflow-wrap: anywhere; }
@media (prefers-color-scheme: dark) { .romco { --ink: #e6e9ee; --soft: #a5adb8; --paper: #15181c;
  --line: #333941; --mark: #173651; --blue: #56b4e9; --orange: #f0883e; --good: #4fc3b0;
  --bad: #ff8a80; --open: #e0c34c; } }
body.romco { margin: 2rem auto; padding: 0 1rem; }
html:has(body.romco) { color-scheme: light dark; }
.romco h1 { font-size: 1.7rem; line-height: 1.25; margin-bottom: .2rem; }
.romco h2 { font-size: 1.25rem; margin-top: 2rem; }
.romco .lead { margin-top: 0; } .romco small, .romco figcaption { color: var(--soft); }
.romco .table { overflow-x: auto; }
.romco table { border-collapse: collapse; margin: 1rem 0 .3rem; font-variant-numeric: tabular-nums;
  font-size: .92rem; overflow-wrap: normal; }
.romco caption { text-align: left; font-weight: 600; padding-bottom: .3rem; }
.romco th, .romco td { padding: .25rem .7rem; text-align: right; vertical-align: top;
  border-bottom: 1px solid var(--line); white-space: nowrap; }
.romco thead th { border-bottom: 2px solid var(--ink); vertical-align: bottom; }
.romco th:first-child, .romco td:first-child { text-align: left; padding-left: 0;
  position: sticky; left: 0; background: var(--paper); }
.romco td.text { white-space: normal; text-align: left; min-width: 12rem; }
.romco td.text:first-child { min-width: 0; }
.romco td.best { font-weight: 700; background: var(--mark); }
.romco thead button { font: inherit; font-weight: 600; color: inherit; background: none; border: 0;
  padding: 0; cursor: pointer; }
.romco [aria-sort] button::after { content: " \\2195"; color: var(--soft); }
.romco [aria-sort=ascending] button::after { content: " \\2191"; color: inherit; }
.romco [aria-sort=descending] button::after { content: " \\2193"; color: inherit; }
.romco input[type=search] { font: inherit; padding: .3rem .6rem; width: min(100%, 24rem);
  box-sizing: border-box; color: inherit; background: var(--paper); border: 1px solid var(--soft);
  border-radius: 4px; margin-top: .6rem; }
.romco ul.notes { color: var(--soft); font-size: .88rem; margin-top: .2rem; }
.romco figure { margin: 1.5rem 0; }
.romco figure img { max-width: 100%; height: auto; background: #fff; border-radius: 4px; }
.romco .holds { color: var(--good); font-weight: 600; }
.romco .fails { color: var(--bad); font-weight: 600; }
.romco .undecided { color: var(--open); font-weight: 600; }
.romco table.verdict { font-size: .85rem; }
.romco table.verdict td:first-child { min-width: 15rem; }
.romco table.verdict td, .romco table.verdict th { text-align: left; white-space: normal; }
.romco table.verdict span { font-weight: 400; }
.romco table.verdict td:nth-child(2) span { font-weight: 700; }
.romco footer { color: var(--soft); font-size: .85rem; border-top: 1px solid var(--line);
  margin-top: 3rem; }
.romco code { background: var(--mark); padding: .1rem .3rem; border-radius: 3px; }
.romco svg { display: block; } .romco > svg { max-width: 100%; } .romco summary { cursor: pointer; }
.romco .shared { fill: var(--blue); } .romco .own { fill: var(--orange); }
.romco .chart { max-width: 44rem; } .romco .chart svg { width: 100%; height: auto; }
.romco .chart > figcaption { font-weight: 600; color: var(--ink); }
.romco .chart text { font-size: 13px; fill: var(--soft); }
.romco .chart .grid { stroke: var(--line); } .romco .line { fill: none; stroke-width: 2.5; }
.romco .line.shared { stroke: var(--blue); stroke-width: 3; }
.romco .line.own { stroke: var(--orange); stroke-dasharray: 7 3; }
.romco .line.soft { stroke: var(--soft); stroke-dasharray: 2 3; }
.romco .legend { display: flex; flex-wrap: wrap; gap: .2rem 1.4rem; font-size: .9rem; }
.romco .legend svg { display: inline; width: 26px; height: 10px; vertical-align: middle; }
.romco details { margin: 1.5rem 0; } .romco summary { font-weight: 600; }
.romco th.text, .romco .told td, .romco .told th { text-align: left; }
@media (max-width: 700px) { .romco .chart text { font-size: 22px; }
  .romco table.verdict td:first-child { min-width: 9rem; }
  .romco th, .romco td { padding: .25rem .5rem; }
  .romco .stacked, .romco .stacked tbody, .romco .stacked caption { display: block; }
  .romco .stacked { overflow-wrap: anywhere; }
  .romco .stacked thead tr { display: flex; flex-wrap: wrap; gap: 0 1rem; }
  .romco .stacked thead, .romco .stacked td:first-child, .romco .stacked td.text { display: block; }
  .romco .stacked td { display: inline-block; margin-right: 1.2rem; text-align: left; }
  .romco .stacked thead th, .romco .stacked td { border: 0; padding: .1rem 0; position: static;
    white-space: normal; min-width: 0; }
  .romco .stacked thead { border-bottom: 2px solid var(--ink); padding-bottom: .3rem; }
  .romco .stacked tbody tr { display: block; padding: .5rem 0;
    border-bottom: 1px solid var(--line); }
  .romco .stacked tbody tr[hidden] { display: none; }
  .romco .stacked td:first-child { font-weight: 600; }
  .romco .stacked td[data-label]::before { content: attr(data-label) ": "; color: var(--soft); } }
"""

# Sorts by a click on a head, and searches. It holds no data, and writes text, never HTML.
SCRIPT = """
"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0], rows = [...body.rows];
  const key = (row, column) => {
    const cell = row.cells[column], told = cell.dataset.value ?? cell.textContent.trim();
    const number = parseFloat(told.replaceAll(",", ""));
    return Number.isNaN(number) || cell.dataset.text !== undefined ? told : number;
  };
  const compare = (a, b) => typeof a === "number" && typeof b === "number" ? a - b
    : typeof a === "number" ? -1 : typeof b === "number" ? 1
    : a.localeCompare(b, undefined, { numeric: true });
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    head.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of table.tHead.rows[0].cells) other.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const sign = down ? -1 : 1;
      rows.sort((a, b) => sign * compare(key(a, column), key(b, column)));
      body.append(...rows);
    });
  });
  if (rows.length > 10) {
    const box = document.createElement("input");
    box.type = "search";
    box.placeholder = "search";
    box.setAttribute("aria-label", "search this table");
    box.addEventListener("input", () => {
      const wanted = box.value.toLowerCase();
      for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
    });
    table.before(box);
  }
}
"""


def document(title: str, body: str) -> str:
    """Return a whole page; ``body`` is HTML already.

    A browser runs no script in it but ``SCRIPT``, whatever names the data hold.

    >>> "<title>a &lt; b</title>" in document("a < b", "<p>told</p>")
    True
    """
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    allowed = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    allowed += f"; script-src 'sha256-{digest}'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{allowed}">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head>\n"
        f'<body class="romco">\n<h1>{html.escape(title)}</h1>\n{body}\n'
        f"<script>{SCRIPT}</script></body></html>\n"
    )


def write_page(path: Path, title: str, lead: str, parts: Sequence[str], footer: str) -> Path:
    """Write the page; ``parts`` are HTML already."""
    body = "\n".join(parts)
    content = f'<p class="lead">{html.escape(lead)}</p>\n{body}\n<footer><p>{footer}</p></footer>'
    path.write_text(document(title, content), encoding="utf-8")
    return path


def heading(text: str) -> str:
    """Return the heading of a section."""
    return f"<h2>{html.escape(text)}</h2>"


def paragraph(text: str) -> str:
    """Return a paragraph of plain text."""
    return f"<p>{html.escape(text)}</p>"


def picture(svg: Path, caption: str) -> str:
    """Return a figure that is embedded in the page."""
    data = base64.b64encode(svg.read_bytes()).decode()
    text = html.escape(caption)
    return (
        f'<figure><img alt="{text}" src="data:image/svg+xml;base64,{data}">'
        f"<figcaption>{text}</figcaption></figure>"
    )


def origin(command: str, versions: dict[str, str]) -> str:
    """Return the footer: the command and the versions that made the page."""
    made = ", ".join(f"{html.escape(name)} {html.escape(v)}" for name, v in versions.items())
    return f"Made by <code>{html.escape(command)}</code> with {made}."


def fold(summary: str, parts: Sequence[str]) -> str:
    """Hide parts behind a line that opens them."""
    return f"<details><summary>{html.escape(summary)}</summary>{''.join(parts)}</details>"


def items(texts: Sequence[str]) -> str:
    """Make a list of plain texts."""
    return f"<ul>{''.join(f'<li>{html.escape(text)}</li>' for text in texts)}</ul>"
