"""ROMCO-NuCl and ROMCO-LogD: the paper's Algorithms 1 and 2."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from romco.kernels.events import Events
from romco.kernels.romco.few_tasks import FewTasks
from romco.kernels.romco.many_tasks import ManyTasks
from romco.kernels.romco.relations import Relations, unseen_as_mean
from romco.kernels.romco.rules import Rules, TaskVectors
from romco.learners.base import (
    Arrays,
    CompiledLearner,
    choice,
    copy_arrays,
    not_negative,
    positive,
    truth,
    whole,
)
from romco.learners.capabilities import Started
from romco.rounds import Round
from romco.steps import STEPS

if TYPE_CHECKING:
    from scipy.sparse import csc_array

# Of the paper's grid, {1e-6..1} for all four, most points cannot learn: steps below 0.01 hardly
# move, and penalties above 0.1 keep W at 0. `romco paper --tuning grid` still tries them all.
STEP_SIZES = (0.01, 0.1, 1.0, 10.0)
STRENGTHS = tuple(10.0**k for k in range(-5, 0))
RHO_POWER = {"constant": -1.0, "1/t": 1.0, "1/sqrt(t)": 0.5}
RELATIONS = "relations_"  # begins the names of what a learned coupling is made of
MOST = 2**27  # numbers that it may keep
FEW = 64  # up to so many tasks a column for each is cheaper than a lazy basis


class Romco(CompiledLearner):
    r"""Robust online multi-task learning: W = U + V, shared low rank plus few personal tasks.

    In a round with a positive loss (paper eqs. 13 to 21), with G the
    gradient of the round's losses,

    .. math:: U \leftarrow \mathrm{prox}_{\eta_1\lambda_1 r}(U - \eta_1 G), \qquad
              V \leftarrow \mathrm{prox}_{\eta_2\lambda_2 \|\cdot\|_{2,1}}(V - \eta_2 G)

    where r is the nuclear norm (``romco-nucl``) or log det(I + U'U) (``romco-logd``).
    A round without loss changes nothing unless ``always_prox``. ``loss`` is the paper's
    "hinge", or "squared-hinge" or "logistic", in which case every round has a loss.

    The iterates are the paper's; U is kept factorised, so that an event costs
    O(nnz r + r^3), r the rank of U, whatever the number of features and tasks.
    Log-det never makes a singular value zero: its rank grows to the number of tasks
    seen, and an event costs O(m r) as well; with many tasks give ``max_rank``.
    Where that cuts a singular value off, ``truncations`` counts the round.

    ``coupling`` lets tasks learn from each other's events: a number b for
    A = I + b 11', or A itself (m, m), positive semi-definite, or "learned". The step
    of an event of task i then goes along A e_i, and the shared penalty is paid by
    U A^{-1/2}. Without coupling it is the paper's method, A = I. A learned A is made anew
    whenever the stream has grown by a quarter, from the cosines of the tasks' sums of
    (y - mean) x (:func:`romco.kernels.romco.relations.factor`), and U stays; it costs O(nnz m)
    per event and room for (d, m) numbers, so it is for hundreds of tasks.
    """

    undivided: ClassVar = (
        "every shard would have to repeat the step of U, which is 33 to 75 % of the work, so that "
        "no number of shards is more than 1.3 to 3 times as fast; romco-auto can be sharded"
    )
    space: ClassVar[Mapping[str, Any]] = {
        "eta1": STEP_SIZES,
        "eta2": STEP_SIZES,
        "lambda1": STRENGTHS,
        "lambda2": STRENGTHS,
    }
    shapes: ClassVar = {
        **{f"personal_{name}": "m" for name in ("scale", "square", "since", "touches", "rooms")},
        "personal_values": "md",
        "relations_factor": "mm",
        "relations_sums": "dm",
        "relations_products": "mm",
        "relations_tally": "m*",
    }

    def __init__(
        self,
        n_features: int,
        n_tasks: int,
        *,
        shared: Literal["nuclear", "logdet"],
        eta1: float = 0.5,
        eta2: float = 0.05,
        lambda1: float = 0.15,
        lambda2: float = 0.08,
        C: float = 1.0,
        loss: str = "hinge",
        update: str = "loss",
        always_prox: bool = False,
        step: str = "constant",
        rho: str = "constant",
        max_rank: int | None = None,
        coupling: float | ArrayLike | Literal["learned"] | None = None,
    ) -> None:
        super().__init__(n_features, n_tasks)
        self._rules = Rules(
            logdet=shared == "logdet",
            loss=choice("loss", loss, "hinge", "squared-hinge", "logistic"),
            eta1=positive("eta1", eta1),
            eta2=positive("eta2", eta2),
            lambda1=not_negative("lambda1", lambda1),
            lambda2=not_negative("lambda2", lambda2),
            C=positive("C", C),
            on_mistake=choice("update", update, "loss", "mistake") == "mistake",
            always_prox=truth("always_prox", always_prox),
            step_decays=choice("step", step, *STEPS) == "inverse-sqrt",
            rho_power=RHO_POWER[choice("rho", rho, *RHO_POWER)],
            max_rank=-1 if max_rank is None else whole("max_rank", max_rank),
        )
        self._coupling = coupling
        self._known = known_of(coupling, self.n_features, self.n_tasks)
        self._tasks: TaskVectors = (
            Relations(**self._known) if self._known else task_vectors(self.n_tasks, coupling)
        )
        # Log-det keeps singular values over many decades, whose directions a lazy basis of
        # tasks cannot tell from rounding; with a column for each task nothing is lost.
        whole_matrix = bool(self._known) or np.ndim(coupling) == 2  # type: ignore[arg-type]
        few = self.n_tasks <= FEW or shared == "logdet" or whole_matrix
        kind = FewTasks if few else ManyTasks
        self.kernel: FewTasks | ManyTasks = kind(
            self._rules, self._tasks, self.n_features, self.n_tasks
        )

    def coupling(self) -> NDArray[np.float64]:
        """A (m, m), how much of a step of one task is also a step of another."""
        self.kernel.check_idle()
        F = self._tasks.dense(self.n_tasks)
        return np.asarray(F @ F.T)

    @property
    def truncations(self) -> int:
        """Rounds in which ``max_rank`` cut something off, so that U is not exact."""
        return self.kernel.truncations

    def weights(self) -> NDArray[np.float64]:
        """W = U + V, (d, m)."""
        return self.shared() + self.personal()

    def shared(self) -> NDArray[np.float64]:
        """U (d, m), what tasks have in common."""
        left, right = self.shared_factors()
        return left @ right.T

    def shared_factors(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """L (d, r), orthonormal, and R (m, r) with U = L R'."""
        core = self.kernel.core_matrix().T
        right = core if isinstance(self.kernel, FewTasks) else self.kernel.right_vectors() @ core
        if len(right) == self.n_tasks + 1:  # a number b couples: what is shared comes first
            right = right[1:] + np.sqrt(np.asarray(self._coupling)) * right[0]
        elif self._coupling is not None:
            right = self._tasks.dense(self.n_tasks) @ right
        return self.kernel.left_vectors(), right

    def personal(self) -> NDArray[np.float64]:
        """V (d, m), what is personal to single tasks."""
        return self.kernel.personal_columns()

    def personal_sparse(self) -> csc_array:
        """V (d, m), only what is stored."""
        from scipy.sparse import csc_array  # here, so that `import romco` stays fast

        arrays: dict[str, Any] = self.kernel.arrays()
        lengths = self.personal_norms()
        stored = np.sqrt(np.where(lengths > 0.0, arrays["personal_square"], 1.0))
        scale = arrays["personal_scale"] * lengths / stored  # columns fade while they wait
        if "personal_values" in arrays:
            return csc_array(arrays["personal_values"].T * scale)
        task = np.repeat(np.arange(self.n_tasks), arrays["personal_rooms"])
        used = (arrays["personal_keys"] > 0) & (lengths[task] > 0.0)
        feature, task = arrays["personal_keys"][used] - 1, task[used]
        values = arrays["personal_numbers"][used] * scale[task]
        return csc_array((values, (feature, task)), shape=(self.n_features, self.n_tasks))

    def singular_values(self) -> NDArray[np.float64]:
        """Singular values of U (of U A^{-1/2} where tasks are coupled) above rounding, falling."""
        s = np.linalg.svd(self.kernel.core_matrix(), compute_uv=False)
        return s[s > 1e-12 * s.max(initial=0.0)]

    def personal_norms(self) -> NDArray[np.float64]:
        """Length (m,) of each task's column of V."""
        return self.kernel.personal_norms()

    def personal_tasks(self) -> NDArray[np.int64]:
        """Tasks whose column of V is not 0."""
        return np.flatnonzero(self.personal_norms() > 0.0)

    def common(self, started: Started) -> MeanOfShared | None:
        """The mean of U's columns; coupled tasks share from the start anyway."""
        if self._coupling is not None:
            return None
        return MeanOfShared(self, started.number)

    def start_task(self, task: int, started: Started) -> None:
        """Set u_task, which must be 0, to that mean."""
        self.starting(task, started)()

    def starting(self, task: int, started: Started) -> Callable[[], object]:
        """What does that by one compiled call."""
        if self._coupling is not None:  # a new task has it by itself
            return partial(bool)
        return partial(self.kernel.start_task, task, started.number)

    def forget_task(self, task: int) -> None:
        """Make the task as if it had never been; not for coupled tasks."""
        if self._coupling is not None:
            raise ValueError("coupled tasks share all they learn: none can be forgotten alone")
        self.kernel.forget_task(task)

    def arrays(self) -> Arrays:
        """Both factors, the small matrix between them, V and the number of rounds, as stored.

        And, where the coupling is learned, what it is made of.
        """
        known = {RELATIONS + name: array for name, array in self._known.items()}
        return {**self.kernel.arrays(), **known}

    def load(self, arrays: Arrays) -> None:
        """Take over another learner's arrays."""
        check_finite(arrays)
        known, tasks = self._known, self._tasks
        if known:
            related = {name for name in arrays if name.startswith(RELATIONS)}
            known = known_of(self._coupling, self.n_features, self.n_tasks)
            copy_arrays(known, {name.removeprefix(RELATIONS): arrays[name] for name in related})
            unseen_as_mean(known["factor"], np.flatnonzero(known["tally"][:, 0]))
            tasks = Relations(**known)
            arrays = {name: arrays[name] for name in arrays.keys() - related}
        fresh = type(self.kernel)(self._rules, tasks, self.n_features, self.n_tasks)
        fresh.load(arrays)
        self.kernel, self._tasks, self._known = fresh, tasks, known


def known_of(coupling: object, n_features: int, n_tasks: int) -> Arrays:
    """What a learned coupling is made of, before the first event: all tasks are taken for one.

    Nothing at all where the coupling is given.
    """
    if not isinstance(coupling, str):
        return {}
    choice("coupling", coupling, "learned")
    if n_features * n_tasks > MOST:
        raise ValueError(
            f'coupling="learned" keeps a number for each of {n_features} features in each of '
            f"{n_tasks} tasks, which is too much; give coupling a number, or take romco-auto"
        )
    return {
        "factor": unseen_as_mean(np.zeros((n_tasks, n_tasks)), np.arange(0)),
        "sums": np.zeros((n_features, n_tasks)),
        "products": np.zeros((n_tasks, n_tasks)),
        "tally": np.zeros((n_tasks, 3)),
        "clock": np.zeros(2),
    }


class MeanOfShared(NamedTuple):
    """A task with no V, whose column of U is the mean of those of ``started`` tasks."""

    learner: Romco
    started: int

    def margins(self, round: Round) -> NDArray[np.float64]:
        """Margins (n,) of rows; O(nnz r) each, as for a task that is known."""
        n, d, m = round.x.shape[0], self.learner.n_features, self.learner.n_tasks
        events = Events(round._replace(task=np.zeros(n, dtype=np.int64)), d, m, False)
        return self.learner.kernel.mean_margins(events, self.started)


def task_vectors(n_tasks: int, coupling: float | ArrayLike | None) -> TaskVectors:
    """The vectors that stand for the tasks: rows of F, where A = F F'.

    >>> task_vectors(2, 4.0).dense(2)
    array([[2., 1., 0.],
           [2., 0., 1.]])
    """
    if coupling is None:
        return TaskVectors(n_tasks, 0.0)
    if np.ndim(coupling) == 0:
        return TaskVectors(n_tasks, not_negative("coupling", float(np.asarray(coupling))))
    A = np.asarray(coupling, dtype=np.float64)
    if A.shape != (n_tasks, n_tasks) or not np.isfinite(A).all() or not np.allclose(A, A.T):
        raise ValueError(f"coupling must be a number or a symmetric ({n_tasks}, {n_tasks}) array")
    values, vectors = np.linalg.eigh(A)
    if values[0] < -1e-10 * max(1.0, values[-1]):
        raise ValueError(f"coupling must be positive semi-definite; it has eigenvalue {values[0]}")
    return TaskVectors(n_tasks, 0.0, vectors * np.sqrt(np.maximum(0.0, values)))


def check_finite(arrays: Arrays) -> None:
    """Refuse a state with numbers that are not finite."""
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise ValueError(f"state array {name!r} holds numbers that are not finite")
