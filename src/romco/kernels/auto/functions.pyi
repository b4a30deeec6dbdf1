import numpy as np
from numpy.typing import NDArray

BASES: int
DEFINITION_FIELDS: tuple[str, ...]
MOST_FUNCTIONS: int
SKETCH_FIELDS: tuple[str, ...]

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
