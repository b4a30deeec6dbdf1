"""Single events: their margins without the arrays that a round is made of."""

from __future__ import annotations

from typing import Any, final

from romco.kernels.io.mappings import Mappings
from romco.kernels.single import Single
from romco.learners import Learner
from romco.learners.base import CompiledLearner
from romco.model.features import Features, Hashed, Names


@final
class Singles:
    """What a compiled learner says of one event at a time, to one thread at a time.

    >>> import romco
    >>> from romco.model.features import Names
    >>> singles = Singles(Names(["a", "b"]))
    >>> singles.margin(romco.learner("pa-unique", n_features=2, n_tasks=1), {"a": 1.0}, 0)
    0.0
    """

    def __init__(self, features: Features) -> None:
        self.features = features
        self.single: Single | None = None  # where rows are read by name
        if isinstance(features, Names | Hashed):
            self.single = Single(features.mappings(), CompiledLearner.predict)

    def margin(self, learner: Learner, x: Any, number: int) -> float | None:
        """The margin of an event of a task; None where only a round of it can tell."""
        if self.single is None or not isinstance(learner, CompiledLearner):
            return None
        if not self.single.is_compiled(learner):
            return None
        if type(x) is not dict and not isinstance(x, Mappings):
            return None
        given = learner.kernel, learner.n_features, learner.n_tasks, number
        return self.single.margin(*given, x)
