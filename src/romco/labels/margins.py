"""A control: whoever is within a fixed distance of the border."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp
from typing import Any, ClassVar, final

from romco.labels.policies import Policy
from romco.parameters import positive


@final
class FixedMargin(Policy):
    """Events whose margin is below ``width``, while labels are left.

    It can fall silent, sure and wrong; so that it never does for ever, one event in
    ``10 / share`` is asked by chance alone.

    Parameters
    ----------
    share:
        Part of the events whose labels may be asked for, above 0 and at most 1.
    width:
        Below which absolute margins are doubtful, above 0.
    advance:
        Labels that may be asked for early and are paid back later.
    seed:
        Of what chance decides, 0 or more; None draws one.

    Raises
    ------
    ValueError
        Where a setting is out of its range.

    >>> FixedMargin(0.1, width=2.0, seed=0).width
    2.0

    """

    name: ClassVar[str] = "margin"
    space: ClassVar[Mapping[str, Any]] = {"width": (0.2, 0.5, 1.0, 2.0)}

    def __init__(
        self, share: float, width: float = 1.0, advance: int = 0, seed: int | None = None
    ) -> None:
        super().__init__(share, advance, seed)
        self.width = positive("width", width)

    def wants(self, task: int, doubt: float, left: float) -> bool:
        """Within the width, or by a small chance."""
        self.by_chance = self.chance() < 0.1 * self.share
        return self.by_chance or doubt > 1.0 / (1.0 + exp(min(self.width, 700.0)))

    def memory(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def remember(self, memory: Mapping[str, Any]) -> None:
        """Nothing to take over."""

    def settings(self) -> dict[str, Any]:
        """The arguments this policy was made with."""
        return {
            "share": self.share,
            "width": self.width,
            "advance": self.advance,
            "seed": self.seed,
        }
