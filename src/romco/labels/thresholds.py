"""A control: a threshold that moves with what is asked."""

from __future__ import annotations

from collections.abc import Mapping
from math import log, sqrt
from typing import Any, ClassVar, final

from romco.labels.policies import Policy
from romco.parameters import positive

STEP = 0.01


@final
class VariableUncertainty(Policy):
    """Sureness below a moving, randomised threshold (Zliobaite et al. 2014).

    The threshold falls by a hundredth at each label and rises by as much without one; chance
    (a normal number of mean 1) lets sure events be asked now and then.

    Parameters
    ----------
    share:
        Part of the events whose labels may be asked for, above 0 and at most 1.
    advance:
        Labels that may be asked for early and are paid back later.
    seed:
        Of what chance decides, 0 or more; None draws one.

    Raises
    ------
    ValueError
        Where a setting is out of its range.

    >>> VariableUncertainty(0.1, seed=0).threshold
    1.0

    """

    name: ClassVar[str] = "uncertainty"

    def __init__(self, share: float, advance: int = 0, seed: int | None = None) -> None:
        super().__init__(share, advance, seed)
        self.threshold = 1.0

    def wants(self, task: int, doubt: float, left: float) -> bool:
        """Whether the most likely answer is less likely than the threshold says."""
        if left < 1.0:
            return False
        wanted = 1.0 - doubt < self.threshold * (1.0 + self._normal())
        self.threshold *= 1.0 - STEP if wanted else 1.0 + STEP
        self.threshold = min(max(self.threshold, 1e-6), 1e6)
        return wanted

    def memory(self) -> dict[str, Any]:
        """The present threshold."""
        return {"threshold": self.threshold}

    def remember(self, memory: Mapping[str, Any]) -> None:
        """Take over what :meth:`memory` gave."""
        self.threshold = positive("threshold", memory["threshold"])

    def settings(self) -> dict[str, Any]:
        """The arguments this policy was made with."""
        return {"share": self.share, "advance": self.advance, "seed": self.seed}

    def _normal(self) -> float:
        """A normal number by the polar method, from the numbers of chance of this event."""
        u, v = 2.0 * self.chance(0) - 1.0, 2.0 * self.chance(1) - 1.0
        square = u * u + v * v
        return u * sqrt(-2.0 * log(square) / square) if 0.0 < square < 1.0 else 0.0
