"""Offline methods in a stream: keep the events, fit them all again from time to time."""

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from romco.batch import Solution, low_rank, shared_features
from romco.kernels.core.events import Events
from romco.learners.base import Arrays, Learner, copy_arrays, with_labels
from romco.learners.capabilities import Start, StartedTasks
from romco.learners.linear import mean_row
from romco.parameters import choice, not_negative, positive, whole
from romco.rounds import Round, Rounds, chosen

TOL = 1e-2  # an estimate from above: the objective was measured 1e-5 to 2e-4 from its optimum
LARGEST = 1e60  # of a feature: squares of sums of squares stay finite
KEPT = {"task": "i8", "label": "f8", "length": "i8", "index": "i8", "value": "f8"}  # events
MAX_CHUNKS = 1000  # rounds that are kept one by one, before they are joined
MAX_ITER = 200  # a fit that needs more goes on from there at the next one


class Retrained(Learner):
    """A learner that keeps events and fits them again after every ``every`` new ones (abstract).

    Between fits nothing is learned. A fit starts from the last one's weights. Events are
    kept in CSR form whatever the input, so dense and sparse rounds are learned alike.
    """

    keeps_events = True
    shapes: ClassVar = {"w": "dm", "intercepts": "m"}

    def __init__(self, n_features: int, n_tasks: int, every: int, window: int | None) -> None:
        super().__init__(n_features, n_tasks)
        self._every = whole("every", every)
        self._window = None if window is None else whole("window", window)
        self._theta = np.zeros((n_features + 1, n_tasks))  # the last row holds intercepts
        self._curvature = np.zeros(1)  # of the last fit
        self._since = np.zeros(1, dtype=np.int64)  # events since then
        empty = csr_array((0, n_features), dtype=np.float64)
        none = Round(np.empty(0, dtype=np.int64), empty, np.empty(0))
        self._kept: tuple[Round, ...] = (none,)  # in the order they came

    @abstractmethod
    def _fit(self, events: Round, theta: NDArray[np.float64], curvature: float) -> Solution:
        """Weights and intercepts (d + 1, m) for the events, searched from ``theta``."""

    def predict(self, round: Round) -> NDArray[np.float64]:
        events = Events(round, self.n_features, self.n_tasks, False)
        x: Any = csr_array(events.x)
        row = np.repeat(np.arange(events.n), np.diff(x.indptr))
        terms = x.data * self._theta[x.indices, events.task[row]]
        sums = np.bincount(row, terms, minlength=events.n).astype(np.float64, copy=False)
        return sums + self._theta[-1, events.task]

    def update(self, round: Round) -> None:
        """Keep the round's events; fit if enough have come."""
        self.prepare_update(round)()

    def prepare_update(self, round: Round) -> Callable[[], object]:
        some = with_labels(self, round)
        if some is None:
            return partial(bool)
        events = Events(some, self.n_features, self.n_tasks)
        x: Any = csr_array(events.x, copy=True)
        _check_sizes(x, events.task)
        new = Round(events.task.copy(), x, events.y.copy())
        kept: tuple[Round, ...] = (*self._kept, new)
        if len(kept) > MAX_CHUNKS:
            kept = (Rounds.pack(kept).events,)
        changed: dict[str, Any] = {"_kept": kept, "_since": self._since + events.n}
        if changed["_since"][0] >= self._every:
            known = Rounds.pack(kept).events
            if self._window is not None and self._window < len(known.y):
                known = chosen(known, np.arange(len(known.y)) >= len(known.y) - self._window)
            solution = self._fit(known, self._theta, float(self._curvature[0]))
            changed |= {"_theta": solution.w, "_curvature": np.array([solution.curvature])}
            changed |= {"_kept": (known,), "_since": np.zeros(1, dtype=np.int64)}
        return partial(self.__dict__.update, changed)  # one step, to whoever interrupts

    def weights(self) -> NDArray[np.float64]:
        return self._theta[:-1].copy()

    def intercepts(self) -> NDArray[np.float64]:
        """Intercept of each task (m,)."""
        return self._theta[-1].copy()

    def common(self, started: StartedTasks) -> Start:
        mean = mean_row(self._theta.T, started)
        return Start(mean[:-1], float(mean[-1]))

    def start_task(self, task: int, started: StartedTasks) -> None:
        """Set the task's weights and intercept to that mean, until the next fit."""
        self._theta[:, task] = mean_row(self._theta.T, started)

    def arrays(self) -> Arrays:
        task, x, y, *_ = Rounds.pack(self._kept).events
        kept: Any = x
        return {
            "w": self._theta[:-1],
            "intercepts": self._theta[-1],
            "curvature": self._curvature,
            "since": self._since,
            "task": task,
            "label": y,
            "length": np.diff(kept.indptr).astype(np.int64),  # non-zeros of each event
            "index": kept.indices.astype(np.int64),
            "value": kept.data,
        }

    def load(self, arrays: Arrays) -> None:
        if arrays.keys() != self.arrays().keys():
            raise ValueError(f"state holds {sorted(arrays)}, expected {sorted(self.arrays())}")
        theta = np.zeros((self.n_features + 1, self.n_tasks))
        fixed: Arrays = {
            "w": theta[:-1],
            "intercepts": theta[-1],
            "curvature": np.zeros(1),
            "since": np.zeros(1, dtype=np.int64),
        }
        kept = self._kept_events(arrays)
        copy_arrays(fixed, {name: arrays[name] for name in fixed})
        if fixed["since"][0] < 0 or fixed["curvature"][0] < 0.0:
            raise ValueError("state array 'since' or 'curvature' is negative")
        self._theta, self._kept = theta, (kept,)
        self._curvature = fixed["curvature"]
        self._since = fixed["since"]

    def _kept_events(self, arrays: Arrays) -> Round:
        """Copy the events of a state, if they are events that could have been learned."""
        for name, kind in KEPT.items():
            if arrays[name].ndim != 1 or arrays[name].dtype != kind:
                raise ValueError(f"state array {name!r} is not a list of {np.dtype(kind)}")
        task, y, length, index, value = (arrays[name].copy() for name in KEPT)
        total = sum(length.tolist())  # without wrapping
        fits = len(task) == len(y) == len(length) and total == len(index) == len(value)
        if not fits or (length < 0).any():
            raise ValueError("state array 'length' does not fit the kept events")
        starts = np.concatenate([[0], np.cumsum(length)])
        kept = Round(task, csr_array((value, index, starts), shape=(len(task), self.n_features)), y)
        if len(task):
            events = Events(kept, self.n_features, self.n_tasks)
            _check_sizes(events.x, events.task)
        return kept


class FeatureLearning(Retrained):
    r"""Multi-task feature learning, fitted again after every ``every`` events.

    .. math:: \min_{W,\; D \succ 0,\; \mathrm{tr} D = 1} \sum_k \|X_k w_k - y_k\|^2
              + \gamma\, \mathrm{tr}\, D^{-1} (W W' + \epsilon I)

    over all events so far, or the last ``window``; see :func:`romco.batch.feature_learning`.

    Cost: a fit is some tens of passes over the events kept. Source: Argyriou,
    Evgeniou and Pontil (2008), read from the authors' code; ``gamma`` is not known from the
    ROMCO paper ("default").
    """

    space: ClassVar = {"gamma": tuple(10.0**k for k in np.arange(-2, 2.5, 0.5))}

    def __init__(
        self,
        n_features: int,
        n_tasks: int,
        *,
        gamma: float = 1.0,
        eps: float = 1e-4,
        every: int = 100,
        window: int | None = None,
    ) -> None:
        super().__init__(n_features, n_tasks, every, window)
        self._gamma = positive("gamma", gamma)
        self._eps = positive("eps", eps)

    def _fit(self, events: Round, theta: NDArray[np.float64], curvature: float) -> Solution:
        solution = shared_features(
            events, self._gamma, self._eps, theta[:-1], TOL, MAX_ITER, curvature
        )
        return solution._replace(w=np.vstack([solution.w, np.zeros(self.n_tasks)]))


class TraceNormLearning(Retrained):
    r"""Trace-norm regularised learning, fitted again after every ``every`` events.

    .. math:: \min_{W, c} \sum_k \tfrac1{n_k} \sum_n \log(1 + e^{-y_{kn}(x_{kn} w_k + c_k)})
              + \rho_1 \|W\|_*

    over all events so far, or the last ``window``; with ``loss="least-squares"`` the sum
    of :math:`\tfrac12 \|X_k w_k - y_k\|^2` without intercepts. See
    :func:`romco.batch.trace_norm`.

    Cost: a fit is some tens of passes over the events kept. Source: MALSAR (Zhou,
    Chen and Ye 2011), read from its code, which leaves ``rho1`` to the caller.
    """

    space: ClassVar = {
        "rho1": tuple(10.0**k for k in np.arange(-4, 1.5, 0.5)),
        "loss": ("logistic", "least-squares"),
    }

    def __init__(
        self,
        n_features: int,
        n_tasks: int,
        *,
        rho1: float = 0.1,
        loss: str = "logistic",
        every: int = 100,
        window: int | None = None,
    ) -> None:
        super().__init__(n_features, n_tasks, every, window)
        self._rho1 = not_negative("rho1", rho1)
        self._loss = choice("loss", loss, "logistic", "least-squares")

    def _fit(self, events: Round, theta: NDArray[np.float64], curvature: float) -> Solution:
        return low_rank(events, self._rho1, self._loss, theta, TOL, MAX_ITER, curvature)


def _check_sizes(x: Any, task: NDArray[np.int64]) -> None:
    """Refuse features whose sums of squares a fit could not calculate with."""
    too_large = np.flatnonzero(np.abs(x.data) > LARGEST)
    if len(too_large):
        k = too_large[0]
        event = int(np.searchsorted(x.indptr, k, side="right")) - 1
        raise ValueError(
            f"event {event} (task {task[event]}): feature {x.indices[k]} is {x.data[k]}; a fit of "
            f"all events needs features up to {LARGEST:g}, so scale or drop it"
        )
