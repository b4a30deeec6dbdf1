"""Values of an explanation, and the text, page and figures made of them: levels first."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from romco.learners.auto import KINDS
from romco.presentation.charts import bars
from romco.presentation.page import STYLE, document, fold, heading, paragraph
from romco.presentation.screen import inert

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
MAX_PAGE_TASKS, MAX_NOTEBOOK_TASKS = 1000, 50
MAX_BARS = 200
BLUE, ORANGE = "#0072b2", "#d55e00"  # for print
COLUMNS = ("task", "events", "level", "kind", "differs in", "most like", "its own")
NEAREST, EFFECT = "{name} ({value:.2f})", "{name} {value:+.2g}"


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
    def share(self) -> float:
        """Personal part of the whole, from 0 to 1."""
        return self.personal / (self.shared + self.personal) if self.personal > 0 else 0.0


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
    notes: tuple[str, ...] = ()
    positive: Any = None  # label of a weight above 0, where there is one
    label: str | None = None  # column that is predicted
    data: str | None = None  # where the events came from
    effects: tuple[tuple[Any, float], ...] = ()  # largest effects, mean over tasks
    per_spread: bool = False  # effects are per standard deviation of a column, else per unit

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
        return {
            kind: counts[kind] for kind in (*KINDS, *counts) if kind in counts or kind == DIFFERENT
        }

    @property
    def groups(self) -> tuple[tuple[TaskInsight, ...], ...]:
        """Similar tasks together, the largest group first; only groups of two and more."""
        members: dict[int, list[TaskInsight]] = {}
        for task in self.tasks:
            if task.group is not None:
                members.setdefault(task.group, []).append(task)
        large = [tuple(group) for group in members.values() if len(group) > 1]
        return tuple(sorted(large, key=len, reverse=True))

    def __str__(self) -> str:
        return table(self)

    def page(self) -> str:
        """Return a self-contained HTML page, with a search and columns that can be sorted."""
        what = "the label" if self.label is None else inert(self.label)
        data = "" if self.data is None else f" in {inert(self.data)}"
        return document(f"What predicts {what}{data}", _content(self, MAX_PAGE_TASKS))

    def _repr_html_(self) -> str:  # without a script
        content = _content(self, MAX_NOTEBOOK_TASKS)
        return f"<style>{STYLE}</style><div class='romco'>{content}</div>"

    def figures(self) -> "dict[str, Figure]":
        """Return the figures ``spectrum`` and ``tasks`` for print; needs matplotlib."""
        from matplotlib.figure import Figure  # here: it is slow to import

        spectrum = Figure(figsize=(5, 3), layout="constrained")
        axes = spectrum.subplots()
        axes.bar(np.arange(1, self.rank + 1), self.spectrum, color=BLUE)
        axes.set(xlabel="dimension", ylabel="singular value of U", title=f"U: rank {self.rank}")
        shown = self.tasks[:30][::-1]
        tasks = Figure(figsize=(6, 1.2 + 0.22 * len(shown)), layout="constrained")
        axes = tasks.subplots()
        names = [inert(str(task.task)).replace("$", r"\$") for task in shown]  # no formula
        shared = np.array([task.shared for task in shown])
        axes.barh(names, shared, color=BLUE, label="shared")
        axes.barh(
            names, [task.personal for task in shown], left=shared, color=ORANGE, label="personal"
        )
        axes.set(xlabel="norm of the weights", title="Tasks, the most personal on top")
        axes.legend()
        return {"spectrum": spectrum, "tasks": tasks}


def headline(report: Explanation) -> str:
    """Return in one sentence what was learned from what.

    >>> headline(Explanation("romco-auto", 90, 3, 10, (), (), positive="spam", label="kind"))
    'romco-auto predicts kind (spam or not) from 10 features of 90 events of 3 tasks.'
    """
    name = "the label" if report.label is None else inert(report.label)
    label = "" if report.positive is None else f" ({inert(str(report.positive))} or not)"
    events = "" if report.events is None else f" of {report.events:,} events"
    data = "" if report.data is None else f", {inert(report.data)}"
    return (
        f"{report.learner} predicts {name}{label} from {report.n_features:,} features{events} "
        f"of {report.n_tasks:,} tasks{data}."
    )


def levels(report: Explanation) -> list[str]:
    """Describe how far the tasks' levels are apart; nothing where they are not known."""
    known = sorted(task.level for task in report.tasks if task.level is not None and task.events)
    if len(known) < 2:
        return []
    low, first, middle, third, high = np.quantile(known, [0.0, 0.25, 0.5, 0.75, 1.0])
    form = level_text
    return [
        f"{level_title(report)}: from {form(report, low)} to {form(report, high)} by task, half of "
        f"them from {form(report, first)} to {form(report, third)}, in the middle "
        f"{form(report, middle)}."
    ]


def level_title(report: Explanation) -> str:
    """Name of a task's level."""
    if report.positive is None:
        return "Prediction for an average event"
    return f"Probability of {inert(str(report.positive))} for an average event"


def level_text(report: Explanation, level: float | None) -> str:
    """Return a level as people read it."""
    if level is None:
        return "-"
    return f"{level:.4g}" if report.positive is None else f"{level:.0%}"


def effects(report: Explanation) -> list[str]:
    """Describe the largest effects, mean over tasks."""
    if not report.effects:
        return []
    return [f"Largest effects, mean over tasks, {unit(report)}: {pairs(report.effects, EFFECT)}."]


def unit(report: Explanation) -> str:
    """Return the unit of effects."""
    what = "change of the prediction"
    if report.positive is not None:
        what = f"log-odds of {inert(str(report.positive))}"
    return f"{what} per {'standard deviation' if report.per_spread else 'unit'} of a column"


def kinds(report: Explanation) -> str:
    """Count the tasks of each kind, and name the different ones."""
    alone = report.personal
    counted = [
        f"{n:,} {kind}{f' ({members(alone)})' if kind == DIFFERENT and alone else ''}"
        for kind, n in report.kinds.items()
    ]
    return f"Kinds of tasks: {', '.join(counted)}."


def groups(report: Explanation, most: int = 5) -> list[str]:
    """Name the members of groups of similar tasks, the largest first."""
    lines = [f"Group of {len(group):,} similar tasks: {members(group)}." for group in report.groups]
    more = [f"And {len(lines) - most:,} smaller groups."] if len(lines) > most else []
    return lines[:most] + more


def members(tasks: Sequence[TaskInsight]) -> str:
    """Return the names of some tasks, the first eight."""
    more = f" and {len(tasks) - MAX_NAMES:,} more" if len(tasks) > MAX_NAMES else ""
    return ", ".join(inert(str(task.task)) for task in tasks[:MAX_NAMES]) + more


def story(task: TaskInsight, report: Explanation | None = None) -> str:
    """Describe a task in a sentence or two; its level first.

    >>> near, far = (("ann", 0.5),), (("age", -2.0),)
    >>> story(TaskInsight("bob", 9, 1.0, 3.0, 9, True, near, far, "different"))
    'Is different since event 9. Differs most in age -2. Most like ann (0.50).'
    """
    if task.events == 0:
        return "Has learned nothing yet: is answered as a new task."
    since = "" if task.since is None else f" since event {task.since:,}"
    twins = [inert(str(name)) for name, alike in task.nearest[:2] if alike >= MIN_TWIN_COSINE]
    apart = f"Goes with {' and '.join(twins)}, but not with the rest" if twins else "Is different"
    begin = {
        DIFFERENT: f"{apart}{since}.",
        ALIKE: "Is like the others.",
    }.get(task.kind, f"{task.kind}.")
    level = ""
    if report is not None and task.level is not None:
        level = f"{level_title(report)}: {level_text(report, task.level)}. "
    own = f" Differs most in {pairs(task.features[:3], EFFECT)}." if task.features else ""
    like = f" Most like {pairs(task.nearest[:2], NEAREST)}." if task.nearest else ""
    return f"{level}{begin}{own}{like}"


def table(report: Explanation) -> str:
    """Return sentences, and a table of the most personal tasks."""
    rows = [COLUMNS, *(cells(report, task) for task in report.tasks[:MAX_ROWS])]
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    more = len(report.tasks) - MAX_ROWS
    rest = [f"... and {more:,} more"] if more > 0 else []
    head = [headline(report), *levels(report), *effects(report), kinds(report), *groups(report)]
    return "\n".join([*head, *report.findings, "", *lines, *rest, "", rank(report), *report.notes])


def cells(report: Explanation, task: TaskInsight) -> tuple[str, ...]:
    """Return a task's row of the table."""
    return (
        inert(str(task.task)),
        "-" if task.events is None else f"{task.events:,}",
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
    sentences = (headline(report), *levels(report), *effects(report), kinds(report))
    parts = [*map(paragraph, sentences), _picture(report), _meanings(report)]
    parts.append(_list("Groups", [("", group) for group in groups(report)]))
    parts += map(paragraph, report.findings)
    different = [task for task in report.personal if task.features or task.nearest][:MAX_BARS]
    stories = [(inert(str(task.task)), story(task, report)) for task in different]
    parts += [heading("Task by task"), _list("", stories), _tasks(report, most)]
    if len(report.tasks) > most:
        parts.append(f"<p><small>and {len(report.tasks) - most:,} more tasks</small></p>")
    spectrum = [(f"dimension {k + 1}", value) for k, value in enumerate(report.spectrum[:40])]
    drawn = bars(spectrum, "Singular values of U") if spectrum else "<p>Nothing is shared yet.</p>"
    terms = map(paragraph, (rank(report), *report.notes))
    return "".join([*parts, fold("In terms of the method", [*terms, drawn])])


def _picture(report: Explanation) -> str:
    """Levels of the tasks as bars; how much is their own where levels are not known."""
    known = [task for task in report.tasks if task.level is not None and task.events]
    if len(known) > 1 and report.positive is not None:
        ordered = sorted(known, key=lambda task: -(task.level or 0.0))
        title = f"{level_title(report)}, one bar for each task, from 0 to 100 %"
        values = [(inert(str(task.task)), task.level or 0.0) for task in _thinned(ordered)]
    else:
        title = "Part of a task's weights that is its own, one bar for each task"
        ordered = sorted(report.tasks, key=lambda task: -task.share)
        values = [(inert(str(task.task)), task.share) for task in _thinned(ordered)]
    return bars(values, title, height=140, top=1.0, percent=True) if len(values) > 1 else ""


def _thinned(tasks: Sequence[TaskInsight]) -> Sequence[TaskInsight]:
    at = np.unique(np.linspace(0, len(tasks) - 1, min(len(tasks), MAX_BARS)).astype(int))
    return [tasks[k] for k in at.tolist()]


def _meanings(report: Explanation) -> str:
    named = {kind: [t for t in report.tasks if t.kind == kind] for kind in report.kinds}
    rows = [(kind, f"{MEANINGS.get(kind, '')}. {members(ts)}") for kind, ts in named.items() if ts]
    return _list("Kinds of tasks", rows)


def _list(title: str, items: Sequence[tuple[str, str]]) -> str:
    """Return a title and a list of texts, each after a name in bold if it has one; "" if empty."""
    lines = [
        f"<b>{escape(name)}</b>: {escape(text)}" if name else escape(text) for name, text in items
    ]
    listed = f"<ul>{''.join(f'<li>{line}</li>' for line in lines)}</ul>" if lines else ""
    return heading(title) + listed if title and lines else listed


def _tasks(report: Explanation, most: int) -> str:
    longest = max((t.personal + t.shared for t in report.tasks), default=0.0) or 1.0
    with_level = any(task.level is not None for task in report.tasks)
    head = "".join(f"<th>{name}</th>" for name in COLUMNS if name != "level" or with_level)
    rows = "".join(_row(report, task, longest, with_level) for task in report.tasks[:most])
    return (
        f"<p>Level: {escape(level_title(report))}. Differs in: {escape(unit(report))}, beyond what "
        "tasks share. Its own: the orange part "
        "of the bar; blue is shared with others. The most personal come first.</p>"
        '<div class="table"><table class="sortable stacked told">'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _row(report: Explanation, task: TaskInsight, longest: float, with_level: bool) -> str:
    numbers = {"events": task.events, "level": task.level, "its own": task.share}
    row = ""
    for name, cell in zip(COLUMNS, cells(report, task), strict=True):
        text, attributes = escape(cell), " data-text" if name == "task" else ""
        if name in numbers:
            value = "" if numbers[name] is None else numbers[name]
            attributes = f' data-label="{name}" data-value="{value}"'
        elif name in ("differs in", "most like"):
            attributes = ' class="text"'
        elif name == "kind" and task.different:
            text = f"<b>{text}</b>"
        bar = _bar(task, longest) if name == "its own" else ""
        row += f"<td{attributes}>{text}{bar}</td>" if name != "level" or with_level else ""
    return f"<tr>{row}</tr>"


def _bar(task: TaskInsight, longest: float, width: int = 120) -> str:
    shared, personal = (round(width * x / longest, 1) for x in (task.shared, task.personal))
    return (
        f'<svg width="{width}" height="14" role="img"><title>shared and personal</title>'
        f'<rect class="shared" y="3" width="{shared}" height="9"/>'
        f'<rect class="own" x="{shared}" y="3" width="{personal}" height="9"/></svg>'
    )
