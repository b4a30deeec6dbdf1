"""An explanation: facts that print as a table, show as a page, and can be drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from romco.explanations import page as pages
from romco.explanations import text
from romco.explanations.facts import Facts

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@final
@dataclass(frozen=True)
class Explanation(Facts):
    """What a model has learned; prints as a table, shows as a page in a notebook."""

    def __str__(self) -> str:
        return text.table(self)

    def _repr_html_(self) -> str:
        return pages.body(self)

    def page(self) -> str:
        """A self-contained HTML page."""
        return pages.page(self)

    def figures(self) -> dict[str, Figure]:
        """Figures by name, for print; needs matplotlib."""
        from romco.explanations import figures  # here: matplotlib is slow to import

        return figures.figures(self)
