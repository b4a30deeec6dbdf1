"""The score of a model, whatever it predicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from romco.evaluation.class_scores import ClassScore
from romco.evaluation.numbers import NumberErrors
from romco.evaluation.two_classes import TwoClassScore
from romco.model import Model
from romco.model.target import Predictions


class Score(Protocol):
    """A metric that also counts events by their names, and can be put away and taken up again."""

    def count(self, model: Any, labels: Sequence[Any], answers: Predictions) -> None:
        """Count events in order, before which ``answers`` were given."""

    @property
    def events(self) -> int:
        """How many were counted."""

    def summary(self) -> dict[str, Any]:
        """All of it by name, as every output has it."""

    def line(self) -> str:
        """For people."""

    def to_json(self) -> Any:
        """Everything needed to go on counting."""


def score_of(model: Any, found: Any = None, curve: bool = True) -> Score:
    """The score of what a model predicts, as far as it got; without a ``curve`` it takes less room.

    >>> score_of(Model(target="number")).summary()["rmse"]
    0.0
    """
    if not isinstance(model, Model) or model.engine.target.kind == "two classes":
        return TwoClassScore.from_json(found) if found else TwoClassScore(curve=curve)
    kind = ClassScore if model.engine.target.kind == "classes" else NumberErrors
    return kind.from_json(found) if found else kind()
