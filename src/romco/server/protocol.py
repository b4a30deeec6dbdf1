"""Settings and limits, and messages of clients; limits are part of the types."""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal, Self, get_args
from urllib.parse import parse_qsl

import msgspec
from msgspec import Meta

from romco.io.groupings import MAX_GROUPINGS
from romco.kernels.core.events import LARGEST_FEATURE
from romco.model.names import canonical_name

MAX_EVENTS = 1_000  # per request
MAX_FEATURES = 10_000  # per event
MAX_ACTIONS = 1_000  # to choose from
MAX_NAME_CHARS = 256  # of a task, a feature, an id or a label
MAX_TEXT_CHARS = 10_000  # of a text value
MAX_REASON_CHARS = 300
PATH_MARK = " - at `$"  # in msgspec's messages, before the path to the bad value
PATH = re.compile(r"(?:\[(\d{1,9})\])?([.\w\[\]]{0,100})`")

Task = str | int
Row = dict[str, int | float | str | bool | None] | list[float]
Answer = str | int | float | bool
Durability = Literal["durable", "logged", "none"]

# The same as a request may have them
Text = Annotated[str, Meta(max_length=MAX_NAME_CHARS)]
Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_CHARS)]
Number = Annotated[float, Meta(ge=-LARGEST_FEATURE, le=LARGEST_FEATURE)]
Integer = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Level = Name | Integer
_SOME = Meta(min_length=1, max_length=MAX_GROUPINGS)
Levels = Annotated[list[Level], _SOME] | Annotated[dict[Text, Level], _SOME]
Cell = Integer | Number | Annotated[str, Meta(max_length=MAX_TEXT_CHARS)] | bool | None
Cells = Annotated[dict[Text, Cell], Meta(max_length=MAX_FEATURES)]
Numbers = Annotated[list[Number], Meta(max_length=MAX_FEATURES)]


@dataclass(frozen=True)
class Settings:
    """Durability of changes, checkpoints, time that predictions wait, and size of the model."""

    durability: Durability = "durable"  # synced before an answer; within a second; some time
    group_events: int = 256  # committed together at most
    group_ms: float = 2.0  # how long the first request of a group waits for others
    checkpoint_events: int = 100_000
    checkpoint_seconds: float = 300.0
    ids: int = 1_000_000  # an id is remembered for so many changes
    keep_log: bool | None = None  # whether all changes stay in the log; None: as before
    pending_seconds: float = 86_400.0
    pending_events: int = 100_000
    pending_bytes: int = 1 << 28
    budget: float | None = None  # share of the events whose answers may be asked for
    new_features: int = 100_000  # in one request
    model_tasks: int = 1_000_000
    model_features: int = 4_000_000  # where features have names
    model_classes: int = 2_000
    model_actions: int = 100_000
    queued_events: int = 50_000  # waiting to be learned

    def __post_init__(self) -> None:
        if self.durability not in get_args(Durability):
            raise ValueError(f"durability is durable, logged or none; not {self.durability!r}")


# Errors: `status` and `reason` are those of the HTTP response


class RequestError(ValueError):
    """A request that is refused, and position of the bad event, if any."""

    def __init__(
        self,
        reason: str,
        index: int | None = None,
        status: int = 422,
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:
        super().__init__(reason)
        self.reason, self.index = _shorten(reason), index
        self.status, self.headers = status, headers

    @classmethod
    def unknown_task(cls, task: Task) -> Self:
        """Return the refusal of a request about a task that is not known."""
        return cls(f"no task {task!r} is known", status=404)


class StoreError(OSError):
    """The database could not be used; the next attempt may succeed."""


class BusyError(RuntimeError):
    """More events wait than the service is set to hold, or it is starting or stopping."""

    status = 503


class StoppedError(BusyError):
    """The service is stopping, or its model and its log may differ; nothing was learned."""


# Requests and responses


class PredictRequest(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """Event to predict; with an id it is kept until its answer comes."""

    task: Level | Levels  # or the level of each grouping, where the model has several
    x: Cells | Numbers
    id: Name | None = None
    offset: Number | Numbers | None = None  # known part of the margin; of classes one each


class LearnRequest(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """Answer to a pending event by its id, or a whole event with its answer."""

    y: Text | Integer | Number | bool
    id: Name | None = None
    task: Level | Levels | None = None
    x: Cells | Numbers | None = None
    offset: Number | Numbers | None = None


class PredictResponse(msgspec.Struct, gc=False, omit_defaults=True):
    """Prediction for one event."""

    label: Answer | None  # or the number; None before any label is known
    probability: float | None  # of the positive label, or of the predicted class
    margin: float
    version: int  # sequence number of the last change that the model had learned
    low: float | None = None  # nine of ten numbers will lie between low and high
    high: float | None = None
    ask: bool | None = None  # whether the label policy asks for the answer
    unknown: list[str] | None = None  # columns and categories that were not learned, so not used


class LearnResponse(msgspec.Struct, gc=False, omit_defaults=True, frozen=True):
    """Outcome of one event: applied, duplicate (learned before) or expired (id unknown)."""

    status: str
    sequence: int | None
    differs: bool = False  # a duplicate whose answer is not the one that was learned


class ChooseRequest(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """Context to choose an action in; without actions those of the service are offered."""

    id: Name
    x: Cells = {}
    task: Level | None = None
    actions: Annotated[list[Name | Cells], Meta(min_length=1, max_length=MAX_ACTIONS)] | None = None


class ChooseResponse(msgspec.Struct, gc=False, frozen=True):
    """Action that was drawn, and the probabilities of all: applied, or duplicate (drawn before)."""

    id: str
    action: str
    probability: float
    probabilities: dict[str, float]
    status: str
    sequence: int | None


class RewardRequest(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """Reward of a choice."""

    id: Name
    reward: Number | bool


class TaskQuery(msgspec.Struct, frozen=True):
    """Search, order and page of a list of tasks."""

    search: Annotated[str, Meta(max_length=256)] = ""
    order: Literal["task", "kind", "events", "shared", "personal", "share", "error"] = "personal"
    descending: bool = True
    offset: Annotated[int, Meta(ge=0, le=10**9)] = 0
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class ForgetQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Way to forget a task."""

    exact: bool = False  # as if it had never been there, by replay of the log


class ErrorResponse(msgspec.Struct, omit_defaults=True):
    """Reason of a refusal, and the position of the bad event in the list."""

    error: str
    index: int | None = None


@lru_cache(1 << 16)
def name_key(name: Any) -> str:
    """Return the one form of a task or a label, as text: 1, 1.0, "1" and True are the same."""
    return str(canonical_name(name))


encode = msgspec.json.Encoder().encode
_MANY = Meta(min_length=1, max_length=MAX_EVENTS)
PREDICT_BODY = msgspec.json.Decoder(PredictRequest | Annotated[list[PredictRequest], _MANY])
LEARN_BODY = msgspec.json.Decoder(LearnRequest | Annotated[list[LearnRequest], _MANY])
EVENT_BODY = msgspec.json.Decoder(PredictRequest)
CHOOSE_BODY = msgspec.json.Decoder(ChooseRequest | Annotated[list[ChooseRequest], _MANY])
REWARD_BODY = msgspec.json.Decoder(RewardRequest | Annotated[list[RewardRequest], _MANY])


def parse(body: bytes, decoder: msgspec.json.Decoder[Any]) -> tuple[list[Any], bool]:
    """Return the events of a body, and whether they came as a list; else it is one object."""
    try:
        parsed = decoder.decode(body)
    except msgspec.ValidationError as error:
        raise _invalid(str(error), body) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError(f"the body is not JSON: {error}", status=400) from None
    return (parsed, True) if type(parsed) is list else ([parsed], False)


def parse_query(query: bytes, kind: type[msgspec.Struct]) -> Any:
    """Return the fields of a query, converted from text."""
    try:
        given = dict(parse_qsl(query.decode(), errors="strict"))
        return msgspec.convert(given, kind, strict=False)
    except ValueError as error:
        raise RequestError(f"the query: {error}".replace("`", "")) from None


def _invalid(message: str, body: bytes) -> RequestError:
    """Translate msgspec's message, which may hold names of any length made up by a client."""
    what, mark, after = message.rpartition(PATH_MARK)
    path = PATH.fullmatch(after) if mark else None
    if path is None:
        return RequestError(message.replace("`", "").replace("array", "list"))
    index = None if path[1] is None else int(path[1])
    place = path[2].strip(".")
    if place == "x[...]":
        place = _bad_feature(body, index)
    text = f"{place}: {what}" if place else what
    return RequestError(text.replace("`", ""), index)


def _bad_feature(body: bytes, index: int | None) -> str:
    """Return the path of the feature whose value is not accepted."""
    with suppress(ValueError, LookupError, TypeError, RecursionError):  # no JSON, no event
        event = msgspec.json.decode(body)
        row = (event if index is None else event[index])["x"]
        for name, value in row.items() if isinstance(row, dict) else enumerate(row):
            try:
                msgspec.convert(value, Cell)
            except msgspec.ValidationError:
                return f"x[{_shorten(str(name), 60)!r}]"
    return "x[...]"


def _shorten(text: str, limit: int = MAX_REASON_CHARS) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."
