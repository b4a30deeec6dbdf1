"""romco-auto: no parameters; finds out by itself how much to share and how boldly to step."""

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from romco.kernels.auto.auto import (
    GLOBAL_PRIOR,
    TRACKING_FORGETTING,
    TRACKING_PRIOR,
    AutoKernel,
)
from romco.kernels.auto.scales import Scales, Units, aligned_zeros
from romco.kernels.core.events import Events
from romco.kernels.core.pairs import Pairs
from romco.kernels.merge.rows import TouchedRows, add_rows
from romco.learners.base import Arrays
from romco.learners.capabilities import Contributions, Numbers, Posterior
from romco.learners.shared import OWN, PAIRS, SCALED, BaseAuto
from romco.learners.sharing import Belief, Block, Fixed, Full, Latest, Line, PerFeature, Sum, Whole
from romco.rounds import Round

INPUTS = (
    "global margin",
    "global logistic",
    "alone margin",
    "alone logistic",
    "together",
    *(f"direction {k}" for k in range(1, 5)),
    "level",
)
LEGIBLE = 1000  # tasks up to which twins are looked for when nobody asked: it costs m^2
KINDS = ("related", "like all", "on their own")
TRUST = (1.0, 0.0, 1.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0)  # prior weights of the inputs
PAIR_TRUST = (3.0, 0.0)  # of a margin and a logistic learner that are the only inputs
INPUT_DOUBT = 1.0  # prior variance of a stacking weight by itself,
SCALE_DOUBT = 5.0  # and of all of them together, in proportion to the prior weights;
LEVEL_DOUBT = 0.1  # of the task's level less: first answers that are alike must not become it
DOUBT = 3.0  # up to which variance comes back
RENEWAL = 3e-5  # variance that each event adds to it
FREQUENT = 100  # features up to which the covariances of their weights are kept
DIRECTIONS = [6, 7, 8, 9], [12, 13, 14, 15]  # columns of `shared` that hold B, on either side
PER_TASK = ("factor", "own_intercept", "evidence", "belief", "change")  # arrays with a row per task
DRIFTS = 0.5  # how likely it must be before it is reported
LATER = 1e300  # events that no stream will see: a shard computes no subspace by itself
SHARING: tuple[Line, ...] = (  # what is not one task's, and how shards merge it
    PerFeature(
        "shared",
        Belief(0, 3),
        Belief(1, 4, prior=GLOBAL_PRIOR),
        Belief(2, 5),
        Belief(10, 11, forgetting=TRACKING_FORGETTING),
    ),  # the columns of B are computed anew
    Whole("intercept", Belief(0, 1)),
    Whole("level", Belief(0, 1, forgetting=TRACKING_FORGETTING)),
    Full("weight", "covariance", "renewal", ceiling=DOUBT),
    Full("pair_weight", "pair_covariance", "pair_renewal", ceiling=DOUBT),
    Whole("kinds", Sum((0, 1, 2), least=1e-300)),
    PerFeature("units", Sum((0, 1, 2)), Latest((3, 4, 5, 6, 7))),
    Whole("typical", Sum((0, 2)), Latest((1, 3, 4))),
    Whole("turn", Latest(tuple(range(11)))),  # of one stream of events, not of several
    Whole("clock", Sum((0, 1))),  # whoever recomputes the subspace sets when to do so next
    Fixed("renewal", "pair_renewal", "frequent", "progress"),  # the last two change at barriers
    OWN,
)


class SubspaceRows(NamedTuple):
    """Rows of an array (d, k) by feature; all others are zero."""

    rows: NDArray[np.int32]  # (t,)
    values: Numbers  # (t, k)


def doubt(trust: tuple[float, ...]) -> Numbers:
    """Prior covariance (n, n) of weights around ``trust``, most of which is of their scale."""
    toward = np.array(trust) / np.linalg.norm(trust)
    return np.asarray(INPUT_DOUBT * np.eye(len(trust)) + SCALE_DOUBT * np.outer(toward, toward))


class Auto(BaseAuto):
    r"""Five simple learners, a low-rank U between them, and three stacking models; no parameters.

    Four of the learners are two losses, squared hinge (AROW: bold, for clean data) and
    logistic (cautious, for noisy data), by two degrees of sharing, one vector for all
    tasks (*global*) and one per task (*alone*). The fifth learns a shared and a personal
    vector *together*. Each is a
    Gaussian with diagonal covariance; the logistic ones have intercepts. From the
    tasks' own vectors W a low-rank :math:`B F^\top` of rank four is computed whenever the
    stream has grown by a quarter, or later where that takes long: what groups of tasks have
    in common.

    A stacking model, which is a Bayesian logistic regression with one weight vector for all
    tasks, turns their margins into log-odds. Two more stacking models do so from
    the global learners only, and from the alone ones only. Which of them is best for a
    task, that is whether the task is *related* to others, *like all* others, or *on its
    own*, is decided by the evidence of its own events and by how common each kind is
    among the tasks (Bayes' rule). A margin is the log-odds of the mixture: comparable
    over time and tasks, and ``1 / (1 + exp(-margin))`` is a probability.

    Each feature is measured in a unit of its own, found as events come in, and centred if it
    is nearly always there. Of features that are present in a tenth of the events the global
    logistic learner knows all covariances, so that correlated ones are not counted twice. A
    learner that forgets takes part while it predicts better; a task whose answers become the
    opposite begins anew. The model is derived in ``docs/romco-auto.md``.
    Cost: O(nnz) per event, whatever the number of tasks; O(n^2) for n up to 100 frequent features.

    >>> import numpy as np, romco
    >>> learner = romco.learner("romco-auto", n_features=2, n_tasks=3)
    >>> x, y = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([1.0, -1.0])
    >>> for _ in range(5):
    ...     learner.update(romco.Round(np.array([0, 1]), x, y))
    >>> bool((learner.predict(romco.Round(np.array([2, 2]), x, y)) * y > 0.5).all())  # a new task
    True
    """

    uses_unlabelled: ClassVar = True
    shapes: ClassVar = {"shared": "d*", "units": "d*", **dict.fromkeys(PER_TASK, "m*"), **PAIRS}
    kernel: AutoKernel

    def __init__(self, n_features: int, n_tasks: int) -> None:
        super().__init__(n_features, n_tasks)
        inputs, places = len(INPUTS), 1 + min(n_features, FREQUENT)
        arrays = {
            "shared": aligned_zeros(n_features, 16),  # means, spent variances, B, forgetting, B
            "intercept": np.zeros((2, 2)),  # of global and alone: mean, spent variance
            "level": np.zeros((1, 2)),  # the same of the learner that forgets
            "own_intercept": np.zeros((n_tasks, 4)),  # what a task adds to alone's, and its level
            "weight": np.array(TRUST),  # of the stacking model of all inputs
            "covariance": doubt(TRUST),
            "renewal": np.full(inputs, RENEWAL),
            "pair_weight": np.tile(PAIR_TRUST, (2, 1)),  # of those of global, alone
            "pair_covariance": np.tile(doubt(PAIR_TRUST), (2, 1, 1)),
            "pair_renewal": np.full((2, 2), RENEWAL),
            "clock": np.array([0.0, 0.0, 32.0]),  # sum of log |x|^2, events, next subspace
            "joint": np.zeros((places, places)),  # spent covariances, global logistic,
            "frequent": np.full(places, -1.0),  # of the intercept and these features
            "change": np.zeros((n_tasks, 3)),  # events, evidence of a turn, turns
            "turn": np.array([0.0] * 6 + [TRACKING_PRIOR] + [0.0] * 4),  # the kernel's StreamState
            **self.common_arrays(),
        }
        arrays["covariance"][-1, -1] = LEVEL_DOUBT
        self._keep(6, arrays)
        self._lent: tuple[str, ...] = ()  # arrays that are another's
        units = Scales(arrays["units"], arrays["typical"])
        self.kernel = AutoKernel(scales=units, **self.kernel_parts(DOUBT))

    def shared_factors(self) -> tuple[Numbers, Numbers]:
        related, like_all, _ = self.chances().T[:, :, None]
        weight, pair = self._arrays["weight"], self._arrays["pair_weight"][0]
        parts = [
            related * weight[:2] + like_all * pair,
            related * weight[4],
            related * weight[5:9] * self._factor(),
        ]
        vectors = self._arrays["shared"][:, [0, 1, 2, *DIRECTIONS[self._side()]]]
        return self.units()[:, None] * vectors, np.hstack(parts)

    def task_posterior(
        self, tasks: NDArray[np.int64], features: NDArray[np.intp]
    ) -> list[Posterior]:
        """Return posteriors of the tasks' intercepts and weights, of the logistic learner alone."""
        own, one = self._arrays["own_intercept"][tasks], np.ones(len(tasks))
        found = [Posterior(own[:, 0], 1.0 - own[:, 1], one, self._arrays["intercept"][1, 0], 1.0)]
        mean, spent = (self.stored_numbers(k, features, tasks) for k in (1, 4))
        for j, m, s in zip(features, mean, spent, strict=True):
            unit = self.units()[j]
            found.append(Posterior(unit * m, unit**2 * (1.0 - s), unit**2 * one, 0.0, 1.0))
        return found

    def probabilities(self, margins: Numbers) -> Numbers:
        return 0.5 * (1.0 + np.tanh(0.5 * margins))

    def trust(self) -> dict[str, float]:
        """Return the first stacking model's weight of each input."""
        return dict(zip(INPUTS, self._arrays["weight"].tolist(), strict=True))

    def kinds_of(self, tasks: NDArray[np.int64]) -> list[str]:
        """The kind of each of some tasks: on its own if one of :meth:`personal_tasks`.

        Else the likelier of the other two.
        """
        likelier = self.chances()[tasks, :2].argmax(axis=1)
        alone = np.isin(tasks, self.personal_tasks())
        return [KINDS[k] for k in np.where(alone, 2, likelier)]

    def similarity(self) -> Numbers:
        """The task kernel (m, m): cosine of what each task alone has learned; 0 if nothing yet."""
        w = self.pair_store.lane(1)
        length = np.linalg.norm(w, axis=1, keepdims=True)
        w = w / np.where(length > 0.0, length, 1.0)
        cosine = w @ w.T
        np.fill_diagonal(cosine, 1.0)
        return cosine

    def groups(self, alike: float = 0.3) -> NDArray[np.int64]:
        """A group number for each task (m,): joined while similar by ``alike`` on average."""
        from scipy.cluster.hierarchy import fcluster, linkage  # here: slow to import
        from scipy.spatial.distance import squareform

        if self.n_tasks == 1:
            return np.zeros(1, dtype=np.int64)
        distance = squareform(1.0 - np.clip(self.similarity(), -1.0, 1.0), checks=False)
        tree = linkage(distance, method="average")
        return fcluster(tree, 1.0 - alike, criterion="distance").astype(np.int64) - 1

    def twins(self, tasks: NDArray[np.int64], alike: float = 0.9) -> NDArray[np.int64]:
        """Those of ``tasks`` that are on their own, and yet as good as equal to some other task."""
        alone = tasks[np.isin(tasks, self.personal_tasks())]
        cosine = self.similarity()
        np.fill_diagonal(cosine, 0.0)
        return alone[cosine[alone].max(axis=1, initial=0.0) >= alike]

    def changed_tasks(self, within: int = 200) -> NDArray[np.int64]:
        """Tasks whose answers turned, so that they began anew, within their last so many events."""
        events, _, turns = self._arrays["change"].T
        return np.flatnonzero((turns > 0) & (events < within))

    def drift(self) -> float:
        """Return the mean probability over the last events that forgetting predicts better."""
        return self.kernel.drift()

    def contributions(self, round: Round) -> Contributions:
        """Return what features and intercepts add to each margin of ``predict(round)``.

        Given the variances of learners and stacking models, their margins of an event are linear
        in its features; and log-odds M of a mixture of log-odds m_k with chances c_k are linear in
        these: M = sum_k c_k g(m_k) / g(M) m_k, where g(m) = tanh(m / 2) / m.
        """
        from scipy.sparse import csr_array  # here, so that `import romco` stays fast

        arrays, task = self._arrays, np.asarray(round.task)
        entries = self.kernel.entries(self.events_of(round))
        chances, starts, features, values, own, variances = entries
        row, n = np.repeat(np.arange(len(task)), np.diff(starts)), len(task)
        side, factor = DIRECTIONS[self._side()], self._factor()[task]
        everybody, x = arrays["shared"][features], values[:, None]

        def sums(terms: Numbers) -> Numbers:
            totals = np.zeros((n, terms.shape[1]))
            np.add.at(totals, row, terms)
            return totals

        u, v = sums(x * everybody), sums(x * own[:, :3])
        b, c = arrays["intercept"][:, 0]
        own_level, level = c + arrays["own_intercept"][task, 0], arrays["level"][0, 0]
        intercept = np.column_stack([np.full(n, b), own_level, np.full(n, level)])
        sure = _sureness(variances)
        logistic = sure * (np.column_stack([u[:, 1], v[:, 1], u[:, 10]]) + intercept)
        z = np.column_stack(
            [
                *(u[:, 0], logistic[:, 0], v[:, 0], logistic[:, 1], u[:, 2] + v[:, 2]),
                *(u[:, side] * factor, arrays["own_intercept"][task, 2]),
                logistic[:, 2],
            ]
        )
        a = _coefficients(arrays, chances, z)
        common = np.column_stack(
            [a[:, 0], a[:, 1] * sure[:, 0], a[:, 4], a[:, 5:9] * factor, a[:, 10] * sure[:, 2]]
        )
        personal = np.column_stack([a[:, 2], a[:, 3] * sure[:, 1], a[:, 4]])

        def part(coefficient: Numbers, vectors: Numbers) -> "csr_array":
            terms = values * (coefficient[row] * vectors).sum(axis=1)
            return csr_array((terms, features, starts), shape=(n, len(arrays["shared"])))

        rest = a[:, 9] * z[:, 9] + (a[:, [1, 3, 10]] * sure * intercept).sum(axis=1)
        return Contributions(
            part(common, everybody[:, [0, 1, 2, *side, 10]]), part(personal, own[:, :3]), rest
        )

    def prediction_context(self, round: Round) -> Numbers:
        return self.kernel.prediction_context(self.events_of(round))

    def update_delayed(self, round: Round, context: Numbers) -> None:
        """Learn a round whose labels came late, by the context of its prediction.

        Inputs are weighed by their values at the time of the prediction. If no event was learned
        in between, it is :meth:`update`.
        """
        events = self._labelled(round)
        if np.isnan(context).any():
            raise ValueError("context must be numbers, as prediction_context(round) returned them")
        self.set_context(events, context)
        self.kernel.update(events)

    def set_context(self, events: Events, context: Numbers) -> None:
        numbers = np.asarray(context, dtype=np.float64)
        if numbers.ndim != 2 or not (np.isfinite(numbers) | np.isnan(numbers[:, :1])).all():
            raise ValueError("context must be the numbers that prediction_context(round) returned")
        self.kernel.set_context(events, np.ascontiguousarray(numbers))

    def findings(self, tasks: NDArray[np.int64]) -> list[str]:
        lines = []
        changed = np.isin(tasks, self.changed_tasks()).sum()
        if changed:
            lines.append(f"Answers turned lately, so that they began anew: {changed:,} tasks.")
        if self.drift() > DRIFTS:
            lines.append("All tasks drift: the last events tell more than all of them do.")
        if len(tasks) > 1 and self.n_tasks <= LEGIBLE and (twins := len(self.twins(tasks))):
            lines.append(
                f"Of those on their own, {twins:,} have a twin, unlike the rest as they are."
            )
        return lines

    # In pairs of classes

    def own_units(self) -> Arrays:
        """Return the live arrays of feature scales."""
        return {name: self._arrays[name] for name in SCALED}

    def share_units(self, arrays: Arrays, units: Units) -> None:
        """Measure features by units that somebody else finds, from arrays that may be another's."""
        if arrays["units"] is not self._arrays["units"]:
            self._lent = SCALED
        self._arrays |= arrays
        self.kernel = AutoKernel(scales=units, **self.kernel_parts(DOUBT))

    # In shards

    def sharing(self) -> tuple[Line, ...]:
        return *SHARING, Block("joint", self.kernel, GLOBAL_PRIOR)

    def invalidate_caches(self, rows: NDArray[np.int32]) -> None:
        self.kernel.invalidate_caches(rows)

    def become_shard(self) -> None:
        """Leave the subspace, and which features have covariances, to barriers from now on."""
        self.kernel.restart_subspace()
        self._arrays["clock"][2] = LATER

    def subspace_update_due(self) -> bool:
        """Return True when the subspace is due for an update."""
        return bool(self._arrays["clock"][1] >= self._arrays["clock"][2])

    def subspace_statistics(self, rows: NDArray[np.int32]) -> SubspaceRows:
        """W W'B (d, 4), of the own tasks, whose features are all among the rows; B comes next."""
        return SubspaceRows(rows, self.kernel.gather_directions(rows))

    def merge_subspace(self, statistics: Sequence[SubspaceRows]) -> SubspaceRows:
        """Return B from the statistics of all shards, for :meth:`set_subspace` of each."""
        own = [part.rows for part in statistics]
        rows = TouchedRows(own, own, self.n_features).union()
        values = np.zeros((len(rows), statistics[0].values.shape[1]))
        for part in statistics:
            add_rows(values, rows, part.rows, part.values)
        self.kernel.orthogonalise_directions(values)
        self.kernel.put_directions(rows, values)
        return SubspaceRows(rows, values)

    def set_subspace(self, subspace: SubspaceRows) -> None:
        """Replace B, and project the own tasks on it: F = W'B."""
        self.kernel.put_directions(subspace.rows, subspace.values)

    def load(self, arrays: Arrays) -> None:
        if isinstance(arrays.get("personal"), Pairs):  # arrays of the same shape go with it
            own = self._arrays
            own |= {k: a for k, a in arrays.items() if k in own and a.shape == own[k].shape}
            self.share_units(self.own_units(), Scales(own["units"], own["typical"]))
        self.kernel.others_change()
        super().load(arrays)

    def kept_arrays(self) -> Arrays:
        return {name: array for name, array in self._arrays.items() if name not in self._lent}

    def own_shares(self) -> Numbers:
        """Weight (m, 3) of each task's own margin, logistic and together vectors in W."""
        related, _, alone = self.chances().T[:, :, None]
        trust = related * self._arrays["weight"][2:5]
        trust[:, :2] += alone * self._arrays["pair_weight"][1]
        return np.asarray(trust)

    def units(self) -> Numbers:
        total, count = self._arrays["clock"][:2]
        common = np.exp(-0.5 * total / count) if count else 1.0
        return np.asarray(common * self._arrays["units"][:, 5])


def _coefficients(arrays: Arrays, chances: Numbers, z: Numbers) -> Numbers:
    """Return coefficients (n, 11): the margin is their sum over the stacking inputs."""
    parts = []
    first = slice(0, 10), arrays["weight"], arrays["covariance"]
    places = slice(0, 2), slice(2, 4)
    others = zip(places, arrays["pair_weight"], arrays["pair_covariance"], strict=True)
    for inputs, weight, covariance in (first, *others):
        part = np.zeros_like(z)
        variance = ((z[:, inputs] @ covariance) * z[:, inputs]).sum(axis=1)
        part[:, inputs] = _sureness(variance)[:, None] * weight
        parts.append(part)
    forgets = np.zeros_like(z)
    forgets[:, 10] = 1.0
    settled = chances[:, 4:] * _mix(chances[:, :3], z, parts)
    weight = chances[:, 3:4]
    return _mix(np.hstack([1.0 - weight, weight]), z, [settled, forgets])


def _mix(chances: Numbers, z: Numbers, parts: list[Numbers]) -> Numbers:
    """Coefficients (n, 11) of the log-odds of a mixture, from those of its parts."""
    margins = np.array([(part * z).sum(axis=1) for part in parts]).T
    yes = (chances * (1.0 / (1.0 + np.exp(-margins)))).sum(axis=1)
    whole = np.log(yes / (1.0 - yes))
    mixture = chances * _gain(margins) / _gain(whole)[:, None]
    return np.asarray(np.einsum("nk,knv->nv", mixture, np.array(parts)))


def _sureness(variance: Numbers) -> Numbers:
    return np.asarray(1.0 / np.sqrt(1.0 + np.pi * variance / 8.0))


def _gain(margin: Numbers) -> Numbers:
    """tanh(m / 2) / m, a half at 0."""
    safe = np.where(np.abs(margin) > 1e-6, margin, 1.0)
    return np.asarray(np.where(np.abs(margin) > 1e-6, np.tanh(safe / 2.0) / safe, 0.5))
