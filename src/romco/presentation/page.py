"""One HTML page that needs no other file."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from pathlib import Path

STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem;
       color: #1b1f24; background: #fff; }
h1 { font-size: 1.7rem; margin-bottom: .2rem; } h2 { font-size: 1.25rem; margin-top: 2.2rem; }
.lead { color: #444; margin-top: 0; }
.table { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0 .3rem; font-variant-numeric: tabular-nums;
        font-size: .92rem; }
caption { text-align: left; font-weight: 600; padding-bottom: .3rem; }
th, td { padding: .25rem .8rem; text-align: right; border-bottom: 1px solid #e3e6ea;
         white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
td.text { white-space: normal; text-align: left; }
thead th { border-bottom: 2px solid #1b1f24; }
td.best { font-weight: 700; background: #e8f1fb; }
ul.notes { color: #444; font-size: .88rem; margin-top: .2rem; }
figure { margin: 1.5rem 0; } figure img { max-width: 100%; height: auto; }
figcaption { color: #444; font-size: .92rem; }
.holds { color: #00695c; font-weight: 600; } .fails { color: #b3261e; font-weight: 600; }
.undecided { color: #6b5900; font-weight: 600; }
table.verdict { font-size: .85rem; } table.verdict td:first-child { min-width: 15rem; }
table.verdict td, table.verdict th { text-align: left; vertical-align: top; }
table.verdict span { font-weight: 400; } table.verdict td:nth-child(2) span { font-weight: 700; }
footer { color: #555; font-size: .85rem; border-top: 1px solid #e3e6ea; margin-top: 3rem; }
code { background: #f3f4f6; padding: .1rem .3rem; border-radius: 3px; }
"""


def write_page(path: Path, title: str, lead: str, parts: Sequence[str], footer: str) -> Path:
    """Write the page; ``parts`` are HTML already."""
    body = "\n".join(parts)
    path.write_text(
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head>\n<body>\n"
        f'<h1>{html.escape(title)}</h1>\n<p class="lead">{html.escape(lead)}</p>\n{body}\n'
        f"<footer><p>{footer}</p></footer>\n</body></html>\n",
        encoding="utf-8",
    )
    return path


def heading(text: str) -> str:
    """A section begins."""
    return f"<h2>{html.escape(text)}</h2>"


def paragraph(text: str) -> str:
    """Plain text."""
    return f"<p>{html.escape(text)}</p>"


def picture(svg: Path, caption: str) -> str:
    """A figure, carried inside the page."""
    data = base64.b64encode(svg.read_bytes()).decode()
    text = html.escape(caption)
    return (
        f'<figure><img alt="{text}" src="data:image/svg+xml;base64,{data}">'
        f"<figcaption>{text}</figcaption></figure>"
    )


def origin(command: str, versions: dict[str, str]) -> str:
    """The footer: how to make this page again, and with what it was made."""
    made = ", ".join(f"{html.escape(name)} {html.escape(v)}" for name, v in versions.items())
    return f"Made by <code>{html.escape(command)}</code> with {made}."
