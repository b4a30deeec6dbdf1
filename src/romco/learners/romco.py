"""ROMCO-NuCl and ROMCO-LogD: the paper's Algorithms 1 and 2."""

from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from romco.kernels.core.events import Events
from romco.kernels.romco.one_sided import OneSided
from romco.kernels.romco.rules import Rules
from romco.kernels.romco.two_sided import TwoSided
from romco.learners.base import Arrays, CompiledLearner, check_finite
from romco.learners.capabilities import ROUNDING, Decomposed, StartedTasks
from romco.losses import LOSSES, Loss
from romco.parameters import Data, choice, data, not_negative, part, positive, truth, whole
from romco.penalties import PENALTIES, SpectralPenalty
from romco.rounds import Round
from romco.steps import STEPS, Step

if TYPE_CHECKING:
    from scipy.sparse import csc_array

# Of the paper's grid, {1e-6..1} for all four, most points cannot learn: steps below 0.01 hardly
# move, and penalties above 0.1 keep W at 0. `romco paper --tuning grid` still tries them all.
STEP_SIZES = (0.01, 0.1, 1.0, 10.0)
STRENGTHS = tuple(10.0**k for k in range(-5, 0))
RHO_POWER = {"constant": -1.0, "1/t": 1.0, "1/sqrt(t)": 0.5}
MAX_ONE_SIDED_TASKS = 64  # up to so many tasks a column for each is cheaper than a lazy basis


class Romco(Decomposed, CompiledLearner):
    r"""Robust online multi-task learning: W = U + V, shared low rank plus few personal tasks.

    In a round with a positive loss (paper eqs. 11 to 21), with G the
    gradient of the round's losses,

    .. math:: U \leftarrow \mathrm{prox}_{\eta_1\lambda_1 r}(U - \eta_1 G), \qquad
              V \leftarrow \mathrm{prox}_{\eta_2\lambda_2 \|\cdot\|_{2,1}}(V - \eta_2 G)

    where r is the nuclear norm (``romco-nucl``), log det(I + U'U) (``romco-logd``), or what
    ``shared`` says (``romco``): a name of ``romco.penalties.PENALTIES``, whose strength is then
    ``lambda1``, or a penalty with a strength of its own. A round without loss
    changes nothing unless ``always_prox``. ``loss`` is the paper's "hinge", another of
    ``romco.losses.LOSSES``, or a loss of your own; ``step`` likewise, of ``romco.steps.STEPS``.

    ``shrinkage`` says what a round is in which only some tasks take part. To the paper every
    round has all of them, and one round's shrinkage is taken off all of U and V; with "round"
    that holds for a round of one event, too, so that a task pays for the events of all
    others. With "share" the round's shrinkage is in proportion to its tasks, as a share of all
    that took part so far: m events of m tasks, one by one, shrink as much as one round of all.
    Rounds of all tasks are the paper's either way.

    The iterates are the paper's; U is kept factorised, so that an event costs
    O(nnz r + r^3), r the rank of U, whatever the number of features and tasks.
    Log-det never makes a singular value zero: its rank grows to the number of tasks
    seen, and an event costs O(m r) as well; with many tasks give ``max_rank``.
    Where that cuts a singular value off, ``truncations`` counts the round.
    """

    shapes: ClassVar = {
        **{f"personal_{name}": "m" for name in ("scale", "square", "since", "touches", "rooms")},
        "personal_values": "md",
        "last_round": "m",
    }
    not_shardable_because: ClassVar = (
        "every shard would have to repeat the step of U, which is 33 to 75 % of the work, so that "
        "no number of shards is more than 1.3 to 3 times as fast; romco-auto can be sharded"
    )
    space: ClassVar[Mapping[str, Any]] = {
        "eta1": STEP_SIZES,
        "eta2": STEP_SIZES,
        "lambda1": STRENGTHS,
        "lambda2": STRENGTHS,
    }

    def __init__(
        self,
        n_features: int,
        n_tasks: int,
        *,
        shared: str | SpectralPenalty | Data = "nuclear",
        eta1: float = 0.5,
        eta2: float = 0.05,
        lambda1: float = 0.15,
        lambda2: float = 0.08,
        C: float = 1.0,
        loss: str | Loss | Data = "hinge",
        update: str = "loss",
        always_prox: bool = False,
        step: str | Step | Data = "constant",
        rho: str = "constant",
        max_rank: int | None = None,
        shrinkage: str = "round",
    ) -> None:
        super().__init__(n_features, n_tasks)
        penalty = penalty_of(shared, lambda1)
        limit = -1
        if max_rank is not None:
            limit = whole("max_rank", max_rank)
        self._rules = Rules(
            loss=part("loss", LOSSES, loss),
            penalty=penalty,
            step=part("step", STEPS, step),
            eta1=positive("eta1", eta1),
            eta2=positive("eta2", eta2),
            lambda1=penalty.strength,
            lambda2=not_negative("lambda2", lambda2),
            C=positive("C", C),
            on_mistake=choice("update", update, "loss", "mistake") == "mistake",
            always_prox=truth("always_prox", always_prox),
            rho_power=RHO_POWER[choice("rho", rho, *RHO_POWER)],
            max_rank=limit,
            by_share=choice("shrinkage", shrinkage, "round", "share") == "share",
        )
        # Log-det keeps singular values over many decades, whose directions a lazy basis of
        # tasks cannot tell from rounding; with a column for each task nothing is lost.
        few = self.n_tasks <= MAX_ONE_SIDED_TASKS or not penalty.low_rank
        kind = OneSided if few else TwoSided
        self.kernel: OneSided | TwoSided = kind(self._rules, self.n_features, self.n_tasks)

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Parameters by name; penalties, losses and steps as name and numbers."""
        return self._parameters

    @parameters.setter
    def parameters(self, given: Mapping[str, Any]) -> None:
        self._parameters = {name: as_data(name, value) for name, value in given.items()}

    @property
    def truncations(self) -> int:
        """Rounds in which ``max_rank`` cut something off, so that U is not exact."""
        return self.kernel.truncations

    def shared_factors(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """L (d, r), orthonormal, and R (m, r) with U = L R'."""
        core = self.kernel.core_matrix().T
        right = core if isinstance(self.kernel, OneSided) else self.kernel.right_vectors() @ core
        return self.kernel.left_vectors(), right

    def personal(self) -> NDArray[np.float64]:
        return self.kernel.personal_columns()

    def personal_sparse(self) -> "csc_array":
        from scipy.sparse import csc_array  # here, so that `import romco` stays fast

        arrays: dict[str, Any] = self.kernel.arrays()
        lengths = self.personal_norms()
        stored = np.sqrt(np.where(lengths > 0.0, arrays["personal_square"], 1.0))
        scale = arrays["personal_scale"] * lengths / stored  # columns fade while they wait
        if "personal_values" in arrays:
            return csc_array(arrays["personal_values"].T * scale)
        task = np.repeat(np.arange(self.n_tasks), arrays["personal_rooms"])
        used = (arrays["personal_keys"] > 0) & (lengths[task] > 0.0)
        feature = arrays["personal_keys"][used] - 1
        task = task[used]
        values = arrays["personal_numbers"][used] * scale[task]
        return csc_array((values, (feature, task)), shape=(self.n_features, self.n_tasks))

    def singular_values(self) -> NDArray[np.float64]:
        """Singular values of U above rounding, falling."""
        s = np.linalg.svd(self.kernel.core_matrix(), compute_uv=False)
        return s[s > ROUNDING * s.max(initial=0.0)]

    def personal_norms(self) -> NDArray[np.float64]:
        return self.kernel.personal_norms()

    def personal_tasks(self) -> NDArray[np.int64]:
        """Tasks whose column of V is not 0."""
        return np.flatnonzero(self.personal_norms() > 0.0)

    def common(self, started: StartedTasks) -> "MeanOfShared":
        """The mean of U's columns."""
        return MeanOfShared(self, started.number)

    @property
    def start_task(self) -> Callable[[int, StartedTasks], None]:
        """Let a task begin at that mean, by one compiled call that nothing breaks off."""
        return self.kernel.start_task

    def forget_task(self, task: int) -> None:
        self.kernel.forget_task(task)

    def arrays(self) -> Arrays:
        arrays: Arrays = self.kernel.arrays()
        return arrays

    def load(self, arrays: Arrays) -> None:
        check_finite(arrays)
        kernel = type(self.kernel)(self._rules, self.n_features, self.n_tasks)
        kernel.load(arrays)
        self.kernel = kernel


LISTED = {  # where the parts are that a parameter can be
    "shared": PENALTIES,
    "loss": LOSSES,
    "step": STEPS,
}


def penalty_of(shared: str | SpectralPenalty | Data, strength: float) -> SpectralPenalty:
    """Return the penalty of a name, which takes the strength, or one with a strength of its own."""
    not_negative("lambda1", strength)
    named = {"name": shared, "strength": strength} if isinstance(shared, str) else shared
    penalty: SpectralPenalty = part("shared", PENALTIES, named)
    not_negative("the strength of the shared penalty", penalty.strength)
    return penalty


def as_data(name: str, value: Any) -> Any:
    """A parameter as a state keeps it."""
    listed = LISTED.get(name)
    if listed and is_dataclass(value):
        return data(name, listed, value)
    return value


class MeanOfShared(NamedTuple):
    """A task with no V, whose column of U is the mean of those of ``started`` tasks."""

    learner: Romco
    started: int

    def margins(self, round: Round) -> NDArray[np.float64]:
        """Margins (n,) of rows; O(nnz r) each, as for a task that is known."""
        n, d, m = round.x.shape[0], self.learner.n_features, self.learner.n_tasks
        events = Events(round._replace(task=np.zeros(n, dtype=np.int64)), d, m, False)
        return self.learner.kernel.mean_margins(events, self.started)
