"""What became of rounds that were predicted, and then learned as far as their labels are known."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from romco.rounds import Round

NOTHING: Any = MappingProxyType({})


class Predicted(NamedTuple):
    """Some rounds, and what was predicted for each event before it was learned."""

    rounds: int  # how many
    round: Round  # all their events
    scores: NDArray[np.float64]  # (n,) margins
    told: dict[str, Any] = NOTHING  # what else there is to say, by name
