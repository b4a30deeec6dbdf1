"""Learning under a budget: of a labelled stream only labels that are asked for are looked at."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, final

import numpy as np

from romco.kernels.io.encoded import Encoded
from romco.labels.audit import AUDIT_KEY, Audit
from romco.model import Model
from romco.model.answers import Answers
from romco.model.names import Id


@final
class Asking:
    """A model that learns only the labels that its policy asks for; of other rows their sizes.

    Events are predicted, asked for and learned one after the other. Labels that were asked for by
    chance alone are an audit: what they tell of all predictions is kept in the model's memory.

    >>> from romco.labels import Budget
    >>> asking = Asking(Model(classes=("no", "yes"), labels=Budget(0.5, advance=0, seed=0)))
    >>> rows = [{"a": 1.0}, {"b": 1.0}] * 20
    >>> answers = asking.predict_and_learn(rows, ["yes", "no"] * 20, ["ann"] * 40)
    >>> asking.model.events == asking.policy.spent <= 21
    True
    """

    def __init__(self, model: Model) -> None:
        if model.labels is None or model.target != "two classes":
            raise ValueError("expected a model of two classes with a policy that asks for labels")
        self.model, self.policy = model, model.labels
        self.audit = Audit.of(model.session)

    @property
    def session(self) -> dict[str, Any]:
        """What is kept in the file to go on by."""
        return self.model.session

    @property
    def positive(self) -> Id | None:
        """The label that a margin above 0 speaks for."""
        return self.model.positive

    def label_of(self, margin: float) -> Id:
        """The label that a margin predicts."""
        found: Id = self.model.label_of(margin)
        return found

    def side(self, label: Any) -> float:
        """-1 or +1."""
        return self.model.side(label)

    def predict_and_learn(
        self, x: Any, y: Iterable[Any], task: Iterable[Any], *, weight: Any = None
    ) -> Answers:
        """What was predicted of events; those asked for are then learned, the others noticed."""
        if weight is not None:
            raise ValueError(
                "a model that asks for labels does not learn the weights of a file yet: "
                "leave them out, or learn all labels"
            )
        labels, tasks = list(y), list(task)
        self.model.check(x, labels, tasks)  # all of it, before any is learned
        parts = [
            self._one(row, label, one)
            for row, label, one in zip(_singly(x, len(labels)), labels, tasks, strict=True)
        ]
        self.model.session[AUDIT_KEY] = self.audit.state()
        margins, chances = np.array(parts).T if parts else np.empty((2, 0))
        return Answers(margins, chances)

    def told(self) -> str:
        """Labels spent, and what they tell of all predictions."""
        return self.audit.describe(self.policy)

    def _one(self, x: Any, y: Any, task: Any) -> tuple[float, float]:
        model = self.model
        margins = model.margins(x, [task])
        chance = model.probability_of(margins)
        number = model.numbers([task])
        if self.policy.choose(number, _log_odds(chance))[0]:
            model.learn(x, [y], [task])
            if self.policy.audited[0]:
                number = model.numbers([task])
                side = np.array([model.side(y)])
                self.audit.add_answers(number, side, _log_odds(chance, margins))
        else:
            model.notice(x, [task])
        return float(margins[0]), float(chance[0])


def _log_odds(chance: Any, margins: Any = None) -> Any:
    """Log-odds of probabilities, of the sign of the margins where these are given."""
    clipped = np.clip(chance, 1e-300, 1.0 - 1e-16)
    odds = np.log(clipped) - np.log1p(-clipped)
    return odds if margins is None else np.where(margins >= 0.0, np.abs(odds), -np.abs(odds))


def _singly(x: Any, n: int) -> Iterable[Any]:
    """The rows of a block of a file, of a list or of an array, each as a batch of one."""
    if isinstance(x, Encoded):
        return (x.rows(i, i + 1) for i in range(n))
    return (x[i : i + 1] for i in range(n))
