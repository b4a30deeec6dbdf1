"""Passes over rows: in which order, and how often or how much each row counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romco.kernels.io.encoded import Encoded
from romco.kernels.io.mappings import hash_name
from romco.model import Model
from romco.model.features import select_rows
from romco.parameters import whole

Numbers = NDArray[np.float64]
Rows = NDArray[np.intp]
SEVERAL = 5  # passes, where more than one is allowed and nothing is said
MOST_COPIES = 100  # on average, that a row of whole weight is learned as


def weights_of_rows(sample_weight: Any, n: int, y: Any = None, class_weight: Any = None) -> Any:
    """How much each of n rows counts: its own weight times that of its class; None if all one.

    >>> weights_of_rows([1, 2], 2, ["a", "b"], {"b": 3.0})
    array([1., 6.])
    """
    if sample_weight is None and class_weight is None:
        return None
    weight = np.ones(n) if sample_weight is None else _checked(sample_weight, n)
    return weight if class_weight is None else weight * _of_classes(class_weight, y)


def epochs_of(asked: int | None, model: Model) -> int:
    """How often to go over the rows: as asked, else as the learner's mathematics allows.

    Raises ValueError where more than one pass is asked of a learner that takes each row as
    evidence: rows would count several times, and its probabilities would be too sure.
    """
    once = model.engine.learner.one_pass
    if asked is None:
        return 1 if once else SEVERAL
    if whole("epochs", asked) > 1 and once:
        raise ValueError(
            f"epochs={asked}: this learner takes each row as new evidence, so that a second pass "
            "would count it twice; leave epochs out, or choose another learner, as romco-nucl"
        )
    return asked


def passes(
    model: Model,
    X: Any,
    y: NDArray[Any],
    task: list[Any],
    weight: Numbers | None,
    epochs: int,
    random: np.random.RandomState | None,
) -> None:
    """Let a model learn rows ``epochs`` times over, in random order if there is a ``random``.

    What is learned depends then on the set of rows, not on the order in which they are given, and
    a row of weight 2 is a row given twice. The model counts rows, however often it went over them.
    """
    if weight is not None and not (weight > 0.0).any():
        raise ValueError("every row has weight 0: nothing is left to learn")
    if weight is None and random is None and epochs == 1:
        model.learn(X, y, task)
        return
    rows = np.arange(len(y)) if random is None else _canonical(X, y, task)
    rows, part = _copies(rows, weight, model.engine.learner.weighs, random)
    for _ in range(epochs):
        order = rows if random is None else rows[turn := random.permutation(len(rows))]
        parts = part if part is None or random is None else part[turn]
        model.learn(select_rows(X, order), y[order], [task[i] for i in order], weight=parts)
    if epochs > 1:
        model.engine.count_once(epochs)


def _canonical(X: Any, y: NDArray[Any], task: list[Any]) -> Rows:
    """Rows in an order that does not depend on how they are given: along a fixed direction."""
    number = {name: i for i, name in enumerate(sorted(set(task), key=str))}
    labels = np.unique(y, return_inverse=True)[1]
    tasks = np.array([number[name] for name in task])
    return np.lexsort([_projected(X), labels, tasks])


def _projected(X: Any) -> Numbers:
    """Return rows (n,) along a fixed direction."""
    if not isinstance(X, Encoded):
        return np.asarray(X @ np.random.default_rng(0).normal(size=X.shape[1]))
    names = X.lexicon.names
    weights = np.array([(hash_name(name) >> 11) / 2**53 - 0.5 for name in names])
    rows = np.repeat(np.arange(len(X.starts) - 1), np.diff(X.starts))
    products = X.values * weights[X.names] if len(names) else X.values
    sums: Numbers = np.bincount(rows, products, minlength=len(X.starts) - 1)
    return sums


def _copies(
    rows: Rows, weight: Numbers | None, able: bool, random: np.random.RandomState | None
) -> tuple[Rows, Numbers | None]:
    """Rows as often as they count, where that is a whole number; else with what they count.

    For a learner that cannot weigh, parts of a copy are given or not by chance, in proportion.
    """
    if weight is None:
        return rows, None
    weight = weight[rows]
    whole = np.floor(weight)
    if (whole == weight).all() and weight.sum() <= MOST_COPIES * len(weight):
        return np.repeat(rows, whole.astype(np.intp)), None
    if random is None:
        return rows[weight > 0.0], weight[weight > 0.0]
    if able:  # a heavy row in many small steps, as its copies would be, not in one large one
        times = np.minimum(np.ceil(weight), MOST_COPIES).astype(np.intp)
        return np.repeat(rows, times), np.repeat(weight / np.maximum(times, 1), times)
    weight *= min(1.0, MOST_COPIES * len(weight) / weight.sum())
    whole = np.floor(weight) + (random.random_sample(len(weight)) < weight % 1.0)
    return np.repeat(rows, whole.astype(np.intp)), None


def _checked(sample_weight: Any, n: int) -> Numbers:
    from sklearn.utils.validation import _check_sample_weight

    found: Numbers = _check_sample_weight(
        sample_weight, np.empty((n, 1)), dtype=np.float64, ensure_non_negative=True
    )
    return found


def _of_classes(class_weight: Any, y: Any) -> Numbers:
    """What the class of each row counts: by label, or "balanced"."""
    labels, number, count = np.unique(y, return_inverse=True, return_counts=True)
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise ValueError(f"class_weight must be 'balanced' or a mapping; got {class_weight!r}")
        return np.asarray(len(number) / (len(labels) * count))[number]
    if not isinstance(class_weight, Mapping):
        raise ValueError(f"class_weight must be 'balanced' or a mapping; got {class_weight!r}")
    found = np.array([float(class_weight.get(label, 1.0)) for label in labels.tolist()])
    if not (np.isfinite(found) & (found >= 0.0)).all():
        raise ValueError(f"weights of classes must be 0 or positive; got {dict(class_weight)}")
    return found[number]
