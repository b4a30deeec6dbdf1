"""What the log holds: changes of the model, as JSON."""

from __future__ import annotations

import msgspec

Task = str | int
Row = dict[str, float | str | bool | None] | list[float]
Answer = str | int | float | bool


class Prediction(msgspec.Struct, array_like=True, frozen=True):
    """What was predicted of an event when it was predicted."""

    label: Answer | None  # None before any label was known
    probability: float | None  # of the positive label
    margin: float
    said: list[float] | None = None  # by the learner, if it learns more of a late answer so


class Event(msgspec.Struct, array_like=True, frozen=True):
    """One event to be learned; ``prediction`` is the one made before, if there was one."""

    id: str | None
    task: Task
    x: Row
    y: Answer
    prediction: Prediction | None = None


class Learn(msgspec.Struct, array_like=True, frozen=True, tag="learn"):
    """Events of one request, learned together or not at all.

    Events that came from a stream say how far it has been read: ``position`` of ``source``.
    """

    events: list[Event]
    source: str | None = None
    position: str | None = None

    @property
    def count(self) -> int:
        """Sequence numbers that it takes: one per event, and one if it only moves on a stream."""
        return max(1, len(self.events))


class Forget(msgspec.Struct, array_like=True, frozen=True, tag="forget"):
    """A task to be forgotten, with all that waits for its answers since before ``time``."""

    task: Task
    time: float
    count = 1


class Waiting(msgspec.Struct, array_like=True, frozen=True):
    """A predicted event that waits for its answer."""

    id: str
    time: float
    task: Task
    x: Row
    prediction: Prediction


class Asked(msgspec.Struct, array_like=True, frozen=True):
    """The same as it is written; the row is JSON as it came."""

    id: str
    time: float
    task: Task
    x: msgspec.Raw
    prediction: Prediction


Change = Learn | Forget
_changes = msgspec.json.Decoder(list[Learn | Forget])
_waiting = msgspec.json.Decoder(Waiting)
_encode = msgspec.json.Encoder().encode


def encode(value: list[Change] | Waiting | Asked) -> bytes:
    """As JSON; numbers come back bit for bit.

    >>> decode(encode([Forget("ann", 1.5)]))
    [Forget(task='ann', time=1.5)]
    """
    return _encode(value)


def decode(payload: bytes) -> list[Change]:
    """Changes of a frame; raises ValueError if it holds anything else."""
    return _changes.decode(payload)


def decode_waiting(payload: bytes) -> Waiting:
    """One event that waits; raises ValueError if it is anything else."""
    return _waiting.decode(payload)
