"""What there is to choose from: learners and data sets, as tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from romco.learners import Method
from romco.presentation.tables import Table, mark_best
from romco.streams.datasets import Description


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
        name, summary, figures = each.dataset.name, each.dataset.summary, each.statistics
        if figures is None:
            rows.append([name, summary, "damaged" if each.present else "missing", "", "", ""])
            notes.append(f"{name}: {each.problem or _where(each)}")
            continue
        per_task = f"{figures.fewest_events}-{figures.most_events}"
        sizes = [str(figures.tasks), per_task, str(figures.features), f"{figures.positive:.0%}"]
        rows.append([name, summary, *sizes])
    head = ("data set", "what", "tasks", "events/task", "features", "positive")
    return Table("Data sets", head, mark_best(rows, (None,) * 6), notes)


def _where(missing: Description) -> str:
    places = " or ".join(map(str, missing.place))
    return f"get it from {missing.dataset.origin}; put it at {places}"
