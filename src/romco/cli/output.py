"""Lines for people, on stderr; stdout is for other programs; a bar of progress."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

from romco.io.schema import Schema
from romco.presentation.screen import inert as inert
from romco.presentation.screen import quantity as quantity

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
        note(f"{quantity(skipped, 'bad row')} skipped")


@contextmanager
def progress(console: Console, what: str, total: int) -> Iterator[Callable[[object], None]]:
    """Show a bar with percentage and time left; call the result with each finished run."""
    from rich import progress as parts  # here, so that commands without a bar start quickly

    shown = (parts.TextColumn("{task.description}"), parts.BarColumn(), parts.MofNCompleteColumn())
    left = parts.TaskProgressColumn(), parts.TimeRemainingColumn(elapsed_when_finished=True)
    with parts.Progress(*shown, *left, console=console) as bar:
        task = bar.add_task(what, total=total)
        try:
            yield lambda run: bar.advance(task)
        except KeyboardInterrupt:
            bar.console.print("interrupted; finished runs are kept: the same command goes on")
            raise
