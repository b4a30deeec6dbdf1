import numpy as np
from numpy.typing import NDArray

class Scales:
    def __init__(self, columns: NDArray[np.float64], typical: NDArray[np.float64]) -> None: ...

def columns(d: int) -> NDArray[np.float64]: ...
