"""What an explanation holds, and how it is found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from romco.learners import Learner
from romco.model import Model
from romco.rounds import Round

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Numbers = NDArray[np.float64]
LARGEST = 20_000_000  # weights that may be laid out at once: 160 MB


@dataclass(frozen=True)
class TaskInsight:
    """One task: how much of its weights is shared, and how much its own."""

    task: Any
    events: int | None  # learned so far; None where a bare learner was explained
    shared: float | None  # length of its column of U; None where the model is too large
    personal: float  # length of its column of V
    since: int | None  # events of all tasks when it was found personal; looked at every 1000
    different: bool = False  # as the learner judges; else whether it has a column of V at all
    nearest: tuple[tuple[Any, float], ...] = ()  # most similar tasks, by cosine of the weights
    features: tuple[tuple[Any, float], ...] = ()  # where it differs most from what is shared

    @property
    def share(self) -> float | None:
        """Personal part of the whole, from 0 to 1."""
        if self.shared is None:
            return None
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
    tasks' weights, personal what differs from it.

    >>> import romco
    >>> stream = romco.streams.simulated(n_tasks=6, n_features=10, n_events=50, outliers=1)
    >>> learner = romco.learner("romco-nucl", n_features=10, n_tasks=6)
    >>> _ = learner.replay(romco.streams.synchronous(stream, seed=0))
    >>> explanation = explain(learner)
    >>> explanation.n_tasks, len(explanation.tasks)
    (6, 6)
    """
    names = _Names(model)
    if len(names.tasks) * names.learner.n_features > LARGEST:
        return _explain_large(names, top)
    U, V, spectrum, notes = _split(names)
    lengths, own = np.linalg.norm(U, axis=0), np.linalg.norm(V, axis=0)
    order = np.argsort(-own, kind="stable")
    alike = _cosines(U + V, order[:top])
    tasks = [
        names.insight(i, shared=float(lengths[i]), personal=float(own[i])) for i in order[top:]
    ]
    detailed = [
        names.insight(
            i,
            shared=float(lengths[i]),
            personal=float(own[i]),
            nearest=_nearest(names, alike[k], i),
            features=_largest(names, V[:, i]),
        )
        for k, i in enumerate(order[:top])
    ]
    return names.explanation(spectrum, (*detailed, *tasks), notes)


class _Names:
    """Names of what is explained, whether a model or a bare learner."""

    def __init__(self, model: Model | Learner) -> None:
        self.model = model if isinstance(model, Model) else None
        self.learner: Learner = model.learner if isinstance(model, Model) else model
        self.tasks: list[Any] = self.model.tasks if self.model else list(range(model.n_tasks))  # type: ignore[union-attr]
        self.numbers = self.model.numbers(self.tasks) if self.model else np.arange(len(self.tasks))
        self.n_features = self.model.features.width if self.model else self.learner.n_features
        judge = getattr(self.learner, "personal_tasks", None)
        self.different = None if judge is None else set(judge().tolist())

    def feature(self, j: int) -> Any:
        return self.model.features.name(j) if self.model else j

    def insight(self, i: int, **found: Any) -> TaskInsight:
        task = self.tasks[i]
        known = self.model is not None
        judged = None if self.different is None else int(self.numbers[i]) in self.different
        return TaskInsight(
            task=task,
            different=found["personal"] > 0.0 if judged is None else judged,
            events=self.model.events_of(task) if known else None,  # type: ignore[union-attr]
            since=self.model.personal_since(task) if known else None,  # type: ignore[union-attr]
            **found,
        )

    def explanation(
        self, spectrum: Numbers, tasks: tuple[TaskInsight, ...], notes: tuple[str, ...]
    ) -> Explanation:
        return Explanation(
            learner=self.learner.name,
            events=None if self.model is None else self.model.events,
            n_tasks=len(self.tasks),
            n_features=self.n_features,
            spectrum=tuple(spectrum.tolist()),
            tasks=tasks,
            notes=notes,
        )


def _split(names: _Names) -> tuple[Numbers, Numbers, Numbers, tuple[str, ...]]:
    """U and V (d, m) of the tasks, and the spectrum of U."""
    learner: Any = names.learner
    if hasattr(learner, "shared") and hasattr(learner, "personal"):
        U, V = learner.shared()[:, names.numbers], learner.personal()[:, names.numbers]
        return U, V, _spectrum(learner, U), ()
    W = learner.weights()[:, names.numbers]
    mean = W.mean(axis=1, keepdims=True) if W.size else W
    U = np.broadcast_to(mean, W.shape)
    length = float(np.linalg.norm(mean)) * np.sqrt(W.shape[1])
    note = f"{learner.name} keeps no parts: shared is the mean of all tasks' weights."
    return U, W - U, np.array([length] if length > 0 else []), (note,)


def _spectrum(learner: Any, U: Numbers) -> Numbers:
    """Singular values of U above rounding, from the learner where it knows them."""
    if hasattr(learner, "singular_values"):
        return learner.singular_values()
    s = np.linalg.svd(U, compute_uv=False) if U.size else np.empty(0)
    return s[s > 1e-12 * s.max(initial=0.0)]


def _explain_large(names: _Names, top: int) -> Explanation:
    """Without laying out all weights: columns of single tasks only."""
    learner: Any = names.learner
    if hasattr(learner, "personal_norms"):
        own, spectrum = learner.personal_norms()[names.numbers], learner.singular_values()
    else:
        own, spectrum = np.zeros(len(names.tasks)), np.empty(0)
    order = np.argsort(-own, kind="stable")
    tasks = []
    for k, i in enumerate(order):
        detail = _largest(names, _column(learner, int(names.numbers[i]))) if k < top else ()
        tasks.append(names.insight(i, shared=None, personal=float(own[i]), features=detail))
    note = "Too large to lay out: features are those with the largest weights, no similar tasks."
    return names.explanation(spectrum, tuple(tasks), (note,))


def _column(learner: Learner, task: int, rows: int = 4096) -> Numbers:
    """A task's weights (d,), read off as margins of single features."""
    from scipy.sparse import csr_array

    d = learner.n_features
    w = np.empty(d)
    for begin in range(0, d, rows):
        n = min(rows, d - begin)
        x = csr_array((np.ones(n), np.arange(begin, begin + n), np.arange(n + 1)), shape=(n, d))
        w[begin : begin + n] = learner.predict(Round(np.full(n, task), x, np.full(n, np.nan)))
    return w


def _cosines(W: Numbers, some: NDArray[np.int64]) -> Numbers:
    """Cosines (k, m) of some columns with all; 0 where a column is 0."""
    unit = W / np.maximum(np.linalg.norm(W, axis=0), np.finfo(float).tiny)
    return unit[:, some].T @ unit


def _nearest(names: _Names, cosines: Numbers, i: int, n: int = 3) -> tuple[tuple[Any, float], ...]:
    order = [j for j in np.argsort(-cosines, kind="stable")[: n + 1] if j != i][:n]
    return tuple((names.tasks[j], float(cosines[j])) for j in order)


def _largest(names: _Names, v: Numbers, n: int = 5) -> tuple[tuple[Any, float], ...]:
    order = np.argsort(-np.abs(v), kind="stable")[:n]
    return tuple((names.feature(int(j)), float(v[j])) for j in order if v[j] != 0.0)
