"""Tables and progress on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich import box
from rich.console import Console, JustifyMethod
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table as RichTable

from romco.presentation.tables import Cell, Table


def show(console: Console, table: Table) -> None:
    """Print a table; the best of each column bold and starred."""
    drawn = RichTable(
        title=table.title, box=box.SIMPLE_HEAD, title_justify="left", padding=(0, 1, 0, 0)
    )
    for index, text in enumerate(table.head):
        digits = sum(row[index].text[:1].isdigit() for row in table.rows)
        numbers = digits > 0.5 * sum(bool(row[index].text) for row in table.rows)
        justify: JustifyMethod = "right" if numbers else "left"
        drawn.add_column(text, justify=justify, overflow="fold", no_wrap=numbers or not index)
    for row in table.rows:
        drawn.add_row(*map(_styled, row))
    console.print(drawn)
    for note in table.notes:
        console.print(f"[dim]- {escape(note)}[/dim]", highlight=False)


@contextmanager
def progress(console: Console, what: str, total: int) -> Iterator[Callable[[object], None]]:
    """Show a bar with percentage and time left; call the result with each finished run."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    left = TimeRemainingColumn(elapsed_when_finished=True)
    with Progress(*columns, TaskProgressColumn(), left, console=console) as bar:
        task = bar.add_task(what, total=total)
        try:
            yield lambda run: bar.advance(task)
        except KeyboardInterrupt:
            bar.console.print(
                "interrupted; finished runs are kept: the same command goes on from here"
            )
            raise


def _styled(cell: Cell) -> str:
    text = escape(cell.text)
    return f"[bold green]{text} *[/bold green]" if cell.best else text
