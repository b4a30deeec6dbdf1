"""The chooser: an action for a person in a context, learned from rewards that come later."""

import json
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isfinite, sqrt
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from scipy.special import expit

from romco.choosing.explanation import (
    ChooserExplanation,
    explain_chooser,
    largest,
    own_weights,
)
from romco.choosing.recentring import LEVEL_VARIANCE, recentre
from romco.choosing.state import StoredChoice, chooser_state, restore_choices, restore_kernel
from romco.io.modelfile import save_state
from romco.kernels.choosing import (
    LEVEL_CURIOSITY,
    OPTIMISM,
    ChooserKernel,
    Offer,
    Person,
)
from romco.kernels.io.mappings import hash_name
from romco.model.lock import Hold, Locks
from romco.model.names import Id, identity, to_json
from romco.parameters import choice, not_negative, whole
from romco.presentation.screen import quantity

MAX_STORED_CHOICES = 100_000
LARGEST_REWARD = 1e60
PLAIN_NUMBERS = (int, float, bool)
NEWCOMER = Person({}, 0.0)
fill = tuple.__new__  # of a named tuple, with all its fields: three times as fast as its name


class Choice(NamedTuple):
    """An action, the probability with which it was drawn, and those of all that were offered."""

    action: Id
    probability: float
    probabilities: dict[Id, float]


@dataclass(frozen=True)
class ActionReasons:
    """Parts of the index that ranks an action; they add up to the index.

    In log-odds of a reward for "yes/no", in the unit of the rewards for "number".
    """

    shared: float  # through the features of actions, and the mean level of numeric rewards
    own: float  # through the action's own weights
    personal: float  # the person's level for this action
    curiosity: float  # what is added because little is known
    deviation: float  # standard deviation of the score
    features: dict[str, float]  # parts of ``own`` by feature, the largest first

    @property
    def score(self) -> float:
        """Expected score: all parts but the one for what is not known."""
        return self.shared + self.own + self.personal

    @property
    def index(self) -> float:
        """Number by which actions are ranked."""
        return self.score + self.curiosity


class Chooser:
    """Choose an action for a person, and learn from the rewards of what was chosen.

    Actions, persons and features may appear at any time. Nothing needs to be scaled: numbers are
    standardised as they come, and a text is a feature of its own. A person has a level for each
    action; all else is shared. The model is in docs/choosing-mathematics.md.

    >>> chooser = Chooser()
    >>> for k in range(200):
    ...     hour = k % 24
    ...     drawn = chooser.choose({"hour": hour}, task="ann", actions=["news", "music"], id=k)
    ...     chooser.reward(k, drawn.action == ("news" if hour < 12 else "music"))
    >>> choice = chooser.choose({"hour": 9}, task="ann", actions=["news", "music"], id="next")
    >>> choice.action, choice.probability > 0.9
    ('news', True)
    >>> chooser
    <romco.Chooser: yes/no, 2 actions, 1 person, 1 feature, 200 rewards, 1 pending>

    Parameters
    ----------
    reward:
        "yes/no" for rewards of 0 or 1, "number" for any finite ones; a * reward + b with a > 0
        leads to the same choices.
    floor:
        Part of the choices that is drawn uniformly, so that each of K actions has a probability of
        at least floor / K. It costs reward, and makes :func:`romco.policies.evaluate` more exact.
    seed:
        Seed of all draws: the same seed and id give the same draw.
    pending:
        Number of choices that are kept, with or without their reward. The oldest is dropped
        first; one that had no reward by then is counted in ``dropped`` and never learned.
    """

    def __init__(
        self,
        reward: Literal["yes/no", "number"] = "yes/no",
        *,
        floor: float = 0.0,
        seed: int = 0,
        pending: int = MAX_STORED_CHOICES,
    ) -> None:
        self.kind = choice("reward", reward, "yes/no", "number")
        self.floor = not_negative("floor", floor)
        if self.floor > 1.0:
            raise ValueError(f"floor must be at most 1; got {floor!r}")
        self.seed = whole("seed", seed, 0)
        self.limit = whole("pending", pending)
        self.dropped = 0  # choices that never had a reward
        self._kernel = ChooserKernel(self.kind == "number", identity)
        self._kernel.levels = LEVEL_VARIANCE
        self._people: dict[Id, Person] = {}
        self._choices: OrderedDict[Id, StoredChoice] = OrderedDict()
        self._locks = Locks()  # a fork frees those that are kept
        self._lock = self._locks.step

    # What is known

    @property
    def actions(self) -> list[Id]:
        """Names of the actions, in the order in which they came."""
        return list(self._kernel.names)

    @property
    def tasks(self) -> list[Id]:
        """Names of the persons of whom a reward was learned."""
        return list(self._people)

    def knows(self, task: Any) -> bool:
        """Return True where anything is kept of a person."""
        task = identity("task", task)
        with Hold(self._lock, self._choices.copy) as choices:
            return task in self._people or any(one.task == task for one in choices.values())

    @property
    def rewards(self) -> int:
        """Number of rewards learned."""
        return self._kernel.rewards

    @property
    def pending(self) -> list[Id]:
        """Ids of the choices that wait for their reward, the oldest first."""
        with Hold(self._lock, self._choices.copy) as choices:
            return [id for id, stored in choices.items() if stored.context is not None]

    def __repr__(self) -> str:
        words = (
            quantity(len(self.actions), "action"),
            quantity(len(self._people), "person", "people"),
            quantity(self._kernel.context.width - 1, "feature"),
            quantity(self.rewards, "reward"),
        )
        return f"<romco.Chooser: {self.kind}, {', '.join(words)}, {len(self.pending)} pending>"

    # Choosing and learning

    def choose(
        self, x: Mapping[str, Any], *, actions: Iterable[Any], id: Any, task: Any = None
    ) -> Choice:
        """Draw one of the actions; the same id gets the same choice again.

        ``x`` maps names of the context to numbers or texts; None is left out. An action is a name,
        or a mapping with a "name" and its features: ``{"name": "c", "price": 3}``. ``task`` is the
        person, None where there is none. Raises ValueError where anything is bad; nothing changes
        then.
        """
        id = identity("id", id)
        task = None if task is None else identity("task", task)
        with Hold(self._lock):
            offer = self._kernel.read(x, actions)
            stored = self._choices.get(id)
            if stored is not None:
                return self._repeated(stored, offer, id)
            place, probabilities = self._draw(offer, task, id)
            self._kernel.observe(offer)
            return self._store(id, task, offer, place, probabilities)

    def draw(
        self, x: Mapping[str, Any], *, actions: Iterable[Any], id: Any, task: Any = None
    ) -> Choice:
        """Draw as :meth:`choose` would, but change nothing; then :meth:`keep` stores the choice.

        The service uses this to write a choice to its log first.
        """
        id = identity("id", id)
        with Hold(self._lock):
            offer = self._kernel.read(x, actions)
            place, probabilities = self._draw(offer, task, id)
            law = dict(zip(offer.names, probabilities, strict=True))
            return Choice(offer.names[place], probabilities[place], law)

    def keep(
        self,
        choice: Choice,
        x: Mapping[str, Any],
        *,
        actions: Iterable[Any],
        id: Any,
        task: Any = None,
    ) -> None:
        """Store a choice of :meth:`draw` until its reward comes.

        Raises ValueError where the id is known, or the choice is not among these actions.
        """
        id = identity("id", id)
        task = None if task is None else identity("task", task)
        with Hold(self._lock):
            if id in self._choices:
                raise ValueError(
                    f"id {id!r:.60} was used before: give each choice an id of its own"
                )
            offer = self._kernel.read(x, actions)
            if choice.probabilities.keys() != set(offer.names):
                raise ValueError("the choice was made among other actions")
            self._kernel.observe(offer)
            law = [choice.probabilities[name] for name in offer.names]
            self._store(id, task, offer, offer.names.index(choice.action), law)

    def find(self, id: Any) -> Choice | None:
        """Return the stored choice of an id, else None."""
        with Hold(self._lock):
            stored = self._choices.get(id)
            return None if stored is None else self._as_choice(stored)

    def is_pending(self, id: Any) -> bool:
        """Return True where a choice waits for its reward."""
        stored = self._choices.get(id)
        return stored is not None and stored.context is not None

    def reward(self, id: Any, value: float) -> None:
        """Learn the reward of a choice: once, at any time after it.

        Raises KeyError where no choice of this id waits, ValueError where the value is bad.
        """
        id = identity("id", id)
        number = self.check_reward(value)
        with Hold(self._lock):
            stored = self._choices.get(id)
            if stored is None:
                raise KeyError(f"no choice {id!r:.60} is known: it was dropped, or never made")
            offered, probabilities, place, task, context, features = stored
            if context is None:
                raise KeyError(f"choice {id!r:.60} had its reward already: a reward counts once")
            learned = self._kernel.rewards
            if learned & (learned - 1) == 0:  # 0, 1, 2, 4, 8, ...
                recentre(self._kernel, number, self._people.values())
            person = None
            if task is not None:
                person = self._people.setdefault(task, Person({}, 0.0))
            rewarded = fill(StoredChoice, (offered, probabilities, place, task, None, None))
            keep = self._choices, id, rewarded
            self._kernel.learn(context, offered[place], features, person, number, *keep)

    def forget(self, task: Any) -> None:
        """Forget a person: name, levels, and choices; KeyError where the person is not known."""
        person = identity("task", task)
        with Hold(self._lock):
            ids = [id for id, stored in self._choices.items() if stored.task == person]
            if person not in self._people and not ids:
                raise KeyError(f"no person {task!r:.60} is known")
            for id in ids:
                del self._choices[id]
            self._people.pop(person, None)

    def reasons(
        self, x: Mapping[str, Any], *, actions: Iterable[Any], task: Any = None
    ) -> dict[Id, ActionReasons]:
        """Return the parts of each action's index; draw and change nothing.

        >>> chooser = Chooser()
        >>> for k in range(50):
        ...     drawn = chooser.choose({}, actions=["a", "b"], id=k)
        ...     chooser.reward(k, drawn.action == "a")
        >>> found = chooser.reasons({}, actions=["a", "b"])
        >>> found["a"].own > 0 > found["b"].own, found["b"].curiosity > found["a"].curiosity
        (True, True)
        """
        with Hold(self._lock):
            kernel = self._kernel
            offer = kernel.read(x, actions)
            means, variances = kernel.moments(offer, self._person(task))
            row = kernel.standardise(offer.context)
            found: dict[Id, ActionReasons] = {}
            for k, number in enumerate(offer.numbers):
                shared, own, personal = means[k].tolist()
                doubt = variances[k] @ [1.0, 1.0, LEVEL_CURIOSITY]
                curiosity = OPTIMISM * kernel.deviation * sqrt(doubt)
                deviation = kernel.deviation * sqrt(variances[k].sum())
                weights = own_weights(kernel, number)
                parts = (weights * row[: len(weights)])[1:]
                features = largest(list(kernel.context.number), parts, len(parts))
                found[offer.names[k]] = ActionReasons(
                    shared + kernel.centre, own, personal, curiosity, deviation, features
                )
            return found

    def explain(self, top: int = 20) -> ChooserExplanation:
        """Return a summary of actions, the best first, and of the people who differ most.

        >>> chooser = Chooser()
        >>> for k in range(50):
        ...     drawn = chooser.choose({}, actions=["a", "b"], id=k, task="ann")
        ...     chooser.reward(k, drawn.action == "a")
        >>> [one.action for one in chooser.explain().actions]
        ['a', 'b']
        """
        with Hold(self._lock):
            return explain_chooser(self._kernel, self._people, top)

    def expect(
        self, x: Mapping[str, Any], *, actions: Iterable[Any], task: Any = None
    ) -> dict[Id, float]:
        """Return the expected reward of each action; changes nothing."""
        with Hold(self._lock):
            offer = self._kernel.read(x, actions)
            means, variances = self._kernel.moments(offer, self._person(task))
            expected = means.sum(axis=1) + self._kernel.centre
            if self.kind == "yes/no":
                moderated = expected / np.sqrt(1.0 + np.pi / 8.0 * variances.sum(axis=1))
                expected = expit(moderated)
            return dict(zip(offer.names, expected.tolist(), strict=True))

    def probabilities(
        self, x: Mapping[str, Any], *, actions: Iterable[Any], task: Any = None
    ) -> dict[Id, float]:
        """Return the probabilities with which :meth:`choose` would draw now; changes nothing."""
        with Hold(self._lock):
            offer = self._kernel.read(x, actions)
            _, law = self._kernel.draw(offer, self._person(task), self.floor, 0.0)
            return dict(zip(offer.names, law, strict=True))

    # Files and states

    def save(self, path: str | Path) -> None:
        """Write the chooser with its pending choices to a file that ``romco.load`` opens."""
        save_state(self.state(), path, "chooser")

    def state(self) -> dict[str, Any]:
        """Return values for JSON, and NumPy arrays under ``"arrays"``."""
        settings = {"reward": self.kind, "floor": self.floor, "seed": self.seed}
        settings |= {"pending": self.limit}
        with Hold(self._lock):
            state = chooser_state(self._kernel, self._people, self._choices)
            return {**state, "settings": settings, "dropped": self.dropped}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Return the chooser of a state; it continues as if it had never stopped.

        Raises ValueError where the state does not hold together.
        """
        made = cls(**state["settings"])
        made.dropped = whole("dropped", state["dropped"], 0)
        made._people = restore_kernel(made._kernel, state)
        made._choices = restore_choices(made._kernel, state)
        return made

    def __reduce__(self) -> Any:
        return type(self).from_state, (self.state(),)

    # Within the lock

    def _person(self, task: Any) -> Person | None:
        return None if task is None else self._people.get(identity("task", task), NEWCOMER)

    def _draw(self, offer: Offer, task: Any, id: Id) -> tuple[int, list[float]]:
        """Return place and probabilities; the draw depends only on these, seed and id."""
        name = id if type(id) is str else json.dumps(to_json(id))
        uniform = (hash_name(f"{self.seed}:{name}") >> 11) / 2**53
        return self._kernel.draw(offer, self._person(task), self.floor, uniform)

    def _store(
        self, id: Id, task: Id | None, offer: Offer, place: int, probabilities: list[float]
    ) -> Choice:
        """Store a choice until its reward comes, and drop the oldest if there are too many."""
        names = offer.names
        stored = offer.numbers, probabilities, place, task, offer.context, offer.rows[place]
        self._choices[id] = fill(StoredChoice, stored)
        if len(self._choices) > self.limit:
            _, oldest = self._choices.popitem(last=False)
            self.dropped += oldest.context is not None
        law = dict(zip(names, probabilities, strict=True))
        return fill(Choice, (names[place], probabilities[place], law))

    def _repeated(self, stored: StoredChoice, offer: Offer, id: Id) -> Choice:
        """Return a choice made before; ValueError where its action is not offered now."""
        choice = self._as_choice(stored)
        if choice.action not in offer.names:
            raise ValueError(
                f"id {id!r:.60} was used for a choice among other actions, "
                f"{choice.action!r:.60} was chosen: give each choice an id of its own"
            )
        return choice

    def _as_choice(self, stored: StoredChoice) -> Choice:
        names = self._kernel.names
        offered = [names[number] for number in stored.offered]
        probabilities = dict(zip(offered, stored.probabilities, strict=True))
        return Choice(offered[stored.place], stored.probabilities[stored.place], probabilities)

    # Without the lock

    def check_reward(self, value: Any) -> float:
        """Return a reward as a number; ValueError where it cannot be one."""
        if type(value) not in PLAIN_NUMBERS and not isinstance(value, np.number | np.bool_):
            raise ValueError(f"a reward is a number; got {value!r:.60}")
        number = float(value)
        if self.kind == "yes/no" and number not in (0.0, 1.0):
            raise ValueError(
                f"a reward is 0 or 1; got {value!r}: for other numbers make a chooser with "
                'reward="number"'
            )
        if not (isfinite(number) and abs(number) <= LARGEST_REWARD):
            raise ValueError(f"a reward is a finite number up to {LARGEST_REWARD:g}; got {value!r}")
        return number
