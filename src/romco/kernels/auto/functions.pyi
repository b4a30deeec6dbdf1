import numpy as np
from numpy.typing import NDArray

BASES: int
DEFINITION_FIELDS: tuple[str, ...]
MOST_FUNCTIONS: int
SKETCH_FIELDS: tuple[str, ...]

def merge_sketches(
    start: NDArray[np.float64], shards: list[NDArray[np.float64]], first: int
) -> None: ...
