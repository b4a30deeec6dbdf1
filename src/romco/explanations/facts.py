"""What an explanation holds."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

ALONE = "on their own"  # the kind of tasks that are different
KINDS = ("related", "like all", ALONE)  # in the order told


@dataclass(frozen=True)
class TaskInsight:
    """One task: how much of its weights is shared, and how much its own."""

    task: Any
    events: int | None  # learned so far; None where a bare learner was explained
    shared: float  # length of its column of U
    personal: float  # length of its column of V
    since: int | None  # events of all tasks when it was found personal; looked at every 1000
    different: bool = False  # as the learner judges; else whether it has a column of V at all
    nearest: tuple[tuple[Any, float], ...] = ()  # most similar tasks, by cosine of the weights
    features: tuple[tuple[Any, float], ...] = ()  # where it differs most from what is shared
    kind: str = "related"  # as the learner calls it; "on their own" where it is different
    group: int | None = None  # of similar tasks, by number; the same number, the same group

    @property
    def share(self) -> float:
        """Personal part of the whole, from 0 to 1."""
        return self.personal / (self.shared + self.personal) if self.personal > 0 else 0.0


@dataclass(frozen=True)
class Facts:
    """What a model has learned, as plain values; text, page and figures are made of it."""

    learner: str
    events: int | None
    n_tasks: int
    n_features: int
    spectrum: tuple[float, ...]  # singular values of what is shared, largest first
    tasks: tuple[TaskInsight, ...]  # the most personal first
    findings: tuple[str, ...] = ()  # what the learner itself says it found, in sentences
    notes: tuple[str, ...] = ()
    positive: Any = None  # the label a weight above 0 speaks for, where there is one

    @property
    def rank(self) -> int:
        """Dimensions of what is shared."""
        return len(self.spectrum)

    @property
    def personal(self) -> tuple[TaskInsight, ...]:
        """Tasks that are different from the rest, the most personal first."""
        return tuple(task for task in self.tasks if task.different)

    @property
    def kinds(self) -> dict[str, int]:
        """How many tasks there are of each kind; those on their own are :attr:`personal`."""
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
