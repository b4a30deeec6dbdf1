"""romco-auto for many classes: all of them at once, O(K) per entry of an event."""

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from romco.kernels.auto.constants import (
    CLASS_PRIOR_EVENTS,
    COVARIANCE_PRIOR_EVENTS,
    NEARLY_ALWAYS,
    SHRINKAGE_EVENTS,
)
from romco.kernels.auto.discriminant import (
    COLUMN_FIELDS,
    MOST_COLUMNS,
    PROGRESS_FIELDS,
    WAVE_ORDERS,
)
from romco.kernels.auto.functions import SKETCH_FIELDS, merge_sketches
from romco.kernels.auto.softmax import SoftmaxKernel
from romco.kernels.auto.stacking import ConditionalLogit
from romco.kernels.core.pairs import Pairs
from romco.learners.auto import UNITS, moments
from romco.learners.averaging import (
    FAR_OFF,
    OrderShares,
    averaged_pairs,
    copy_units,
    count_rows_once,
    mean_of,
    shares_of_orders,
)
from romco.learners.base import Arrays, CompiledLearner, copy_arrays
from romco.learners.frozen import (
    FIRST_FUNCTION,
    KNOTS,
    LINE,
    NUMBER,
    ZERO_IF_MISSING,
    FrozenFunctions,
    FrozenPredictor,
    FrozenSoftmax,
    Lane,
    PairTable,
    Table,
    frozen_units,
)
from romco.learners.sharing import (
    ClassWeights,
    Fixed,
    Full,
    Latest,
    Line,
    Merged,
    PerPair,
    Sharing,
    Sum,
    Whole,
)
from romco.parameters import whole
from romco.rounds import Round
from romco.typing import Floats

# Prior weights of the inputs, in the order of the class, and their variances,
TRUST = (1.0, 1.0, 0.3, 0.0, 0.3, 0.3)
DOUBT = (1.0, 1.0, 0.1, 0.1, 1.0, 1.0)
FORGETTING = 1e-4  # up to which each event lets them grow by this share times the classes,
FORGETTING_CLASSES = (10, 100)  # at least and at most so many
LINE_NUMBERS = 2**20  # numbers of all classes' covariances up to which there is a discriminant
GROUP_NUMBERS = 2**20  # numbers up to which sums by task and class are an array
DENSE = 2**23  # numbers up to which an array beats a table of the pairs that occurred
SHARED, OWN = 4, 2  # numbers of a class in each store
VECTORS = 2  # inputs that have a vector for each class
STORES = ("shared", "personal", "groups")
BY_CLASS = ("seen", "sums", "class_scatter", "class_factor", "solved")
OF_LINES = ("line_factor", "class_scatter", "class_factor", "solved")
FIRST_OF_SKETCH = COLUMN_FIELDS.index(SKETCH_FIELDS[0])
IS_SHARD = PROGRESS_FIELDS.index("is_shard")
RENEWAL = PROGRESS_FIELDS.index("renewal")
CLOSED = PROGRESS_FIELDS.index("closed")
AVERAGED = ("level", "own_level", "scatter", "class_scatter", "progress", "covariance")


class AutoSoftmax(CompiledLearner):
    r"""Softmax over many classes from six models and a conditional logit; no parameters.

    Two inputs have a vector for each class: *margin* on the squared hinge loss of a class against
    the rest, and *mixed* on the multinomial logistic loss, with a vector of the task besides.
    *Linear* and *quadratic* are discriminants:
    the task's own means of a class, shrunk to those of the class, and one covariance for all
    classes or one of each. *Usual* and *common* are how often the task, and all tasks, had the
    class. Stacking is a conditional logit with one weight per input for all classes and tasks,

    .. math:: p_k \propto \exp \sum_j w_j z_{jk}

    Features are measured in units of their own, as by ``romco-auto``. Up to 128 frequent ones are
    columns, decorrelated within classes. Numbers have waves of their ranks, too, and those far from
    normal become normal scores. Answers are 0, 1, ..., scores (n, K) log-probabilities.

    Cost: O(K (nnz + n^2)) per event for n columns; memory of 4 K numbers per feature, 2 K per pair
    of task and feature that occurred, and n per pair of task and class that occurred.

    >>> import romco
    >>> learner = AutoSoftmax(n_features=2, n_tasks=1, n_classes=40)
    >>> x, y = np.eye(2), np.array([7.0, 31.0])
    >>> for _ in range(5):
    ...     learner.update(romco.Round(np.zeros(2, int), x, y))
    >>> learner.predict(romco.Round(np.zeros(2, int), x, np.empty(0))).argmax(axis=1)
    array([ 7, 31])
    """

    supports_sample_weight = True
    supports_offset = True
    one_pass = True
    linear: ClassVar = False
    space: ClassVar = {}
    kernel: SoftmaxKernel

    def __init__(self, n_features: int, n_tasks: int, *, n_classes: int = 2) -> None:
        super().__init__(n_features, n_tasks)
        self.task_axes = {"own_level": (0,), "counts": (0,)}
        self.answers = self._room = whole("n_classes", n_classes, least=2)
        self._arrays = self._nothing()
        self._stores = self._empty()
        self._link()

    # What every learner says

    def weights(self) -> Floats:
        """W (d, m, K): the part of the log-probabilities that is linear, up to what all share.

        Normal scores have the slope of values that are normally distributed.
        """
        K, w = self.answers, self._arrays["weight"][:VECTORS]
        shared = self._dense("shared").reshape(-1, SHARED, self._room)[:, ::2, :K]
        own = self._dense("personal").reshape(self.n_tasks, -1, OWN, self._room)[:, :, 0, :K]
        total = np.einsum("v,fvk->fk", w, shared)[:, None] + w[1] * own.transpose(1, 0, 2)
        features = self._columns("feature").astype(np.int64) - 1
        columns, total = self._undo(total[: len(features)]), total[MOST_COLUMNS:]
        lines = self._columns("order") == 0.0
        total[features[lines]] = columns[lines]
        units = self._arrays["units"][:, 5].copy()
        scores = features[lines & (self._columns("is_score") != 0.0)]
        units[scores] = 1.0 / np.maximum(self._arrays["units"][scores, 4], np.finfo(float).tiny)
        return np.asarray(self._unit() * units[:, None, None] * total)

    def arrays(self) -> Arrays:
        K = self.answers
        arrays = dict(self._arrays)
        for name in BY_CLASS:
            arrays[name] = arrays[name][:K]
        for name in ("level", "own_level", "counts"):
            arrays[name] = arrays[name][..., :K]
        for name, store in self._stores.items():
            arrays |= store.arrays(name)
            each = arrays[name]
            if name == "groups" and each.ndim == 3:
                arrays[name] = each[:, :K]
            elif name != "groups" and self._room > K:
                lanes = SHARED if name == "shared" else OWN
                each = each.reshape(*each.shape[:-1], lanes, self._room)[..., :K]
                arrays[name] = each.reshape(*each.shape[:-2], lanes * K)
        return arrays

    def feature_moments(self) -> tuple[Floats, Floats]:
        return moments(self._arrays)

    @property
    def class_events(self) -> Floats:
        """Events of each class (K,), live."""
        return np.asarray(self._arrays["seen"][: self.answers])

    def load(self, arrays: Arrays) -> None:
        missing = [name for name in ("seen", *STORES) if name not in arrays]
        if missing:
            raise ValueError(f"state holds arrays {sorted(arrays)}, {missing[0]!r} is missing")
        classes = len(np.atleast_1d(arrays["seen"]))
        if classes > self._room:
            raise ValueError(f"state holds {classes} classes, this learner {self._room}")
        kept = {name: array for name, array in arrays.items() if not name.startswith(STORES)}
        stores = self._empty()
        for name in ("shared", "personal"):
            stores[name].load(self._widened(name, arrays, classes), name)
        lines = len(self._arrays["line_factor"])
        if len(np.atleast_1d(kept.get("line_factor", ()))) > lines:  # too many for all classes
            kept |= {name: self._arrays[name][:0] for name in OF_LINES}
        else:
            stores["groups"].load(self._with_lines(arrays, lines), "groups")
        check_columns(kept, self.n_features)
        copy_arrays(self._arrays, kept)
        self._stores = stores
        self._link()

    def make_classes(self, n: int) -> None:
        first = self.answers
        self.answers = max(n, self.answers)
        if n > self._room:  # doubled, so that it is rare
            old, self._room = self.arrays(), max(n, 2 * self._room)
            self._arrays = self._nothing()
            self.load(old)
        else:
            self._link()
        events = self._arrays["clock"][1]
        margin, mixed = self._arrays["level"][::2]  # as if classes that are new had never occurred
        margin[first:n] = -min(1.0, events)
        mixed[first:n] = np.log(1.0 / (1.0 + events / first))

    def forget_task(self, task: int) -> None:
        self.kernel.check_idle()
        counts = self._arrays["counts"][task, : self.answers].copy()
        self.kernel.discriminant.forget(task, counts, self.class_events.copy())
        self._arrays["seen"][: self.answers] = np.maximum(self.class_events - counts, 0.0)
        self._arrays["own_level"][task] = 0.0
        self._arrays["counts"][task] = 0.0
        self._stores["personal"].clear(task)

    # In shards

    def sharing(self) -> Sharing:
        columns, lines = len(self._arrays["columns"]), len(self._arrays["line_factor"])
        sketches = Merged(
            tuple(range(FIRST_OF_SKETCH, len(COLUMN_FIELDS))),
            partial(merge_sketches, first=FIRST_OF_SKETCH),
        )
        class_scatter: Line = Fixed("class_scatter")  # where it is empty
        if lines:
            class_scatter = Whole("class_scatter", Sum(tuple(range(lines))))
        return (
            ClassWeights(self, VECTORS, self.answers, "shared", "shared_keys", "level"),
            Whole("seen", Sum(tuple(range(self.answers)))),
            Whole("clock", Sum((0, 1))),
            Whole("columns", Latest(tuple(range(FIRST_OF_SKETCH))), sketches),
            Whole("progress", Sum((0, 1, 2)), Latest(tuple(range(3, IS_SHARD)))),
            Whole("sums", Sum(tuple(range(columns)))),
            Whole("scatter", Sum(tuple(range(columns)))),
            class_scatter,
            Fixed("centre", "factor", "line_factor", "class_factor", "solved"),  # of barriers
            Full("weight", "covariance", self._forgetting(), np.array(DOUBT)),
            *UNITS,
            PerPair("personal", "personal_keys"),
            PerPair("groups", "groups_keys"),
        )

    def become_shard(self) -> None:
        """Leave columns, and the solutions of discriminants, to barriers from now on."""
        self._arrays["progress"][IS_SHARD] = 1.0

    @property
    def is_shard(self) -> bool:
        return bool(self._arrays["progress"][IS_SHARD])

    def settle_after_merge(self, rows: NDArray[np.int32]) -> bool:
        """Choose and decorrelate columns, and solve discriminants, where it is time."""
        return self.kernel.settle_after_merge()

    def read_weights(self, rows: NDArray[np.int32]) -> Floats:
        """Return the shared weights (1 + c + t, 6 K) of intercepts, columns and some features."""
        stored = self._rows("shared", 0, self._places(rows)).reshape(-1, SHARED, self._room)
        level = self._arrays["level"][None]
        block = np.concatenate([level, stored])[..., : self.answers]
        return np.ascontiguousarray(block).reshape(len(block), -1)

    def put_weights(self, rows: NDArray[np.int32], block: Floats) -> None:
        """Replace what :meth:`read_weights` returned."""
        numbers = block.reshape(len(block), SHARED, self.answers)
        self._arrays["level"][:, : self.answers] = numbers[0]
        stored = np.zeros((len(block) - 1, SHARED, self._room))
        stored[..., : self.answers] = numbers[1:]
        self._stores["shared"].put(
            0, self._places(rows), stored.reshape(len(stored), SHARED * self._room)
        )

    def _places(self, rows: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the rows of the shared store of all columns, and of some features."""
        columns = np.arange(len(self._columns("feature")), dtype=np.int32)
        return np.concatenate([columns, MOST_COLUMNS + rows])

    # In several orders

    def adopt_columns(self, other: "AutoSoftmax") -> None:
        """Take units and columns of a learner of the same events, which is not used any more."""
        found = other.renew_columns()
        copy_units(self._arrays, found)
        for name in ("columns", "centre", "factor"):
            self._arrays[name][...] = found[name]
        self._arrays["progress"][CLOSED] = found["progress"][CLOSED]
        self._arrays["progress"][RENEWAL] = FAR_OFF
        self._link()

    def renew_columns(self) -> Arrays:
        """Choose and decorrelate columns, and solve discriminants, now; return the arrays."""
        self._arrays["progress"][RENEWAL] = 0.0
        self._arrays["solved"][:] = 0.0
        self.kernel.settle_after_merge()
        return self._arrays

    def average(self, others: Sequence["AutoSoftmax"], given: "AutoSoftmax") -> OrderShares:
        """Become the mean of learners of the same events in random orders, and of that given.

        Return their shares.
        """
        states = [learner.arrays() for learner in (self, *others, given)]
        weights = np.array([state["weight"] for state in states])
        order_shares = shares_of_orders(weights, states[0]["covariance"])
        shares = order_shares.of_learners
        averaged = dict(states[0])
        for name in AVERAGED:
            averaged[name] = mean_of((state[name] for state in states), shares)
        averaged["weight"] = order_shares.of_stacking @ weights
        for name in ("shared", "personal"):
            averaged |= averaged_pairs(name, states, shares)
        count_rows_once(averaged)
        self.load(averaged)
        self.renew_columns()
        return order_shares

    # What it has found

    def additions(self, round: Round) -> tuple[NDArray[np.int32], Floats, Floats, Floats]:
        """Parts of one event's scores: features (k,), shared (k, K), personal (k, K), rest (K,).

        What each feature adds to sum_j w_j z_jk through what tasks share and through the task's
        own, and what comes beside; all adds up to the scores but for what classes have in common.
        """
        events, task = self.events_of(round), int(round.task[0])
        index, values, unit, variances = self.kernel.entries(events)
        w, inputs = self._arrays["weight"], self.kernel.inputs(events)[0]
        columns, u = self.kernel.discriminant.columns_read()
        sure = np.ones((VECTORS, self.answers))
        sure[1] = 1.0 / np.sqrt(1.0 + np.pi * variances / 8.0)
        rows = self._parts_of_rows("shared", 0, index, SHARED)
        own = self._parts_of_rows("personal", task, index, OWN)
        vectors = np.einsum("v,vk,fvk->fk", w[:VECTORS], sure, rows[:, ::2])
        of_task = w[1] * sure[1]
        n, x = len(columns), (unit * values)[:, None]
        by_line, by_task = self._by_discriminant(task, u)
        shared = [unit * u[:, None] * self._undo(vectors[:n]) + by_line, x[n:] * vectors[n:]]
        personal = [unit * u[:, None] * self._undo(of_task * own[:n, 0]) + by_task]
        personal.append(x[n:] * of_task * own[n:, 0])
        numbers = np.concatenate([columns, index[n:] - MOST_COLUMNS])
        features, places = np.unique(numbers, return_inverse=True)
        sums = np.zeros((2, len(features), self.answers))
        for total, parts in zip(sums, (shared, personal), strict=True):
            np.add.at(total, places, np.concatenate(parts))
        rest = w @ inputs - sums.sum(axis=(0, 1))
        return features.astype(np.int32), sums[0], sums[1], rest

    # Frozen predictions, for an export

    def frozen_softmax(self) -> FrozenSoftmax:
        """Return all numbers of predictions."""
        a, K = self._arrays, self.answers
        columns = self._frozen_columns()
        lines = self._lines()
        n = len(lines)
        matrices = np.zeros((1 + K, n, n))
        densities = np.tile([1.0, 0.0], (1 + K, 1))
        if n:
            progress = dict(zip(PROGRESS_FIELDS, a["progress"], strict=True))
            solved, log_det = a["solved"][:K].T
            matrices[0] = _inverse(a["line_factor"][:n, :n])
            for k, factor in enumerate(a["class_factor"][:K, :n, :n]):
                matrices[1 + k] = _inverse(factor) if solved[k] > 0.0 else matrices[0]
            log_det = np.where(solved > 0.0, log_det, progress["log_det"])
            densities[0, 0] = progress["events"] + COVARIANCE_PRIOR_EVENTS
            densities[1:] = np.column_stack([solved + n + 1.0, 0.5 * log_det])
        task, class_ = np.nonzero(a["counts"][:, :K])

        def read_groups(places: NDArray[np.int64]) -> Floats:
            i = task[places]
            k = class_[places]
            return self._groups(k, a["counts"][i, k], self._rows("groups", i, k)[:, :n], lines)

        every = np.arange(K)
        return FrozenSoftmax(
            predictor=columns,
            weights=a["weight"][VECTORS : VECTORS + 2].copy(),
            lines=lines,
            matrices=matrices,
            densities=densities,
            groups=PairTable((), task, class_, read_groups),
            new_groups=self._groups(every, np.zeros(K), np.zeros((K, n)), lines),
        )

    def _lines(self) -> NDArray[np.int64]:
        """Return the columns that the discriminants are of; none where there are no such."""
        lines = np.flatnonzero(self._columns("order") == 0.0)
        solution = self._arrays["progress"][PROGRESS_FIELDS.index("solution")]
        if solution == 0.0 or len(lines) > len(self._arrays["line_factor"]):
            return lines[:0]
        return lines

    def _groups(
        self, k: NDArray[np.int64], counts: Floats, sums: Floats, lines: NDArray[np.int64]
    ) -> Floats:
        """Return level, spread and means (g, 2 + n) of groups of class k, from a task's sums."""
        a, K = self._arrays, self.answers
        seen = self.class_events
        usual = np.log(counts + SHRINKAGE_EVENTS * (seen[k] + 1.0) / (seen.sum() + K))
        level = a["weight"][-2] * usual + a["weight"][-1] * np.log(seen[k] + 1.0)
        shrinkage = self.kernel.discriminant.shrinkage_events()
        own = counts + shrinkage
        every = seen[k] + CLASS_PRIOR_EVENTS
        means = (sums + shrinkage * a["sums"][k][:, lines] / every[:, None]) / own[:, None]
        return np.column_stack([level, 1.0 + 1.0 / own + 1.0 / every, means])

    def _frozen_columns(self) -> FrozenPredictor:
        """Return the numbers of the vectors' scores."""
        a, K = self._arrays, self.answers
        unit = self._unit()
        order = self._columns("order")
        of = self._columns("feature").astype(np.int64) - 1
        g = len(of)
        shared = self._dense("shared")[0].reshape(-1, SHARED, self._room)[:, :, :K]
        means = shared[:, ::2].reshape(-1, VECTORS * K)
        own_prior = np.ones(len(shared))
        own_prior[:g] = order == 0.0  # tasks have no waves
        variances = 1.0 - shared[:, 3] + own_prior[:, None]
        values = np.column_stack([unit * means, unit * unit * variances])
        functions = self._frozen_functions(of, order, values[:g])
        values = values[MOST_COLUMNS:]
        values[of] = 0.0  # they are columns
        level = a["level"][:, :K]
        weights = tuple(Lane("weight", k) for k in range(VECTORS * K))
        own = tuple(Lane(part, K + k) for part in ("weight", "variance") for k in range(K))
        own_level = a["own_level"][:, :, :K].reshape(-1, OWN * K) * np.repeat([1.0, -1.0], K)
        return FrozenPredictor(
            inputs=tuple(f"{name} {k}" for name in ("margin", "mixed") for k in range(K)),
            intercepts=level[::2].ravel(),
            weights=np.repeat(a["weight"][:VECTORS], K),
            covariance=np.zeros((0, 0)),
            units=frozen_units(a["units"], a["typical"][0], 1.0),
            features=Table((*weights, *own[K:]), values),
            tasks=Table(own, own_level),
            new_task=np.zeros(OWN * K),
            pairs=self._frozen_pairs(own, of, order),
            functions=functions,
            variances=np.concatenate([np.zeros(K), 2.0 - level[3]]),
        )

    def _frozen_functions(
        self, of: NDArray[np.int64], order: Floats, weights: Floats
    ) -> FrozenFunctions:
        """Return the columns, of features ``of`` (g,)."""
        a = self._arrays
        g = len(of)
        is_line = order == 0.0
        is_number = self._columns("is_number") != 0.0
        is_score = is_number & (self._columns("is_score") != 0.0)
        lines = np.flatnonzero(is_line)
        nearly_always = a["units"][of[lines], 0] >= NEARLY_ALWAYS * a["typical"][0]
        place = {int(feature): k for k, feature in enumerate(of[lines])}
        places = np.array([place[int(feature)] for feature in of], dtype=np.int64)
        orders = np.where(is_line & ~is_score, LINE, order)
        knot = COLUMN_FIELDS.index("knot_0")
        return FrozenFunctions(
            features=of[lines],
            kinds=np.where(nearly_always, NUMBER, ZERO_IF_MISSING),
            knots=a["columns"][lines, knot : knot + KNOTS],
            factors=np.column_stack([places, orders, np.full(g, -1), np.zeros(g)]).astype(np.int64),
            scales=1.0 / np.maximum(order, 1.0),
            weights=weights,
            centre=a["centre"][:g],
            rotation=_inverse(a["factor"][:g, :g]),
        )

    def _frozen_pairs(
        self, own: tuple[Lane, ...], of: NDArray[np.int64], order: Floats
    ) -> PairTable:
        """Return the personal weights of lines and of features that are no columns."""
        K = self.answers
        unit = self._unit()
        arrays = self._stores["personal"].arrays()
        values, keys = arrays["personal"], arrays.get("personal_keys")
        if keys is None:
            task, entry = np.nonzero(values.any(axis=2))
            values = values.reshape(-1, values.shape[-1])
            rows = task * (MOST_COLUMNS + self.n_features) + entry
        else:
            task = keys >> 32
            entry = keys & 0xFFFFFFFF
            rows = np.arange(len(keys))
        personal = np.zeros(MOST_COLUMNS + self.n_features, dtype=bool)
        personal[: len(of)] = order == 0.0
        personal[MOST_COLUMNS:] = True
        personal[MOST_COLUMNS + of] = False
        kept = np.flatnonzero(personal[entry])
        rows = rows[kept]
        entry = entry[kept]

        def read(places: NDArray[np.int64]) -> Floats:
            stored = values[rows[places]].reshape(-1, OWN, self._room)[:, :, :K]
            return np.column_stack([unit * stored[:, 0], -unit * unit * stored[:, 1]])

        is_column = entry < MOST_COLUMNS
        feature = np.where(is_column, FIRST_FUNCTION - entry, entry - MOST_COLUMNS)
        return PairTable(own, task[kept], feature, read)

    # Within

    def _nothing(self) -> Arrays:
        d, m, K = self.n_features, self.n_tasks, self._room
        columns = min(MOST_COLUMNS, (1 + len(WAVE_ORDERS)) * d)
        lines = min(MOST_COLUMNS, d)
        if K * lines * lines > LINE_NUMBERS:
            lines = 0
        return {
            "level": np.zeros((SHARED, K)),  # intercepts: means and spent variances, by turns
            "own_level": np.zeros((m, OWN, K)),  # what a task adds to that of together
            "counts": np.zeros((m, K)),  # events of each task and class,
            "seen": np.zeros(K),  # and of each class
            "clock": np.zeros(2),  # sum of log |x|^2, events
            "columns": np.zeros((columns, len(COLUMN_FIELDS))),
            "progress": np.zeros(len(PROGRESS_FIELDS)),
            "sums": np.zeros((K, columns)),
            "scatter": np.zeros((columns, columns)),
            "centre": np.zeros(columns),
            "factor": np.eye(columns),
            "line_factor": np.eye(lines),
            "class_scatter": np.zeros((K, lines, lines)),
            "class_factor": np.zeros((K, lines, lines)),
            "solved": np.zeros((K, 2)),
            "weight": np.array(TRUST),
            "covariance": np.diag(DOUBT),
            "units": np.zeros((d, 8)),
            "typical": np.zeros(5),
        }

    def _empty(self) -> dict[str, Pairs]:
        features = MOST_COLUMNS + self.n_features
        lines = len(self._arrays["line_factor"])

        def store(tasks: int, width: int) -> Pairs:
            return Pairs(tasks, features, width, tasks * features * width <= DENSE)

        m, K = self.n_tasks, self._room
        return {
            "shared": store(1, SHARED * K),
            "personal": store(m, OWN * K),
            "groups": Pairs(m, K, lines, m * K * lines <= GROUP_NUMBERS),
        }

    def _link(self) -> None:
        a = self._arrays
        stacking = ConditionalLogit(
            a["weight"], a["covariance"], np.array(DOUBT), self._forgetting()
        )
        self.kernel = SoftmaxKernel(self.answers, a, self._stores, stacking)

    def _with_lines(self, arrays: Arrays, lines: int) -> Arrays:
        """The arrays, sums by task and class padded to so many lines."""
        values = np.asarray(arrays["groups"])
        if values.ndim < 2 or values.shape[-1] > lines:
            raise ValueError(
                f"state array 'groups' is {list(values.shape)}, expected up to {lines} lines"
            )
        more = np.zeros((*values.shape[:-1], lines))
        more[..., : values.shape[-1]] = values
        return {**arrays, "groups": more}

    def _widened(self, name: str, arrays: Arrays, classes: int) -> Arrays:
        """The arrays, that of a store padded to the classes of this learner."""
        lanes = SHARED if name == "shared" else OWN
        values = np.asarray(arrays[name])
        if values.ndim < 2 or values.shape[-1] != lanes * classes:
            raise ValueError(
                f"state array {name!r} is {list(values.shape)}, which is not of {classes} classes"
            )
        more = np.zeros((*values.shape[:-1], lanes, self._room))
        more[..., :classes] = values.reshape(*values.shape[:-1], lanes, classes)
        return {**arrays, name: more.reshape(*values.shape[:-1], lanes * self._room)}

    def _dense(self, name: str) -> Floats:
        """Content of a store as a dense array (tasks, d, width)."""
        store = self._stores[name]
        return np.stack([store.lane(k) for k in range(store.width)], axis=2)

    def _rows(self, name: str, task: int | NDArray[np.int64], features: NDArray[Any]) -> Floats:
        """Content of a store for some features of a task, or of a task each, (k, width)."""
        arrays = self._stores[name].arrays()
        if "personal_keys" not in arrays:
            return np.asarray(arrays["personal"][task, features])
        keys = (np.asarray(task) << 32) | features.astype(np.int64)
        _, at, places = np.intersect1d(keys, arrays["personal_keys"], return_indices=True)
        rows = np.zeros((len(features), self._stores[name].width))
        rows[at] = arrays["personal"][places]
        return rows

    def _parts_of_rows(self, name: str, task: int, features: NDArray[Any], n_parts: int) -> Floats:
        """Content of a store for some features of a task, by part and class (k, n_parts, K)."""
        rows = self._rows(name, task, features)
        lanes = rows.shape[1] // n_parts
        return rows.reshape(len(rows), n_parts, lanes)[..., : self.answers]

    def _columns(self, field: str) -> Floats:
        """Return a number of each column that is in use."""
        columns = self._arrays["columns"]
        used = columns[:, COLUMN_FIELDS.index("feature")] != 0.0
        return np.asarray(columns[used, COLUMN_FIELDS.index(field)])

    def _undo(self, weights: Floats) -> Floats:
        """Return weights (c, ...) of columns, from those of decorrelated ones."""
        n = len(weights)
        if n == 0:
            return weights
        found = np.linalg.solve(self._arrays["factor"][:n, :n], weights.reshape(n, -1))
        return np.asarray(found, dtype=np.float64).reshape(weights.shape)

    def _by_discriminant(self, task: int, u: Floats) -> tuple[Floats, Floats]:
        """Parts (c, K) of columns in the weighted discriminants: of class means, and of the task's.

        Along the way from 0 to u the slope by a column is averaged.
        """
        a, K = self._arrays, self.answers
        parts = np.zeros((2, len(u), K))
        at = self._lines()
        n = len(at)
        if n == 0:
            return parts[0], parts[1]
        progress = dict(zip(PROGRESS_FIELDS, a["progress"], strict=True))
        counts, seen = a["counts"][task, :K], self.class_events
        classes = np.arange(K, dtype=np.int32)
        means = a["sums"][:K, at] / (seen + CLASS_PRIOR_EVENTS)[:, None]
        shrinkage = self.kernel.discriminant.shrinkage_events()
        own = self._rows("groups", task, classes)[:, :n] + shrinkage * means
        own /= (counts + shrinkage)[:, None]
        spread = 1.0 + 1.0 / (counts + shrinkage) + 1.0 / (seen + CLASS_PRIOR_EVENTS)
        solved = a["solved"][:K, 0]
        line = np.repeat(a["line_factor"][None, :n, :n], K, axis=0)
        by_class = np.where((solved > 0.0)[:, None, None], a["class_factor"][:K, :n, :n], line)
        nodes, node_weights = np.polynomial.legendre.leggauss(32)
        kinds = (
            (a["weight"][VECTORS], line, np.full(K, progress["events"] + COVARIANCE_PRIOR_EVENTS)),
            (a["weight"][VECTORS + 1], by_class, solved + n + 1.0),
        )
        for weight, factors, events in kinds:
            for mean, total, sign in (
                (means, parts[0], 1.0),
                (own, parts[1], 1.0),
                (means, parts[1], -1.0),
            ):
                ends = np.stack([np.broadcast_to(u[at], mean.shape), mean], axis=2)
                half = np.linalg.solve(factors.transpose(0, 2, 1), ends)
                pulls = np.linalg.solve(factors, half)
                for t, share in zip(0.5 * (nodes + 1.0), 0.5 * node_weights, strict=True):
                    off = t * u[at] - mean
                    pull = t * pulls[..., 0] - pulls[..., 1]
                    far = (off * pull).sum(axis=1) / spread
                    slope = (events + n)[:, None] * pull / (spread * (events + far))[:, None]
                    total[at] -= sign * weight * share * (u[at] * slope).T
        return parts[0], parts[1]

    def _forgetting(self) -> float:
        low, high = FORGETTING_CLASSES
        return FORGETTING * min(max(self.answers, low), high)

    def _unit(self) -> float:
        """Return one over the size of events."""
        total, count = self._arrays["clock"]
        return float(np.exp(-0.5 * total / count)) if count else 1.0


def check_columns(arrays: Arrays, n_features: int) -> None:
    """Raise ValueError unless columns of a state are features, once each, and their waves."""
    table = np.atleast_2d(arrays.get("columns", np.zeros((0, 2))))
    if table.shape[-1] != len(COLUMN_FIELDS):
        return  # `copy_arrays` says what is wrong
    feature, order = (table[:, COLUMN_FIELDS.index(name)] for name in ("feature", "order"))
    used = int((feature != 0.0).sum())
    known = np.isin(feature[:used], np.arange(1, n_features + 1))
    lines = feature[:used][order[:used] == 0.0]
    fits = known.all() and np.isin(order, (0.0, *WAVE_ORDERS)).all() and not feature[used:].any()
    if not fits or len(np.unique(lines)) < len(lines) or not np.isin(feature[:used], lines).all():
        raise ValueError("state array 'columns' holds columns of no feature, or of one twice")


def _inverse(factor: Floats) -> Floats:
    """Return R'^-1 of an upper factor R; rows of pivots that are 0 are 0, as in the kernel."""
    n = len(factor)
    found = np.eye(n)
    for i, pivot in enumerate(np.diag(factor)):
        found[i] = (found[i] - factor[:i, i] @ found[:i]) / pivot if pivot else 0.0
    return found
