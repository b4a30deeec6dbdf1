"""Lines for people, on stderr; stdout is for other programs."""

from rich.console import Console

from romco.io.schema import Schema
from romco.presentation.screen import inert as inert

MAX_WARNINGS = 30

console = Console(stderr=True)


def note(text: str) -> None:
    """Print a line for people."""
    console.print(inert(text), highlight=False, soft_wrap=True, markup=False)


def warn(text: str | None) -> None:
    """Print a warning, if there is one."""
    if text is not None:
        note(f"warning: {text}")


def note_schema(schema: Schema) -> None:
    """Print how each column is read, and what is suspicious."""
    if schema.columns:
        for line in str(schema).splitlines():
            note(line)
    for warning in schema.warnings[:MAX_WARNINGS]:
        warn(warning)


def note_skipped(skipped: int) -> None:
    """Print how many rows could not be read, if any."""
    if skipped:
        note(f"{skipped:,} bad rows skipped")
