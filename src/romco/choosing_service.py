"""Service of a chooser: choices and rewards, each on the disk before it is answered.

Folder, writer and application are those of :mod:`romco.server`. A choice is drawn, logged with the
probabilities of its draw, and then kept by the chooser: a restart replays what was drawn.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from romco.choosing import Choice, Chooser
from romco.server.app import Application, Metrics, Response, media_headers
from romco.server.protocol import (
    REWARD_BODY,
    ChooseRequest,
    ChooseResponse,
    LearnResponse,
    RequestError,
    RewardRequest,
    Settings,
    Task,
    encode,
    name_key,
)
from romco.server.state import ErrorCount
from romco.server.store import Forget, Store
from romco.server.writer import Service

CHOICE_TABLE = """
CREATE TABLE IF NOT EXISTS choice (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, task TEXT, body BLOB NOT NULL,
    reward REAL, sequence INTEGER
)
"""  # number: of the change that made the choice; sequence: of the one that learned its reward
LOG_ROWS = 500  # of a download, read at once
SHOWN_ACTIONS = 100  # on the page

Action = str | dict[str, float | str | bool | None]


# What the log holds


class DrawnChoice(msgspec.Struct, array_like=True, frozen=True):
    """Choice as it was drawn."""

    id: str
    task: str | None
    x: dict[str, float | str | bool | None]
    actions: list[Action]
    action: str
    probabilities: dict[str, float]

    @property
    def choice(self) -> Choice:
        """Return it as the chooser has it."""
        return Choice(
            self.action, self.probabilities[self.action], dict(self.probabilities.items())
        )

    def respond(self, status: str, sequence: int | None) -> ChooseResponse:
        """Return the response to a request."""
        probability = self.probabilities[self.action]
        drawn = self.action, probability, self.probabilities
        return ChooseResponse(self.id, *drawn, status, sequence)


class Choose(msgspec.Struct, array_like=True, frozen=True, tag="choose"):
    """Choices that were drawn together."""

    choices: list[DrawnChoice]
    source = position = None
    events = ()

    @property
    def count(self) -> int:
        """Sequence numbers used."""
        return len(self.choices)


class Reward(msgspec.Struct, array_like=True, frozen=True, tag="reward"):
    """Rewards by id that are learned together or not at all; a position of a source, if any."""

    rewards: list[tuple[str, float]]
    source: str | None = None
    position: str | None = None
    events = ()

    @property
    def count(self) -> int:
        """Sequence numbers used: one per reward, and one if only a position moves."""
        return max(1, len(self.rewards))


class ChoiceStore(Store):
    """Folder of a chooser; a table holds the choices with their probabilities and rewards."""

    file_kind = "chooser"
    decode_change = staticmethod(msgspec.json.Decoder(Choose | Reward | Forget).decode)

    def _connect(self) -> None:
        super()._connect()
        self._db.execute(CHOICE_TABLE)

    def append(self, first: int, change: Any) -> None:
        """Add a change to the log, with all that follows from it."""
        super().append(first, change)
        if isinstance(change, Forget):
            self._db.execute("DELETE FROM choice WHERE task = ?", (name_key(change.task),))
        elif isinstance(change, Choose):
            rows = [(first + k, c.id, c.task, encode(c)) for k, c in enumerate(change.choices)]
            query = "INSERT INTO choice (number, id, task, body) VALUES (?, ?, ?, ?)"
            self._db.executemany(query, rows)
        else:
            rewards = [(r, first + k, id) for k, (id, r) in enumerate(change.rewards)]
            query = "UPDATE choice SET reward = ?, sequence = ? WHERE id = ?"
            self._db.executemany(query, rewards)

    def forget_ids(self, sequence: int) -> None:
        """Remove choices that were made too many changes ago."""
        last = sequence - self.settings.ids
        self._db.execute("DELETE FROM choice WHERE number <= ?", (last,))

    def unlearn(self, numbers: range) -> None:
        """Let the rewards of a change that could not be applied be learned again."""
        query = "UPDATE choice SET reward = NULL, sequence = NULL WHERE sequence BETWEEN ? AND ?"
        with self.transaction():
            self._db.execute(query, (numbers.start, numbers.stop - 1))

    def choices(self, ids: Sequence[str]) -> dict[str, tuple[int, DrawnChoice]]:
        """Return number and choice of those ids that are known."""
        rows = self._in("SELECT id, number, body FROM choice WHERE id IN", ids)
        return {id: (number, decode_choice(body)) for id, number, body in rows}

    def rewards(self, ids: Sequence[str]) -> dict[str, tuple[int, int | None, float | None]]:
        """Return the numbers of those ids that are known, and sequence and reward, if any."""
        rows = self._in("SELECT id, number, sequence, reward FROM choice WHERE id IN", ids)
        return {id: tuple(known) for id, *known in rows}

    def rewarded_after(self, number: int) -> list[tuple[int, bytes, float]]:
        """Return number, body and reward of the next choices that had one."""
        query = "SELECT number, body, reward FROM choice WHERE number > ? AND reward NOT NULL "
        with self._database():
            rows = self._db.execute(query + "ORDER BY number LIMIT ?", (number, LOG_ROWS))
            return rows.fetchall()


decode_choice = msgspec.json.Decoder(DrawnChoice).decode


# What is served


class ActionCount(msgspec.Struct, array_like=True):
    """Counts of one action, and the sum of its rewards."""

    offered: int = 0
    chosen: int = 0
    rewards: int = 0
    earned: float = 0.0


class ChoiceScores(msgspec.Struct):
    """Counts by action, and the curve of rewards."""

    actions: dict[str, ActionCount] = msgspec.field(default_factory=dict)
    total: ErrorCount = msgspec.field(default_factory=ErrorCount)  # of rewards
    choices: int = 0


class ServedChooser:
    """Chooser with its scores and the sequence number of the last change applied.

    The same changes in the same order give the same bits, as for a served model.
    """

    target = "reward"

    def __init__(self, chooser: Chooser, scores: ChoiceScores, sequence: int) -> None:
        self.model, self.scores, self.sequence = chooser, scores, sequence

    def apply(
        self, changes: Sequence[Choose | Reward | Forget], _rows: object = None
    ) -> list[str | None]:
        """Apply the next changes; return why a change could not be applied, or None, for each."""
        reasons = list[str | None]()
        for change in changes:
            self.sequence += change.count
            try:
                if isinstance(change, Choose):
                    self._keep(change)
                elif isinstance(change, Reward):
                    self._learn(change)
                else:
                    self.model.forget(name_key(change.task))
                reasons.append(None)
            except (KeyError, ValueError) as error:
                reasons.append(str(error.args[0]))
        return reasons

    def _keep(self, change: Choose) -> None:
        for one in change.choices:
            actions, id, task = one.actions, one.id, one.task
            self.model.keep(one.choice, one.x, actions=actions, id=id, task=task)
            for name in one.probabilities:
                self._count(name).offered += 1
            self._count(one.action).chosen += 1
            self.scores.choices += 1

    def _learn(self, change: Reward) -> None:
        """Learn all rewards of a change, or none."""
        for id, _ in change.rewards:
            if not self.model.is_pending(id):
                raise ValueError(f"the choice {id!r:.60} was dropped meanwhile: too many wait")
        for id, reward in change.rewards:
            choice = self.model.find(id)
            self.model.reward(id, reward)
            count = self._count(str(choice.action) if choice else "")
            count.rewards += 1
            count.earned += reward
            self.scores.total.add(reward)

    def _count(self, action: str) -> ActionCount:
        return self.scores.actions.setdefault(action, ActionCount())

    def copy(self) -> tuple[int, dict[str, Any], bytes]:
        """Return sequence, state and scores; no change may be applied meanwhile."""
        return self.sequence, self.model.state(), encode(self.scores)


class GroupDraws:
    """Draws the choices of requests that are committed together; changes nothing."""

    def __init__(self, served: ServedChooser, settings: Settings) -> None:
        self._served, self._settings = served, settings
        self._actions: set[str] = set()  # new ones

    def knows(self, task: Task) -> bool:
        """Return True if a person is known."""
        return self._served.model.knows(name_key(task))

    def draw(self, request: ChooseRequest, actions: list[Action], place: int) -> DrawnChoice:
        """Draw a choice; RequestError names the place of a bad request."""
        task = None if request.task is None else name_key(request.task)
        try:
            choice = self._served.model.draw(request.x, actions=actions, id=request.id, task=task)
        except ValueError as error:
            raise RequestError(str(error), place) from None
        probabilities = _named(choice)
        self._actions |= probabilities.keys() - self._served.scores.actions.keys()
        most = self._settings.model_actions
        if len(self._actions) + len(self._served.scores.actions) > most:
            raise RequestError(f"the chooser has room for {most:,} actions", place)
        return DrawnChoice(
            request.id, task, dict(request.x), actions, str(choice.action), probabilities
        )


class ChoosingService(Service):
    """Service of a chooser; ``actions`` are offered where a request names none."""

    message_body: ClassVar[Any] = REWARD_BODY
    store_type = ChoiceStore
    validator_type = GroupDraws
    store: ChoiceStore
    served: ServedChooser  # type: ignore[assignment]

    def __init__(
        self,
        folder: Path,
        new: Callable[[], Chooser],
        settings: Settings,
        origin: str = "",
        actions: Sequence[str] = (),
    ) -> None:
        self._offered: list[Action] = list(actions)
        super().__init__(folder, new, settings, origin)  # type: ignore[arg-type]

    def read_log(self, number: int, served: Any) -> list[tuple[int, bytes, float]]:
        """Return the next choices after a number that had their reward."""
        return self.store.rewarded_after(number)

    def _serve_model(self, model: Any, scores: bytes, sequence: int) -> Any:
        known = msgspec.json.decode(scores or b"{}", type=ChoiceScores)
        return ServedChooser(model, known, sequence)

    def _stage(self, order: Any, validator: Any, sequence: int) -> None:
        """Prepare the change of an order: choices, rewards, or a person to forget."""
        if order.forget is not None:
            super()._stage(order, validator, sequence)
        elif order.requests and isinstance(order.requests[0], ChooseRequest):
            drawn, order.outcomes = self._choose(order.requests, validator, sequence)
            order.change = Choose(drawn) if drawn else None
        else:
            learned, order.outcomes = self._reward(order.requests, sequence)
            if learned or order.position is not None:
                order.change = Reward(learned, order.source, order.position)

    def _choose(
        self, requests: Sequence[ChooseRequest], group: GroupDraws, sequence: int
    ) -> tuple[list[DrawnChoice], list[ChooseResponse]]:
        """Return choices to keep, and the response to each request."""
        known = self.store.choices([request.id for request in requests])
        drawn: list[DrawnChoice] = []
        responses: list[ChooseResponse] = []
        for place, request in enumerate(requests):
            actions = self._actions(request, place)
            before = known.get(request.id) or self._kept(request.id)
            if before is not None:
                number, choice = before
                _check_repeated(choice, actions, place)
                responses.append(choice.respond("duplicate", number))
                continue
            number = sequence + len(drawn)
            choice = group.draw(request, actions, place)
            known[request.id] = number, choice
            drawn.append(choice)
            responses.append(choice.respond("applied", number))
        return drawn, responses

    def _kept(self, id: str) -> tuple[None, DrawnChoice] | None:
        """Return a choice that the chooser had when the folder began."""
        choice = self.served.model.find(id)
        if choice is None:
            return None
        return None, DrawnChoice(id, None, {}, [], str(choice.action), _named(choice))

    def _actions(self, request: ChooseRequest, place: int) -> list[Action]:
        actions = request.actions or self._offered
        if not actions:
            raise RequestError("actions: give some, here or by --actions", place)
        for action in actions:
            name = _name_of(action)
            if not isinstance(name, str) or not name:
                raise RequestError('actions: each has a "name", which is text', place)
        return actions

    def _reward(
        self, requests: Sequence[RewardRequest], first: int
    ) -> tuple[list[tuple[str, float]], list[LearnResponse]]:
        """Return rewards to learn, and the outcome of each request."""
        known = self.store.rewards([request.id for request in requests])
        model = self.served.model
        learned: list[tuple[str, float]] = []
        responses: list[LearnResponse] = []
        for place, request in enumerate(requests):
            try:
                reward = model.check_reward(request.reward)
            except ValueError as error:
                raise RequestError(str(error), place) from None
            number, sequence, before = known.get(request.id, (0, None, None))
            if before is not None:
                responses.append(LearnResponse("duplicate", sequence, before != reward))
            elif number > self.served.sequence or model.is_pending(request.id):
                sequence = first + len(learned)
                known[request.id] = number, sequence, reward
                learned.append((request.id, reward))
                responses.append(LearnResponse("applied", sequence))
            else:
                status = "expired" if model.find(request.id) is None else "duplicate"
                responses.append(LearnResponse(status, None))
        return learned, responses


def _named(choice: Choice) -> dict[str, float]:
    """Return the probabilities of a choice by names that are text."""
    return {str(name): probability for name, probability in choice.probabilities.items()}


def _name_of(action: Action) -> Any:
    if isinstance(action, dict):
        return action.get("name")
    return action


def _check_repeated(choice: DrawnChoice, actions: Sequence[Action], place: int) -> None:
    if choice.action not in map(_name_of, actions):
        reason = f"id {choice.id!r:.60} was used for a choice among other actions"
        raise RequestError(f"{reason}: give each choice an id of its own", place)


# Over HTTP


class ChoosingMetrics(Metrics):
    """Counts of a chooser, for the page and for Prometheus."""

    predicting, learning = "/v1/choose", "/v1/reward"
    _service: ChoosingService

    def _figures(self) -> dict[str, Any]:
        served = self._service.served
        rows = []
        most_chosen = sorted(served.scores.actions.items(), key=lambda pair: -pair[1].chosen)
        for name, count in most_chosen[:SHOWN_ACTIONS]:
            rows.append({"action": name, **msgspec.structs.asdict(count)})
        return {
            "learner": "romco.Chooser",
            "target": served.model.kind,
            "events": served.model.rewards,
            "predicted": served.scores.choices,
            "dropped": served.model.dropped,
            "actions": rows,
        }

    def _model_gauges(self) -> Iterator[tuple[str, str, float | None]]:
        scores, model = self._service.served.scores, self._service.served.model
        yield "known_actions", "Actions known", len(scores.actions)
        yield "choices", "Choices made", scores.choices
        yield "rewards", "Rewards learned", scores.total.events
        yield "mean_reward", "Mean reward", scores.total.mean
        yield "pending", "Choices that wait for a reward", len(model.pending)


class ChoosingApplication(Application):
    """ASGI application of a chooser."""

    serves = "chooser"
    metrics_type = ChoosingMetrics
    _service: ChoosingService

    async def _choose(self, events: list[Any]) -> Any:
        responses = await asyncio.wrap_future(self._service.learn(events))
        self.metrics.predictions += len(responses)
        return responses

    async def _reward(self, events: list[Any]) -> Any:
        return await asyncio.wrap_future(self._service.learn(events))

    async def _choices(self, given: str) -> Response:
        lines = self._lines()
        await anext(lines)
        return Response(200, lines, media_headers("choices"))

    async def _lines(self) -> AsyncGenerator[bytes, None]:
        """Yield nothing, then the log of choices as lines for ``romco evaluate-policy``."""
        number = 0
        async with self._download():
            yield b""
            while True:
                read = partial(self._service.read_log, number)
                rows = await asyncio.wrap_future(self._service.call_in_writer(read))
                if not rows:
                    return
                yield b"".join([_line(body, reward) for _, body, reward in rows])
                number = rows[-1][0]


def _line(body: bytes, reward: float) -> bytes:
    logged = decode_choice(body)
    known: dict[str, Any] = {"id": logged.id, "task": logged.task, "action": logged.action}
    known |= {"reward": reward, "probability": logged.probabilities}
    line = known.copy()
    for name, cell in logged.x.items():
        if name in known:
            name = f"x.{name}"
        line[name] = cell
    return encode(line) + b"\n"
