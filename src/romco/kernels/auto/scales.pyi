import numpy as np
from numpy.typing import NDArray

def aligned_zeros(n: int, width: int) -> NDArray[np.float64]: ...
