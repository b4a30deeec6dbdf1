"""What is shown of a model: tasks, one task, the whole."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any, final

from romco.explanations import Explanation, TaskInsight, explain, explain_task
from romco.server.changes import Task
from romco.server.live import Live

FRESH = 1.0  # seconds that a look at all tasks is used again
ORDERS = ("task", "kind", "events", "shared", "personal", "share", "error")


@dataclass(frozen=True)
class Asked:
    """Which tasks to list, and in which order."""

    search: str = ""
    order: str = "personal"
    descending: bool = True
    offset: int = 0
    limit: int = 100


@final
class Views:
    """Looks at a model, never longer at a time than it takes to copy what was learned."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._lock = threading.Lock()  # one look at a time: it may be work
        self._seen: Explanation | None = None
        self._at = 0.0
        self._version = -1

    def whole(self) -> Explanation:
        """What was learned of all, as it was at most a second ago."""
        with self._lock:
            stale = self._version != self._live.sequence and time.monotonic() > self._at
            if self._seen is None or stale:
                version, begin = self._live.sequence, time.monotonic()
                self._seen, self._version = explain(self._live.model, 0, findings=False), version
                spent = time.monotonic() - begin
                self._at = time.monotonic() + max(FRESH, 10.0 * spent)  # a tenth of the time
            return self._seen

    def tasks(self, asked: Asked) -> dict[str, Any]:
        """Rows of tasks, and how many there are in all."""
        found = [self._row(task) for task in self.whole().tasks]
        if asked.search:
            word = asked.search.casefold()
            found = [row for row in found if word in str(row["task"]).casefold()]
        found.sort(key=lambda row: _sortable(row[asked.order]), reverse=asked.descending)
        chosen = found[asked.offset : asked.offset + asked.limit]
        return {"total": len(found), "version": self._live.sequence, "tasks": chosen}

    def task(self, name: Task) -> dict[str, Any]:
        """All that is known of a task; raises KeyError if it is not."""
        insight = explain_task(self._live.model, name)
        score = self._live.running.score(name)
        return self._row(insight) | {
            "since": insight.since,
            "nearest": [{"task": told(other), "cosine": value} for other, value in insight.nearest],
            "features": [
                {"feature": told(feature), "weight": value} for feature, value in insight.features
            ],
            "curve": [] if score is None else score.curve.points(),
            "version": self._live.sequence,
        }

    def named(self, text: str) -> Task:
        """The text if it names a task; raises KeyError if it does not."""
        if self._live.model.engine.numbers([text])[0] < 0:
            raise KeyError(text)
        return text

    def _row(self, insight: TaskInsight) -> dict[str, Any]:
        score = self._live.running.score(insight.task)
        return {
            "task": told(insight.task),
            "kind": insight.kind,
            "events": insight.events,
            "shared": insight.shared,
            "personal": insight.personal,
            "share": insight.share,
            "error": None if score is None else score.error,
            "judged": 0 if score is None else score.events,
        }


def told(name: Any) -> Any:
    """A name as JSON has it."""
    return name if isinstance(name, str | int | float) else str(name)


def _sortable(value: Any) -> tuple[bool, bool, Any]:
    return value is not None, isinstance(value, str), value if value is not None else 0
