"""HTML pages that need no other file: one style, one script, and the parts of a page."""

import base64
import hashlib
import html
from collections.abc import Sequence
from pathlib import Path

STYLE = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
SCRIPT = Path(__file__).with_name("page.js").read_text(encoding="utf-8")


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


def origin(command: str, versions: dict[str, str]) -> str:
    """Return the footer: the command and the versions that made the page."""
    libraries = ", ".join(f"{html.escape(name)} {html.escape(v)}" for name, v in versions.items())
    return f"Made by <code>{html.escape(command)}</code> with {libraries}."


def fold(summary: str, parts: Sequence[str]) -> str:
    """Hide parts behind a line that opens them."""
    return f"<details><summary>{html.escape(summary)}</summary>{''.join(parts)}</details>"


def items(texts: Sequence[str]) -> str:
    """Make a list of plain texts."""
    listed = "".join(f"<li>{html.escape(text)}</li>" for text in texts)
    return f"<ul>{listed}</ul>"
