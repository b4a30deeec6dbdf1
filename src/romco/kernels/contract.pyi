import numpy as np
from numpy.typing import NDArray

from romco.kernels.events import Events

class Kernel:
    done: int
    def predict(self, events: Events) -> NDArray[np.float64]: ...
    def update(self, events: Events) -> None: ...
    def room(self, events: Events) -> NDArray[np.float64]: ...
    def replay(
        self,
        events: Events,
        starts: NDArray[np.int64],
        known: Events | None = None,
        known_starts: NDArray[np.int64] | None = None,
        margins: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float64]: ...
    def check_idle(self) -> None: ...
