"""Features in units that all pairs of classes have in common."""

from __future__ import annotations

from typing import final

import numpy as np

from romco.kernels.auto.between import Between, Measured
from romco.kernels.auto.scales import Scales
from romco.learners.base import Arrays, copy_arrays
from romco.learners.capabilities import SharesUnits


@final
class ClassUnits:
    """Sizes of features, found from the events of all classes, and the sums of each class.

    ``arrays`` holds of each class how often a feature was there, the sum of its values and that
    of their squares, now and when sizes were last found, ``class_sums`` (d, K, 6), and how many
    events it had, ``class_events`` (K,). What the learner of the first two classes has
    ``measured`` before is dealt to them evenly.

    >>> units = ClassUnits({"units": np.ones((3, 8)), "typical": np.full(5, 4.0)})
    >>> units.make_classes(3)
    >>> units.arrays["class_events"]
    array([2., 2., 0.])
    """

    def __init__(self, measured: Arrays) -> None:
        self._found, self._classes = measured, 2
        sums = np.tile(0.5 * measured["units"][:, None, :3], 2)
        self._held: Arrays = {  # copies of this object share it
            "class_sums": np.repeat(sums, 2, axis=1),
            "class_events": np.full(2, 0.5 * measured["typical"][0]),
        }
        self.measured = Measured(
            Scales(measured["units"], measured["typical"]), *self._held.values()
        )
        self.given = 0  # learners that measure so

    @property
    def arrays(self) -> Arrays:
        """Sums and numbers of events of the classes."""
        n = self._classes
        sums, events = self._held.values()
        return {"class_sums": sums[:, :n], "class_events": events[:n]}

    def make_classes(self, n: int) -> None:
        """As many classes; of those that are new nothing is known."""
        self._classes, old = n, dict(self._held)
        if n > len(old["class_events"]):
            self._held["class_sums"] = np.zeros((len(old["class_sums"]), n, 6))
            self._held["class_events"] = np.zeros(n)
            copy_arrays(self._held, old)
            self.measured.know(*self._held.values())

    def forget_class(self, label: int) -> None:
        """Forget where a class lies."""
        self.arrays["class_sums"][:, label] = 0.0
        self.arrays["class_events"][label] = 0.0

    def give(self, learner: object, low: int, high: int) -> None:
        """Let the learner of a pair of classes measure so."""
        assert isinstance(learner, SharesUnits)
        learner.share_units(self._found, Between(self.measured, low, high))
        self.given += 1
