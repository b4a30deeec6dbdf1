import numpy as np
from numpy.typing import NDArray

from romco.rounds import Features, Round

LARGEST_FEATURE: float
LARGEST_WEIGHT: float

def lacks_labels(y: object) -> bool: ...

class Events:
    n: int
    n_features: int
    n_tasks: int
    task: NDArray[np.int64]
    x: Features
    y: NDArray[np.float64]
    weight: NDArray[np.float64] | None
    offset: NDArray[np.float64] | None
    def __init__(
        self,
        round: Round,
        n_features: int,
        n_tasks: int,
        labelled: bool = True,
        answers: int = 1,
        rows: NDArray[np.int64] | None = None,
        takes_offset: bool = False,
    ) -> None: ...
