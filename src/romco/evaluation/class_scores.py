"""The score of many classes by name: new ones may come at any time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, final

import numpy as np
from numpy.typing import NDArray

from romco.evaluation.baselines import majority
from romco.evaluation.classes import ClassTable, LogLoss, likeliest
from romco.evaluation.sums import put_away
from romco.model.names import Id, canonical_name
from romco.model.target import Predictions
from romco.rounds import Round

Numbers = NDArray[np.float64]


class Classifies(Protocol):
    """Who knows what the classes are called."""

    @property
    def classes(self) -> tuple[Id, ...]:
        """The labels, in the order in which probabilities are given."""

    @property
    def engine(self) -> Any:
        """The engine of a model, or whatever has its methods."""


@final
class ClassScore:
    """Which label was answered for which, and how likely the true ones were.

    The baseline answers the label that was the most frequent so far.

    >>> score = ClassScore()
    >>> round = Round(np.array([0, 0]), np.eye(2), np.array([2.0, 0.0]))
    >>> score.add(round, np.log([[0.1, 0.2, 0.7], [0.3, 0.4, 0.3]]))
    >>> score.summary()["error"], score.summary()["table"]
    (0.5, {'2': {'2': 1}, '0': {'1': 1}})
    """

    kind = "classes"

    def __init__(self) -> None:
        self.table, self.loss = ClassTable(0), LogLoss()
        self.came: Counter[str] = Counter()  # how often each label was the true one
        self.usual = 0  # errors of the baseline
        self._places: dict[str, int] = {}  # of the labels, in the table

    def add(self, round: Round, scores: Numbers) -> None:
        """Count a round whose y are class numbers, with log-probabilities (n, K).

        Parameters
        ----------
        round:
            Events with their answers y (n,): class numbers.
        scores:
            What was predicted of them before: log-probabilities (n, K).

        """
        names = [str(int(y)) for y in round.y]
        at = np.arange(len(names)), round.y.astype(np.intp)
        self._add(names, map(str, likeliest(scores).tolist()), np.exp(scores[at]))

    def count(self, model: Classifies, labels: Sequence[Any], answers: Predictions) -> None:
        """Count events in order, before which ``answers`` were given.

        Parameters
        ----------
        model:
            Who knows what the classes are called, as a model of classes does.
        labels:
            The true answers (n,), as the model calls them.
        answers:
            What the model's ``predict_and_learn`` gave for them.

        """
        place = {canonical_name(label): i for i, label in enumerate(model.classes)}
        at = np.arange(len(labels)), [place[canonical_name(label)] for label in labels]
        answered = (
            str(canonical_name(answer)) for answer in model.engine.labels_of(answers.margins)
        )
        self._add(
            [str(canonical_name(label)) for label in labels], answered, answers.probabilities[at]
        )

    def _add(self, truth: list[str], answered: Iterable[str], chances: Numbers) -> None:
        usual = majority(truth, self.came)
        self.usual += sum(one != other for one, other in zip(usual, truth, strict=True))
        self.table.add_answers(self._numbers(truth), self._numbers(answered))
        self.loss.add_chances(chances)

    def _numbers(self, labels: Iterable[str]) -> NDArray[np.intp]:
        places = self._places
        return np.array([places.setdefault(k, len(places)) for k in labels], dtype=np.intp)

    @property
    def events(self) -> int:
        """How many were counted."""
        return self.came.total()

    def value(self) -> dict[str, Any]:
        """All of it by name.

        Returns
        -------
        :
            By name; JSON can hold it.

        """
        return self.summary()

    def summary(self) -> dict[str, Any]:
        """All of it by name, as every output has it.

        Returns
        -------
        :
            By name; JSON can hold it.

        """
        n, found = max(self.events, 1), self.table.value()
        return {
            "events": self.events,
            "error": found["error"] if self.events else 1.0,
            "baseline": self.usual / n,
            "log_loss": self.loss.total / n,
            "f1_macro": found["f1_macro"] if self.events else 0.0,
            "table": self._by_name(),
        }

    def _by_name(self) -> dict[str, dict[str, int]]:
        """The table: truth, answers."""
        counts, places = self.table.counts, self._places
        labels = [*self.came, *sorted(places.keys() - self.came.keys())]
        rows = {label: counts[places[label]] for label in self.came}
        return {
            label: {other: int(row[places[other]]) for other in labels if row[places[other]]}
            for label, row in rows.items()
        }

    def line(self) -> str:
        """For people.

        Returns
        -------
        :
            One line.

        """
        s = self.summary()
        return (
            f"error {s['error']:.2%} (baseline {s['baseline']:.2%}), log loss {s['log_loss']:.3f}, "
            f"macro F1 {s['f1_macro']:.3f}"
        )

    def to_json(self) -> dict[str, Any]:
        """Everything needed to go on counting.

        Returns
        -------
        :
            What :meth:`from_json` reads; JSON can hold it.

        """
        told = {"table": self._by_name(), "loss": self.loss.total, "usual": self.usual}
        return {"kind": self.kind, **told}

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> ClassScore:
        """What :meth:`to_json` wrote.

        Parameters
        ----------
        found:
            What :meth:`to_json` gave.

        Returns
        -------
        :
            A score that goes on counting.

        """
        score, pairs = cls(), [(k, j) for k, row in found["table"].items() for j in row]
        counts = put_away([found["table"][k][j] for k, j in pairs], (len(pairs),))
        truth = score._numbers(k for k, _ in pairs)
        answer = score._numbers(j for _, j in pairs)
        score.table.add_answers(truth, answer)
        score.table.counts[truth, answer] = counts
        score.came = Counter({k: int(sum(row.values())) for k, row in found["table"].items()})
        total, usual = put_away([found["loss"], found["usual"]], (2,)).tolist()
        score.loss.total, score.loss.n = total, score.events
        score.usual = int(usual)
        return score
