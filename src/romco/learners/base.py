"""The contract of a learner."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import le
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from romco.kernels.core.contract import Kernel
from romco.kernels.core.events import Events, lacks_labels
from romco.kernels.core.pairs import Pairs
from romco.learners.sharing import Sharing
from romco.parameters import whole
from romco.rounds import Round, Rounds, chosen

if TYPE_CHECKING:
    from romco.learners.capabilities import Contributions
    from romco.learners.frozen import FrozenPredictor

Arrays = dict[str, NDArray[Any]]
State = dict[str, Any]
Axes = tuple[int, ...]


class Learner(ABC):
    """Learns one linear classifier per task from a stream of rounds.

    Two verbs matter: ``predict(round)`` gives margins and changes nothing,
    ``update(round)`` learns the round's answers. All that changes is in
    ``arrays()``. A margin of exactly 0 predicts +1.

    A learner is made by name, ``romco.learner("ogd-unique", n_features, n_tasks)``, with room for
    so many features and tasks, which are numbers from 0 on; ``name`` and ``parameters`` are set
    there. The protocols of :mod:`romco.learners.capabilities` say what else it can do.

    ``shapes`` has the arrays that grow with features or tasks, a letter for each axis: d for
    features, m for tasks, k for models (one per task, or 1 where ``one_for_all``), * for anything
    else; forms that an array may have are parted by |. By it tasks are forgotten, and a file
    whose arrays do not have the sizes that it declares is refused before anything is made.

    >>> import numpy as np, romco
    >>> learner = romco.learner("ogd-unique", n_features=2, n_tasks=2)
    >>> round = romco.Round(np.array([1]), np.array([[0.0, 1.0]]), np.array([-1.0]))
    >>> learner.update(round)
    >>> bool(learner.predict(round)[0] < 0.0)
    True
    """

    space: ClassVar[Mapping[str, Sequence[Any]]] = {}  # what tuning may try, by parameter
    keeps_events: ClassVar[bool] = False  # True where memory grows with the stream by design
    answers: int = 1  # what it learns: 1 for -1 or +1, k for one of k classes, 0 for any number
    linear: ClassVar[bool] = True  # False: margins are not ``weights()`` times x and an intercept
    shapes: ClassVar[Mapping[str, str]] = {}  # of its arrays, a letter for each axis: see above
    one_pass: bool = False  # True where each event is evidence: learned twice, it counts as two
    supports_sample_weight: bool = False  # True where ``update`` honours ``Round.weight``
    supports_offset: bool = False  # True where a known part of the margin can be added
    one_for_all: bool = False  # True where all tasks share one model
    task_axes: Mapping[str, Axes] | None  # of its arrays: axes with an entry per task
    version: ClassVar[int] = 1  # of its state; raised when that changes
    inner_version: int | None = None  # of the states of the learners it is made of, if any
    not_shardable_because: ClassVar[str] = (  # why it has no ``sharing``
        "each of its steps looks at all tasks, and no way to merge shards of it is known to be good"
    )
    uses_unlabelled: ClassVar[bool] = False  # True where events without labels teach it something
    name: str = "unnamed"
    parameters: Mapping[str, Any]

    def __init__(self, n_features: int, n_tasks: int) -> None:
        self.n_features = whole("n_features", n_features)
        self.n_tasks = whole("n_tasks", n_tasks)
        self.parameters = {}
        self.task_axes = _task_axes(self.shapes) if self.shapes else None

    @abstractmethod
    def predict(self, round: Round) -> NDArray[np.float64]:
        """Return margins (n,), above 0 for +1, or (n, k) of k classes; reads no label."""

    def predict_frozen(self, round: Round) -> NDArray[np.float64]:
        """Return margins as ``predict`` does, of events after which no labels come.

        ``predict`` may follow what held for the last events; this relies on what holds on average.
        """
        return self.predict(round)

    @abstractmethod
    def update(self, round: Round) -> None:
        """Learn from the round; a bad event raises ValueError and nothing changes.

        An event whose label is NaN updates feature statistics only, before the others are learned.
        """

    def prepare_update(self, round: Round) -> Callable[[], object] | None:
        """Return a compiled function that commits what was learned from the round, if there is one.

        So that an interrupt finds a learner without a kernel as before or as after. Others are
        copied before each step of a :class:`romco.Model`, and restored if it is broken off.
        """
        return None

    def replay(self, rounds: Iterable[Round]) -> NDArray[np.float64]:
        """Predict, then learn each round; return all margins end to end.

        :class:`romco.Rounds` need not be packed first.
        """
        margins = []
        for round in rounds:
            margins.append(self.predict(round))
            self.update(round)
        return np.concatenate(margins) if margins else np.empty(0)

    @abstractmethod
    def weights(self) -> NDArray[np.float64]:
        """Return a dense copy of the weights W (d, m); column i predicts task i."""

    @abstractmethod
    def arrays(self) -> Arrays:
        """Return the live arrays of the state by name, not copies."""

    def load(self, arrays: Arrays) -> None:
        """Copy arrays from a learner of the same kind, of the same size or smaller.

        Raises ValueError, and changes nothing, where they do not fit.
        """
        copy_arrays(self.arrays(), arrays)

    def sharing(self) -> Sharing:
        """Return the merge rule of each array that is not in ``task_axes``.

        With it the learner can be sharded (:mod:`romco.shards`): copies learn tasks of their own
        and are merged from time to time (:mod:`romco.learners.merging`). ValueError without.
        """
        raise ValueError(f"{self.name} cannot be sharded: {self.not_shardable_because}")

    @property
    def shardable(self) -> bool:
        """True if its class has merge rules."""
        return type(self).sharing is not Learner.sharing

    def become_shard(self) -> None:
        """Leave to barriers what cannot be decided from some of the tasks."""
        return  # most learners decide nothing of the kind

    @property
    def is_shard(self) -> bool:
        """True where it leaves something to barriers."""
        return False

    def settle_after_merge(self, rows: NDArray[np.int32]) -> bool:
        """Decide what is left to barriers, after a merge of rows (t,); True if anything changed."""
        del rows
        return False

    def events_of(
        self, round: Round, labelled: bool = False, rows: NDArray[np.int64] | None = None
    ) -> Events:
        """Return the checked events of a round; ValueError where one is bad."""
        sizes = self.n_features, self.n_tasks
        return Events(round, *sizes, labelled, self.answers, rows, self.supports_offset)

    # What some learners know beside their weights: None, or nothing, where one does not

    def personal_tasks(self) -> NDArray[np.int64] | None:
        """Numbers of the tasks that are unlike the rest, rising."""
        return None

    def difference(self) -> NDArray[np.float64] | None:
        """Evidence (m,) that each task differs from the others, as log-odds."""
        return None

    def groups(self) -> NDArray[np.int64] | None:
        """A group of similar tasks for each task (m,); may cost the square of their number."""
        return None

    def findings(self, tasks: NDArray[np.int64]) -> list[str]:
        """Sentences about some tasks, by their numbers."""
        return []

    def feature_moments(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Mean and standard deviation (d,) of each feature over all rows; absent counts as 0."""
        return None

    def contributions(self, round: Round) -> "Contributions | None":
        """Parts of the margins of a round by feature, which add up to them."""
        return None

    def frozen_predictor(self) -> "FrozenPredictor":
        """Return all numbers of ``predict_frozen``, for an export; ValueError if not possible."""
        from romco.learners.frozen import linear_predictor

        if self.answers > 1 or not self.linear:
            raise ValueError(
                f"{self.name} cannot be exported yet: it is neither romco-auto for two classes or "
                "numbers nor a learner with one weight vector per task"
            )
        return linear_predictor(self)

    def state(self, copy: bool = True) -> State:
        """Return everything that :func:`romco.restore` needs; the live arrays if not a ``copy``."""
        inner = {} if self.inner_version is None else {"inner_version": self.inner_version}
        if isinstance(self, CompiledLearner):  # a copy made during a replay: half of a step
            self.kernel.check_idle()
        return {
            "learner": self.name,
            "version": self.version,
            **inner,
            "n_features": self.n_features,
            "n_tasks": self.n_tasks,
            "parameters": dict(self.parameters),
            "arrays": {k: array.copy() if copy else array for k, array in self.arrays().items()},
        }


class CompiledLearner(Learner):
    """A learner whose two verbs are those of a kernel (abstract).

    Its state is in ``_arrays``, which the kernel changes, and in ``stores``, if it has any.
    """

    kernel: Kernel
    stores: Mapping[str, Pairs] = MappingProxyType({})  # by the names of the arrays they hold
    _arrays: Arrays

    def predict(self, round: Round) -> NDArray[np.float64]:
        return self.kernel.predict(self.events_of(round))

    def predict_frozen(self, round: Round) -> NDArray[np.float64]:
        if type(self).predict is not CompiledLearner.predict:
            return self.predict(round)
        return self.kernel.predict(self.events_of(round), frozen=True)

    def update(self, round: Round) -> None:
        known = with_labels(self, round)
        events = None if known is None else self._labelled(known)  # checked before anything changes
        if known is not round and self.uses_unlabelled:
            self.kernel.look_at(self._unlabelled(round))
        if events is not None:
            self.kernel.update(events)

    def replay(self, rounds: Iterable[Round]) -> NDArray[np.float64]:
        packed = Rounds.pack(rounds)
        every = packed.events
        starts = _within(packed.starts, len(every.task))
        known = with_labels(self, every)
        if known is every:
            return self.kernel.replay(self._labelled(every), starts)
        events = self.events_of(every)
        if known is None and not self.uses_unlabelled:  # nothing is learned: predict all at once
            return self.kernel.predict(events)
        before = np.concatenate([[0], np.cumsum(~np.isnan(every.y))])[starts]  # labels so far
        return self.kernel.replay(
            events,
            starts,
            events if known is None else self._labelled(known),  # of which none will be learned
            before,
            None,
            self._unlabelled(every) if self.uses_unlabelled else None,
            starts - before,
        )

    def arrays(self) -> Arrays:
        arrays = dict(self._arrays)
        for name, store in self.stores.items():
            arrays |= store.arrays(name)
        return arrays

    def load(self, arrays: Arrays) -> None:
        """Copy arrays; that of a store may be another store, which is taken over."""
        others = dict(arrays)
        held: dict[str, Any] = {}
        for name, store in self.stores.items():
            if name not in arrays:
                raise ValueError(f"state holds arrays {sorted(arrays)}, {name!r} is missing")
            held[name] = others.pop(name)
            keys = others.pop(f"{name}_keys", None)
            if not isinstance(held[name], Pairs):
                store.check(keys, np.asarray(held[name]), name)
        copy_arrays(self._arrays, others)
        for name, store in self.stores.items():
            if isinstance(held[name], Pairs):
                store.take(held[name])
            else:
                store.load(arrays, name)

    def _unlabelled(self, round: Round) -> Events:
        return self.events_of(chosen(round, np.isnan(round.y)))

    def _labelled(self, round: Round) -> Events:
        return self.events_of(round, labelled=True)


def with_labels(learner: Learner, round: Round) -> Round | None:
    """The events of a round whose labels are known, that is not NaN; None where there are none.

    All of them are checked, so that a bad event is refused whether it has a label or not; so are
    weights, where the learner does not honour them.
    """
    if round.weight is not None:
        check_takes_weights(learner)
    if not lacks_labels(round.y):
        return round
    learner.events_of(round)
    missing = np.isnan(round.y)
    if len(missing) != len(round.task):
        raise ValueError(f"y has {len(missing)} labels but task has {len(round.task)} entries")
    return None if missing.all() else chosen(round, ~missing)


def check_takes_weights(learner: Learner) -> None:
    """Raise ValueError for a learner to which all events count the same."""
    if not learner.supports_sample_weight:
        raise ValueError(
            f"{learner.name} cannot learn events that count differently: leave out the weights, "
            "or take romco-auto or another learner that can"
        )


def _within(starts: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Return round starts relative to the first; raise ValueError unless they fit n events."""
    starts = np.ascontiguousarray(starts, dtype=np.int64)
    if starts.ndim != 1 or not len(starts) or (np.diff(starts) < 0).any():
        raise ValueError("starts must be where rounds begin and end, rising")
    if starts[-1] - starts[0] > n:
        raise ValueError(f"rounds end at {starts[-1] - starts[0]}, but there are {n} events")
    return starts - starts[0]


def _task_axes(shapes: Mapping[str, str]) -> dict[str, Axes]:
    """By name of an array, the axes with an entry per task or model."""
    by_name = {
        name: tuple(axis for axis, letter in enumerate(shape) if letter in "mk")
        for name, shape in shapes.items()
        if "|" not in shape
    }
    return {name: axes for name, axes in by_name.items() if axes}


def check_finite(arrays: Arrays) -> None:
    """Raise ValueError where an array of a state holds numbers that are not finite."""
    for name, array in arrays.items():
        if np.count_nonzero(np.isfinite(array)) < np.size(array):  # faster than all()
            raise ValueError(f"state array {name!r} holds numbers that are not finite")


def copy_arrays(target: Arrays, source: Arrays) -> None:
    """Copy arrays into the leading corner of their namesakes, if not the same; check all first."""
    if target.keys() != source.keys():
        raise ValueError(f"state holds arrays {sorted(source)}, expected {sorted(target)}")
    others = {k: np.asarray(array) for k, array in source.items() if array is not target[k]}
    for name, values in others.items():
        array = target[name]
        fits = values.ndim == array.ndim and all(map(le, values.shape, array.shape))
        if not fits or values.dtype != array.dtype:
            raise ValueError(
                f"state array {name!r} is {values.dtype}{list(values.shape)}, "
                f"expected {array.dtype}{list(array.shape)}"
            )
    check_finite(others)
    for name, values in others.items():
        target[name][tuple(map(slice, values.shape))] = values


def add_prefix(prefix: str, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return arrays of a part by their names in the state of the whole.

    >>> add_prefix("inner.", {"weights": 1})
    {'inner.weights': 1}
    """
    return {prefix + name: array for name, array in arrays.items()}


def take_prefix(prefix: str, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays that :func:`add_prefix` named, without the prefix.

    >>> take_prefix("inner.", {"inner.weights": 1, "events": 2})
    {'weights': 1}
    """
    named = filter(lambda name: name.startswith(prefix), arrays)
    return {name.removeprefix(prefix): arrays[name] for name in named}
