"""Labels that cost, in the convention of River's ``active`` module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

try:
    from river import active
except ModuleNotFoundError as missing:
    raise ImportError("this sampler needs River: pip install 'romco[river]'") from missing

from romco.labels import Audit, Budget

NOBODY = np.zeros(1, dtype=np.int64)


class BudgetSampler(active.base.ActiveLearningClassifier):
    """Asks for labels under a budget: ``predict_one`` gives the label, and whether to ask for it.

    As River's samplers, around any of its classifiers, with a promise that they do not make: see
    :class:`romco.labels.Budget`. Keywords such as ``task=`` go to the classifier, in ``learn_one``
    too, which River's own samplers leave out: there name the task by ``task_column``. What is
    learned of events asked for by chance alone tells the ``error`` of all predictions.

    Parameters
    ----------
    classifier
        The classifier to wrap.
    share
        Part of the events whose labels may be asked for.
    advance
        Labels that may be asked for early.
    audit
        Part of the labels that are asked for by chance alone.
    seed
        Of what chance decides.

    Examples
    --------
    >>> from romco.adapters.river import ROMCOClassifier
    >>> from romco.adapters.river_labels import BudgetSampler

    >>> model = BudgetSampler(ROMCOClassifier(), share=0.3, advance=10, seed=1)
    >>> asked = 0
    >>> for price in [1, 9, 2, 8, 3, 7] * 20:
    ...     label, ask = model.predict_one({"price": price}, task="north")
    ...     if ask:
    ...         asked += 1
    ...         model.learn_one({"price": price}, price > 5, task="north")
    >>> asked <= 0.3 * 120 + 1
    True

    """

    def __init__(
        self,
        classifier: Any,
        share: float = 0.05,
        advance: int = 100,
        audit: float = 0.1,
        seed: int | None = None,
    ) -> None:
        super().__init__(classifier, seed=seed)
        self.share, self.advance, self.audit = share, advance, audit
        self._policy = Budget(share, advance, audit, seed)
        self._audit = Audit()
        self._said: Mapping[Any, float] | None = None  # of the last event, if it is an audit

    @property
    def spent(self) -> int:
        """Labels asked for so far."""
        return self._policy.spent

    @property
    def error(self) -> Any:
        """Error of all predictions with its 95 % interval; None before anything is known."""
        return self._audit.error()

    def _ask_for_label(self, x: Mapping[Any, Any], y_pred: Mapping[Any, float]) -> bool:
        chances = np.fromiter(y_pred.values(), dtype=np.float64) if y_pred else np.ones(1)
        if len(chances) < 2:
            chances = np.array([0.5, 0.5])  # one label is known, or none: anything may come
        with np.errstate(divide="ignore"):
            asked = bool(self._policy.choose(NOBODY, np.log(chances)[None])[0])
        self._said = y_pred if self._policy.audited[0] else None
        return asked

    def learn_one(self, x: dict[Any, Any], y: Any, **kwargs: Any) -> None:
        """Learn the label of the event predicted last, or of any other.

        Parameters
        ----------
        x:
            Features by name.
        y:
            The label.
        kwargs:
            Handed on to the classifier, such as ``task=``.

        """
        said, self._said = self._said, None
        if said is not None:
            wrong = not said or max(said, key=lambda label: said[label]) != y
            chance = max(said.get(y, 0.0), 1e-15) if said else 0.5
            self._audit.add(0, float(wrong), float(-np.log(chance)))
        self.classifier.learn_one(x, y, **kwargs)

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from river import linear_model

        yield {"classifier": linear_model.LogisticRegression(), "seed": 1}
