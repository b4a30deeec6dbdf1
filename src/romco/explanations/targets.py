"""What speaks for each of many classes, or makes a number larger: features, in sentences."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from romco.learners import Learner
from romco.model import Model

Numbers = NDArray[np.float64]
TOLD = 10  # classes
FEATURES = 3  # of each


def spoken_for(learner: Learner, model: Model | None) -> list[str]:
    """The largest weights, on average over the known tasks; nothing for two classes.

    >>> import romco
    >>> model = romco.Model(target="number")
    >>> x = [{"a": float(k % 3), "b": float(k % 2)} for k in range(40)]
    >>> _ = model.learn(x, [5.0 * row["a"] for row in x], ["ann"] * 40)
    >>> [line] = spoken_for(model.engine.learner, model)
    >>> line.startswith("What moves the number most, on average over tasks: a +")
    True
    """
    if model is None or model.engine.target.kind == "two classes" or not len(model.tasks):
        return []
    W = learner.weights()[: model.features.width, model.engine.numbers(model.tasks)].mean(axis=1)
    if model.engine.target.kind == "number":
        return [f"What moves the number most, on average over tasks: {_largest(model, W)}."]
    counted = list(enumerate(model.classes))[: W.shape[1]]
    lines = [f"Speaks for {label}: {_largest(model, W[:, k])}." for k, label in counted[:TOLD]]
    more = len(counted) - TOLD
    return [*lines, f"And {more:,} more classes."] if more > 0 else lines


def _largest(model: Model, w: Numbers) -> str:
    order: list[Any] = np.argsort(-np.abs(w), kind="stable")[:FEATURES].tolist()
    told = [f"{model.features.name(j)} {w[j]:+.2g}" for j in order if w[j] != 0.0]
    return ", ".join(told) or "nothing yet"
