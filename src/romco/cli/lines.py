"""Lines for people, on stderr: stdout is for what other programs read."""

from __future__ import annotations

from rich.console import Console

from romco.io.schema import Schema
from romco.presentation.names import inert as inert

MAX_WARNINGS = 30

console = Console(stderr=True)


def report(schema: Schema) -> None:
    """Print how each column is read, and what is suspicious."""
    for line in str(schema).splitlines() if schema.columns else ():
        say(line)
    for warning in schema.warnings[:MAX_WARNINGS]:
        warn(warning)


def tell_skipped(skipped: int) -> None:
    """How many rows could not be read."""
    if skipped:
        say(f"{skipped:,} bad rows skipped")


def warn(text: str | None) -> None:
    """A warning, if there is one."""
    if text is not None:
        say(f"warning: {text}")


def say(text: str) -> None:
    """A line for people."""
    console.print(inert(text), highlight=False, soft_wrap=True, markup=False)
