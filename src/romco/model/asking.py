"""Labels that cost: a model's policy asks for some of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from romco.labels import Policy
from romco.model.batches import many
from romco.model.rows import Dense
from romco.rounds import Round


class Predicts(Protocol):
    """What a policy must hear of events."""

    @property
    def target(self) -> str:
        """What is predicted."""

    def numbers(self, tasks: Iterable[Any]) -> NDArray[np.int64]:
        """Of the tasks."""

    def margins(self, x: Any, task: Iterable[Any]) -> Dense:
        """Of rows."""

    def intervals(self, x: Any, task: Iterable[Any], level: float) -> Dense:
        """Bounds of rows."""


def ask(policy: Policy | None, model: Predicts, x: Any, task: Iterable[Any]) -> NDArray[np.bool_]:
    """Whose labels to ask for, (n,): by margins, or by the widths of a number's intervals."""
    if policy is None:
        raise ValueError(
            "this model has no policy that asks for labels: give it one, "
            "Model(labels=romco.labels.Budget(0.05)), or set model.labels"
        )
    numbers = model.numbers(many(task))
    nothing = np.full(len(numbers), np.nan)
    round = Round(numbers, np.zeros((len(numbers), 1)), nothing)
    if model.target == "number":
        widths = np.diff(model.intervals(x, task, 0.5), axis=1)[:, 0]
        return policy.ask_by_width(round, widths)
    return policy.ask(round, model.margins(x, task))
