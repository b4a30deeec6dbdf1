"""A control: selective sampling with the chance b / (b + |margin|)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, final

from romco.labels.consulting import margin_of
from romco.labels.policies import Policy
from romco.parameters import positive

STEP = 0.05  # by how much log b follows the budget, per label over or under


@final
class SelectiveSampling(Policy):
    """Chance b / (b + |margin|) (Cesa-Bianchi, Gentile, Zaniboni 2006), b tracking the budget.

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

    >>> SelectiveSampling(0.1, seed=0).b
    1.0

    """

    name: ClassVar[str] = "selective"

    def __init__(self, share: float, advance: int = 0, seed: int | None = None) -> None:
        super().__init__(share, advance, seed)
        self.b = 1.0

    def wants(self, task: int, doubt: float, left: float) -> bool:
        """By a chance that falls with the margin."""
        margin = margin_of(doubt)
        wanted = self.chance() < self.b / (self.b + margin)
        factor = 1.0 + STEP * (self.share - wanted)
        self.b = min(max(self.b * factor, 1e-6), 1e6)
        return wanted

    def memory(self) -> dict[str, Any]:
        """The present b."""
        return {"b": self.b}

    def remember(self, memory: Mapping[str, Any]) -> None:
        """Take over what :meth:`memory` gave."""
        self.b = positive("b", memory["b"])

    def settings(self) -> dict[str, Any]:
        """The arguments this policy was made with."""
        return {"share": self.share, "advance": self.advance, "seed": self.seed}
