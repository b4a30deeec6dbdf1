"""A control: whoever, by chance alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, final

from romco.labels.policies import Policy


@final
class Random(Policy):
    """Every event with the same chance, so that every label asked for is an audit.

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

    >>> Random(0.5, seed=0).state()["spent"]
    0

    """

    name: ClassVar[str] = "random"

    def __init__(self, share: float, advance: int = 0, seed: int | None = None) -> None:
        super().__init__(share, advance, seed)

    def wants(self, task: int, doubt: float, left: float) -> bool:
        """By chance; more often while labels are left."""
        self.by_chance = True
        return self.chance() < self.share * max(1.0, left)

    def memory(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def remember(self, memory: Mapping[str, Any]) -> None:
        """Nothing to take over."""

    def settings(self) -> dict[str, Any]:
        """The arguments this policy was made with."""
        return {"share": self.share, "advance": self.advance, "seed": self.seed}
