"""Settings and limits, and messages: of clients and of the log; limits are part of the types."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from romco.model.names import canonical_name

Task = str | int
Row = dict[str, float | str | bool | None] | list[float]
Answer = str | int | float | bool

TaskOrder = Literal["task", "kind", "events", "shared", "personal", "share", "error"]
MAX_REASON_CHARS = 300
PATH_MARK = " - at `$"  # in msgspec's messages, before the path to the bad value
PATH = re.compile(r"(?:\[(\d{1,9})\])?([.\w\[\]]{0,100})`")


Durability = Literal["durable", "logged", "none"]


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


class RequestError(ValueError):
    """A request that is refused: HTTP status, reason, and position of the bad event, if any."""

    def __init__(self, reason: str, index: int | None = None, status: int = 422) -> None:
        super().__init__(reason)
        self.reason, self.index, self.status = reason, index, status


class StoreError(OSError):
    """A write that failed and left no trace; the next one may succeed."""


class FullError(StoreError):
    """There is no room on the disk."""


class BusyError(RuntimeError):
    """More events wait than the service is set to hold."""


class StoppedError(RuntimeError):
    """The service is stopping, or its model and its log may differ; nothing was learned."""


# Requests and responses


class PredictRequest(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """Event to predict; with an id it is kept until its answer comes."""

    task: Task
    x: Row
    id: str | None = None
    offset: float | None = None  # known part of the margin, where the model has offsets


class LearnRequest(
    msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True, omit_defaults=True
):
    """Answer to a pending event by its id, or a whole event with its answer."""

    y: Answer
    id: str | None = None
    task: Task | None = None
    x: Row | None = None
    offset: float | None = None


class PredictResponse(msgspec.Struct, gc=False, omit_defaults=True):
    """Prediction for one event."""

    label: Answer | None  # or the number; None before any label is known
    probability: float | None  # of the positive label, or of the predicted class
    margin: float
    version: int  # sequence number of the last change that the model had learned
    ask: bool | None = None  # whether the label policy asks for the answer
    unknown: list[str] | None = None  # columns and categories that were not learned, so not used


class LearnResponse(msgspec.Struct, gc=False, omit_defaults=True, frozen=True):
    """Outcome of one event: applied, duplicate (learned before) or expired (id unknown)."""

    status: str
    sequence: int | None
    differs: bool = False  # a duplicate whose answer is not the one that was learned


class TaskQuery(msgspec.Struct, frozen=True):
    """Search, order and page of a list of tasks."""

    search: Annotated[str, Meta(max_length=256)] = ""
    order: TaskOrder = "personal"
    descending: bool = True
    offset: Annotated[int, Meta(ge=0, le=10**9)] = 0
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class ErrorResponse(msgspec.Struct, omit_defaults=True):
    """Reason of a refusal, and the position of the bad event in the list."""

    error: str
    index: int | None = None


# The log


class Prediction(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Prediction as it was made; ``context`` belongs to the learner, for late answers."""

    label: Answer | None
    probability: float | None
    margin: float
    context: list[float] | None = None


class Event(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Event to learn, with the prediction made before, if there was one."""

    id: str | None
    task: Task
    x: Row
    y: Answer
    prediction: Prediction | None = None
    offset: float | None = None


class Learn(msgspec.Struct, array_like=True, frozen=True, tag="learn"):
    """Events that are learned together or not at all; a position of a source, if they have one."""

    events: list[Event]
    source: str | None = None
    position: str | None = None

    @property
    def count(self) -> int:
        """Sequence numbers used: one per event, and one if only a position moves."""
        return max(1, len(self.events))


class Forget(msgspec.Struct, array_like=True, frozen=True, tag="forget"):
    """Task to forget."""

    task: Task
    count = 1


class PendingEvent(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Predicted event that waits for its answer."""

    id: str
    task: Task
    x: Row
    prediction: Prediction
    offset: float | None = None


Change = Learn | Forget


@lru_cache(1 << 16)
def name_key(name: Any) -> str:
    """Return the one form of a task or a label, as text: 1, 1.0, "1" and True are the same."""
    return str(canonical_name(name))


@lru_cache(1 << 12)
def hash_answer(answer: Answer) -> bytes:
    """Return 8 bytes for an answer."""
    return hashlib.blake2b(name_key(answer).encode(), digest_size=8).digest()


encode = msgspec.json.Encoder().encode
decode_change = msgspec.json.Decoder(Learn | Forget).decode
decode_pending = msgspec.json.Decoder(PendingEvent).decode


class RequestParser:
    """Parses request bodies: an object is one event, a list is many.

    >>> RequestParser(Limits()).predict(b'{"task": "ann", "x": {"a": 1}}')
    ([PredictRequest(task='ann', x={'a': 1.0}, id=None, offset=None)], False)
    """

    def __init__(self, limits: Limits) -> None:
        self.limits, many = limits, Meta(min_length=1, max_length=limits.events)
        self._predict, self._learn = (
            [msgspec.json.Decoder(of) for of in (kind, Annotated[list[kind], many])]  # type: ignore[valid-type]
            for kind in request_types(limits)
        )

    def predict(self, body: bytes) -> tuple[list[PredictRequest], bool]:
        """Return the events to predict, and whether they came as a list."""
        return self._parse(body, self._predict)

    def learn(self, body: bytes) -> tuple[list[LearnRequest], bool]:
        """Return the events to learn, and whether they came as a list."""
        return self._parse(body, self._learn)

    def _parse(self, body: bytes, decoders: list[Any]) -> tuple[list[Any], bool]:
        many = body.lstrip()[:1] != b"{"
        try:
            found = decoders[many].decode(body)
        except msgspec.ValidationError as error:
            raise self._invalid(str(error), body) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise RequestError(f"the body is not JSON: {error}", status=400) from None
        if not many:
            return [found], False
        if len({event.task for event in found if event.task is not None}) > self.limits.tasks:
            raise RequestError(f"more than {self.limits.tasks:,} different tasks in one request")
        return found, True

    def _invalid(self, message: str, body: bytes) -> RequestError:
        """Translate msgspec's message, which may hold names of any length made up by a client."""
        what, mark, after = message.rpartition(PATH_MARK)
        path = PATH.fullmatch(after) if mark else None
        if path is None:
            return RequestError(_shorten(message.replace("`", "").replace("array", "list")))
        index = None if path[1] is None else int(path[1])
        place = path[2].strip(".")
        if place == "x[...]":
            place, size = self._bad_feature(body, index)
            if size > self.limits.text_chars:
                what = f"text of {size:,} characters, at most {self.limits.text_chars:,} are read"
        text = f"{place}: {what}" if place else what
        return RequestError(_shorten(text.replace("`", "")), index)

    def _bad_feature(self, body: bytes, index: int | None) -> tuple[str, int]:
        """Return the feature whose value is not accepted, and the length of that value's text."""
        try:
            event = msgspec.json.decode(body)
            row = (event if index is None else event[index])["x"]
            for name, value in row.items() if isinstance(row, dict) else enumerate(row):
                try:
                    msgspec.convert(value, cell_type(self.limits))
                except msgspec.ValidationError:
                    size = len(value) if isinstance(value, str) else 0
                    return f"x[{_shorten(str(name), 60)!r}]", size
        except (msgspec.DecodeError, LookupError, TypeError, RecursionError):
            pass
        return "x[...]", 0


def cell_type(limits: Limits) -> Any:
    """Return the type of one feature's value."""
    text = Annotated[str, Meta(max_length=limits.text_chars)]
    return Annotated[float, Meta(ge=-limits.value, le=limits.value)] | text | bool | None


def request_types(limits: Limits) -> tuple[type[PredictRequest], type[LearnRequest]]:
    """Return the request types with limits."""
    text = Annotated[str, Meta(max_length=limits.name_chars)]
    name = Annotated[str, Meta(min_length=1, max_length=limits.name_chars)]
    number = Annotated[float, Meta(ge=-limits.value, le=limits.value)]
    integer = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
    size = Meta(max_length=limits.features)
    cell = cell_type(limits)
    row: Any = dict[text, cell]  # type: ignore[valid-type]
    x = Annotated[row, size] | Annotated[list[number], size]
    task = name | integer
    offset = ("offset", number | None, None)
    event: list[Any] = [("task", task), ("x", x), ("id", name | None, None), offset]
    answer = ("y", text | integer | number | bool)
    lesson = [answer, event[2], ("task", task | None, None), ("x", x | None, None), offset]
    predict, learn = (
        msgspec.defstruct(base.__name__, fields, bases=(base,), frozen=True, gc=False)
        for base, fields in ((PredictRequest, event), (LearnRequest, lesson))
    )
    predict.__doc__, learn.__doc__ = PredictRequest.__doc__, LearnRequest.__doc__
    return predict, learn  # type: ignore[return-value]


def _shorten(text: str, limit: int = MAX_REASON_CHARS) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."
