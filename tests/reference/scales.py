"""Features in units of their own, as the formulas read: dense NumPy, all features at once."""

import numpy as np


def mean_shrinkage(count, mean, variance, varies):
    """How much of a mean is not chance: all of what never varied."""
    sure = (count - 1) * mean**2
    return np.where(varies, sure / np.where(varies, sure + variance, 1.0), 1.0)


def factor_of(size, common):
    """What brings a feature of this size near the common one."""
    r = np.log(size) - common
    return np.exp(-common - r**5 / (r**4 + 1.4**4))


def alike(a, b):
    return a <= 1.25 * b and b <= 1.25 * a


class Scales:
    def __init__(self, d):
        self.c, self.mean, self.deviations = np.zeros((3, d))
        self.centre, self.size, self.factor = np.zeros((3, d))
        self.due_count, self.due_events = np.zeros((2, d))
        self.events, self.common, self.found, self.due = 0, 0.0, 0, 0.0

    def look(self, x):
        """A row as it would be if it were counted."""
        return self.as_if_counted(x).row

    def look_frozen(self, x):
        """A row in the units in use; a new feature is 0."""
        moved = np.clip(x - self.centre, -10 * self.size, 10 * self.size)
        return np.where((x != 0) | self.zeros(1), self.factor * moved, 0.0)

    def as_if_counted(self, x):
        other = Scales(len(x))
        other.__dict__.update({k: np.copy(v) for k, v in self.__dict__.items()})
        other.count(x, find_common=False)
        return other

    def count(self, x, find_common=True):
        there = x != 0
        self.events = self.events + 1
        self.add(np.where(there, x, 0.0), there)
        due = there & (
            (self.c >= self.due_count) | ((self.centre != 0) & (self.events >= self.due_events))
        )
        zeros = self.zeros()
        self.measure(due)
        self.found = self.found + due.sum()
        if find_common and self.found > 0 and self.found >= self.due:
            constant = (self.centre != 0) & ~self.spread()
            logs = np.sort(np.log(self.size[(self.size > 0) & ~constant]))
            self.common, self.due = logs[len(logs) // 2] if len(logs) else 0.0, 1.1 * self.found
        r = np.log(self.size, where=due, out=np.zeros(len(x))) - self.common
        factor = np.exp(-self.common - r * r**4 / (r**4 + 1.4**4))
        self.factor = np.where(due, factor, self.factor)
        moved = np.clip(x - self.centre, -10 * self.size, 10 * self.size)
        row = np.where(there | zeros, self.factor * moved, 0.0)
        self.row = row if row @ row >= 1e-12 else np.zeros(len(x))
        return self.row

    def zeros(self, more=0):
        """Features whose zeros are values, after so many more events."""
        events = self.events + more
        often = (self.c >= 0.69 * events) & ~self.spread()
        return (self.centre != 0) & (often | (self.c >= 0.85 * events))

    def spread(self):
        """Features that have more than one value other than zero."""
        return self.deviations > (1e-12 * self.mean) ** 2 * self.c

    def limited(self, x):
        limit = 10 * np.sqrt(self.mean_square())
        return np.where(self.c >= 3, np.clip(x, -limit, limit), x)

    def add(self, x, there):
        difference = np.where(there, self.limited(x) - self.mean, 0.0)
        self.c = self.c + there
        self.mean = self.mean + difference / np.maximum(self.c, 1)
        left = difference - difference / np.maximum(self.c, 1)
        self.deviations = self.deviations + difference * left

    def mean_square(self):
        return self.mean**2 + self.deviations / np.maximum(self.c, 1)

    def measure(self, due):
        variance, square = self.deviations / np.maximum(self.c, 1), self.mean_square()
        often = np.clip((self.c / self.events - 0.7) / 0.15, 0, 1)
        centre = self.mean * often * mean_shrinkage(self.c, self.mean, variance, self.spread())
        about = variance + (self.mean - centre) ** 2
        size = np.sqrt(np.where(about > 1e-24 * square, about, square))
        self.centre, self.size = np.where(due, centre, self.centre), np.where(due, size, self.size)
        self.due_count = np.where(due, 1.1 * self.c, self.due_count)
        self.due_events = np.where(due, 1.1 * self.events, self.due_events)


class SettledScales(Scales):
    """Units are replaced only where they are far off; `changes` lists those of the last row."""

    def look(self, x, ahead=1):
        """A row in the units in use; a new feature gets its unit from this row."""
        there = (x != 0) | self.zeros(ahead)
        moved = np.clip(x - self.centre, -10 * self.size, 10 * self.size)
        new = x * factor_of(np.abs(np.where(x != 0, x, 1.0)), self.common)
        row = np.where(there, np.where(self.size > 0, self.factor * moved, new), 0.0)
        return row if row @ row >= 1e-12 else np.zeros(len(x))

    def count(self, x):
        old = Scales(len(x))
        old.__dict__.update({name: np.copy(array) for name, array in vars(self).items()})
        super().count(x)
        self.changes = []
        for j in np.flatnonzero(self.due_count != old.due_count):  # measured anew
            self.settle(j, old)
        return self.look(x, ahead=0)

    def settle(self, j, old):
        """Keep the old unit of a feature unless the new one is far off."""
        if not self.spread()[j]:  # a constant or an indicator is not centred
            self.centre[j], self.size[j] = 0.0, np.sqrt(self.mean_square()[j])
            self.factor[j] = factor_of(self.size[j], self.common)
        if old.size[j] == 0:
            return
        moved = self.centre[j] - old.centre[j]
        if abs(moved) <= 0.25 * old.size[j] and alike(self.factor[j], old.factor[j]):
            for name in ("centre", "size", "factor"):
                getattr(self, name)[j] = getattr(old, name)[j]
        elif self.centre[j] != 0 and not old.spread()[j]:  # its weight was part of the intercept
            self.changes.append((j, 0.0, old.factor[j] * old.mean[j]))
        else:
            self.changes.append((j, old.factor[j] / self.factor[j], old.factor[j] * moved))
