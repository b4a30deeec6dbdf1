"""Plain values of an explanation; text and page are made of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

ALONE = "on their own"  # the kind of tasks that are different
KINDS = ("related", "like all", ALONE)


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
