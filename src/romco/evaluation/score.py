"""Running score of a stream: two classes, many classes or numbers."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from operator import itemgetter, ne
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from romco.evaluation.baselines import majority
from romco.model.names import canonical_name
from romco.model.target import Predictions, logistic
from romco.rounds import Round
from romco.typing import Floats

# Sums over events, by target. "baseline" is the most frequent label so far, or the mean so far;
# "named" counts events whose class was known when it was predicted, "bounded" those with intervals.
COLUMNS = {
    "two classes": ("events", "error", "baseline", "log_loss", "baseline_log_loss"),
    "classes": ("events", "error", "baseline", "log_loss", "named"),
    "number": ("events", "absolute", "squares", "baseline_squares", "covered", "bounded"),
}
COUNTED_BY = {"log_loss": "named", "covered": "bounded"}  # what a sum is divided by, else "events"
BLOCK_EVENTS, MAX_BLOCKS = 100, 10  # recent sums cover the last nine to ten blocks
CALIBRATION_BINS = {"two classes": 10, "classes": 15}
AUC_BINS, MAX_LOGIT = 600, 15.0  # histogram of log-odds for the area under the ROC curve
MIN_PROBABILITY = 1e-15
INTERVAL_LEVEL = 0.9  # share of numbers that shall lie within their intervals
MAX_COUNT = 2.0**53  # largest whole number that a double counts without gaps
MAX_SUM = 1e150  # squares of larger numbers overflow


class Score:
    """Error, loss and calibration of predictions, each made before its label was known.

    The baseline answers the most frequent label so far, with its frequency as the probability; for
    numbers it answers the mean so far. Sums do not depend on how events are cut into calls.
    A number that was not predicted (NaN), for want of any earlier one, is not scored. An event of a
    class that nobody knew yet is an error, and its log loss is not counted.
    ``target`` is "two classes", "classes" or "number"; without ``curve`` neither AUC nor
    calibration is kept.

    >>> score = Score()
    >>> margins, chances = np.array([0.5, -0.5, -1.0]), np.array([0.6, 0.4, 0.2])
    >>> score.add_binary(np.array([1.0, 1.0, -1.0]), margins, chances)
    >>> round(score.error, 3), round(score.baseline, 3), round(score.f1, 3), score.auc
    (0.333, 0.333, 0.667, 1.0)
    >>> score = Score("classes")
    >>> events = Round(np.array([0, 0]), np.eye(2), np.array([2.0, 0.0]))
    >>> score.add(events, np.log([[0.1, 0.2, 0.7], [0.3, 0.4, 0.3]]))
    >>> score.summary()["error"], score.summary()["table"]
    (0.5, {'2': {'2': 1}, '0': {'1': 1}})
    """

    def __init__(self, target: str = "two classes", curve: bool = True) -> None:
        if target not in COLUMNS:
            raise ValueError(f"target must be one of {', '.join(COLUMNS)}; got {target!r}")
        self.target, self.curve = target, curve and target != "number"
        self._sums = np.zeros(len(COLUMNS[target]))
        self._blocks: list[Floats] = [np.zeros_like(self._sums)]
        self._table: dict[str, Counter[str]] = {}  # true label: answered labels
        self._counts: Counter[str] = Counter()  # true labels
        self._seen = 0  # numbers, scored or not
        self._mean = self._spread = 0.0  # of numbers, by Welford
        self._bins = np.zeros((CALIBRATION_BINS.get(target, 0), 3))  # events, stated, true
        self._logits = np.zeros((2, AUC_BINS), dtype=np.int64)  # negatives, positives

    @classmethod
    def of(cls, model: Any, saved: Any = None, curve: bool = True) -> "Score":
        """Score for the target of a model; continues from ``saved``, see :meth:`to_json`."""
        target = model.engine.target.kind
        if saved:
            return cls.from_json(saved)
        return cls(target, curve)

    def add(self, round: Round, scores: Floats) -> None:
        """Count a round and its margins (n,), log-probabilities (n, K), or numbers (n,)."""
        if self.target == "two classes":
            self.add_binary(round.y, scores, logistic(scores))
        elif self.target == "number":
            self.add_numbers(round.y, scores)
        else:
            names = round.y.astype(int).astype(str).tolist()
            answers = most_likely(scores)
            rows = np.arange(len(names))
            true = np.exp(scores[rows, round.y.astype(np.intp)])
            stated = np.exp(scores[rows, answers])
            self._add_classes(names, map(str, answers.tolist()), true, stated)

    def count(
        self,
        model: Any,
        labels: Sequence[Any],
        answers: Predictions,
        bounds: Floats | None = None,
    ) -> None:
        """Count events by their labels, and the answers that ``model`` gave before.

        ``bounds`` (n, 2) are the intervals of numbers, where there are any.
        """
        if self.target == "two classes":
            self.add_binary(_signs(model, labels), *answers)
        elif self.target == "number":
            y = np.array([float(model.engine.target.number_of(label)) for label in labels])
            self.add_numbers(y, answers.margins, bounds)
        else:
            names = list(map(canonical_name, labels))
            numbers = {canonical_name(label): k for k, label in enumerate(model.classes)}
            columns = np.array([numbers.get(name, -1) for name in names], dtype=np.intp)
            known = (columns >= 0) & (columns < answers.probabilities.shape[1])
            true = np.zeros(len(labels))
            true[known] = answers.probabilities[known, columns[known]]
            true[true == 0.0] = np.nan  # the class was not known then
            stated = answers.probabilities.max(axis=1, initial=0.0)
            answered = model.engine.target.labels_of(answers.margins)
            given = ["" if label is None else str(canonical_name(label)) for label in answered]
            self._add_classes(list(map(str, names)), given, true, stated)

    def add_binary(self, y: Floats, margins: Floats, probabilities: Floats) -> None:
        """Count labels (n,), -1 or +1, their margins (n,), and P(+1) (n,) as predicted before."""
        positive = y > 0
        answers = margins >= 0
        n = int(self._sums[0])
        k = self._counts["1"]
        seen = n + np.arange(len(y))
        seen_positive = k + np.cumsum(positive) - positive
        rate = (seen_positive + 1.0) / (seen + 2.0)
        self._add_rows(
            answers != positive,
            (2 * seen_positive >= seen) != positive,
            log_loss(np.where(positive, probabilities, 1.0 - probabilities)),
            log_loss(np.where(positive, rate, 1.0 - rate)),
        )
        for cell, count in enumerate(np.bincount(2 * positive + answers, minlength=4).tolist()):
            self._add_cell(str(cell // 2), str(cell % 2), count)
        if self.curve:
            self._add_stated(probabilities, positive)
            bins = AUC_BINS * positive + _logit_bin(probabilities)
            self._logits += np.bincount(bins, minlength=2 * AUC_BINS).reshape(2, AUC_BINS)

    def _add_classes(
        self, truth: list[str], answers: Iterable[str], true: Floats, stated: Floats
    ) -> None:
        answered = list(answers)
        baseline = majority(truth, self._counts.copy())
        wrong = np.array(list(map(ne, answered, truth)), dtype=np.bool_)
        usual = np.array(list(map(ne, baseline, truth)), dtype=np.bool_)
        named = ~np.isnan(true)
        self._add_rows(wrong, usual, np.where(named, log_loss(true), 0.0), named)
        for pair in zip(truth, answered, strict=True):
            self._add_cell(*pair, 1)
        if self.curve:
            self._add_stated(stated, ~wrong)

    def add_numbers(self, y: Floats, predicted: Floats, bounds: Floats | None = None) -> None:
        """Count numbers (n,), their predictions (n,), and intervals (n, 2), NaN for none."""
        means = np.empty(len(y))
        for i, number in enumerate(y.tolist()):
            means[i] = number
            if self._seen:
                means[i] = self._mean
            self._seen += 1
            step = number - self._mean
            self._mean += step / self._seen
            self._spread += step * (number - self._mean)
        covered = bounded = np.zeros(len(y), dtype=np.bool_)
        if bounds is not None:
            bounded = bounds[:, 0] < bounds[:, 1]  # one number has no spread
            covered = bounded & (bounds[:, 0] <= y) & (y <= bounds[:, 1])
        columns = np.abs(y - predicted), np.square(y - predicted), np.square(y - means)
        some = ~np.isnan(predicted)
        self._add_rows(*(column[some] for column in (*columns, covered, bounded)))

    def _add_rows(self, *columns: ArrayLike) -> None:
        """Add one number per event and sum, in order, to all and to the recent ones."""
        numbers = np.stack([np.ones(len(np.asarray(columns[0]))), *columns])
        self._sums = _accumulate(self._sums, numbers)
        free = BLOCK_EVENTS - int(self._blocks[-1][0])
        self._blocks[-1] = _accumulate(self._blocks[-1], numbers[:, :free])
        rest = numbers[:, free:]
        if rest.size:
            blocks = np.zeros((len(rest), -(-rest.shape[1] // BLOCK_EVENTS), BLOCK_EVENTS))
            blocks.reshape(len(rest), -1)[:, : rest.shape[1]] = rest
            sums = np.add.accumulate(blocks, axis=2)[:, :, -1]
            self._blocks = [*self._blocks, *sums.T.copy()][-MAX_BLOCKS:]

    def _add_cell(self, truth: str, answer: str, count: int) -> None:
        if count:
            self._table.setdefault(truth, Counter())[answer] += count
            self._counts[truth] += count

    def _add_stated(self, stated: Floats, true: NDArray[np.bool_]) -> None:
        n = len(self._bins)
        bins = np.concatenate([np.arange(n), np.minimum((stated * n).astype(np.intp), n - 1)])
        for k, numbers in enumerate((np.ones(len(stated)), stated, true)):
            before_and_now = np.concatenate([self._bins[:, k], numbers])
            self._bins[:, k] = np.bincount(bins, before_and_now)  # adds them in order

    @property
    def events(self) -> int:
        """Number of events counted."""
        return int(self._sums[0])

    @property
    def error(self) -> float:
        """Share of wrong answers; for numbers the root mean squared error."""
        if self.target == "number":
            return self._mean_of("squares") ** 0.5
        return self._mean_of("error")

    @property
    def baseline(self) -> float:
        """Error of the baseline."""
        if self.target == "number":
            return self._mean_of("baseline_squares") ** 0.5
        return self._mean_of("baseline")

    @property
    def log_loss(self) -> float:
        """Mean of -log of the probability given to the true label."""
        return self._mean_of("log_loss")

    @property
    def baseline_log_loss(self) -> float:
        """Log loss of the baseline, two classes only."""
        return self._mean_of("baseline_log_loss")

    @property
    def f1(self) -> float:
        """F1 of the positive label, or the mean F1 of the classes that occurred."""
        if self.target == "two classes":
            return self._f1("1")
        if self._counts:
            return float(np.mean(list(map(self._f1, self._counts))))
        return 0.0

    @property
    def auc(self) -> float | None:
        """Probability that a positive event ranks above a negative one, from 600 bins of log-odds.

        None where one of the labels has not occurred.
        """
        if not self._logits.sum(axis=1).all():
            return None
        negative, positive = self._logits.astype(float)
        below = np.cumsum(negative) - 0.5 * negative
        return float((positive * below).sum() / (positive.sum() * negative.sum()))

    @property
    def label_counts(self) -> Counter[str]:
        """Events of each true label."""
        return self._counts.copy()

    @property
    def calibration(self) -> float | None:
        """Expected calibration error: mean gap of stated and true frequency over bins, by size."""
        if not self.curve:
            return None
        n, stated, true = self._bins.T
        return float(np.abs(stated - true).sum() / max(n.sum(), 1.0))

    def calibration_bins(self) -> list[dict[str, float]]:
        """Mean probability and observed share of the events, by bins of the probability."""
        bins = [row for row in self._bins.tolist() if row[0]]
        return [{"events": n, "predicted": p / n, "observed": y / n} for n, p, y in bins]

    @property
    def positives(self) -> float:
        """Share of events with the positive label, two classes only."""
        return self._counts["1"] / max(self.events, 1)

    @property
    def r2(self) -> float | None:
        """Share of the variance of numbers that is explained; None while they are all equal."""
        squares = float(self._sums[2])
        if self._spread > 0.0:
            return 1.0 - squares / self._spread
        return None

    @property
    def coverage(self) -> float | None:
        """Share of the numbers that lie within their intervals; None where there were none."""
        if self.target == "number" and self._sums[-1]:
            return self._mean_of("covered")
        return None

    def recent(self) -> dict[str, float]:
        """Means over the last 900 to 1,000 events, and how many they are."""
        sums = np.sum(self._blocks, axis=0)
        names = COLUMNS[self.target]
        return {"events": int(sums[0]), **{name: self._mean_of(name, sums) for name in names[1:]}}

    def summary(self) -> dict[str, Any]:
        """All figures by name, as JSON holds them."""
        if self.target == "number":
            errors = {"rmse": self.error, "mae": self._mean_of("absolute"), "r2": self.r2}
            summary = {"events": self.events, **errors, "baseline_rmse": self.baseline}
            if self.coverage is not None:
                summary["coverage"] = self.coverage
            return summary
        figures: dict[str, Any] = {"events": self.events, "error": self.error}
        figures["baseline"] = self.baseline
        if self.target == "classes":
            figures |= {"log_loss": self.log_loss, "f1_macro": self.f1}
            if self.calibration is not None:
                figures["calibration"] = self.calibration
            return {**figures, "table": self._plain_table()}
        names = ("log_loss", "baseline_log_loss", "f1", "auc", "calibration", "positives")
        for name in names:
            figure = getattr(self, name)
            if figure is not None:
                figures[name] = figure
        return figures

    value = summary  # so that a score is a metric

    def line(self) -> str:
        """One line for people, each figure beside that of the baseline."""
        if self.target == "number":
            text = f"RMSE {self.error:.4g} (baseline {self.baseline:.4g})"
            text += f", MAE {self._mean_of('absolute'):.4g}"
            if self.r2 is not None:
                text += f", R2 {self.r2:.3f}"
            if self.coverage is not None:
                text += f", {self.coverage:.1%} within their 90 % intervals"
            return text
        if self.target == "classes":
            text = f"error by events {self.error:.2%} (baseline {self.baseline:.2%})"
            if self._sums[COLUMNS["classes"].index("named")]:
                text += f", log loss {self.log_loss:.3f}"
            return f"{text}, macro F1 {self.f1:.3f}"
        recent = self.recent()
        baseline = f"baseline {self.baseline:.2%}"
        if recent["events"] < self.events:
            baseline += f"; last {recent['events']:,}: {recent['error']:.2%}"
        parts = [
            f"error by events {self.error:.2%} ({baseline})",
            f"log loss {self.log_loss:.3f} (baseline {self.baseline_log_loss:.3f})",
        ]
        if self.auc is not None:
            parts.append(f"AUC {self.auc:.3f}")
        return ", ".join([*parts, f"F1 {self.f1:.3f}"])

    def to_json(self) -> dict[str, Any]:
        """State from which :meth:`from_json` continues."""
        used = np.flatnonzero(self._logits.any(axis=0))
        table = self._plain_table()
        if self.target == "two classes":  # whose order depends on the size of batches
            table = {name: dict(sorted(table[name].items())) for name in sorted(table)}
        groups = []
        if self.curve:
            groups = self._bins.tolist()
        return {
            "target": self.target,
            "sums": self._sums.tolist(),
            "blocks": np.array(self._blocks).tolist(),
            "table": table,
            "moments": [self._mean, self._spread, self._seen],
            "groups": groups,
            "bins": [used.tolist(), *self._logits[:, used].tolist()],
        }

    @classmethod
    def from_json(cls, state: Any) -> "Score":
        """Return the score that continues from :meth:`to_json`.

        Raises ValueError, TypeError or LookupError where no score has such a state.
        """
        score = cls(state["target"], curve=bool(state["groups"]))
        limit = MAX_COUNT
        if score.target == "number":
            limit = MAX_SUM
        width = (len(score._sums),)
        score._sums = _checked(state["sums"], width, limit)
        score._blocks = [_checked(block, width, limit) for block in state["blocks"]]
        if not score._blocks or any(b[0] > BLOCK_EVENTS or b[0] % 1 for b in score._blocks):
            raise ValueError(f"recent blocks hold up to {BLOCK_EVENTS} events: {state['blocks']!r}")
        for truth, row in state["table"].items():
            for answer, count in row.items():
                score._add_cell(truth, answer, int(_checked(count, (), MAX_COUNT)))
        mean, spread, seen = state["moments"]
        score._seen = int(_checked(seen, (), MAX_COUNT))
        size = float(_checked(abs(mean), (), MAX_SUM))
        score._mean = math.copysign(size, mean)
        score._spread = float(_checked(spread, (), MAX_SUM))
        if score.curve:
            score._bins = _checked(state["groups"], score._bins.shape, MAX_COUNT)
        used, *counts = state["bins"]
        bins = _checked(used, (len(used),), AUC_BINS - 1).astype(np.intp)
        score._logits[:, bins] = _checked(counts, (2, len(used)), MAX_COUNT)
        return score

    def _mean_of(self, name: str, sums: Floats | None = None) -> float:
        """Return the mean of a column, over all events or by other ``sums``."""
        if sums is None:
            sums = self._sums
        columns = dict(zip(COLUMNS[self.target], sums.tolist(), strict=True))
        events = columns.get(COUNTED_BY.get(name, "events"), columns["events"])
        return float(columns[name] / max(events, 1.0))

    def _plain_table(self) -> dict[str, dict[str, int]]:
        """Return counts by true label and answer."""
        return {name: dict(row) for name, row in self._table.items()}

    def _f1(self, name: str) -> float:
        hits = 2 * self._table.get(name, Counter())[name]
        answered = sum(map(itemgetter(name), self._table.values()))
        return hits / max(self._counts[name] + answered, 1)


def most_likely(scores: Floats) -> NDArray[np.intp]:
    """Class (n,) of the largest score; of equal ones the last, as a margin of 0 answers +1.

    >>> most_likely(np.array([[0.0, 0.0, -1.0]]))
    array([1])
    """
    return scores.shape[1] - 1 - np.argmax(scores[:, ::-1], axis=1)


def log_loss(probabilities: Floats) -> Floats:
    """-log of probabilities (n,) given to what came true, at most 34.5."""
    return -np.log(np.maximum(probabilities, MIN_PROBABILITY))


def _accumulate(sums: Floats, numbers: Floats) -> Floats:
    """Add numbers (k, n) to sums (k,) in turn: bits do not depend on how events are cut."""
    total = np.add.accumulate(np.concatenate([sums[:, None], numbers], axis=1), axis=1)
    return total[:, -1].copy()


def _logit_bin(probabilities: Floats) -> NDArray[np.intp]:
    """Bin of each probability in equal steps of its log-odds, fine for rare positives."""
    p = np.clip(probabilities, MIN_PROBABILITY, 1.0 - MIN_PROBABILITY)
    logit = np.clip(np.log(p / (1.0 - p)), -MAX_LOGIT, MAX_LOGIT)
    steps = (logit + MAX_LOGIT) * (AUC_BINS / (2 * MAX_LOGIT))
    return np.minimum(steps.astype(np.intp), AUC_BINS - 1)


def _signs(model: Any, labels: Sequence[Any]) -> Floats:
    """-1 or +1 for each label (n,); NaN where the model does not know it."""
    numbers: dict[Any, float] = {}
    for label in set(labels):
        with suppress(ValueError):
            numbers[label] = model.engine.target.number_of(label)
    return np.array(list(map(numbers.get, labels)), dtype=np.float64)


def _checked(numbers: Any, shape: tuple[int, ...], limit: float) -> Floats:
    """Sums read from a file; ValueError unless they have this shape and lie in 0 .. limit."""
    array = np.array(numbers)
    if array.shape != shape or array.dtype.kind not in "fiu":
        raise ValueError(f"expected numbers of shape {shape}, not {numbers!r}")
    if not ((array >= 0) & (array <= limit)).all():
        raise ValueError(f"expected numbers from 0 to {limit:g}, not {numbers!r}")
    return array.astype(np.float64)
