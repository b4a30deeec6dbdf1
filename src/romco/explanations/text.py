"""Values of an explanation, and the text and the page made of them: levels first."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np

from romco.explanations.curves import Cross, Curve, map_labels
from romco.kernels.step import PERSONAL_CHECK_EVENTS
from romco.presentation.charts import Line, bars, curve_chart, heat_map
from romco.presentation.page import STYLE, document, fold, heading, items, paragraph
from romco.presentation.screen import inert, quantity, spell_number
from romco.presentation.tables import Table, as_html, as_text, mark_best

KINDS = ALIKE, DIFFERENT = "like the others", "different"
MAX_NAMES = 8  # of a kind or a group in a sentence
MAX_ROWS = 20
MAX_PAGE_TASKS = 1000
MAX_NOTEBOOK_TASKS = 50
MAX_BARS = 200
MAX_GROUPS = 5
MAX_OPEN_CURVES = 6  # the others are behind a fold
MAX_CURVES = 30
NEAREST = "{name} ({value:.2f})"
EFFECT = "{name} {value:+.2g}"


@dataclass(frozen=True)
class TaskInsight:
    """One task: its level, where it differs, how much of its weights is its own."""

    task: Any
    events: int | None  # learned so far; None where a bare learner was explained
    shared: float  # norm of its column of U, in the unit of the effects
    personal: float  # the same of V
    since: int | None  # events of all tasks when it was found personal
    different: bool = False  # as the learner judges; else whether it has a column of V at all
    nearest: tuple[tuple[Any, float], ...] = ()  # most similar tasks, by cosine of the weights
    features: tuple[tuple[Any, float], ...] = ()  # largest personal effects
    kind: str = ALIKE  # or DIFFERENT
    group: int | None = None  # of similar tasks
    level: float | None = None  # probability of the positive label, or number, at an average event

    @property
    def title(self) -> str:
        """Name of the task as text that is safe to print."""
        return inert(str(self.task))

    @property
    def share(self) -> float:
        """Personal part of the whole, from 0 to 1."""
        if self.personal <= 0.0:
            return 0.0
        return self.personal / (self.shared + self.personal)

    def summary(self) -> dict[str, Any]:
        """Return JSON values."""
        numbers = {"events": self.events, "since": self.since, "level": self.level}
        return {
            "task": str(self.task),
            **numbers,
            "kind": self.kind,
            "share": self.share,
            "differs_in": _named_numbers(self.features),
            "most_like": _named_numbers(self.nearest),
        }


def _named_numbers(pairs: Sequence[tuple[Any, float]]) -> dict[str, float]:
    return {str(name): value for name, value in pairs}


@dataclass(frozen=True)
class Explanation:
    """Explanation of a model; prints as text, shows as a page in a notebook."""

    learner: str
    events: int | None
    n_tasks: int
    n_features: int
    spectrum: tuple[float, ...]  # singular values of U, largest first
    tasks: tuple[TaskInsight, ...]  # the most different first
    findings: tuple[str, ...] = ()  # sentences
    classes: tuple[str, ...] = ()  # sentences on what speaks for each of many classes
    notes: tuple[str, ...] = ()
    positive: Any = None  # label of a weight above 0, where there is one
    label: str | None = None  # column that is predicted
    data: str | None = None  # where the events came from
    effects: tuple[tuple[Any, float], ...] = ()  # largest effects, mean over tasks
    per_spread: bool = False  # effects are per standard deviation of a column, else per unit
    curves: tuple[Curve, ...] = ()  # of numbers, the largest first
    crosses: tuple[Cross, ...] = ()  # of two columns, the largest first

    @property
    def rank(self) -> int:
        """Rank of U."""
        return len(self.spectrum)

    @property
    def personal(self) -> tuple[TaskInsight, ...]:
        """Tasks that are different from the rest, those with the most evidence first."""
        return tuple(filter(attrgetter("different"), self.tasks))

    @property
    def kinds(self) -> dict[str, int]:
        """Number of tasks of each kind; those that are different are :attr:`personal`."""
        counts = Counter(map(attrgetter("kind"), self.tasks))
        counts[DIFFERENT] += 0
        by_kind = {}
        for kind in (*KINDS, *counts):
            if kind in counts:
                by_kind[kind] = counts[kind]
        return by_kind

    @property
    def groups(self) -> tuple[tuple[TaskInsight, ...], ...]:
        """Similar tasks together, the largest group first: of two and more, but not of all."""
        members: dict[int, list[TaskInsight]] = {}
        for task in self.tasks:
            if task.group is not None:
                members.setdefault(task.group, []).append(task)
        large = [tuple(group) for group in members.values() if 1 < len(group) < len(self.tasks)]
        return tuple(sorted(large, key=len, reverse=True))

    def __str__(self) -> str:
        head = [*opening_sentences(self), *curve_lines(self), *self.classes]
        text = "\n".join([*head, *describe_groups(self), *self.findings])
        tables = [*_common(self), *_by_task(self, MAX_ROWS)]
        return "\n\n".join([text, *map(as_text, tables), *self.notes])

    def page(self) -> str:
        """Return a self-contained HTML page, with a search and columns that can be sorted."""
        title = f"What predicts {label_title(self)}"
        if self.data is not None:
            title += f" in {inert(self.data)}"
        return document(title, _content(self, MAX_PAGE_TASKS))

    def _repr_html_(self) -> str:  # without a script
        content = _content(self, MAX_NOTEBOOK_TASKS)
        return f"<style>{STYLE}</style><div class='romco'>{content}</div>"

    def summary(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "learner": self.learner,
            "label": self.label,
            "positive": self.positive,
            "events": self.events,
            "n_tasks": self.n_tasks,
            "n_features": self.n_features,
            "kinds": self.kinds,
            "effects": _named_numbers(self.effects),
            "effects_unit": unit(self),
            "curves": list(map(Curve.summary, self.curves)),
            "crosses": list(map(Cross.summary, self.crosses)),
            "classes": list(self.classes),
            "findings": list(self.findings),
            "notes": list(self.notes),
            "tasks": list(map(TaskInsight.summary, self.tasks)),
        }


def headline(report: Explanation) -> str:
    """Return in one sentence what was learned from what.

    >>> headline(Explanation("romco-auto", 90, 3, 10, (), (), positive="spam", label="kind"))
    'romco-auto predicts kind (spam or not) from 10 features of 90 events of 3 tasks.'
    """
    text = f"{report.learner} predicts {label_title(report)}"
    if report.positive is not None:
        text += f" ({inert(str(report.positive))} or not)"
    text += f" from {quantity(report.n_features, 'feature')}"
    if report.events is not None:
        text += f" of {quantity(report.events, 'event')}"
    text += f" of {quantity(report.n_tasks, 'task')}"
    if report.data is not None:
        text += f", {inert(report.data)}"
    return f"{text}."


def label_title(report: Explanation) -> str:
    """Name of the column that is predicted."""
    if report.label is None:
        return "the label"
    return inert(report.label)


def describe_levels(report: Explanation) -> list[str]:
    """Describe how far the tasks' levels are apart; nothing where they are not known."""
    values = list(map(itemgetter(1), _known_levels(report)))
    if len(values) < 2:
        return []
    quartiles = np.quantile(values, [0.0, 0.25, 0.5, 0.75, 1.0])
    low, first, middle, third, high = map(partial(level_text, report), quartiles)
    return [
        f"{level_title(report)}: from {low} to {high} by task, half of them from {first} to "
        f"{third}, in the middle {middle}."
    ]


def _known_levels(report: Explanation) -> list[tuple[str, float]]:
    """Return names and levels of the tasks that have learned something and have a level."""
    known = []
    for task in report.tasks:
        if task.level is not None and task.events:
            known.append((task.title, task.level))
    return known


def level_title(report: Explanation) -> str:
    """Name of a task's level."""
    if report.positive is None:
        return "Prediction for an average event"
    return f"Probability of {inert(str(report.positive))} for an average event"


def level_text(report: Explanation, level: float | None) -> str:
    """Return a level as people read it."""
    if level is None:
        return "-"
    if report.positive is None:
        return spell_number(level)
    return f"{level:.0%}"


def opening_sentences(report: Explanation) -> list[str]:
    """Return what text and page begin with."""
    return [headline(report), *describe_levels(report), *describe_kinds(report)]


def unit(report: Explanation) -> str:
    """Return the unit of effects."""
    if report.per_spread:
        return f"{change(report)} per standard deviation of a column"
    return f"{change(report)} per unit of a column"


def curve_lines(report: Explanation) -> list[str]:
    """Return what each curve adds at five values of its column, and how much products add."""
    if not report.curves:
        return []
    names = [_column(curve.column) for curve in report.curves[:MAX_ROWS]]
    width = max(map(len, names))
    lines = [
        f"Curves, {change(report)} at five values of a column, from its 5 to its 95 % quantile:"
    ]
    for name, curve in zip(names, report.curves, strict=False):
        points = [f"{spell_number(value)}: {effect:+.2g}" for value, effect in curve.quantiles()]
        lines.append(f"  {name:{width}}  {'  '.join(points)}")
    for cross in report.crosses[:MAX_ROWS]:
        extremes = f"from {cross.effect.min():+.2g} to {cross.effect.max():+.2g}"
        both = " * ".join(map(_column, cross.columns))
        lines.append(f"  {both}: {extremes} beyond what each adds")
    return lines


def _column(name: Any) -> str:
    return inert(str(name))


def change(report: Explanation) -> str:
    """Return what changes, with its unit."""
    if report.classes:
        return "score of a class"
    if report.positive is None:
        return "change of the prediction"
    return f"log-odds of {inert(str(report.positive))}"


def describe_kinds(report: Explanation) -> list[str]:
    """Count the tasks of each kind, and name the different ones; nothing of a single task."""
    if report.n_tasks == 1:
        return []
    counts = {kind: f"{n:,} {kind}" for kind, n in report.kinds.items()}
    if report.personal:
        counts[DIFFERENT] += f" ({members(report.personal)})"
    return [f"Kinds of tasks: {', '.join(counts.values())}."]


def describe_groups(report: Explanation) -> list[str]:
    """Name the members of groups of similar tasks, the largest first."""
    lines = [f"Group of {len(group):,} similar tasks: {members(group)}." for group in report.groups]
    if len(lines) > MAX_GROUPS:
        lines[MAX_GROUPS:] = [f"And {len(lines) - MAX_GROUPS:,} smaller groups."]
    return lines


def members(tasks: Sequence[TaskInsight]) -> str:
    """Return the names of some tasks, the first eight."""
    names = ", ".join(map(attrgetter("title"), tasks[:MAX_NAMES]))
    if len(tasks) > MAX_NAMES:
        names += f" and {len(tasks) - MAX_NAMES:,} more"
    return names


def _common(report: Explanation) -> list[Table]:
    """Table of the largest effects, where there are any."""
    if not report.effects:
        return []
    sizes = {str(curve.column): curve.size for curve in report.curves}
    rows = []
    for name, value in report.effects:
        rows.append([inert(str(name)), f"{value:+.3g}"])
        if report.per_spread:
            rows[-1].append(f"{sizes.get(str(name), abs(value)):.3g}")
    head = ["column", unit(report), "standard deviation of what it adds"]
    title = "Common to all tasks: the largest effects"
    return [Table(title, head[: len(rows[0])], mark_best(rows))]


def _by_task(report: Explanation, most: int) -> list[Table]:
    """Table of the first tasks; nothing of a single one, which differs from no other."""
    if report.n_tasks == 1:
        return []
    return [tasks_table(report, report.tasks[:most])]


def tasks_table(report: Explanation, tasks: Sequence[TaskInsight]) -> Table:
    """Return a table with a row for each of some tasks; with levels where they are known."""
    with_levels = any(task.level is not None for task in report.tasks)
    head = ["task", "events", "level", "kind", "differs in", "most like", "its own"]
    rows = list(map(partial(_cells, report), tasks))
    notes = [
        f"differs in: {unit(report)}, beyond what tasks share",
        "different: predicted far better with weights of its own; strongest evidence first",
    ]
    if with_levels:
        notes.insert(0, f"level: {level_title(report)}")
    else:
        for row in (head, *rows):
            del row[2]
    if any(task.since is not None for task in tasks):
        notes.append(
            "since: events of all tasks when it was found different; "
            f"looked at every {PERSONAL_CHECK_EVENTS:,}"
        )
    if len(report.tasks) > len(tasks) > 1:
        notes.append(f"and {len(report.tasks) - len(tasks):,} more tasks")
    return Table("Task by task", head, mark_best(rows), notes)


def _cells(report: Explanation, task: TaskInsight) -> list[str]:
    events = "-"
    if task.events is not None:
        events = f"{task.events:,}"
    kind = task.kind
    if task.since is not None:
        kind = f"{kind} since event {task.since:,}"
    return [
        task.title,
        events,
        level_text(report, task.level),
        kind,
        pairs(task.features[:3], EFFECT),
        pairs(task.nearest[:2], NEAREST),
        f"{task.share:.0%}",
    ]


def describe_rank(spectrum: Sequence[float]) -> str:
    """Describe the shared part in terms of the method."""
    values = " ".join(map("{:.3g}".format, spectrum[:10]))
    return f"Shared part U: rank {len(spectrum)}, singular values {values or 'none'}."


def pairs(items: Sequence[tuple[Any, float]], form: str) -> str:
    """Join names with their numbers; a dash where there are none."""
    named = [form.format(name=inert(str(name)), value=value) for name, value in items]
    return ", ".join(named) or "-"


def _content(report: Explanation, most: int) -> str:
    parts = list(map(paragraph, opening_sentences(report)))
    parts += [*map(as_html, _common(report)), _curves(report)]
    parts.append(_picture(report))
    for title, texts in (("Classes", report.classes), ("Groups", describe_groups(report))):
        if texts:
            parts += [heading(title), items(texts)]
    parts += [*map(paragraph, report.findings), *map(as_html, _by_task(report, most))]
    terms = list(map(paragraph, report.notes))
    return "".join([*parts, fold("In terms of the method", terms)])


def _curves(report: Explanation) -> str:
    """Charts of what columns do, and of two together."""
    charts = list(map(_curve_chart, report.curves[:MAX_CURVES]))
    parts = []
    if charts:
        told = (
            f"Up: {change(report)}, by the value of a column where the others are average; "
            "the mean over the data is 0. The band is a 90 % interval. Marks on the axis are "
            "between tenths of the data. Dashed: the tasks whose curves differ most."
        )
        parts += [heading("What a column does"), paragraph(told), *_folded(charts)]
    maps = list(map(_map, report.crosses[:MAX_CURVES]))
    if maps:
        told = (
            "Beyond what each column does. Each value of a number stands for a tenth of the data."
        )
        parts += [heading("What two columns do together"), paragraph(told), *_folded(maps)]
    return "".join(parts)


def _folded(charts: list[str]) -> list[str]:
    """Return the first charts, and the others behind a fold."""
    parts = [_grid(charts[:MAX_OPEN_CURVES])]
    more = charts[MAX_OPEN_CURVES:]
    if more:
        parts.append(fold(f"{len(more):,} more", [_grid(more)]))
    return parts


def _grid(charts: list[str]) -> str:
    return f'<div class="charts">{"".join(charts)}</div>'


def _curve_chart(curve: Curve) -> str:
    values = curve.values.tolist()
    points = list(zip(values, curve.effect.tolist(), strict=True))
    band = list(zip(curve.low.tolist(), curve.high.tolist(), strict=True))
    people = []
    for one in curve.people:
        own_points = list(zip(values, one.effect.tolist(), strict=True))
        people.append(Line(inert(str(one.task)), own_points))
    return curve_chart(Line(_column(curve.column), points), band, people, curve.deciles.tolist())


def _map(cross: Cross) -> str:
    first, second = map(_column, cross.columns)
    columns = map_labels(cross.x.tolist())
    rows = map_labels(cross.y.tolist())
    return heat_map(f"{first} and {second}", (first, second), columns, rows, cross.effect.tolist())


def _picture(report: Explanation) -> str:
    """Levels of the tasks as bars; how much is their own where levels are not known."""
    values = _known_levels(report)
    title = f"{level_title(report)}, one bar for each task"
    if len(values) < 2 or report.positive is None:
        values = list(map(attrgetter("title", "share"), report.tasks))
        title = "Part of a task's weights that is its own, one bar for each task"
    if len(values) < 2:
        return ""
    ordered = sorted(values, key=lambda item: -item[1])
    shown = np.linspace(0, len(ordered) - 1, min(len(ordered), MAX_BARS)).astype(int)
    thinned = [ordered[k] for k in np.unique(shown).tolist()]
    return bars(thinned, title)
