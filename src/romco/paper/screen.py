"""What the terminal shows: tables and progress."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from rich import box
from rich.console import Console, JustifyMethod
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable

from romco.learners import Method
from romco.paper.plan import Run
from romco.paper.tables import Cell, Table, mark_best
from romco.streams.datasets import Description


def show(console: Console, table: Table) -> None:
    """Print a table; the best of each column bold and starred."""
    drawn = RichTable(
        title=table.title, box=box.SIMPLE_HEAD, title_justify="left", padding=(0, 1, 0, 0)
    )
    for index, text in enumerate(table.head):
        numbers = any(row[index].text[:1].isdigit() for row in table.rows)
        justify: JustifyMethod = "right" if numbers else "left"
        drawn.add_column(text, justify=justify, overflow="fold", no_wrap=numbers)
    for row in table.rows:
        drawn.add_row(*map(_styled, row))
    console.print(drawn)
    for note in table.notes:
        console.print(f"[dim]- {escape(note)}[/dim]", highlight=False)


@contextmanager
def progress(console: Console, what: str, total: int) -> Iterator[Callable[[Run], None]]:
    """A bar; call the result with each finished run."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console) as bar:
        task = bar.add_task(what, total=total)
        try:
            yield lambda run: bar.advance(task)
        except KeyboardInterrupt:
            bar.console.print(
                "interrupted; finished runs are kept: the same command goes on from here"
            )
            raise


def learners_table(methods: Mapping[str, Method]) -> Table:
    """Names, titles, roles, parameters."""
    rows = [
        (
            name,
            method.title,
            method.role,
            ", ".join(f"{k}={v}" for k, v in method.parameters.items()),
        )
        for name, method in methods.items()
    ]
    head = ("name", "title", "role", "parameters and defaults")
    return Table("Learners", head, mark_best(rows, (None,) * 4))


def datasets_table(found: Iterable[Description]) -> Table:
    """The paper's Table 1 for what is here; where the rest comes from."""
    rows, notes = [], []
    for each in found:
        name, figures = each.dataset.name, each.statistics
        if figures is None:
            rows.append(
                [name, each.dataset.summary, "damaged" if each.present else "missing"] + [""] * 4
            )
            notes.append(f"{name}: {each.problem or _where(each)}")
            continue
        per_task = f"{figures.fewest_events} to {figures.most_events}"
        sizes = [str(figures.tasks), per_task, str(figures.features), f"{figures.positive:.0%}"]
        rows.append([name, each.dataset.summary, "present", *sizes])
    head = ("data set", "what", "state", "tasks", "events per task", "features", "positive")
    return Table("Data sets", head, mark_best(rows, (None,) * 7), notes)


def _where(missing: Description) -> str:
    places = " or ".join(map(str, missing.place))
    return f"get it from {missing.dataset.provenance.origin}; put it at {places}"


def _styled(cell: Cell) -> str:
    text = escape(cell.text)
    return f"[bold green]{text} *[/bold green]" if cell.best else text
