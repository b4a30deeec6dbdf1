"""A stream: the labelled events of several tasks, before any order is chosen."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from romco.rounds import Features


@dataclass(frozen=True)
class Truth:
    """True weights (d, m): low-rank ``shared`` ones, and ``personal`` ones of the ``outliers``.

    >>> from romco.streams import simulated
    >>> simulated(n_tasks=4, n_features=10, n_events=5, outliers=1).truth.personal.shape
    (10, 4)
    """

    shared: NDArray[np.float64]  # (d, m) the low-rank part of the true weights
    personal: NDArray[np.float64]  # (d, m) non-zero for outlier tasks only
    outliers: NDArray[np.int64]  # (k,)   the tasks that are different


@dataclass(frozen=True)
class Stream:
    """Labelled events of several tasks; ``orders.py`` turns them into rounds.

    Events are kept in the order they were recorded or made, which matters only
    where the world drifts.

    >>> x, y = np.eye(2), np.array([1.0, -1.0])
    >>> stream = Stream("mine", np.array([0, 1]), x, y, tasks=("ann", "bob"))
    >>> stream.n_tasks, stream.n_features, stream.n_events
    (2, 2, 2)
    """

    name: str
    task: NDArray[np.int64]  # (n,)
    x: Features  # (n, d)
    y: NDArray[np.float64]  # (n,) -1 or +1; class numbers or numbers where ``answers`` says so
    tasks: tuple[str, ...]  # names of the m tasks
    labels: tuple[str, ...] = ("-1", "+1")  # what -1 and +1 mean, or each class, for people
    notes: tuple[str, ...] = ()  # what the data cannot show; printed beside every result
    truth: Truth | None = None
    answers: int = 1  # as of a learner: 1 for -1 or +1, k for one of k classes, 0 for any number
    offset: NDArray[np.float64] | None = None  # (n,) known part of the margin or of the number

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return len(self.tasks)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.x.shape[1])

    @property
    def n_events(self) -> int:
        """Number of events of all tasks."""
        return len(self.y)
