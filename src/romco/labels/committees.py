"""A published rival: all tasks vote, and a person is asked where the vote is close."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from romco.labels.consulting import Consulting, margin_of

Numbers = NDArray[np.float64]


@final
class Committee(Consulting):
    """COMMITTEE: each task decides with its committee (after Xu, Tang and Jebara, 2021).

    All tasks' models, this one among them, say what they think of an event, each heard by how well
    it did on this task's labels (exponential weights of its hinge loss). A person is asked
    with chance b / (b + |their weighted opinion|). That the answer is also learned by
    similar tasks, as the paper has it, is left to the learner, which shares among tasks itself.

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

    Raises
    ------
    ValueError
        Where a setting is out of its range.

    >>> Committee(0.1, seed=0).state()["policy"]
    'committee'

    """

    name: ClassVar[str] = "committee"

    def __init__(
        self, share: float, b: float = 1.0, advance: int = 0, seed: int | None = None
    ) -> None:
        super().__init__(share, b, advance, seed)
        self.start = self.b

    def decide(self, task: int, doubt: float, hear: Callable[[], Numbers | None]) -> bool:
        """Whether the committee is unsure."""
        opinions = hear()
        if opinions is None:
            return self.unsure(margin_of(doubt), 0)
        trust = self.trust(task, len(opinions))
        return self.unsure(float(trust @ opinions / trust.sum()), 0)

    def settings(self) -> dict[str, Any]:
        """The arguments this policy was made with."""
        return {"share": self.share, "b": self.start, "advance": self.advance, "seed": self.seed}
