"""Targets: from labels of events to a learner's numbers, and from its scores to predictions.

A learner's score is a margin on one side of 0 or the other, a log-probability of each class, or a
number.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from math import inf
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from romco.kernels.core.counts import Scale
from romco.kernels.core.events import LARGEST_FEATURE
from romco.model.names import (
    Id,
    as_array,
    canonical_name,
    forgotten_name,
    from_json,
    identity,
    to_json,
)
from romco.typing import Floats

Known = dict[Id, float]
Kind = Literal["two classes", "classes", "number"]
POSITIVE_WORDS = frozenset(("true", "t", "yes", "y", "positive", "pos", "on"))
NEGATIVE_WORDS = frozenset(("false", "f", "no", "n", "negative", "neg", "off", "none"))


class Predictions(NamedTuple):
    """Margins of events and the probabilities they stand for."""

    margins: Floats  # (n,) above 0 for the positive label; (n, K) of many classes
    probabilities: Floats  # (n,) of the positive label; (n, K) of each class; NaN for numbers


class Target:
    """Turns labels of events into a learner's numbers, and its scores into predictions (abstract).

    ``known`` has the number of each label, to the learner. ``sign`` is -1 where its +1 is the
    label that users see below 0.
    """

    kind: Kind
    negative: float  # number of the label below margin 0; of the one above it is 1
    sign = 1.0
    positive: Id | None = None  # the label above margin 0; None if unknown, or not of two classes

    def __init__(self) -> None:
        self.known: Known = {}

    @property
    def classes(self) -> tuple[Id, ...]:
        """The labels known so far, in the order of their numbers; none for numbers."""
        return tuple(sorted(self.known, key=self.known.__getitem__))

    def read(self, answers: Iterable[Any]) -> tuple[Floats, Known]:
        """Return a number for each answer, and the labels as then known; changes nothing."""
        known, labels = self.known, list(answers)
        try:
            return np.array([known[label] for label in labels], dtype=np.float64), known
        except (KeyError, TypeError):
            known = dict(known)
        forms = {canonical_name(label): label for label in known}
        numbers = np.empty(len(labels))
        for at, label in enumerate(labels):
            label = identity("label", label)
            form = forms.setdefault(canonical_name(label), label)
            if form not in known:
                known[form] = self._next_number(known, form)
            numbers[at] = known[form]
        return numbers, known

    def _next_number(self, known: Known, label: Id) -> float:
        """Return the number of a label that is new: of the first two, their sides."""
        if not known:
            if is_positive(label):
                return 1.0
            return self.negative
        return 1.0 + self.negative - next(iter(known.values()))

    def adopt(self, known: Known) -> None:
        """Remember the labels that :meth:`read` gave."""
        self.__dict__.update(self.changes(known))

    def changes(self, known: Known) -> dict[str, Any]:
        """Return the attributes that :meth:`adopt` sets."""
        return {"known": known}

    def number_of(self, label: Any) -> float:
        """Return the side, the class or the number of one label; ValueError if unknown."""
        form = _form(self.known, label)
        if form is None:
            known = " and ".join(map(repr, self.classes)) or "none"
            raise ValueError(f"label {label!r} is not one of the model's: {known}")
        return self.sign * self.known[form]

    def read_known(self, labels: Iterable[Any]) -> Floats:
        """Return the learner's number of each label; NaN where it is not known."""

        def number(label: Any) -> float:
            try:
                return self.sign * self.number_of(label)
            except (ValueError, TypeError):
                return np.nan

        return np.array(list(map(number, labels)))

    def label_of(self, score: Any) -> Any:
        """Return the prediction that the score of one event stands for; None if none is known."""
        raise NotImplementedError

    def labels_of(self, scores: Floats) -> NDArray[Any]:
        """Return the predictions that scores of n events stand for."""
        raise NotImplementedError

    def allocate(self, n: int, n_classes: int) -> Floats:
        """Return an array for the scores of n events; unknown classes have probability 0."""
        return np.empty(n)

    def user_margins(self, margins: Floats, y: Floats, before: float) -> Floats:
        """Return a learner's margins with the sign that users see; ``before`` was it until now."""
        return margins

    def hide(self, margins: Floats, since: Mapping[Id, int]) -> None:
        """Take each new class out of the scores up to the row in which it came first.

        A class that is not known at all is taken out of all rows.
        """

    def probabilities(self, margins: Floats, scale: Scale) -> Floats:
        """Return P(positive) (n,), or of each class (n, K); ValueError for numbers."""
        raise NotImplementedError

    def probabilities_then(self, margins: Floats, log_a: Floats) -> Floats:
        """Return probabilities by the scale before each event (n,); NaN for numbers."""
        raise NotImplementedError

    def to_json(self) -> Any:
        """Return everything needed to make the same again."""
        return {"kind": self.kind}


class TwoClasses(Target):
    """Two labels of any kind, one on each side of margin 0.

    ``classes`` names (negative, positive), or ``positive`` the positive one.
    Else it follows from the labels, not from their order: a number above 0, true or yes is
    positive where the other is not; a number up to 0, false or no is negative where the
    other is not; else the larger one (the later in the alphabet) is positive.
    A label is found in any form that :func:`romco.model.names.canonical_name` takes for the same.

    The learner cannot wait for the second label: to it, the first is +1 if it is positive
    by itself, else -1, for ever. ``sign`` is -1 where that is not the side that users see.

    >>> labels = TwoClasses()
    >>> y, known = labels.read(["spam", "ham", "spam"])
    >>> labels.adopt(known)
    >>> labels.sign * y, labels.classes
    (array([ 1., -1.,  1.]), ('ham', 'spam'))
    """

    def __init__(self, classes: Sequence[Any] | None = None, positive: Any = None) -> None:
        super().__init__()  # ``known`` is the side of each label; times ``sign``, as users see it
        self._named = classes is not None or positive is not None
        if classes is not None:
            negative, above = _two(classes)
            self.known = {negative: -1.0, above: 1.0}
            if positive is not None and canonical_name(positive) != canonical_name(above):
                raise ValueError(f"classes say that {above!r} is positive, not {positive!r}")
        elif positive is not None:
            self.known = {identity("label", positive): 1.0}

    kind: Kind = "two classes"
    negative = -1.0

    @property
    def classes(self) -> tuple[Id, ...]:
        """The labels known so far, the negative one first."""
        side = self.known  # which others may exchange
        labels = tuple(side)
        if labels and self.sign * side[labels[0]] > 0.0:
            return labels[::-1]
        return labels

    @property
    def positive(self) -> Id | None:  # type: ignore[override]
        """The label above margin 0, if it is known."""
        for label, side in list(self.known.items()):
            if side * self.sign > 0.0:
                return label
        return None

    def read(self, labels: Iterable[Any]) -> tuple[Floats, Known]:
        side = self.known
        if isinstance(labels, np.ndarray) and labels.dtype.kind in "fiu" and labels.ndim == 1:
            y = np.zeros(len(labels))
            for label in (label for label in side if isinstance(label, int | float)):
                y[labels == label] = side[label]
            if y.all():
                return y, side
        return super().read(labels)

    def _next_number(self, known: Known, label: Id) -> float:
        if len(known) == 2:
            amounts = list(map(_as_number, (*known, label)))
            fraction = any(one is not None and one % 1.0 != 0.0 for one in amounts)
            more = "classes"
            if fraction and None not in amounts:
                more = "number"
            raise ValueError(
                f"a third label {label!r}: there are {' and '.join(map(repr, known))} already, "
                f"and that is all this model can tell apart; for more, say target={more!r}"
            )
        return super()._next_number(known, label)

    def changes(self, side: Known) -> dict[str, Any]:
        if len(side) == 2 > len(self.known) and not self._named:
            return {"sign": side[positive_of(*side)], "known": side}
        return {"known": side}

    def user_margins(self, margins: Floats, y: Floats, before: float) -> Floats:
        # Rows before the second label keep their sign, as in a loop of single rows.
        if self.sign == before == 1.0:
            return margins
        if self.sign == before:
            return before * margins
        first = next(iter(self.known.values()))  # the side of the label that came first
        second = int(np.argmax(y != first))
        return np.where(np.arange(len(y)) < second, before, self.sign) * margins

    def label_of(self, margin: float) -> Id:
        """The label that a margin predicts; the only one known if there is but one."""
        classes = self.classes or (None,)
        if margin >= 0.0:
            return classes[-1]
        return classes[0]

    def labels_of(self, margins: Floats) -> NDArray[Any]:
        classes = self.classes or (None,)
        return as_array((classes[0], classes[-1]))[(margins >= 0.0).astype(np.intp)]

    def probabilities(self, margins: Floats, scale: Scale) -> Floats:
        return scale.probability(margins)

    def probabilities_then(self, margins: Floats, log_a: Floats) -> Floats:
        return logistic(np.exp(log_a) * margins)

    def to_json(self) -> list[list[Any]]:
        """Labels and their sides; a third entry is the side users see, where that is no rule."""
        named = self.sign < 0.0 or (self._named and len(self.known) == 1)
        entries = []
        for label, side in self.known.items():
            entry = [to_json(label), side]
            if named:
                entry.append(self.sign * side)
            entries.append(entry)
        return entries

    @classmethod
    def from_json(cls, entries: Iterable[Any]) -> "TwoClasses":
        labels = cls()
        for label, side, *outward in entries:
            if not {side, *outward} <= {-1.0, 1.0}:
                raise ValueError(f"label {label!r} has side {side!r}, expected -1 or 1")
            labels.known[from_json(label)] = float(side)
            if outward:
                labels._named, labels.sign = True, float(side * outward[0])
        if len(labels.known) > 2 or len(set(labels.known.values())) < len(labels.known):
            raise ValueError("expected at most two labels, on different sides")
        if len(set(map(canonical_name, labels.known))) < len(labels.known):
            raise ValueError("expected two different labels")
        return labels


class ManyClasses(Target):
    """Labels of any kind, numbered as they come; new ones may come at any time.

    The first two get the numbers that their sides are to the learner of two classes, so that
    these are learned alike. A label announced by ``classes`` is as likely as any before events.

    >>> target = ManyClasses()
    >>> y, known = target.read(["bus", "car", "train", "bus"])
    >>> target.adopt(known)
    >>> y, target.classes
    (array([0., 1., 2., 0.]), ('bus', 'car', 'train'))
    """

    kind: Kind = "classes"
    negative = 0.0

    def __init__(self, classes: Sequence[Any] | None = None) -> None:
        super().__init__()
        for number, label in enumerate(classes or ()):
            self.known[identity("label", label)] = float(number)
        if classes is not None and len(self.known) < max(len(classes), 2):
            raise ValueError(f"classes must be two or more different labels; got {list(classes)}")

    def _next_number(self, known: Known, label: Id) -> float:
        if len(known) > 1:
            return float(len(known))
        return super()._next_number(known, label)

    def label_of(self, score: Floats) -> Id:
        """The label of the largest score; None before any label is known."""
        if not self.known:
            return None
        return self.classes[int(self._best(score[None])[0])]

    def labels_of(self, scores: Floats) -> NDArray[Any]:
        if not self.known:
            return np.full(len(scores), None)
        labels = as_array(self.classes)[self._best(scores)]
        unknown = np.isneginf(scores).all(axis=1)
        if unknown.any():  # learned before any label was known
            labels = labels.astype(object)
            labels[unknown] = None
        return labels

    def hide(self, margins: Floats, since: Mapping[Id, int]) -> None:
        last = max(since.values(), default=-1) + 1
        if len(self.known) < margins.shape[1]:
            last = len(margins)
        if not last:
            return
        known_from = np.full(margins.shape[1], last)  # row from which each class is known
        known_from[self._columns()] = 0
        for label, row in since.items():
            known_from[int(self.known[label])] = row + 1
        hidden = (np.arange(last)[:, None] < known_from) & (margins[:last] > -np.inf)
        rows = np.flatnonzero(hidden.any(axis=1))
        rest = np.where(hidden[rows], -np.inf, margins[rows])
        total = np.logaddexp.reduce(rest, axis=1, keepdims=True)
        margins[rows] = rest - np.where(total > -np.inf, total, 0.0)

    def forget(self, numbers: Container[float]) -> None:
        """Give some classes names that say nothing."""
        known = {}
        for label, number in self.known.items():
            gone = number in numbers
            known[forgotten_name(int(number), self.known) if gone else label] = number
        self.known = known

    def allocate(self, n: int, n_classes: int) -> Floats:
        return np.full((n, max(2, n_classes)), -np.inf)

    def probabilities(self, margins: Floats, scale: Scale | None = None) -> Floats:
        """Return the probability (n, K) of each label that is known; each row sums to one."""
        chances = np.exp(margins[:, self._columns()])
        sums = np.add.accumulate(chances, axis=1)[:, -1:]  # in order: the same in any batch
        return chances / np.maximum(sums, np.finfo(float).tiny)

    def probabilities_then(self, margins: Floats, log_a: Floats) -> Floats:
        """Return :meth:`probabilities`: these learners calibrate themselves, without a scale."""
        return self.probabilities(margins)

    def _columns(self) -> NDArray[np.intp]:
        """Return the columns of the labels' scores, in the order of :attr:`classes`."""
        return np.array(sorted(self.known.values()), dtype=np.intp)

    def _best(self, scores: Floats) -> NDArray[np.intp]:
        backwards = scores[:, self._columns()[::-1]]
        return len(self.known) - 1 - np.argmax(backwards, axis=1)

    def to_json(self) -> dict[str, Any]:
        labels = [[to_json(label), number] for label, number in self.known.items()]
        return {**super().to_json(), "labels": labels}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "ManyClasses":
        target = cls()
        target.known = {from_json(label): float(number) for label, number in data["labels"]}
        numbers = set(target.known.values())
        allowed = set(range(len(target.known)))
        if len(numbers) == 1:
            allowed.add(1)
        if not numbers <= allowed:
            raise ValueError("expected labels with the numbers 0, 1, ...")
        if len(numbers) < len(data["labels"]):
            raise ValueError("two labels have the same number")
        return target


class NumberTarget(Target):
    """A number, in whatever unit it comes.

    >>> NumberTarget().read([1, 2.5, "3"])[0]
    array([1. , 2.5, 3. ])
    """

    kind: Kind = "number"

    def read(self, answers: Iterable[Any]) -> tuple[Floats, Known]:
        """The answers as numbers; raises ValueError where one is none, or not finite."""
        if isinstance(answers, np.ndarray) and answers.dtype.kind in "fiu" and answers.ndim == 1:
            numbers = answers.astype(np.float64)
        else:
            numbers = np.array([_finite(i, a) for i, a in enumerate(answers)], dtype=np.float64)
        bad = np.flatnonzero(~(np.abs(numbers) <= LARGEST_FEATURE))
        if len(bad):
            _finite(int(bad[0]), numbers[bad[0]])
        return numbers, self.known

    def number_of(self, label: Any) -> float:
        return float(self.read([label])[0][0])

    def label_of(self, score: float) -> float:
        return float(score)

    def labels_of(self, scores: Floats) -> NDArray[Any]:
        return scores

    def probabilities(self, margins: Floats, scale: Scale) -> Floats:
        raise ValueError("a number has no probability: use intervals")

    def probabilities_then(self, margins: Floats, log_a: Floats) -> Floats:
        """Return NaN: a number has no probability."""
        return np.full(len(margins), np.nan)


def logistic(z: Floats) -> Floats:
    """Return 1 / (1 + exp(-z)) without overflow."""
    return 0.5 * (1.0 + np.tanh(0.5 * z))


def make_target(kind: str | None, classes: Sequence[Any] | None, positive: Any = None) -> Target:
    """Return the target of a kind, two classes by default."""
    if kind is None or kind == "two classes":
        return TwoClasses(classes, positive)
    if positive is not None:
        raise ValueError(f"positive={positive!r} makes sense with two classes only")
    if kind == "classes":
        return ManyClasses(classes)
    if kind == "number":
        if classes is not None:
            raise ValueError("a number has no classes: leave out classes, or target='number'")
        return NumberTarget()
    raise ValueError(f"target must be 'two classes', 'classes' or 'number'; got {kind!r}")


def widened(two: TwoClasses) -> ManyClasses:
    """Return many classes, of which these two are the first."""
    many = ManyClasses()
    many.adopt({label: 0.5 + 0.5 * side for label, side in two.known.items()})
    return many


def target_from_json(data: Any) -> Target:
    """The target that ``to_json`` described; two classes are a plain list."""
    if isinstance(data, list):
        return TwoClasses.from_json(data)
    if data["kind"] == "classes":
        return ManyClasses.from_json(data)
    if data["kind"] == "number":
        return NumberTarget()
    raise ValueError(f"unknown kind of target {data['kind']!r}")


def _finite(at: int, answer: Any) -> float:
    try:
        if answer is None or isinstance(answer, complex):
            raise TypeError
        number = float(answer)
    except OverflowError:  # a whole number beyond all that a computer calculates with
        number = inf
    except (TypeError, ValueError):
        raise ValueError(f"answer {at} is {answer!r}: a number is expected") from None
    if not abs(number) <= LARGEST_FEATURE:  # nor NaN
        raise ValueError(
            f"answer {at} is {number}: it must be finite and at most {LARGEST_FEATURE:g} in size, "
            "so scale it or drop the event"
        )
    return number


def _form(known: Known, label: Any) -> Id | None:
    if label in known:
        return label
    name = canonical_name(label)
    return next((form for form in known if canonical_name(form) == name), None)


def _two(classes: Sequence[Any]) -> tuple[Id, Id]:
    known = [identity("label", label) for label in classes]
    if len(known) != 2 or canonical_name(known[0]) == canonical_name(known[1]):
        raise ValueError(f"classes must be two different labels, the negative first; got {known}")
    return known[0], known[1]


def positive_of(one: Id, other: Id) -> Id:
    """Return the positive one of two labels; see :class:`TwoClasses`.

    >>> positive_of("no", "yes"), positive_of(1, -1), positive_of("spam", "ham"), positive_of(9, 10)
    ('yes', 1, 'spam', 10)
    """
    return max(one, other, key=_rank)


def is_positive(label: Id) -> bool:
    """Return whether a label by itself is positive: a number above 0, true, yes."""
    number = _as_number(label)
    if number is not None:
        return number > 0
    return str(label).lower() in POSITIVE_WORDS


def _is_negative(label: Id) -> bool:
    number = _as_number(label)
    if number is not None:
        return number <= 0
    return str(label).lower() in NEGATIVE_WORDS


def _rank(label: Id) -> tuple[bool, bool, float, str]:
    number = _as_number(label)
    if number is None:
        number = -np.inf
    return is_positive(label), not _is_negative(label), number, str(label)


def _as_number(label: Id) -> float | None:
    if not isinstance(label, str | int | float):
        return None
    try:
        return float(label)
    except (ValueError, OverflowError):
        return None
