import numpy as np
from numpy.typing import NDArray

from romco.kernels.core.events import Events

class Kernel:
    done: int
    def predict(
        self, events: Events, begin: int = 0, end: int = -1, frozen: bool = False
    ) -> NDArray[np.float64]: ...
    def update(self, events: Events, begin: int = 0, end: int = -1) -> None: ...
    def look_at(self, events: Events, begin: int = 0, end: int = -1) -> None: ...
    def room(self, events: Events) -> NDArray[np.float64]: ...
    def replay(
        self,
        events: Events,
        starts: NDArray[np.int64],
        known: Events | None = None,
        known_starts: NDArray[np.int64] | None = None,
        margins: NDArray[np.float64] | None = None,
        others: Events | None = None,
        other_starts: NDArray[np.int64] | None = None,
    ) -> NDArray[np.float64]: ...
    def check_idle(self) -> None: ...
