"""Verdict of a comparison: what knowing the task is worth, and what sharing adds to that."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from romco.compare.controls import ENGINE, FREQUENCY, IGNORE_TASK, KNOW_TASK, REFITTED
from romco.compare.refitted import groups
from romco.compare.results import Row
from romco.typing import Floats

MIN_GAIN = 0.01  # smaller parts of the loss are no difference worth speaking of
MIN_CLUSTERS = 20  # tasks from which on they are the units of the interval
TIME_BLOCKS = 20  # units where tasks are fewer: blocks of the file
MIN_TASK_EVENTS = 20  # below, nothing is said of a single task
NO_BATCH = (
    "The table is too large to fit scikit-learn's regressions and LightGBM again and again: "
    "these may still be better."
)
NO_SCORE = "Nothing can be compared: no label came a second time, so none could be predicted"
ONE_TASK = "All events are of one task: there is nothing to share"


@dataclass(frozen=True)
class Gain:
    """Part of the loss that the first of two rows saves, with its 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def sign(self) -> int:
        """1 or -1 if the interval excludes 0 and the difference is at least 1 %, else 0."""
        clear = (self.low > 0.0 or self.high < 0.0) and abs(self.value) >= MIN_GAIN
        if clear:
            return int(np.sign(self.value))
        return 0

    @property
    def words(self) -> str:
        """Describe the difference for a sentence."""
        side = {1: "less", -1: "more"}
        if not self.sign:
            return "no clear difference"
        return f"{self} {side[self.sign]}"

    def __str__(self) -> str:
        low, high = sorted((abs(self.low), abs(self.high)))
        if self.low < 0.0 < self.high:
            return f"{self.value:+.1%} [{self.low:+.1%}, {self.high:+.1%}]"
        return f"{abs(self.value):.1%} [{low:.1%}, {high:.1%}]"


@dataclass(frozen=True)
class TaskGain:
    """Loss of one task without and with sharing."""

    task: str
    events: int
    before: float
    after: float
    error: float  # standard error of the difference

    @property
    def sign(self) -> int:
        """1 for a clear gain, -1 for a clear loss, else 0."""
        difference = self.before - self.after
        if abs(difference) <= 2.0 * self.error:
            return 0
        return int(np.sign(difference))


@dataclass(frozen=True)
class Verdict:
    """Title, sentences, and the rows they speak of."""

    title: str
    sentences: tuple[str, ...]
    without_task: Row  # best row that ignores the task
    with_task: Row  # best row that knows the task and does not share
    sharing: Row  # ROMCO-Auto

    @property
    def text(self) -> str:
        """Title and sentences in one line."""
        return " ".join([f"{self.title}.", *self.sentences])

    @property
    def reference(self) -> Row:
        """Best row without sharing."""
        return min((self.without_task, self.with_task), key=lambda row: row.loss)


def gain(new: Row, old: Row) -> Gain:
    """Compare two rows on the same events.

    The interval adds the variance between shuffles to that between tasks (between 20 blocks of
    the file where tasks are fewer than 20).
    """
    differences = old.losses - new.losses  # (shuffles, n)
    mean, half = _interval(differences, old.task)
    saved = np.array([mean, mean - half, mean + half]) / max(old.loss, 1e-300)
    if old.stream["answers"] == 0:  # of the RMSE, not of its square
        saved = 1.0 - np.sqrt(np.maximum(0.0, 1.0 - saved))
    return Gain(*saved.tolist())


def _interval(differences: Floats, task: NDArray[np.int64]) -> tuple[float, float]:
    """Mean and half the width of its 95 % interval, from differences (shuffles, n)."""
    by_shuffle = np.ma.masked_invalid(differences).mean(axis=1).filled(0.0)
    each = _over_shuffles(differences)
    scored = ~np.isnan(each)
    each = np.where(scored, each, 0.0)
    unit, n = _units(task)
    counts = np.bincount(unit, weights=scored, minlength=n)
    mean = float(each.sum() / max(counts.sum(), 1.0))
    residuals = np.bincount(unit, weights=each, minlength=n) - mean * counts
    variance = n / max(n - 1, 1) * np.square(residuals).sum() / max(counts.sum(), 1.0) ** 2
    if len(by_shuffle) > 1:
        variance += by_shuffle.var(ddof=1) / len(by_shuffle)
    return mean, float(student.ppf(0.975, max(n - 1, 1)) * np.sqrt(variance))


def _over_shuffles(losses: Floats) -> Floats:
    """Mean (n,) over shuffles; NaN where none counts."""
    return np.ma.masked_invalid(losses).mean(axis=0).filled(np.nan)


def _units(task: NDArray[np.int64]) -> tuple[NDArray[np.intp], int]:
    """Number (n,) of the cluster of each event, and how many there are."""
    tasks = np.unique(task)
    n = len(task)
    if len(tasks) >= MIN_CLUSTERS:
        return np.searchsorted(tasks, task), len(tasks)
    blocks = min(TIME_BLOCKS, n)
    return np.arange(n) * blocks // n, blocks


def verdict(table: Sequence[Row]) -> Verdict:
    """Judge a comparison; ``table`` has all controls and ROMCO-Auto."""
    by_name = {row.name: row for row in table if not row.failed}
    frequency = by_name[FREQUENCY]
    sharing = by_name[ENGINE]
    without_task = _best(list(filter(None, map(by_name.get, IGNORE_TASK))))
    with_task = _best(list(filter(None, map(by_name.get, KNOW_TASK))))
    measure = "log loss"
    if frequency.stream["answers"] == 0:
        measure = "RMSE"
    if np.isinf(frequency.loss):
        return Verdict(NO_SCORE, (), without_task, with_task, sharing)
    if len(frequency.stream["tasks"]) == 1:
        best_text = f"Best: {_figure(without_task, measure)}."
        return Verdict(ONE_TASK, (best_text,), without_task, with_task, sharing)
    best = _best([without_task, with_task, sharing])
    worth = gain(with_task, without_task)
    added = gain(sharing, _best([without_task, with_task]))
    sentences = [
        f"Without the task the best is {_figure(without_task, measure)}; with it, but without "
        f"sharing, {_figure(with_task, measure)}: {worth.words}.",
        f"{_figure(sharing, measure)} shares between tasks: {added.words}.",
    ]
    if added.sign > 0 and REFITTED not in by_name:
        sentences.append(NO_BATCH)
    if gain(best, frequency).sign <= 0:
        title = f"No clear difference: nothing is sure to beat the {frequency.title.lower()}"
    elif added.sign > 0:
        title = f"Sharing between tasks lowers the {measure} by {added.value:.0%}"
    elif added.sign < 0:
        title = f"Sharing does not help here: {_best([without_task, with_task]).title} is better"
    elif gain(_best([with_task, sharing]), without_task).sign > 0:
        title = "Knowing the task helps; sharing between tasks makes no clear difference"
    else:
        title = "No clear difference: neither the task nor sharing is sure to help"
    return Verdict(title, tuple(sentences), without_task, with_task, sharing)


def task_gains(result: Verdict) -> list[TaskGain]:
    """Gain of each task with at least 20 events, the largest part of its loss first."""
    before, after = result.reference, result.sharing
    task = before.task
    old = _over_shuffles(before.losses)
    new = _over_shuffles(after.losses)
    gains = []
    for members in groups(task):
        members = members[~np.isnan(old[members])]
        if len(members) < MIN_TASK_EVENTS:
            continue
        difference = old[members] - new[members]
        gains.append(
            TaskGain(
                str(before.stream["tasks"][task[members[0]]]),
                len(members),
                float(old[members].mean()),
                float(new[members].mean()),
                float(difference.std(ddof=1) / np.sqrt(len(members))),
            )
        )
    return sorted(gains, key=lambda one: one.after / max(one.before, 1e-300))


def _best(some: Sequence[Row]) -> Row:
    return min(some, key=lambda row: row.loss)


def _figure(row: Row, measure: str) -> str:
    return f"{row.title} ({measure} {row.measure_text})"
