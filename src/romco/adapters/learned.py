"""What an estimator has learned, as scikit-learn's fitted attributes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romco.explanations.explanation import TaskWeights
from romco.learners import Learner
from romco.learners.capabilities import Decomposed, personal_of, shared_of
from romco.model import Model
from romco.model.engine import predict
from romco.model.features import Sparse

Numbers = NDArray[np.float64]


class Learned:
    """Attributes that are read off ``model_`` when they are asked for (abstract).

    Each is read between two steps of the learner, whatever other threads do.
    """

    model_: Model

    @property
    def tasks_(self) -> NDArray[Any]:
        """Names of the tasks (m,)."""
        return _listed(self._model().tasks)

    @property
    def coef_(self) -> Numbers:
        """W as one row per task (m, d): answers are X @ coef_[i] + intercept_[i] for task i.

        Absent (AttributeError) where a learner's answers are not that, as the default's.
        """
        turn = self._model().engine.turn
        return self._rows(lambda learner: turn * _linear(learner).weights())

    @property
    def intercept_(self) -> Numbers:
        """What is answered to a row of zeros, for each task (m,); absent where coef_ is."""
        model = self._model()
        with model.engine.at_rest() as learner:
            numbers = model.engine.numbers(model.tasks)
            zeros = Sparse(np.empty(0), np.empty(0, np.int32), np.zeros(len(numbers) + 1, np.int32))
            return model.engine.turn * predict(_linear(learner), zeros, numbers)

    @property
    def shared_(self) -> Numbers:
        """U as one row per task (m, d)."""
        return self._rows(lambda learner: shared_of(_decomposed(learner)))

    @property
    def personal_(self) -> Numbers:
        """V as one row per task (m, d)."""
        return self._rows(lambda learner: personal_of(_decomposed(learner)))

    @property
    def singular_values_(self) -> Numbers:
        """Of U, largest first."""
        return self._parts().spectrum

    @property
    def personal_norms_(self) -> Numbers:
        """Length of each task's row of V (m,)."""
        return self._parts().personal()

    def _rows(self, read: Callable[[Learner], Numbers]) -> Numbers:
        """What is read of the learner, (d, m), as one row per task (m, d); so for each class."""
        model = self._model()
        with model.engine.at_rest() as learner:
            return read(learner).T[..., model.engine.numbers(model.tasks), :]

    def _parts(self) -> TaskWeights:
        model = self._model()
        with model.engine.at_rest() as learner:
            _decomposed(learner)
            return TaskWeights.of(learner, model.engine.numbers(model.tasks))

    def _model(self) -> Model:
        if "model_" not in self.__dict__:
            raise AttributeError(f"this {type(self).__name__} is not fitted yet: call fit first")
        return self.model_

    def __sklearn_is_fitted__(self) -> bool:
        return "model_" in self.__dict__


def _linear(learner: Learner) -> Learner:
    if not learner.linear:
        parts = (
            "; shared_ and personal_ for what was learned"
            if isinstance(learner, Decomposed)
            else ""
        )
        raise AttributeError(
            f"answers of {learner.name} are not X @ coef_ + intercept_, so there are none: see "
            f"reasons(X, task), or romco.reasons(model_, x, task), for what features add{parts}"
        )
    return learner


def _decomposed(learner: Learner) -> Decomposed:
    if not isinstance(learner, Decomposed):
        raise AttributeError(f"{learner.name} does not keep shared and personal parts apart")
    return learner


def _listed(names: list[Any]) -> NDArray[Any]:
    """Names as an array of their own kind, or of objects if they are mixed."""
    if len({type(name) for name in names}) == 1 and not isinstance(names[0], tuple):
        return np.array(names)
    array = np.empty(len(names), dtype=object)
    array[:] = names
    return array
