"""What a model remembers of each source that it has learned, to go on where it stopped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self, final

from romco.parameters import whole
from romco.runs.identity import content_of, key_of, seen_before
from romco.runs.source import STDIN


@final
@dataclass
class SourceRecord:
    """How far a source was learned."""

    events: int = 0  # read so far, learned or refused
    refused: int = 0  # of them: not learned, for their label is a third one
    resumed: int = 0  # of them: read before this session
    written: int = 0  # bytes of predictions that belong to the events read before
    content: dict[str, Any] | None = None  # of the source, when it was opened
    score: Any = None  # how good it was on the events before, as it was put away

    @classmethod
    def of(cls, memory: dict[str, Any], path: str) -> Self:
        """What a model's memory has of a source; each pipe is a new one."""
        if path == STDIN:
            return cls()
        seen = seen_before(memory.get("sources", {}), path)
        events, refused, written = (
            whole(part, seen.get(part, 0), least=0) for part in ("events", "refused", "written")
        )
        return cls(
            events=events,
            refused=refused,
            resumed=events,
            written=written if events else 0,
            content=content_of(path),
            score=seen.get("score", seen.get("counts")),
        )

    def keep(self, memory: dict[str, Any], path: str, **now: Any) -> None:
        """Put it into a model's memory, with what else is to be known ``now``."""
        memory.setdefault("sources", {})[key_of(path)] = {
            **(self.content or {}),
            "events": self.events,
            "refused": self.refused,
            **now,
        }


@contextmanager
def understood(name: str, *others: type[Exception]) -> Iterator[None]:
    """Whatever cannot be read of a model's memory is told as such; nothing in a file is trusted."""
    failures: tuple[type[Exception], ...] = (LookupError, TypeError, AttributeError, *others)
    try:
        yield
    except failures as error:
        raise ValueError(
            f"what {name} remembers of its sources cannot be used ({error!r}): learn into another "
            "model file"
        ) from error


def keep_columns(memory: dict[str, Any], given: dict[str, Any], name: str) -> None:
    """Remember which column plays which part, or ValueError if it was another one before."""
    learned = memory.setdefault("columns", given)
    weight = {"weight": given.get("weight")} if "weight" in learned else {}
    for part, column in {**weight, **given}.items():
        if column != learned.get(part):
            raise ValueError(
                f"{name} was learned with {part} {learned.get(part)!r}, "
                f"not {column!r}: use the same columns, or another model file"
            )
