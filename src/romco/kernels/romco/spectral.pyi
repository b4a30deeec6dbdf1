import numpy as np
from numpy.typing import ArrayLike, NDArray

Numbers = NDArray[np.float64]

def shrink(s: ArrayLike, rho: float, logdet: bool) -> Numbers: ...
def small_svd(a: Numbers, least: float = ...) -> tuple[Numbers, Numbers, Numbers]: ...
def changed_svd(
    d: ArrayLike, c: ArrayLike, q: ArrayLike, least: float
) -> tuple[Numbers, Numbers, Numbers, bool]: ...
