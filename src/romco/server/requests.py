"""What clients may send: types with limits, from which the descriptions are made too."""

from __future__ import annotations

import re
from typing import Annotated, Any, final

import msgspec
from msgspec import Meta

from romco.server.drafts import Lesson
from romco.server.settings import Limits

AT = " - at `$"  # what msgspec says before the place
PLACE = re.compile(r"(?:\[(\d{1,9})\])?([.\w\[\]]{0,100})`")
LONGEST = 300  # characters that are told of what is wrong


class BadRequest(ValueError):  # noqa: N818 - says what is wrong
    """A request that says nothing the service understands; ``index`` is the bad event's place."""

    def __init__(self, reason: str, index: int | None = None, status: int = 422) -> None:
        super().__init__(reason)
        self.reason, self.index, self.status = reason, index, status


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An event to predict; with an id it is kept until its answer comes."""

    task: str | int
    x: dict[str, float | str | bool | None] | list[float]
    id: str | None = None


@final
class Reader:
    """Reads the bodies of requests: an object for one event, a list for many."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.question, self.lesson = types(limits)
        many = Meta(min_length=1, max_length=limits.events)
        self._one = {kind: msgspec.json.Decoder(kind) for kind in (self.question, self.lesson)}
        self._many = {
            kind: msgspec.json.Decoder(Annotated[list[kind], many])  # type: ignore[valid-type]
            for kind in (self.question, self.lesson)
        }

    def one(self, body: bytes) -> Question:
        """The one event of a body."""
        (found, *_), many = self.questions(body)
        if many:
            raise BadRequest("send one event, an object")
        return found

    def questions(self, body: bytes) -> tuple[list[Question], bool]:
        """Events to predict, and whether they came as a list."""
        if body[:1] == b"{":  # most of them
            return [self._decoded(self._one[self.question], body)], False
        found: tuple[list[Question], bool] = self._read(body, self.question)
        self._check_tasks([event.task for event in found[0]])
        return found

    def lessons(self, body: bytes) -> tuple[list[Lesson], bool]:
        """Events to learn, and whether they came as a list."""
        found: tuple[list[Lesson], bool] = self._read(body, self.lesson)
        self._check_tasks([event.task for event in found[0] if event.task is not None])
        return found

    def _read(self, body: bytes, kind: Any) -> Any:
        if body.lstrip()[:1] == b"{":
            return [self._decoded(self._one[kind], body)], False
        return self._decoded(self._many[kind], body), True

    def _decoded(self, decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:
        try:
            return decoder.decode(body)
        except msgspec.ValidationError as error:
            raise _invalid(str(error)) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadRequest(f"the body is not JSON: {error}", status=400) from None

    def _check_tasks(self, tasks: list[Any]) -> None:
        if len(set(tasks)) > self.limits.tasks:
            raise BadRequest(f"more than {self.limits.tasks:,} different tasks in one request")


def types(limits: Limits) -> tuple[type[Question], type[Lesson]]:
    """The types of an event to predict and of one to learn, within limits."""
    text = Annotated[str, Meta(max_length=limits.name)]
    name = Annotated[str, Meta(min_length=1, max_length=limits.name)]
    number = Annotated[float, Meta(ge=-limits.value, le=limits.value)]
    whole = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
    several = Meta(max_length=limits.features)
    named = Annotated[dict[text, number | text | bool | None], several]
    listed = Annotated[list[number], several]
    x, task = named | listed, name | whole
    label = text | whole | number | bool
    question = msgspec.defstruct(
        "Question",
        [("task", task), ("x", x), ("id", name | None, None)],
        bases=(Question,),
        frozen=True,
    )
    lesson = msgspec.defstruct(
        "Lesson",
        [
            ("y", label),
            ("id", name | None, None),
            ("task", task | None, None),
            ("x", x | None, None),
        ],
        bases=(Lesson,),
        frozen=True,
    )
    question.__doc__, lesson.__doc__ = Question.__doc__, Lesson.__doc__
    return question, lesson  # type: ignore[return-value]


def _invalid(message: str) -> BadRequest:
    """The message in our words, with the place of the event apart.

    It may hold names that a client made up, of any length: they are looked at once, and cut.
    """
    what, at, after = message.rpartition(AT)
    found = PLACE.fullmatch(after) if at else None
    if found is None:
        return BadRequest(_short(message.replace("`", "").replace("array", "list")))
    index, where = found.groups()
    place = where.strip(".")
    text = f"{place}: {what}" if place else what
    return BadRequest(_short(text.replace("`", "")), None if index is None else int(index))


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
