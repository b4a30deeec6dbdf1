import numpy as np
from numpy.typing import NDArray

BASES: int
DEFINITION_FIELDS: tuple[str, ...]
MOST_FUNCTIONS: int
SKETCH_FIELDS: tuple[str, ...]

def merge_sketches(
    start: NDArray[np.float64], shards: list[NDArray[np.float64]], first: int
) -> None: ...

class Functions:
    def __init__(
        self,
        places: NDArray[np.float64],
        definitions: NDArray[np.float64],
        scores: NDArray[np.float64],
        wave_prior: float,
        cross_prior: float,
        prior: float,
    ) -> None: ...
