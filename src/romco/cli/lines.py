"""Lines for people, on stderr: stdout is for what other programs read."""

from __future__ import annotations

from collections import Counter

from rich.console import Console

from romco.presentation.names import inert as inert
from romco.streams.survey import Survey

LISTED = 30  # columns told one by one

console = Console(stderr=True)


def report(looked: Survey) -> None:
    """How each column is read, and what is suspicious."""
    readings = looked.readings
    width = max((len(reading.column) for reading in readings[:LISTED]), default=0)
    if readings:
        apart = f", separated by {looked.separator!r}" if looked.separator else ""
        say(f"columns, as read from the first {looked.rows:,} rows{apart}:")
    for reading in readings[:LISTED]:
        say(f"  {reading.column:{min(width, 40)}}  {reading.told:9}  {reading.why}")
    if len(readings) > LISTED:
        rest = Counter(reading.told for reading in readings[LISTED:])
        say("  and " + ", ".join(f"{times:,} {told}" for told, times in rest.items()))
    for warning in looked.warnings[:LISTED]:
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
