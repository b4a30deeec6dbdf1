"""Many classes from a learner of two."""

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from romco.kernels.auto.classes import ClassesKernel, Member, PairsKernel, RestKernel
from romco.kernels.auto.stacking import ConditionalLogit
from romco.learners.auto import Auto, BaseAuto
from romco.learners.averaging import mean_of
from romco.learners.base import (
    Arrays,
    Axes,
    CompiledLearner,
    Learner,
    add_prefix,
    copy_arrays,
    take_prefix,
)
from romco.learners.capabilities import Newcomer, StartedTasks, StartsTasks
from romco.learners.frozen import FrozenClasses
from romco.learners.registry import forget, learner
from romco.learners.sharing import (
    Counts,
    Fixed,
    Full,
    Line,
    Scale,
    Sharing,
    Whole,
)
from romco.learners.softmax import AutoSoftmax
from romco.parameters import choice, whole
from romco.rounds import Round
from romco.typing import Floats

MAX_IN_PAIRS = 10  # classes that are learned by pairs unless these were asked for,
MAX_BY_HAND = 30  # and if they were; there are 435 pairs of them
STACKING_WEIGHTS = (1.0, 0.0)  # prior weights of the learners of two and of the softmax,
STACKING_VARIANCES = (0.3, 0.3)  # and their variances,
STACKING_RENEWAL = 1e-3  # to which each event adds this
MAX_CLASSES = 1000  # classes that are told apart otherwise
Form = Literal["pairs", "rest", "softmax"]
FORM_TEXTS = {"pairs": "by pairs", "rest": "one against the rest", "softmax": "at once"}
AT_ONCE = "softmax_"  # names of the arrays of the learner of very many begin so


class Classes(CompiledLearner):
    r"""A learner of two classes made one of many: by pairs of classes, or each against the rest.

    Answers are class numbers 0, 1, ...; scores (n, K) are log-probabilities, of which the largest
    is the answer (of equal ones the last). ``form="pairs"`` keeps one ``inner`` learner for each
    pair of classes, which learns the events of the two. With r_kj the probability of class k among
    k and j,

    .. math:: p_k \propto 1 \Big/ \Big(\sum_{j \ne k} 1 / r_{kj} - (K - 2)\Big)

    ``form="rest"`` keeps one for each class against all others, and p_k is proportional to what it
    says. Two classes are one inner learner, bit for bit. Their margins, and those of a class
    against the rest, become log-odds by a factor learned along the stream. A conditional logit
    weighs the scores of more than two classes.
    With offsets (n, K) both are of what inner learners add to them. Classes are added by
    :meth:`make_classes`.

    ``form="softmax"``, of ``romco-auto`` only, is :class:`romco.learners.softmax.AutoSoftmax`:
    it learns all classes at once. Unless a form is given, ``romco-auto`` has both for three to ten
    classes, and adds their weighted scores. For more it has the softmax alone.

    Cost: an event is learned by K - 1 inner learners (rest: K) and the softmax. A prediction asks
    the pairs of the likeliest class and of those that come near it, and the sum above is over
    these; one against the rest asks all.

    >>> import romco
    >>> by_pairs = Classes(n_features=2, n_tasks=1, inner="romco-auto", n_classes=3)
    >>> by_pairs.predict(romco.Round(np.array([0]), np.ones((1, 2)), np.empty(0))).round(3)
    array([[-1.099, -1.099, -1.099]])
    """

    space: ClassVar = {}
    linear: ClassVar = False
    _lines: Sharing | None = None  # of the present members, once asked for

    def __init__(
        self,
        n_features: int,
        n_tasks: int,
        *,
        inner: str = "romco-auto",
        n_classes: int = 2,
        form: Form | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(n_features, n_tasks)
        choice("form", form or "pairs", "pairs", "rest", "softmax")
        if form == "softmax" and (inner != "romco-auto" or parameters):
            raise ValueError(f"form 'softmax' is one of romco-auto only; got {inner}")
        self._asked = form
        self.form: Form = form or "rest"
        if form is None and inner == "romco-auto":  # the learner that gives log-odds
            self.form = "pairs"
        self._inner, self._settings = inner, dict(parameters or {})
        self._members: list[CompiledLearner] = [self._new()]
        self._scales = [np.array([0.0, 1.0])]
        self._many: AutoSoftmax | None = None  # of all classes, from the third on
        self._stacking: Arrays = {}
        self.inner_version = self._members[0].version
        self.supports_sample_weight = self._members[0].supports_sample_weight
        self.one_pass = self._members[0].one_pass
        self.answers = 2
        self.make_classes(whole("n_classes", n_classes, least=2))

    # Classes

    def check_classes(self, n: int) -> None:
        limit = MAX_BY_HAND if self._asked == "pairs" else MAX_CLASSES
        if n > limit:
            by = FORM_TEXTS[self._asked or ("softmax" if self.form == "pairs" else self.form)]
            raise ValueError(f"{n} classes: {self._inner} tells at most {limit} apart {by}")

    def make_classes(self, n: int) -> None:
        self.check_classes(n)
        is_shard = self.is_shard
        self._make_softmax(n)
        self._make_stacking(n)
        if self._is_softmax_alone(n):
            self.form, self._members, self._scales = "softmax", [], []
        elif self.form == "pairs":
            events = self._class_events(n)
            for high in range(self.answers, n):
                for low in range(high):
                    self._members.append(self._new_pair(events[low]))
            if n > 2:  # factors are learned of two classes only
                self._scales = [np.array([0.0, 1.0]) for _ in self._members]
        for k in range(self.answers, n if self.form == "rest" else 0):
            if k == 2:  # "1, not 0" is all it took with two classes
                twin = self._new()
                twin.load(self._members[0].arrays())
                self._members.insert(0, twin)
                self._scales.insert(0, self._scales[0].copy())
            self._members.append(self._new())
            self._scales.append(np.array([0.0, 1.0]))
        self.answers = max(n, self.answers)
        self.supports_offset = all(member.supports_offset for member in self._members)
        if is_shard:
            self.become_shard()  # members that are new
        self._link()

    def with_classes(self, n: int) -> "Classes":
        """A copy with n classes; pairs share the learners that know nothing of the new ones."""
        if self.form == "rest":
            new = learner(self.name, self.n_features, self.n_tasks, **self.parameters)
            assert isinstance(new, Classes)
            new.load(self.arrays())
        else:
            new = copy(self)
            new._many = copy(self._many)
            new._members, new._scales = list(self._members), list(self._scales)
        new.make_classes(n)
        return new

    def _class_events(self, n: int) -> Floats:
        """Return about how many events each of n classes had, by what its pairs learned."""
        events = np.zeros(n)
        for pair, member in zip(self.pairs(), self._members, strict=True):
            if isinstance(member, Auto):
                events[list(pair)] = np.maximum(events[list(pair)], 0.5 * member.events)
        return events

    def _new_pair(self, events: float) -> CompiledLearner:
        """Return the learner of a new class and one that had so many events."""
        pair = self._new()
        if isinstance(pair, Auto):
            pair.expect_negative(events)
        return pair

    def _make_softmax(self, n: int) -> None:
        """Let the learner of all classes begin where it is needed."""
        beside = self._asked is None and self.form == "pairs" and n > 2
        if self._many is not None:
            self._many.make_classes(n)
        elif self._asked == "softmax" or beside:
            self._many = AutoSoftmax(self.n_features, self.n_tasks, n_classes=n)

    def _is_softmax_alone(self, n: int) -> bool:
        """Return whether n classes are learned by the softmax and by no inner learners."""
        return self._asked == "softmax" or (self._many is not None and n > MAX_IN_PAIRS)

    def _make_stacking(self, n: int) -> None:
        """Weigh the scores of more than two classes, unless the softmax is alone."""
        if self._is_softmax_alone(n):
            self._stacking = {}
        elif n > 2 and not self._stacking:
            inputs = 1 if self._many is None else 2
            self._stacking = {
                "stacking_weight": np.array(STACKING_WEIGHTS[:inputs]),
                "stacking_covariance": np.diag(STACKING_VARIANCES[:inputs]),
            }

    def at_once(self) -> AutoSoftmax | None:
        """The learner of all classes at once, where there are no pairs; else None."""
        return self._many if self.form == "softmax" else None

    def stacked(self) -> tuple[AutoSoftmax | None, float, float]:
        """The learner of all classes beside the inner ones, and the weights of these and of it."""
        if not self._stacking:
            return None, 1.0, 1.0
        weights = self._stacking["stacking_weight"].tolist()
        return self._many, weights[0], weights[-1]

    def pairs(self) -> list[tuple[int, int]]:
        """Classes (-1, +1) of each inner learner; -1 as a class is all others."""
        if self.form == "softmax":
            return []
        if self.answers == 2:
            return [(0, 1)]
        if self.form == "pairs":
            return [(low, high) for high in range(self.answers) for low in range(high)]
        return [(0, -1), *((-1, k) for k in range(1, self.answers))]

    def members(self) -> list[CompiledLearner]:
        """The inner learners, in the order of :meth:`pairs`."""
        return list(self._members)

    # What every learner says

    def weights(self) -> Floats:
        """W (d, m, K): what speaks for a class, on average over the pairs it is in."""
        at_once = self.at_once()
        if at_once is not None:
            return at_once.weights()
        total = np.zeros((self.n_features, self.n_tasks, self.answers))
        times = np.zeros(self.answers)
        for (low, high), member in zip(self.pairs(), self._members, strict=True):
            w = member.weights()
            for label, sign in ((low, -1.0), (high, 1.0)):
                if label >= 0:
                    total[:, :, label] += sign * w
                    times[label] += 1.0
        total /= times
        many, weight, share = self.stacked()
        total *= weight
        if many is not None:
            total += share * many.weights()
        return total

    def arrays(self) -> Arrays:
        arrays: Arrays = {"classes": np.array([self.answers], dtype=np.int64)}
        arrays |= self._stacking
        for n, (member, scale) in enumerate(zip(self._members, self._scales, strict=True)):
            arrays |= {f"{n}.{name}": array for name, array in member.arrays().items()}
            arrays[f"{n}.scale"] = scale
        if self._many is not None:
            arrays |= add_prefix(AT_ONCE, self._many.arrays())
        return arrays

    def load(self, arrays: Arrays) -> None:
        if "classes" not in arrays:
            raise ValueError(f"state holds arrays {sorted(arrays)}, 'classes' is missing")
        fresh = Classes(
            self.n_features,
            self.n_tasks,
            inner=self._inner,
            n_classes=int(arrays["classes"][0]),
            form=self._asked,
            parameters=self._settings,
        )
        parts: dict[str, Arrays] = {}
        for name, array in arrays.items():
            number, dot, rest = name.partition(".")
            if dot:
                parts.setdefault(number, {})[rest] = array
        for number in parts.keys() - {str(n) for n in range(len(fresh._members))}:
            name = f"{number}.{next(iter(parts[number]))}"
            raise ValueError(f"state array {name!r} belongs to no pair of classes")
        for n, member in enumerate(fresh._members):
            part = parts.get(str(n), {})
            fresh._scales[n][:] = part.pop("scale")
            member.load(part)
        if fresh._many is not None:
            fresh._many.load(take_prefix(AT_ONCE, arrays))
        kept = fresh._stacking
        copy_arrays(kept, {name: arrays[name] for name in kept if name in arrays})
        fresh.name, fresh.parameters = self.name, self.parameters
        vars(self).update(vars(fresh))
        self._link()

    def forget_task(self, task: int) -> None:
        self.kernel.check_idle()
        for part in self._parts().values():
            forget(part, task)

    def posterior(self, round: Round, frozen: bool = False) -> tuple[Floats, Floats]:
        """Return means and standard deviations (n, K) of each class's log-odds against the rest.

        A variance is the mean of those of the class against each other one, by probability.
        """
        members = [member for member in self._members if isinstance(member, Auto)]
        if self.form != "pairs" or len(members) < len(self._members):
            raise ValueError(
                f"{self._inner} has no standard deviations of {self.answers} classes: romco-auto "
                f"has them, of at most {MAX_IN_PAIRS}"
            )
        scores = self.kernel.predict(self.events_of(round), frozen=frozen)
        unlabelled = Round(round.task, round.x, np.empty(0))
        pairs = np.zeros((2, len(scores), self.answers, self.answers))
        for (low, high), member in zip(self.pairs(), members, strict=True):
            found = member.kernel.spreads(member.events_of(unlabelled), frozen, False) ** 2
            pairs[..., low, high] = pairs[..., high, low] = found
        weights = np.exp(scores)[:, None, :] * (1.0 - np.eye(self.answers))
        weights /= weights.sum(axis=2, keepdims=True)
        without_unseen, variance = (weights * pairs).sum(axis=3)
        start = _log_odds(np.zeros_like(scores) if round.offset is None else round.offset)
        moderation = np.sqrt(1.0 + np.pi / 8.0 * without_unseen)
        return start + (_log_odds(scores) - start) * moderation, np.sqrt(variance)

    # In shards

    def sharing(self) -> Sharing:
        if self._lines is None:
            self._lines = self._list_lines()
        return self._lines

    def _list_lines(self) -> Sharing:
        lines: list[Line] = [Fixed("classes")]
        for n, (pair, member) in enumerate(zip(self.pairs(), self._members, strict=True)):
            counts: Counts | None = None
            if self._many is not None:  # a pair learns the events of its classes
                counts = AT_ONCE + "seen", pair
            every = (*member.sharing(), Whole("scale", Scale()))
            lines += [line.of_member(f"{n}.", counts) for line in every]
        if self._stacking:
            names = ("stacking_weight", "stacking_covariance")
            lines.append(Full(*names, STACKING_RENEWAL, self._stacking_variances()))
        if self._many is not None:
            lines += [line.of_member(AT_ONCE) for line in self._many.sharing()]
        return tuple(lines)

    def _parts(self) -> dict[str, CompiledLearner]:
        """Return all learners within, by the prefix of their arrays."""
        parts = {f"{n}.": member for n, member in enumerate(self._members)}
        if self._many is not None:
            parts[AT_ONCE] = self._many
        return parts

    def become_shard(self) -> None:
        for part in self._parts().values():
            part.become_shard()

    @property
    def is_shard(self) -> bool:
        return any(part.is_shard for part in self._parts().values())

    def settle_after_merge(self, rows: NDArray[np.int32]) -> bool:
        changed = [part.settle_after_merge(rows) for part in self._parts().values()]
        return any(changed)

    # In several orders

    @property
    def averages_orders(self) -> bool:
        """Return whether the inner learners can be averaged."""
        return self._inner == "romco-auto"

    def start_events(self) -> None:
        """Count no event as learned: without labels none was."""

    def adopt_functions(self, other: "Classes") -> None:
        """Take units and columns of a learner of the same events, which is not used any more."""
        for member, found in zip(auto_members(self), auto_members(other), strict=True):
            member.adopt_units(found)
            member.adopt_functions(found)
        if self._many is not None and other._many is not None:
            self._many.adopt_columns(other._many)
        self._link()

    def average(
        self, others: Sequence["Classes"], given: "Classes", *, rounds: Iterable[Round] = ()
    ) -> None:
        """Become the mean of learners of the same events in random orders, and of that given."""
        every = [self, *others, given]
        shares = np.append(np.full(len(every) - 1, 1.0 / (len(every) - 1)), 0.0)
        order_shares = None
        if self._many is not None:  # it learns more events than a pair, and knows better
            many = [one._many for one in every if one._many is not None]
            order_shares = self._many.average(many[1:-1], many[-1])
            shares = order_shares.of_stacking
        for member, *rest, last in zip(*map(auto_members, every), strict=True):
            member.average(rest, last, order_shares)
        for arrays in zip(*(one._calibration() for one in every), strict=True):
            arrays[0][...] = mean_of(arrays, shares)
        self._link()

    def _calibration(self) -> list[Floats]:
        """Return what turns margins of the inner learners into probabilities."""
        return [*self._scales, *self._stacking.values()]

    # What most of the inner learners say of tasks

    def personal_tasks(self) -> NDArray[np.int64]:
        """Tasks unlike the rest, to more than half of the inner learners; none if they cannot."""
        votes = np.zeros(self.n_tasks)
        for member in self._members:
            if (personal := member.personal_tasks()) is not None:
                votes[personal] += 1.0
        return np.flatnonzero(votes > 0.5 * len(self._members))

    def difference(self) -> Floats | None:
        """Return the evidence of the inner learners, of which K - 1 learn each event."""
        evidence = [member.difference() for member in self._members]
        known = [values for values in evidence if values is not None]
        if not known:
            return None
        return np.asarray(np.sum(known, axis=0) / max(1, self.answers - 1))

    def frozen_classes(self) -> FrozenClasses:
        """Return all numbers of ``predict_frozen``, for an export; ValueError if not possible."""
        has_softmax = self._many is not None
        if self._inner != "romco-auto" or has_softmax != (self.answers > 2):
            raise ValueError(
                f"{self._inner} for {self.answers} classes {FORM_TEXTS[self.form]} cannot be "
                "exported yet: only romco-auto without form="
            )
        return FrozenClasses(
            pairs=[member.frozen_predictor() for member in self._members],
            factors=np.exp([scale[0] for scale in self._scales]),
            softmax=None if self._many is None else self._many.frozen_softmax(),
            weights=np.array(self.stacked()[1:]),
        )

    # New tasks: as the inner learners have it

    def common(self, started: StartedTasks) -> Newcomer | None:
        if self._many is not None:
            return None
        weights = [m.common(started) for m in self._members if isinstance(m, StartsTasks)]
        known = [one for one in weights if one is not None]
        if len(known) < len(self._members):
            return None
        assert isinstance(self.kernel, ClassesKernel)
        return _Newcomer(self.kernel, known)

    def start_task(self, task: int, started: StartedTasks) -> None:
        for member in self._members:
            if isinstance(member, StartsTasks):
                member.start_task(task, started)

    # Within

    def _new(self) -> CompiledLearner:
        made = learner(self._inner, self.n_features, self.n_tasks, **self._settings)
        if isinstance(made, Auto):
            made.drop_functions()
        if not isinstance(made, CompiledLearner) or made.answers != 1:
            raise ValueError(f"{self._inner} cannot be one of many: it learns no two classes")
        return made

    def _link(self) -> None:
        """Make the kernel of the present members."""
        self._lines = None
        axes: dict[str, Axes] = {}
        for prefix, part in self._parts().items():
            axes |= add_prefix(prefix, part.task_axes or {})
        self.task_axes = axes
        if self._many is not None and self.form == "softmax":
            self.kernel = self._many.kernel
            return
        parts = zip(self.pairs(), self._members, self._scales, strict=True)
        handles = [Member(one.kernel, scale, *pair) for pair, one, scale in parts]
        if self.answers == 2:
            self.kernel = PairsKernel(handles, 2)
            return
        variances = self._stacking_variances()
        weight, covariance = self._stacking.values()
        stacking = ConditionalLogit(weight, covariance, variances, STACKING_RENEWAL)
        softmax = None if self._many is None else self._many.kernel
        kernel = RestKernel if self.form == "rest" else PairsKernel
        self.kernel = kernel(handles, self.answers, stacking, softmax)

    def _stacking_variances(self) -> Floats:
        """Return the prior variance of each stacking weight."""
        return np.array(STACKING_VARIANCES[: len(self._stacking["stacking_weight"])])


class _Newcomer(NamedTuple):
    """A task that nobody has seen, to all inner learners."""

    kernel: ClassesKernel
    members: list[Newcomer]

    def margins(self, round: Round) -> Floats:
        """Scores (n, K) of rows."""
        return self.kernel.scores_of(np.array([one.margins(round) for one in self.members]))


def _log_odds(scores: Floats) -> Floats:
    """Return log-odds (n, K) of each class against the rest, from scores up to a constant."""
    n = scores.shape[1]
    others = np.where(np.eye(n, dtype=bool), -np.inf, scores[:, None, :])
    return np.asarray(scores - np.logaddexp.reduce(others, axis=2))


def auto_members(learner: Learner) -> list[BaseAuto]:
    """Return the learners with a low-rank part: the learner itself, or those within it."""
    members = learner.members() if isinstance(learner, Classes) else [learner]
    return [member for member in members if isinstance(member, BaseAuto)]
