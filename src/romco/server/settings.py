"""Limits and settings of a service."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

Durability = Literal["durable", "logged", "none"]


@final
@dataclass(frozen=True)
class Limits:
    """Largest request that is accepted, and largest model that may grow from requests."""

    body_bytes: int = 8 << 20
    events: int = 1_000  # per request
    tasks: int = 1_000  # distinct ones per request
    features: int = 10_000  # per event
    new_features: int = 100_000  # per request
    new_classes: int = 1_000  # per request
    name_chars: int = 256  # of a task, a feature, an id or a label
    text_chars: int = 10_000  # of a text value
    value: float = 1e15  # absolute size of a number
    model_tasks: int = 1_000_000
    model_features: int = 4_000_000  # where features have names
    model_classes: int = 2_000
    queued_events: int = 50_000  # waiting to be learned


@final
@dataclass(frozen=True)
class Settings:
    """Durability of changes, checkpoints, and time that predictions wait for answers.

    ``durable``: an answer means that the change is on the disk, synced. ``logged``: the operating
    system has it, and a sync follows within a second. ``none``: as ``logged``, but the operating
    system decides when to sync.
    """

    durability: Durability = "durable"
    group_events: int = 256  # committed together at most
    group_ms: float = 2.0  # how long the first request of a group waits for others
    checkpoint_events: int = 100_000
    checkpoint_seconds: float = 300.0
    ids: int = 1_000_000  # an id is remembered for so many changes
    pending_seconds: float = 86_400.0
    pending_events: int = 100_000
    pending_bytes: int = 1 << 28
    budget: float | None = None  # share of the events whose answers may be asked for
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        if self.durability not in ("durable", "logged", "none"):
            raise ValueError(f"durability is durable, logged or none; not {self.durability!r}")
        for name in ("group_events", "checkpoint_events", "ids", "pending_events"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1; got {getattr(self, name)}")
