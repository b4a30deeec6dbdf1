"""How an explanation is found."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from romco.explanations.explanation import Explanation
from romco.explanations.facts import ALONE, TaskInsight
from romco.explanations.parts import Numbers, parts
from romco.explanations.targets import spoken_for
from romco.labels.audit import Audit
from romco.learners import Learner
from romco.learners.capabilities import FindsGroups, TellsFindings, TellsKinds
from romco.model import Model
from romco.model.engine import PERSONAL_CHECK_EVENTS, personal_tasks
from romco.model.names import canonical_name

LEGIBLE = 1000  # tasks up to which groups are looked for when nobody asked: it costs m^2


def explain(model: Model | Learner, top: int = 20, findings: bool = True) -> Explanation:
    """What a model or learner has learned.

    A learner that does not keep U and V apart is split here: shared is the mean of all
    tasks' weights, personal what differs from it. Where the learner keeps U by its factors,
    no (d, m) array is made, so that 100,000 tasks can be explained.

    Parameters
    ----------
    model:
        A model, or a learner.
    top:
        How many of the most personal tasks are told in detail.
    findings:
        Whether to tell what the learner says of itself; to leave it out is quicker.

    Returns
    -------
    :
        Rank, shared and personal part of each task, similar tasks; print it, or ask for its page.

    >>> import romco
    >>> stream = romco.streams.simulated(n_tasks=6, n_features=10, n_events=50, outliers=1)
    >>> learner = romco.learner("romco-nucl", n_features=10, n_tasks=6)
    >>> _ = learner.replay(romco.streams.synchronous(stream, seed=0))
    >>> explanation = explain(learner)
    >>> explanation.n_tasks, len(explanation.tasks)
    (6, 6)

    """
    if isinstance(model, Model):
        with model.engine.at_rest() as inside:  # as long as it takes to copy, not to compute
            found = _Found(inside, model, findings)
    else:
        found = _Found(model, findings=findings)
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
        findings=(*found.findings, *(_spent(model) if isinstance(model, Model) else ())),
        notes=tuple(note for note in found.notes() if note),
        positive=found.positive,
    )


def _spent(model: Model) -> tuple[str, ...]:
    """What was spent on labels and what they tell, where they cost."""
    audit = Audit.of(model.session)
    if model.labels is not None:
        return (f"Labels: {audit.describe(model.labels)}.",)
    found = audit.error()
    return () if found is None else (f"Error of all predictions by audit: {found}.",)


def explain_task(model: Model, task: Any) -> TaskInsight:
    """One task in detail; raises KeyError if it is not known.

    >>> import romco
    >>> model = romco.Model("romco-auto")
    >>> _ = model.learn([{"a": 1}, {"b": 1}], ["yes", "no"], ["ann", "bob"])
    >>> [name for name, _ in explain_task(model, "ann").nearest]
    ['bob']
    """
    with model.engine.at_rest() as inside:
        found = _Found(inside, model, findings=False)
    known = [canonical_name(name) for name in found.names]
    if canonical_name(task) not in known:
        raise KeyError(f"no task {task!r} is known")
    i = known.index(canonical_name(task))
    alike = found.parts.cosines(np.array([i]))[0]
    return found.task(i, nearest=found.nearest(i, alike), features=found.features(i))


class _Found:
    """All that is read of a model or a bare learner, by the number of a task in ``names``."""

    def __init__(self, learner: Learner, model: Model | None = None, findings: bool = True) -> None:
        self.learner = learner.name
        self.names: list[Any] = list(range(learner.n_tasks)) if model is None else model.tasks
        numbers = np.arange(learner.n_tasks) if model is None else model.engine.numbers(self.names)
        self.parts = parts(learner, numbers)
        self._shared, self._personal = self.parts.shared(), self.parts.personal()
        self.findings: tuple[str, ...] = tuple(spoken_for(learner, model))
        self._groups: list[int] | None = None
        if findings and isinstance(learner, TellsFindings):
            self.findings += tuple(learner.findings(numbers))
        if findings and isinstance(learner, FindsGroups) and 1 < learner.n_tasks <= LEGIBLE:
            self._groups = learner.groups()[numbers].tolist()
        judged = personal_tasks(learner)
        self._different = self._personal > 0.0 if judged is None else judged[numbers]
        self._kinds = _kinds(learner, numbers, self._different)
        self._model = model
        self.positive = None if model is None else model.engine.positive
        self.events = None if model is None else model.events
        self.n_features = learner.n_features if model is None else model.features.width

    def task(self, i: int, **detail: Any) -> TaskInsight:
        """What was found of a task."""
        name, model = self.names[i], self._model
        return TaskInsight(
            task=name,
            events=None if model is None else model.engine.events_of(name),
            shared=float(self._shared[i]),
            personal=float(self._personal[i]),
            since=None if model is None else model.engine.personal_since(name),
            different=bool(self._different[i]),
            kind=self._kinds[i],
            group=None if self._groups is None else self._groups[i],
            **detail,
        )

    def nearest(self, i: int, cosines: Numbers, n: int = 3) -> tuple[tuple[Any, float], ...]:
        """The most similar other tasks."""
        most = np.argsort(-cosines, kind="stable")[: n + 1]
        return tuple((self.names[j], float(cosines[j])) for j in most if j != i)[:n]

    def features(self, i: int, n: int = 5) -> tuple[tuple[Any, float], ...]:
        """Where a task differs most."""
        name = (lambda j: j) if self._model is None else self._model.features.name
        turn = 1.0 if self._model is None else self._model.engine.turn
        per, largest = self.parts.per_feature, self.parts.largest(i, n)
        return tuple(
            (f"{name(j // per)} for {self._label(j % per)}" if per > 1 else name(j), turn * value)
            for j, value in largest
            if j < self.n_features * per
        )

    def _label(self, k: int) -> Any:
        """What a class is called."""
        known = () if self._model is None else self._model.classes
        return known[k] if k < len(known) else f"class {k}"

    def notes(self) -> tuple[str | None, ...]:
        """What a reader must know of the numbers."""
        return self.parts.note, self.since_note()

    def since_note(self) -> str | None:
        """What the column "since" means, where it says anything."""
        if self._model is None or not self._different.any():
            return None
        every = f"{PERSONAL_CHECK_EVENTS:,}"
        return f"Since: events of all tasks when it was found different; looked at every {every}."


def _kinds(learner: Learner, numbers: NDArray[np.int64], different: NDArray[np.bool_]) -> list[str]:
    """The kind of each task, as the learner has it; those on their own are the different ones."""
    if isinstance(learner, TellsKinds):
        return learner.kinds_of(numbers)
    return [ALONE if alone else "related" for alone in different]
