"""One HTML page that needs no other file."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from pathlib import Path

from romco.presentation.styles import document


def write_page(path: Path, title: str, lead: str, parts: Sequence[str], footer: str) -> Path:
    """Write the page; ``parts`` are HTML already."""
    body = "\n".join(parts)
    told = f'<p class="lead">{html.escape(lead)}</p>\n{body}\n<footer><p>{footer}</p></footer>'
    path.write_text(document(title, told), encoding="utf-8")
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


def fold(summary: str, parts: Sequence[str]) -> str:
    """Hide parts behind a line that opens them."""
    return f"<details><summary>{html.escape(summary)}</summary>{''.join(parts)}</details>"


def items(texts: Sequence[str]) -> str:
    """Make a list of plain texts."""
    return f"<ul>{''.join(f'<li>{html.escape(text)}</li>' for text in texts)}</ul>"
