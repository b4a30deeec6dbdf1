"""The page: one file that needs no other."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files


def page() -> tuple[bytes, str]:
    """The page, and the policy under which nothing but its own script and style may run."""
    folder = files("romco.server") / "page"
    style = (folder / "page.css").read_text(encoding="utf-8")
    script = (folder / "page.js").read_text(encoding="utf-8")
    text = (folder / "page.html").read_text(encoding="utf-8")
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src '{_hash(script)}'",
            f"style-src '{_hash(style)}'",
            "connect-src 'self'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ]
    )
    return text.replace("/*style*/", style).replace("/*script*/", script).encode(), policy


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
