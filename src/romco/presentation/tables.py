"""Tables once, printed three ways: Markdown, HTML, plain text."""

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from romco.presentation.screen import inert


@dataclass(frozen=True)
class Cell:
    """A text, and whether it is the best of its column."""

    text: str
    best: bool = False


@dataclass(frozen=True)
class Table:
    """A title, a head, rows, and the remarks that must stand beside them."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()


def mark_best(
    rows: Iterable[Sequence[Any]], keys: Sequence[int | None] | None = None
) -> list[list[Cell]]:
    """Rows of (text, number) pairs, or texts alone, to cells with the best of each column marked.

    ``keys`` says for each column whether low (-1) or high (1) is best, None for neither; without
    ``keys`` nothing is marked.

    >>> mark_best([["a", ("1.0", 1.0)], ["b", ("2.0", 2.0)]], (None, -1))[0][1]
    Cell(text='1.0', best=True)
    """
    pairs = [list(map(_with_number, row)) for row in rows]
    if not pairs:
        return []
    columns = list(zip(*pairs, strict=True))
    keys = keys or (None,) * len(columns)
    marked = [_marked(column, key) for column, key in zip(columns, keys, strict=True)]
    return list(map(list, zip(*marked, strict=True)))


def _with_number(part: Any) -> tuple[Any, float]:
    if isinstance(part, tuple):
        text, number = part
        return text, float(number)
    return part, np.nan


def _marked(column: Sequence[tuple[Any, float]], key: int | None) -> list[Cell]:
    """Return the cells of a column, the best marked."""
    texts, values = zip(*column, strict=True)
    numbers = np.array(values)
    best = np.nan
    finite = numbers[np.isfinite(numbers)]
    if key is not None and len(finite):
        best = (finite * key).max() * key
    return list(map(Cell, map(str, texts), (numbers == best).tolist()))


def markdown(table: Table) -> str:
    """Return the table in Markdown; the best in bold."""
    lines = [_markdown_row(table.head), _markdown_row(["---"] * len(table.head))]
    lines += [_markdown_row(map(_bold, row)) for row in table.rows]
    text = f"**{table.title}**\n\n" + "\n".join(lines) + "\n"
    for note in table.notes:
        text += f"\n- {note.removesuffix('.')}."
    if table.notes:
        text += "\n"
    return text


def _markdown_row(texts: Iterable[str]) -> str:
    return "| " + " | ".join(texts) + " |"


def _bold(cell: Cell) -> str:
    if cell.best:
        return f"**{cell.text}**"
    return cell.text


def as_text(table: Table) -> str:
    """Return the table as plain text that is safe to print; the best starred, notes below.

    >>> print(as_text(Table("", ["name", "error"], mark_best([["a", "10"], ["b", "9.5"]]))))
    name  error
    a        10
    b       9.5
    """
    columns = []
    for head, cells in zip(table.head, zip(*table.rows, strict=True), strict=False):
        texts = [head, *map(_starred, cells)]
        width = max(map(len, texts))
        align = str.ljust
        if all(not text[:1].isalpha() for text in texts[1:]):
            align = str.rjust
        columns.append([align(text, width) for text in texts])
    lines = ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]
    return "\n".join([*filter(None, [table.title]), *lines, *(f"- {note}" for note in table.notes)])


def _starred(cell: Cell) -> str:
    if cell.best:
        return f"{inert(cell.text)} *"
    return inert(cell.text)


def as_html(table: Table) -> str:
    """Return an HTML table with its caption; notes below."""
    first = [Cell("")] * len(table.head)
    if table.rows:
        first = list(table.rows[0])
    head = "".join(map(_th, table.head, first))
    labels = ("", *table.head[1:])
    rows = "".join(f"<tr>{''.join(map(_td, row, labels))}</tr>\n" for row in table.rows)
    text = (
        '<div class="table"><table class="sortable stacked">'
        f"<caption>{html.escape(table.title)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>\n{rows}</tbody></table></div>"
    )
    if table.notes:
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in table.notes)
        text += f'<ul class="notes">{notes}</ul>'
    return text


def _th(text: str, below: Cell) -> str:
    attributes = ' class="text"' if below.text[:1].isalpha() else ""
    return f"<th{attributes}>{html.escape(text)}</th>"


def _td(cell: Cell, label: str) -> str:
    """A cell; its label stands before it where rows are stacked, on a narrow screen."""
    attributes = ""
    is_text = not cell.best and cell.text[:1].isalpha()
    if cell.best:
        attributes = ' class="best"'
    elif is_text:
        attributes = ' class="text"'
    if label and not is_text:
        attributes += f' data-label="{html.escape(label)}"'
    return f"<td{attributes}>{html.escape(cell.text)}</td>"
