"""A control: ask other tasks first, and a person only if they do not know either."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from romco.labels.policies import Policy
from romco.parameters import positive

Numbers = NDArray[np.float64]


@final
class Peers(Policy):
    """Query peers before people (after Murugesan and Carbonell, NIPS 2017).

    An event is doubtful with chance b / (b + |margin|). Then the other tasks' models are asked
    what they say of it, each heard by how well it did on this task's labels; a person is asked only
    if their weighted opinion is doubtful, too. The paper learns the peers' answer as a label
    where they are sure; that hurt calibration here (docs/labels.md) and is left out.

    Before ``ask``, call :meth:`consult` with the margins (n, m) that every task's model gives for
    the round's rows; afterwards :meth:`learn` with labels that came.

    >>> Peers(0.1, seed=0).state()["policy"]
    'peers'
    """

    name: ClassVar[str] = "peers"

    def __init__(
        self, share: float, b: float = 1.0, advance: int = 0, seed: int | None = None
    ) -> None:
        super().__init__(share, advance, seed)
        self.b = positive("b", b)
        self._trust: dict[tuple[int, int], float] = {}  # of a task in another, exponential weights
        self._opinions: list[Numbers] = []  # of the events still to be asked about

    def consult(self, opinions: Numbers) -> None:
        """Hear what each task's model says of each event of the next round."""
        self._opinions = list(opinions)

    def learn(self, task: int, y: float, opinions: Numbers) -> None:
        """Trust those less who were wrong about a task's label."""
        for peer, opinion in enumerate(opinions.tolist()):
            loss = max(0.0, 1.0 - y * opinion)
            before = self._trust.get((task, peer), 1.0)
            self._trust[task, peer] = before * float(np.exp(-0.1 * min(loss, 10.0)))

    def wants(self, task: int, doubt: float, left: float) -> bool:
        """Whether neither the task nor its peers are sure."""
        heard = self._opinions.pop(0) if self._opinions else None
        if not self._unsure(doubt, 0):
            return False
        if heard is None:
            return True
        trust = np.array([self._trust.get((task, peer), 1.0) for peer in range(len(heard))])
        trust[task] = 0.0
        total = trust.sum()
        said = float(trust @ heard / total) if total > 0.0 else 0.0
        return self._unsure(1.0 / (1.0 + float(np.exp(min(abs(said), 700.0)))), 1)

    def memory(self) -> dict[str, Any]:
        """Who trusts whom."""
        return {"trust": [[*pair, weight] for pair, weight in sorted(self._trust.items())]}

    def remember(self, memory: Mapping[str, Any]) -> None:
        """Take over what :meth:`memory` gave."""
        self._trust = {(int(a), int(b)): float(w) for a, b, w in memory["trust"]}

    def settings(self) -> dict[str, Any]:
        """The arguments this policy was made with."""
        return {"share": self.share, "b": self.b, "advance": self.advance, "seed": self.seed}

    def _unsure(self, doubt: float, k: int) -> bool:
        margin = abs(np.log(doubt / (1.0 - doubt))) if 0.0 < doubt < 1.0 else 700.0
        return self.chance(k) < self.b / (self.b + margin)
