"""Tables once, printed three ways: Markdown, HTML, terminal."""

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


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
    rows = [[part if isinstance(part, tuple) else (part, np.nan) for part in row] for row in rows]
    if not rows:
        return []
    table = np.array([[number for _, number in row] for row in rows], dtype=float)
    best = []
    for column, key in zip(table.T, keys or (None,) * len(table.T), strict=True):
        known = column[np.isfinite(column)]
        best.append(None if key is None or not len(known) else (known * key).max() * key)
    return [
        [
            Cell(str(text), bool(number == top))
            for (text, number), top in zip(row, best, strict=True)
        ]
        for row in rows
    ]


def markdown(table: Table) -> str:
    """Return the table in Markdown; the best in bold."""
    rows = [[f"**{cell.text}**" if cell.best else cell.text for cell in row] for row in table.rows]
    lines = [list(table.head), ["---"] * len(table.head), *rows]
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    notes = "".join(f"\n- {note.removesuffix('.')}." for note in table.notes)
    return f"**{table.title}**\n\n{text}\n" + (f"{notes}\n" if notes else "")


def as_html(table: Table) -> str:
    """Return an HTML table with its caption; notes below."""
    first = table.rows[0] if table.rows else [Cell("")] * len(table.head)
    head = "".join(_th(text, cell) for text, cell in zip(table.head, first, strict=True))
    rows = "".join(
        f"<tr>{''.join(map(_td, row, ('', *table.head[1:])))}</tr>\n" for row in table.rows
    )
    notes = "".join(f"<li>{html.escape(note)}</li>" for note in table.notes)
    return (
        '<div class="table"><table class="sortable stacked">'
        f"<caption>{html.escape(table.title)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>\n{rows}</tbody></table></div>"
        + (f'<ul class="notes">{notes}</ul>' if notes else "")
    )


def _th(text: str, below: Cell) -> str:
    kind = ' class="text"' if below.text[:1].isalpha() else ""
    return f"<th{kind}>{html.escape(text)}</th>"


def _td(cell: Cell, label: str) -> str:
    """A cell; its label stands before it where rows are stacked, on a narrow screen."""
    kind = "best" if cell.best else "text" if cell.text[:1].isalpha() else ""
    attributes = f' class="{kind}"' if kind else ""
    attributes += f' data-label="{html.escape(label)}"' if label and kind != "text" else ""
    return f"<td{attributes}>{html.escape(cell.text)}</td>"
