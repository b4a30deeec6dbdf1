"""A published rival: ask other tasks first, and a person only if they do not know either."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from romco.labels.consulting import Consulting, margin_of
from romco.parameters import truth

Numbers = NDArray[np.float64]


@final
class Peers(Consulting):
    """PEER: query peers before people (Murugesan and Carbonell, NIPS 2017).

    An event is doubtful with chance b / (b + |margin|). Then the other tasks' models say what
    they think of it, each heard by how well it did on this task's labels (exponential weights of
    its hinge loss). With chance b / (b + |their weighted opinion|) a person is asked; else
    their opinion is taken for the label (``teach``), as the paper has it.

    Parameters
    ----------
    share:
        Part of the events whose labels may be asked for, above 0 and at most 1.
    b:
        How wide doubt is at the beginning, above 0; it then follows the budget.
    advance:
        Labels that may be asked for early and are paid back later.
    seed:
        Of what chance decides, 0 or more; None draws one.
    teach:
        Whether the peers' opinion is learned where no person is asked.

    Raises
    ------
    ValueError
        Where a setting is out of its range.

    >>> Peers(0.1, seed=0).state()["policy"]
    'peers'

    """

    name: ClassVar[str] = "peers"

    def __init__(
        self,
        share: float,
        b: float = 1.0,
        advance: int = 0,
        seed: int | None = None,
        *,
        teach: bool = True,
    ) -> None:
        super().__init__(share, b, advance, seed)
        self.start, self.teach = self.b, truth("teach", teach)

    def decide(self, task: int, doubt: float, hear: Callable[[], Numbers | None]) -> bool:
        """Whether neither the task nor its peers are sure."""
        if not self.unsure(margin_of(doubt), 0):
            return False
        opinions = hear()
        if opinions is None or len(opinions) < 2:
            return True
        trust = self.trust(task, len(opinions))
        trust[task] = 0.0
        said = float(trust @ opinions / max(trust.sum(), 1e-300))
        wanted = self.unsure(said, 1)
        if self.teach and not wanted:
            self.given[self._at] = 1.0 if said >= 0.0 else -1.0
        return wanted

    def settings(self) -> dict[str, Any]:
        """The arguments this policy was made with."""
        return {
            "share": self.share,
            "b": self.start,
            "advance": self.advance,
            "seed": self.seed,
            "teach": self.teach,
        }
