"""Values of an explanation, and the text, page and figures made of them: levels first."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from romco.explanations.curves import Cross, Curve, map_labels
from romco.learners.auto import KINDS
from romco.presentation.charts import Line, bars, curve_chart, heat_map
from romco.presentation.page import STYLE, document, fold, heading, paragraph
from romco.presentation.screen import inert
from romco.presentation.tables import Table, as_html, mark_best

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALIKE, DIFFERENT = KINDS
MEANINGS = {
    ALIKE: "have no level or weights of their own that are surely not chance",
    DIFFERENT: "differ from the others by more than chance",
}
MIN_TWIN_COSINE = 0.9  # from which on two tasks are as good as equal
MAX_NAMES = 8  # of a kind or a group in a sentence
MAX_ROWS = 20
MAX_PAGE_TASKS = 1000
MAX_NOTEBOOK_TASKS = 50
MAX_BARS = 200
MAX_STORIES = 20  # the others are behind a fold
MAX_OPEN_CURVES = 6  # the others are behind a fold, too
MAX_CURVES = 30
COLUMNS = ("task", "events", "level", "kind", "differs in", "most like", "its own")
NEAREST = "{name} ({value:.2f})"
EFFECT = "{name} {value:+.2g}"
CLASS_TEXT = ' class="text"'


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
    tasks: tuple[TaskInsight, ...]  # the most personal first
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
        """Tasks that are different from the rest, the most personal first."""
        return tuple(task for task in self.tasks if task.different)

    @property
    def kinds(self) -> dict[str, int]:
        """Number of tasks of each kind; those that are different are :attr:`personal`."""
        counts = Counter(task.kind for task in self.tasks)
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
        return table(self)

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

    def figures(self) -> "dict[str, Figure]":
        """Return the figures ``spectrum``, ``tasks``, ``columns`` for print; needs matplotlib."""
        from romco.explanations import figures  # here: matplotlib is slow to import

        drawn = {"spectrum": figures.draw_spectrum(self.spectrum)}
        norms = [(str(task.task), task.shared, task.personal) for task in self.tasks]
        drawn["tasks"] = figures.draw_tasks(norms)
        if self.curves:
            drawn["columns"] = figures.draw_columns(self.curves, self.crosses, change(self))
        return drawn


def headline(report: Explanation) -> str:
    """Return in one sentence what was learned from what.

    >>> headline(Explanation("romco-auto", 90, 3, 10, (), (), positive="spam", label="kind"))
    'romco-auto predicts kind (spam or not) from 10 features of 90 events of 3 tasks.'
    """
    text = f"{report.learner} predicts {label_title(report)}"
    if report.positive is not None:
        text += f" ({inert(str(report.positive))} or not)"
    text += f" from {report.n_features:,} features"
    if report.events is not None:
        text += f" of {report.events:,} events"
    text += f" of {report.n_tasks:,} tasks"
    if report.data is not None:
        text += f", {inert(report.data)}"
    return f"{text}."


def label_title(report: Explanation) -> str:
    """Name of the column that is predicted."""
    if report.label is None:
        return "the label"
    return inert(report.label)


def levels(report: Explanation) -> list[str]:
    """Describe how far the tasks' levels are apart; nothing where they are not known."""
    values = [level for _, level in _known_levels(report)]
    if len(values) < 2:
        return []
    quartiles = np.quantile(values, [0.0, 0.25, 0.5, 0.75, 1.0])
    low, first, middle, third, high = (level_text(report, level) for level in quartiles)
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
        return f"{level:.4g}"
    return f"{level:.0%}"


def effects(report: Explanation) -> list[str]:
    """Describe the effects of the columns that matter most, mean over tasks."""
    if not report.effects:
        return []
    return [f"Largest effects, mean over tasks, {unit(report)}: {pairs(report.effects, EFFECT)}."]


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
        points = [f"{value:.4g}: {effect:+.2g}" for value, effect in curve.quantiles()]
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


def kinds(report: Explanation) -> str:
    """Count the tasks of each kind, and name the different ones."""
    counts = {kind: f"{n:,} {kind}" for kind, n in report.kinds.items()}
    if report.personal:
        counts[DIFFERENT] += f" ({members(report.personal)})"
    return f"Kinds of tasks: {', '.join(counts.values())}."


def groups(report: Explanation, most: int = 5) -> list[str]:
    """Name the members of groups of similar tasks, the largest first."""
    lines = [f"Group of {len(group):,} similar tasks: {members(group)}." for group in report.groups]
    if len(lines) > most:
        lines[most:] = [f"And {len(lines) - most:,} smaller groups."]
    return lines


def members(tasks: Sequence[TaskInsight]) -> str:
    """Return the names of some tasks, the first eight."""
    names = ", ".join(task.title for task in tasks[:MAX_NAMES])
    if len(tasks) > MAX_NAMES:
        names += f" and {len(tasks) - MAX_NAMES:,} more"
    return names


def story(task: TaskInsight, report: Explanation | None = None) -> str:
    """Describe a task in a sentence or two; its level first.

    >>> near, far = (("ann", 0.5),), (("age", -2.0),)
    >>> story(TaskInsight("bob", 9, 1.0, 3.0, 9, True, near, far, "different"))
    'Is different since event 9. Differs most in age -2. Most like ann (0.50).'
    """
    if task.events == 0:
        return "Has learned nothing yet: is answered as a new task."
    sentences = [_kind_sentence(task)]
    if report is not None and task.level is not None:
        sentences.insert(0, f"{level_title(report)}: {level_text(report, task.level)}.")
    if task.features:
        sentences.append(f"Differs most in {pairs(task.features[:3], EFFECT)}.")
    if task.nearest:
        sentences.append(f"Most like {pairs(task.nearest[:2], NEAREST)}.")
    return " ".join(sentences)


def _kind_sentence(task: TaskInsight) -> str:
    """Describe how a task relates to the others."""
    if task.kind == ALIKE:
        return "Is like the others."
    if task.kind != DIFFERENT:
        return f"{task.kind}."
    text = "Is different"
    twins = [inert(str(name)) for name, cosine in task.nearest[:2] if cosine >= MIN_TWIN_COSINE]
    if twins:
        text = f"Goes with {' and '.join(twins)}, but not with the rest"
    if task.since is not None:
        text += f" since event {task.since:,}"
    return f"{text}."


def table(report: Explanation) -> str:
    """Return sentences, and a table of the most personal tasks."""
    columns = shown_columns(report)
    rows = [columns]
    for task in report.tasks[:MAX_ROWS]:
        by_column = dict(zip(COLUMNS, cells(report, task), strict=True))
        rows.append([by_column[name] for name in columns])
    lines = _aligned(rows)
    more = len(report.tasks) - MAX_ROWS
    if more > 0:
        lines.append(f"... and {more:,} more")
    head = [headline(report), *levels(report), *effects(report), *curve_lines(report)]
    head += [kinds(report), *groups(report), *report.classes, *report.findings]
    return "\n".join([*head, "", *lines, "", rank(report), *report.notes])


def shown_columns(report: Explanation) -> list[str]:
    """Return the columns of the table of tasks; levels where they are known."""
    columns = list(COLUMNS)
    if all(task.level is None for task in report.tasks):
        columns.remove("level")
    return columns


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines with columns of equal width."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def cells(report: Explanation, task: TaskInsight) -> tuple[str, ...]:
    """Return a task's row of the table."""
    events = "-"
    if task.events is not None:
        events = f"{task.events:,}"
    return (
        task.title,
        events,
        level_text(report, task.level),
        task.kind,
        pairs(task.features[:3], EFFECT),
        pairs(task.nearest[:2], NEAREST),
        f"{task.share:.0%}",
    )


def rank(report: Explanation) -> str:
    """Describe the shared part in terms of the method."""
    values = " ".join(f"{value:.3g}" for value in report.spectrum[:10])
    return f"Shared part U: rank {report.rank}, singular values {values or 'none'}."


def pairs(items: Sequence[tuple[Any, float]], form: str) -> str:
    """Join names with their numbers; a dash where there are none."""
    named = [form.format(name=inert(str(name)), value=value) for name, value in items]
    return ", ".join(named) or "-"


def _content(report: Explanation, most: int) -> str:
    sentences = (headline(report), *levels(report), kinds(report))
    parts = [*map(paragraph, sentences), _effects(report), _curves(report), _picture(report)]
    parts.append(_list("Classes", map(escape, report.classes)))
    parts += [_meanings(report), _list("Groups", map(escape, groups(report)))]
    parts += map(paragraph, report.findings)
    different = [task for task in report.personal if task.features or task.nearest][:MAX_BARS]
    stories = [_item(task.title, story(task, report)) for task in different]
    parts += [heading("Task by task"), _list("", stories[:MAX_STORIES])]
    if stories[MAX_STORIES:]:
        summary = f"{len(stories) - MAX_STORIES:,} more"
        parts.append(fold(summary, [_list("", stories[MAX_STORIES:])]))
    parts.append(_tasks(report, most))
    if len(report.tasks) > most:
        parts.append(f"<p><small>and {len(report.tasks) - most:,} more tasks</small></p>")
    terms = [*map(paragraph, (rank(report), *report.notes)), _spectrum(report)]
    return "".join([*parts, fold("In terms of the method", terms)])


def _effects(report: Explanation) -> str:
    """Table of what tasks have in common: the largest effects."""
    if not report.effects:
        return ""
    sizes = {str(curve.column): curve.size for curve in report.curves}
    rows: list[list[Any]] = []
    for name, value in report.effects:
        rows.append([inert(str(name)), (f"{value:+.3g}", value)])
        if report.per_spread:
            size = sizes.get(str(name), abs(value))
            rows[-1].append((f"{size:.3g}", size))
    head = ["column", unit(report), "standard deviation of what it adds"]
    title = "Common to all tasks: the largest effects"
    return as_html(Table(title, head[: len(rows[0])], mark_best(rows)))


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


def _spectrum(report: Explanation) -> str:
    if not report.spectrum:
        return "<p>Nothing is shared yet.</p>"
    values = [(f"dimension {k}", value) for k, value in enumerate(report.spectrum[:40], start=1)]
    return bars(values, "Singular values of U")


def _picture(report: Explanation) -> str:
    """Levels of the tasks as bars; how much is their own where levels are not known."""
    values = _known_levels(report)
    title = f"{level_title(report)}, one bar for each task"
    if len(values) < 2 or report.positive is None:
        values = [(task.title, task.share) for task in report.tasks]
        title = "Part of a task's weights that is its own, one bar for each task"
    if len(values) < 2:
        return ""
    ordered = sorted(values, key=lambda item: -item[1])
    shown = np.linspace(0, len(ordered) - 1, min(len(ordered), MAX_BARS)).astype(int)
    thinned = [ordered[k] for k in np.unique(shown).tolist()]
    return bars(thinned, title, height=140, top=1.0, percent=True)


def _meanings(report: Explanation) -> str:
    items = []
    for kind in report.kinds:
        tasks = [task for task in report.tasks if task.kind == kind]
        if tasks:
            items.append(_item(kind, f"{MEANINGS.get(kind, '')}. {members(tasks)}"))
    return _list("Kinds of tasks", items)


def _item(name: str, text: str) -> str:
    """Return a text after a name in bold."""
    return f"<b>{escape(name)}</b>: {escape(text)}"


def _list(title: str, items: Iterable[str]) -> str:
    """Return a title, if any, and a list of HTML texts; "" where there are none."""
    lines = "".join(f"<li>{item}</li>" for item in items)
    if not lines:
        return ""
    listed = f"<ul>{lines}</ul>"
    if title:
        return heading(title) + listed
    return listed


def _tasks(report: Explanation, most: int) -> str:
    lengths = [task.personal + task.shared for task in report.tasks]
    longest = max(lengths, default=0.0) or 1.0
    columns = shown_columns(report)
    head = "".join(f"<th>{name}</th>" for name in columns)
    rows = "".join(_row(report, task, longest, columns) for task in report.tasks[:most])
    level = ""
    if "level" in columns:
        level = f"Level: {escape(level_title(report))}. "
    return (
        f"<p>{level}Differs in: {escape(unit(report))}, beyond what "
        "tasks share. Its own: the orange part "
        "of the bar; blue is shared with others. The most personal come first.</p>"
        '<div class="table"><table class="sortable stacked told">'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _row(report: Explanation, task: TaskInsight, longest: float, columns: Sequence[str]) -> str:
    texts = dict(zip(COLUMNS, map(escape, cells(report, task)), strict=True))
    if task.different:
        texts["kind"] = f"<b>{texts['kind']}</b>"
    texts["its own"] += _bar(task, longest)
    attributes = {"task": " data-text", "differs in": CLASS_TEXT, "most like": CLASS_TEXT}
    numbers = {"events": task.events, "level": task.level, "its own": task.share}
    for name, value in numbers.items():
        stored = "" if value is None else value
        attributes[name] = f' data-label="{name}" data-value="{stored}"'
    row = "".join(f"<td{attributes.get(name, '')}>{texts[name]}</td>" for name in columns)
    return f"<tr>{row}</tr>"


def _bar(task: TaskInsight, longest: float, width: int = 120) -> str:
    shared = round(width * task.shared / longest, 1)
    personal = round(width * task.personal / longest, 1)
    return (
        f'<svg width="{width}" height="14" role="img"><title>shared and personal</title>'
        f'<rect class="shared" y="3" width="{shared}" height="9"/>'
        f'<rect class="own" x="{shared}" y="3" width="{personal}" height="9"/></svg>'
    )
