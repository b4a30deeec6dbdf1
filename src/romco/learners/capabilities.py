"""Temporary."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from romco.learners.sharing import Sharing

Numbers = NDArray[np.float64]


@runtime_checkable
class Merges(Protocol):
    """Can be sharded: several copies learn tasks of their own, and meet from time to time.

    See :mod:`romco.learners.merging` for what is then done, and :mod:`romco.cluster` by whom.
    """

    name: str
    n_features: int
    n_tasks: int

    def sharing(self) -> Sharing:
        """Of what kind each array is that is not named in ``task_axes``."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that changes, by name; the live arrays, not copies."""


@runtime_checkable
class Draws(Protocol):
    """Draws, at certain times, something from all tasks: shards do so together.

    A shard is told to :meth:`leave_drawing` to the others; at a barrier where it is
    :meth:`drawing_due`, each gives what it :meth:`gathered` of its tasks, the sum is
    :meth:`drawn` from, and each shard takes that over by :meth:`take_drawn`.
    """

    def leave_drawing(self) -> None:
        """Never draw from now on."""

    def drawing_due(self) -> bool:
        """Whether it is time to draw."""

    def begin_drawing(self) -> Numbers | None:
        """What shards must take over before they gather; None where nothing."""

    def gathered(self) -> Numbers:
        """What a drawing needs to know of these tasks, to be added up over shards."""

    def drawn(self, gathered: Numbers) -> Numbers:
        """Draw from what was gathered of all tasks, and set the time for the next."""

    def take_drawn(self, drawn: Numbers) -> None:
        """Take over what was drawn."""
