from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

def encode(
    codes: dict[Any, int], names: list[Any], add: Callable[[Any], int]
) -> NDArray[np.int64]: ...
