"""The terminal: safe text, tables and progress."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, JustifyMethod

    from romco.presentation.tables import Cell, Table


def inert(text: str, spell: Callable[[str], str] = ascii) -> str:
    r"""Spell out control characters, so that a name cannot command a terminal.

    JSON keeps its meaning if it is spelled by ``json.dumps``.

    >>> inert("a" + chr(27) + "[31m")
    'a\\x1b[31m'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else spell(c)[1:-1] for c in text)


def spell_number(number: float) -> str:
    """Return a number with at most four digits that matter, without an exponent if it can be.

    >>> [spell_number(number) for number in (0.0012345, 2.5, 12345.6)]
    ['0.001234', '2.5', '12,346']
    """
    if 1e4 <= abs(number) < 1e12:
        return f"{number:,.0f}"
    return f"{number:.4g}"


def show(console: "Console", table: "Table") -> None:
    """Print a table; the best of each column bold and starred."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    drawn = RichTable(
        title=table.title, box=box.SIMPLE_HEAD, title_justify="left", padding=(0, 1, 0, 0)
    )
    for index, text in enumerate(table.head):
        firsts = [row[index].text[:1] for row in table.rows]
        numbers = sum(map(str.isdigit, firsts)) > 0.5 * sum(map(bool, firsts))
        justify: JustifyMethod = "left"
        if numbers:
            justify = "right"
        drawn.add_column(text, justify=justify, overflow="fold", no_wrap=numbers or not index)

    def styled(cell: "Cell") -> Text:
        if cell.best:
            return Text(f"{cell.text} *", "bold green")
        return Text(cell.text)

    for row in table.rows:
        drawn.add_row(*map(styled, row))
    console.print(drawn)
    for note in table.notes:
        console.print(f"- {note}", style="dim", highlight=False, markup=False)


@contextmanager
def progress(console: "Console", what: str, total: int) -> Iterator[Callable[[object], None]]:
    """Show a bar with percentage and time left; call the result with each finished run."""
    from rich import progress as parts

    shown = (parts.TextColumn("{task.description}"), parts.BarColumn(), parts.MofNCompleteColumn())
    left = parts.TaskProgressColumn(), parts.TimeRemainingColumn(elapsed_when_finished=True)
    with parts.Progress(*shown, *left, console=console) as bar:
        task = bar.add_task(what, total=total)
        try:
            yield lambda run: bar.advance(task)
        except KeyboardInterrupt:
            bar.console.print("interrupted; finished runs are kept: the same command goes on")
            raise
