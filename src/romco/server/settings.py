"""What can be set of a service."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

Durability = Literal["durable", "logged", "none"]


@final
@dataclass(frozen=True)
class Limits:
    """The most that a request may ask for, and the most that the model may grow to."""

    body: int = 8 << 20  # bytes
    events: int = 1_000  # per request
    tasks: int = 1_000  # different ones per request
    features: int = 10_000  # per event
    name: int = 256  # characters of the name of a task or feature, of an id, of a label
    value: float = 1e15  # size of a number
    all_tasks: int = 1_000_000  # in the model
    all_features: int = 4_000_000  # in the model, where they have names
    queue: int = 50_000  # events that wait to be learned


@final
@dataclass(frozen=True)
class Settings:
    """How events are made durable, and how long predictions wait for answers.

    ``durable``: an answer means that the event is on the disk, synced. ``logged``: the system
    has it, so a crash of the process loses nothing and one of the machine up to a second.
    ``none``: a crash of the process may lose up to a second.
    """

    durability: Durability = "durable"
    group_events: int = 256  # events that are synced together at most
    group_ms: float = 2.0  # how long the first of them waits for others
    segment_bytes: int = 1 << 26
    checkpoint_events: int = 100_000
    checkpoint_seconds: float = 300.0
    ids: int = 1_000_000  # ids that are remembered, so that none of them is learned twice
    pending_seconds: float = 86_400.0
    pending_events: int = 100_000
    pending_bytes: int = 1 << 28
    budget: float | None = None  # share of the events whose answers may be asked for
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        if self.durability not in ("durable", "logged", "none"):
            raise ValueError(f"durability is durable, logged or none; not {self.durability!r}")
        for name in ("group_events", "segment_bytes", "checkpoint_events", "ids"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1; got {getattr(self, name)}")
