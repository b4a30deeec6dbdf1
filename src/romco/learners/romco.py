"""ROMCO-NuCl and ROMCO-LogD: the paper's Algorithms 1 and 2."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from romco.kernels.events import Events
from romco.learners.base import (
    Arrays,
    Learner,
    choice,
    copy_arrays,
    not_negative,
    positive,
    replay_in_turn,
)
from romco.penalties import LogDet, Nuclear, TaskGroups
from romco.rounds import Round
from romco.steps import STEPS, constant, inverse, inverse_sqrt

PAPER_GRID = tuple(10.0**k for k in range(-6, 1))
RHO = {"constant": constant, "1/t": inverse, "1/sqrt(t)": inverse_sqrt}


class Romco(Learner):
    r"""Robust online multi-task learning: W = U + V, shared low rank plus few personal tasks.

    In a round with a positive hinge loss (paper eqs. 11 to 16), with G the
    gradient of the round's losses,

    .. math:: U \leftarrow \mathrm{prox}_{\eta_1\lambda_1 r}(U - \eta_1 G), \qquad
              V \leftarrow \mathrm{prox}_{\eta_2\lambda_2 \|\cdot\|_{2,1}}(V - \eta_2 G)

    where r is the nuclear norm (``romco-nucl``) or log det(I + U'U) (``romco-logd``).
    A round without loss changes nothing unless ``always_prox``.
    """

    space: ClassVar[Mapping[str, Any]] = {
        "eta1": PAPER_GRID,
        "eta2": PAPER_GRID,
        "lambda1": PAPER_GRID,
        "lambda2": PAPER_GRID,
    }

    def __init__(
        self,
        n_features: int,
        n_tasks: int,
        *,
        shared: Literal["nuclear", "logdet"],
        eta1: float = 0.1,
        eta2: float = 0.1,
        lambda1: float = 0.01,
        lambda2: float = 0.01,
        C: float = 1.0,
        update: str = "loss",
        always_prox: bool = False,
        step: str = "constant",
        rho: str = "constant",
    ) -> None:
        super().__init__(n_features, n_tasks)
        self._eta1, self._eta2 = positive("eta1", eta1), positive("eta2", eta2)
        self._spectral = (Nuclear if shared == "nuclear" else LogDet)(
            not_negative("lambda1", lambda1)
        )
        self._groups = TaskGroups(not_negative("lambda2", lambda2))
        self._C = positive("C", C)
        self._on_mistake = choice("update", update, "loss", "mistake") == "mistake"
        self._always_prox = bool(always_prox)
        self._step = STEPS[choice("step", step, *STEPS)]
        self._rho = choice("rho", rho, *RHO)
        self._u = np.zeros((n_features, n_tasks))
        self._v = np.zeros((n_features, n_tasks))
        self._t = np.zeros(1, dtype=np.int64)

    def predict(self, round: Round) -> NDArray[np.float64]:
        """Margins (n,) of the round's events."""
        return self._margins(Events(round, self.n_features, self.n_tasks, False))

    def update(self, round: Round) -> None:
        """One step of Algorithm 1 or 2."""
        events = Events(round, self.n_features, self.n_tasks)
        p, y = self._margins(events), events.y
        self._t += 1
        active = (np.where(p >= 0, 1.0, -1.0) != y) if self._on_mistake else 1.0 - y * p > 0.0
        if not active.any() and not self._always_prox:
            return
        G = np.zeros_like(self._u)
        for i in np.flatnonzero(active):
            x = events.x[[i]]
            row = x.toarray()[0] if hasattr(x, "toarray") else x[0]
            G[:, events.task[i]] -= self._C * y[i] * row
        t = int(self._t[0])
        eta1, eta2 = self._eta1 * self._step(t), self._eta2 * self._step(t)
        self._u[...] = self._shrunk(self._u - eta1 * G, eta1, t)
        self._v[...] = self._groups.prox(self._v - eta2 * G, eta2)

    def replay(self, rounds: Iterable[Round]) -> NDArray[np.float64]:
        """Margins of a whole stream."""
        return replay_in_turn(self, rounds)

    def weights(self) -> NDArray[np.float64]:
        """W = U + V, (d, m)."""
        return self._u + self._v

    def shared(self) -> NDArray[np.float64]:
        """U (d, m), what tasks have in common."""
        return self._u.copy()

    def personal(self) -> NDArray[np.float64]:
        """V (d, m), what is personal to single tasks."""
        return self._v.copy()

    def singular_values(self) -> NDArray[np.float64]:
        """Singular values of U above rounding, largest first."""
        s = np.linalg.svd(self._u, compute_uv=False)
        return s[s > 1e-12 * s.max(initial=0.0)]

    def personal_norms(self) -> NDArray[np.float64]:
        """Length (m,) of each task's column of V."""
        return np.linalg.norm(self._v, axis=0)

    def mean_shared(self, n_started: int) -> NDArray[np.float64]:
        """Sum of U's columns over ``n_started``, (d,): where a new task starts."""
        return self._u.sum(axis=1) / n_started

    def start_task(self, task: int, n_started: int) -> None:
        """Set the task's column of U, which is 0, to ``mean_shared(n_started)``."""
        self._u[:, task] = self.mean_shared(n_started)

    def forget_task(self, task: int) -> None:
        """Make the task as if it had never been."""
        self._u[:, task] = self._v[:, task] = 0.0

    def arrays(self) -> Arrays:
        """U, V and the number of rounds."""
        return {"u": self._u, "v": self._v, "t": self._t}

    def load(self, arrays: Arrays) -> None:
        """Take over another learner's arrays."""
        copy_arrays(self.arrays(), arrays)

    def _margins(self, events: Events) -> NDArray[np.float64]:
        w = (self._u + self._v)[:, events.task].T
        x = events.x.toarray() if hasattr(events.x, "toarray") else events.x
        return np.einsum("nd,nd->n", x, w)

    def _shrunk(self, u: NDArray[np.float64], eta1: float, t: int) -> NDArray[np.float64]:
        if self._rho == "constant":
            return self._spectral.prox(u, eta1)
        return LogDet(1.0).prox(u, RHO[self._rho](t))
