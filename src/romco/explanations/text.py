"""Plain values of an explanation, and the text made of them: levels and effects first."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from romco.presentation.screen import inert

ALONE = "on their own"  # the kind of tasks that are different
KINDS = ("related", "like all", ALONE)
MEANINGS = {
    "related": "learn from the others, and add what is their own",
    "like all": "are answered as all others are",
    ALONE: "are different: better answered without the others",
}
MIN_TWIN_COSINE = 0.9  # from which on two tasks are as good as equal
MAX_NAMES = 8  # of a kind or a group in a sentence
MAX_ROWS = 20
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
    features: tuple[tuple[Any, float], ...] = ()  # largest personal effects, see Facts.per_spread
    kind: str = "related"  # as the learner calls it; "on their own" where it is different
    group: int | None = None  # of similar tasks
    level: float | None = None  # probability of the positive label, or number, at an average event

    @property
    def share(self) -> float:
        """Personal part of the whole, from 0 to 1."""
        return self.personal / (self.shared + self.personal) if self.personal > 0 else 0.0


@dataclass(frozen=True)
class Facts:
    """Values read from a model."""

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
        """Number of tasks of each kind; those on their own are :attr:`personal`."""
        found = Counter(task.kind for task in self.tasks)
        return {kind: found[kind] for kind in (*KINDS, *found) if kind in found or kind == ALONE}

    @property
    def groups(self) -> tuple[tuple[TaskInsight, ...], ...]:
        """Similar tasks together, the largest group first; only groups of two and more."""
        members: dict[int, list[TaskInsight]] = {}
        for task in self.tasks:
            if task.group is not None:
                members.setdefault(task.group, []).append(task)
        large = [tuple(group) for group in members.values() if len(group) > 1]
        return tuple(sorted(large, key=len, reverse=True))


def headline(found: Facts) -> str:
    """Return in one sentence what was learned from what.

    >>> headline(Facts("romco-auto", 90, 3, 10, (), (), positive="spam", label="kind"))
    'romco-auto predicts kind (spam or not) from 10 features of 90 events of 3 tasks.'
    """
    name = "the label" if found.label is None else inert(found.label)
    label = "" if found.positive is None else f" ({inert(str(found.positive))} or not)"
    events = "" if found.events is None else f" of {found.events:,} events"
    data = "" if found.data is None else f", {inert(found.data)}"
    return (
        f"{found.learner} predicts {name}{label} from {found.n_features:,} features{events} "
        f"of {found.n_tasks:,} tasks{data}."
    )


def levels(found: Facts) -> list[str]:
    """Describe how far the tasks' levels are apart; nothing where they are not known."""
    known = sorted(task.level for task in found.tasks if task.level is not None and task.events)
    if len(known) < 2:
        return []
    low, first, middle, third, high = np.quantile(known, [0.0, 0.25, 0.5, 0.75, 1.0])
    form = level_text
    return [
        f"{level_title(found)}: from {form(found, low)} to {form(found, high)} by task, half of "
        f"them from {form(found, first)} to {form(found, third)}, in the middle "
        f"{form(found, middle)}."
    ]


def level_title(found: Facts) -> str:
    """Name of a task's level."""
    if found.positive is None:
        return "Prediction for an average event"
    return f"Probability of {inert(str(found.positive))} for an average event"


def level_text(found: Facts, level: float | None) -> str:
    """Return a level as people read it."""
    if level is None:
        return "-"
    return f"{level:.4g}" if found.positive is None else f"{level:.0%}"


def effects(found: Facts) -> list[str]:
    """Describe the largest effects, mean over tasks."""
    if not found.effects:
        return []
    return [f"Largest effects, mean over tasks, {unit(found)}: {pairs(found.effects, EFFECT)}."]


def unit(found: Facts) -> str:
    """Return the unit of effects."""
    what = "change of the prediction"
    if found.positive is not None:
        what = f"log-odds of {inert(str(found.positive))}"
    return f"{what} per {'standard deviation' if found.per_spread else 'unit'} of a column"


def kinds(found: Facts) -> str:
    """Count the tasks of each kind, and name the different ones."""
    alone = found.personal
    counted = [
        f"{n:,} {kind}{f' ({members(alone)})' if kind == 'on their own' and alone else ''}"
        for kind, n in found.kinds.items()
    ]
    return f"Kinds of tasks: {', '.join(counted)}."


def groups(found: Facts, most: int = 5) -> list[str]:
    """Name the members of groups of similar tasks, the largest first."""
    lines = [f"Group of {len(group):,} similar tasks: {members(group)}." for group in found.groups]
    more = [f"And {len(lines) - most:,} smaller groups."] if len(lines) > most else []
    return lines[:most] + more


def members(tasks: Sequence[TaskInsight]) -> str:
    """Return the names of some tasks, the first eight."""
    more = f" and {len(tasks) - MAX_NAMES:,} more" if len(tasks) > MAX_NAMES else ""
    return ", ".join(inert(str(task.task)) for task in tasks[:MAX_NAMES]) + more


def story(task: TaskInsight, found: Facts | None = None) -> str:
    """Describe a task in a sentence or two; its level first.

    >>> near, far = (("ann", 0.5),), (("age", -2.0),)
    >>> story(TaskInsight("bob", 9, 1.0, 3.0, 9, True, near, far, "on their own"))
    'Is on its own since event 9. Differs most in age -2. Most like ann (0.50).'
    """
    if task.events == 0:
        return "Has learned nothing yet: is answered as a new task."
    since = "" if task.since is None else f" since event {task.since:,}"
    begin = {
        "on their own": f"{company(task)}{since}.",
        "related": "Learns from the others.",
        "like all": "Is answered as all others are.",
    }.get(task.kind, f"{task.kind}.")
    level = ""
    if found is not None and task.level is not None:
        level = f"{level_title(found)}: {level_text(found, task.level)}. "
    own = f" Differs most in {pairs(task.features[:3], EFFECT)}." if task.features else ""
    like = f" Most like {pairs(task.nearest[:2], NEAREST)}." if task.nearest else ""
    return f"{level}{begin}{own}{like}"


def company(task: TaskInsight) -> str:
    """Say of a different task whether others are different in the same way."""
    twins = [inert(str(name)) for name, alike in task.nearest[:2] if alike >= MIN_TWIN_COSINE]
    return f"Goes with {' and '.join(twins)}, but not with the rest" if twins else "Is on its own"


def table(found: Facts) -> str:
    """Return sentences, and a table of the most personal tasks."""
    rows = [COLUMNS, *(cells(found, task) for task in found.tasks[:MAX_ROWS])]
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    more = len(found.tasks) - MAX_ROWS
    rest = [f"... and {more:,} more"] if more > 0 else []
    head = [headline(found), *levels(found), *effects(found), kinds(found), *groups(found)]
    return "\n".join([*head, *found.findings, "", *lines, *rest, "", rank(found), *found.notes])


def cells(found: Facts, task: TaskInsight) -> tuple[str, ...]:
    """Return a task's row of the table."""
    return (
        inert(str(task.task)),
        count(task.events),
        level_text(found, task.level),
        task.kind,
        pairs(task.features[:3], EFFECT),
        pairs(task.nearest[:2], NEAREST),
        f"{task.share:.0%}",
    )


def rank(found: Facts) -> str:
    """Describe the shared part in terms of the method."""
    values = " ".join(f"{value:.3g}" for value in found.spectrum[:10])
    return f"Shared part U: rank {found.rank}, singular values {values or 'none'}."


def pairs(found: Sequence[tuple[Any, float]], form: str) -> str:
    """Join names with their numbers; a dash where there are none."""
    named = [form.format(name=inert(str(name)), value=value) for name, value in found]
    return ", ".join(named) or "-"


def count(number: int | None) -> str:
    """Return a count; a dash where none is known."""
    return "-" if number is None else f"{number:,}"
