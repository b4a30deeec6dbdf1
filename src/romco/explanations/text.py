"""An explanation in text: plain words first, terms after them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from romco.explanations.facts import ALONE, Facts, TaskInsight
from romco.presentation.names import inert

COLUMNS = (
    *("task", "kind", "events", "shared", "personal", "share", "since"),
    *("most like", "differs in"),
)
MEANING = {
    "related": "learn from the others, and add what is their own",
    "like all": "are answered as all others are",
    ALONE: "are different: better answered without the others",
}
TWIN = 0.9  # similarity from which on tasks are as good as equal
NAMED = 8  # members of a kind or a group that a sentence names


def headline(found: Facts) -> str:
    """What was learned from what, and what is positive.

    >>> headline(Facts("romco-nucl", 90, 3, 10, (2.0, 0.5), (), positive="spam"))
    'romco-nucl, 90 events, 3 tasks, 10 features. Positive: spam. A feature with + speaks for it.'
    """
    events = "" if found.events is None else f"{found.events:,} events, "
    told = f"{found.learner}, {events}{found.n_tasks:,} tasks, {found.n_features:,} features."
    positive = f" Positive: {inert(str(found.positive))}. A feature with + speaks for it."
    return told if found.positive is None else told + positive


def kinds(found: Facts) -> str:
    """The one statement of how many tasks are of which kind, and who is different.

    >>> ann, bob = TaskInsight("ann", 9, 1.0, 0.0, None), TaskInsight("bob", 9, 0.0, 1.0, 9, True)
    >>> from dataclasses import replace
    >>> kinds(Facts("romco-nucl", 18, 2, 3, (), (ann, replace(bob, kind="on their own"))))
    'Kinds of tasks: 1 related, 1 on their own (bob).'
    """
    counted = [
        f"{n:,} {kind}{_in_brackets(found.personal) if kind == ALONE else ''}"
        for kind, n in found.kinds.items()
    ]
    return f"Kinds of tasks: {', '.join(counted)}."


def groups(found: Facts, most: int = 5) -> list[str]:
    """Groups of similar tasks with their members, the largest first; none if none was found."""
    told = [f"Group of {len(group):,} similar tasks: {members(group)}." for group in found.groups]
    more = [f"And {len(told) - most:,} smaller groups."] if len(told) > most else []
    return told[:most] + more


def members(tasks: Sequence[TaskInsight]) -> str:
    """Their names, as many as one reads."""
    more = f" and {len(tasks) - NAMED:,} more" if len(tasks) > NAMED else ""
    return ", ".join(inert(str(task.task)) for task in tasks[:NAMED]) + more


def story(task: TaskInsight) -> str:
    """What is to be said of a task, in a sentence or two.

    >>> story(TaskInsight("bob", 9, 1.0, 3.0, 9, True, (("ann", 0.5),), (("age", -2.0),), ALONE))
    'Is on its own since event 9: 75% of what it goes by is its own, most of all age -2. Most like \
ann (0.50).'
    """
    if task.events == 0:
        return "Has learned nothing yet: is answered as a newcomer."
    since = "" if task.since is None else f" since event {task.since:,}"
    begin = {
        ALONE: f"{company(task)}{since}: ",
        "related": "Learns from the others: ",
        "like all": "Is answered as all others are: ",
    }.get(task.kind, f"{task.kind}: ")
    own = f", most of all {pairs(task.features[:3], FEATURE)}" if task.features else ""
    like = f" Most like {pairs(task.nearest[:2], LIKE)}." if task.nearest else ""
    return f"{begin}{task.share:.0%} of what it goes by is its own{own}.{like}"


def company(task: TaskInsight) -> str:
    """Of a task that is unlike the rest: whether it is so with others or by itself.

    >>> company(TaskInsight("bob", 9, 1.0, 3.0, 9, True, (("ann", 0.97),), (), ALONE))
    'Goes with ann, but not with the rest'
    """
    twins = [inert(str(name)) for name, alike in task.nearest[:2] if alike >= TWIN]
    return f"Goes with {' and '.join(twins)}, but not with the rest" if twins else "Is on its own"


def table(found: Facts, most: int = 20) -> str:
    """The sentences, the spectrum, and a table of the most personal tasks."""
    rows = [COLUMNS, *(cells(task) for task in found.tasks[:most])]
    widths = [max(len(row[k]) for row in rows) for k in range(len(COLUMNS))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    more = [f"... and {len(found.tasks) - most:,} more"] if len(found.tasks) > most else []
    head = [headline(found), kinds(found), *groups(found), *found.findings, spectrum(found)]
    return "\n".join([*head, "", *lines, *more, *found.notes])


def spectrum(found: Facts) -> str:
    """How much is shared, in terms of the method.

    >>> spectrum(Facts("romco-nucl", 90, 3, 10, (2.0, 0.5), ()))
    'Shared: rank 2, singular values 2 0.5.'
    """
    values = " ".join(f"{value:.3g}" for value in found.spectrum[:10])
    return f"Shared: rank {found.rank}, singular values {values or 'none'}."


def cells(task: TaskInsight) -> tuple[str, ...]:
    """A task's row of the table."""
    return (
        inert(str(task.task)),
        task.kind,
        whole(task.events),
        f"{task.shared:.3g}",
        f"{task.personal:.3g}",
        f"{task.share:.0%}",
        whole(task.since),
        pairs(task.nearest[:2], LIKE),
        pairs(task.features[:3], FEATURE),
    )


LIKE, FEATURE = "{name} ({value:.2f})", "{name} {value:+.2g}"


def pairs(found: Sequence[tuple[Any, float]], form: str) -> str:
    """Names with their numbers in one line."""
    return (
        ", ".join(form.format(name=inert(str(name)), value=value) for name, value in found) or "-"
    )


def whole(number: int | None) -> str:
    """A count; a dash where none is known."""
    return "-" if number is None else f"{number:,}"


def _in_brackets(tasks: Sequence[TaskInsight]) -> str:
    return f" ({members(tasks)})" if tasks else ""
