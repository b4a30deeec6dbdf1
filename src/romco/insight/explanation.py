"""What an explanation holds, and how it is found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from romco.insight.parts import Numbers, parts
from romco.learners import Learner
from romco.learners.capabilities import TellsFindings
from romco.model import Model
from romco.model.growing import WATCH, personal_tasks

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class TaskInsight:
    """One task: how much of its weights is shared, and how much its own."""

    task: Any
    events: int | None  # learned so far; None where a bare learner was explained
    shared: float  # length of its column of U
    personal: float  # length of its column of V
    since: int | None  # events of all tasks when it was found personal; looked at every 1000
    different: bool = False  # as the learner judges; else whether it has a column of V at all
    nearest: tuple[tuple[Any, float], ...] = ()  # most similar tasks, by cosine of the weights
    features: tuple[tuple[Any, float], ...] = ()  # where it differs most from what is shared

    @property
    def share(self) -> float:
        """Personal part of the whole, from 0 to 1."""
        return self.personal / (self.shared + self.personal) if self.personal > 0 else 0.0


@dataclass(frozen=True)
class Explanation:
    """What a model has learned; prints as a table, shows as a page in a notebook."""

    learner: str
    events: int | None
    n_tasks: int
    n_features: int
    spectrum: tuple[float, ...]  # singular values of what is shared, largest first
    tasks: tuple[TaskInsight, ...]  # the most personal first
    findings: tuple[str, ...] = ()  # what the learner itself says it found, in sentences
    notes: tuple[str, ...] = ()

    @property
    def rank(self) -> int:
        """Dimensions of what is shared."""
        return len(self.spectrum)

    @property
    def personal(self) -> tuple[TaskInsight, ...]:
        """Tasks that are different from the rest, the most personal first."""
        return tuple(task for task in self.tasks if task.different)

    def __str__(self) -> str:
        from romco.insight.text import table

        return table(self)

    def _repr_html_(self) -> str:
        from romco.insight.page import body

        return body(self)

    def page(self) -> str:
        """A self-contained HTML page."""
        from romco.insight.page import page

        return page(self)

    def figures(self) -> dict[str, Figure]:
        """Figures by name, for print; needs matplotlib."""
        from romco.insight.figures import figures

        return figures(self)


def explain(model: Model | Learner, top: int = 20) -> Explanation:
    """What a model or learner has learned; the ``top`` most personal tasks in detail.

    A learner that does not keep U and V apart is split here: shared is the mean of all
    tasks' weights, personal what differs from it. Where the learner keeps U by its factors,
    no (d, m) array is made, so that 100,000 tasks can be explained.

    >>> import romco
    >>> stream = romco.streams.simulated(n_tasks=6, n_features=10, n_events=50, outliers=1)
    >>> learner = romco.learner("romco-nucl", n_features=10, n_tasks=6)
    >>> _ = learner.replay(romco.streams.synchronous(stream, seed=0))
    >>> explanation = explain(learner)
    >>> explanation.n_tasks, len(explanation.tasks)
    (6, 6)
    """
    if isinstance(model, Model):
        with model.at_rest() as inside:  # as long as it takes to copy, not to compute
            found = _Found(inside, model)
    else:
        found = _Found(model)
    own = found.parts.personal()
    order = np.argsort(-own, kind="stable")
    detailed, rest = order[:top], order[top:]
    alike = found.parts.cosines(detailed)
    tasks = [
        found.task(i, nearest=found.nearest(i, alike[k]), features=found.features(i))
        for k, i in enumerate(detailed)
    ]
    return Explanation(
        learner=found.learner,
        events=found.events,
        n_tasks=len(found.names),
        n_features=found.n_features,
        spectrum=tuple(found.parts.spectrum.tolist()),
        tasks=(*tasks, *map(found.task, rest)),
        findings=found.findings,
        notes=tuple(note for note in found.notes() if note),
    )


class _Found:
    """All that is read of a model or a bare learner, by the number of a task in ``names``."""

    def __init__(self, learner: Learner, model: Model | None = None) -> None:
        self.learner = learner.name
        self.names: list[Any] = list(range(learner.n_tasks)) if model is None else model.tasks
        numbers = np.arange(learner.n_tasks) if model is None else model.numbers(self.names)
        self.parts = parts(learner, numbers)
        self._shared, self._personal = self.parts.shared(), self.parts.personal()
        told = learner.findings(numbers) if isinstance(learner, TellsFindings) else ()
        self.findings: tuple[str, ...] = tuple(told)
        judged = personal_tasks(learner)
        self._different = self._personal > 0.0 if judged is None else judged[numbers]
        self._model = model
        self.events = None if model is None else model.events
        self.n_features = learner.n_features if model is None else model.features.width

    def task(self, i: int, **detail: Any) -> TaskInsight:
        """What was found of a task."""
        name, model = self.names[i], self._model
        return TaskInsight(
            task=name,
            events=None if model is None else model.events_of(name),
            shared=float(self._shared[i]),
            personal=float(self._personal[i]),
            since=None if model is None else model.personal_since(name),
            different=bool(self._different[i]),
            **detail,
        )

    def nearest(self, i: int, cosines: Numbers, n: int = 3) -> tuple[tuple[Any, float], ...]:
        """The most similar other tasks."""
        most = np.argsort(-cosines, kind="stable")[: n + 1]
        return tuple((self.names[j], float(cosines[j])) for j in most if j != i)[:n]

    def features(self, i: int, n: int = 5) -> tuple[tuple[Any, float], ...]:
        """Where a task differs most."""
        name = (lambda j: j) if self._model is None else self._model.features.name
        turn = 1.0 if self._model is None else self._model.turn
        return tuple((name(j), turn * value) for j, value in self.parts.largest(i, n))

    def positive_note(self) -> str | None:
        """For which label a weight above 0 speaks."""
        if self._model is None or self._model.positive is None:
            return None
        return f"Positive: {self._model.positive}. A feature with + speaks for it."

    def notes(self) -> tuple[str | None, ...]:
        """What a reader must know of the numbers."""
        return self.positive_note(), self.parts.note, self.since_note()

    def since_note(self) -> str | None:
        """What the column "since" means, where it says anything."""
        if self._model is None or not self._different.any():
            return None
        return f"Since: events of all tasks when it was found different; looked at every {WATCH:,}."
