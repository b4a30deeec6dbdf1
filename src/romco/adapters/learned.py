"""What an estimator has learned, as scikit-learn's fitted attributes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from romco.model import Model

Numbers = NDArray[np.float64]


class Learned:
    """Attributes that are read off ``model_`` when they are asked for (abstract).

    Each is read between two steps of the learner, whatever other threads do.
    """

    model_: Model

    @property
    def classes_(self) -> NDArray[Any]:
        """The two labels, sorted."""
        return np.array(self._model().classes)

    @property
    def tasks_(self) -> NDArray[Any]:
        """Names of the tasks (m,)."""
        return _listed(self._model().tasks)

    @property
    def coef_(self) -> Numbers:
        """W as one row per task (m, d)."""
        return self._part("weights")

    @property
    def shared_(self) -> Numbers:
        """U as one row per task (m, d)."""
        return self._part("shared")

    @property
    def personal_(self) -> Numbers:
        """V as one row per task (m, d)."""
        return self._part("personal")

    @property
    def singular_values_(self) -> Numbers:
        """Of U, largest first."""
        if hasattr(self._model().learner, "singular_values"):
            return self._part("singular_values", by_task=False)
        s = np.linalg.svd(self.shared_, compute_uv=False)
        return s[s > 1e-12 * s.max(initial=0.0)]

    @property
    def personal_norms_(self) -> Numbers:
        """Length of each task's row of V (m,)."""
        if hasattr(self._model().learner, "personal_norms"):
            return self._part("personal_norms")
        return np.linalg.norm(self.personal_, axis=1)

    def _part(self, part: str, by_task: bool = True) -> Numbers:
        """What the learner says of its tasks, (m, d) or (m,); or as it is."""
        model = self._model()
        with model.at_rest() as learner:
            if not hasattr(learner, part):
                raise AttributeError(
                    f"{learner.name} does not keep shared and personal parts apart"
                )
            found: Numbers = getattr(learner, part)()
            return found.T[model.numbers(model.tasks)] if by_task else found

    def _model(self) -> Model:
        if "model_" not in self.__dict__:
            raise AttributeError(f"this {type(self).__name__} is not fitted yet: call fit first")
        return self.model_

    def __sklearn_is_fitted__(self) -> bool:
        return "model_" in self.__dict__


def _listed(names: list[Any]) -> NDArray[Any]:
    """Names as an array of their own kind, or of objects if they are mixed."""
    if len({type(name) for name in names}) == 1 and not isinstance(names[0], tuple):
        return np.array(names)
    array = np.empty(len(names), dtype=object)
    array[:] = names
    return array
