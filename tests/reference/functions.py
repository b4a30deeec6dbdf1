"""Functions of columns as their description reads."""

import numpy as np

KNOTS, FIRST_KNOTS, WAVES, MOST, CROSSED = 64, 32, 4, 96, 24


class Sketch:
    """Knots of the values of a feature, and what its waves tell of residuals."""

    def __init__(self):
        self.count, self.wait, self.pace, self.kept = 0, 0.0, 0.0, []
        self.knots = None
        self.has_values = False
        self.sums, self.squares = np.zeros(WAVES), np.zeros(WAVES)

    def is_number(self):
        return self.has_values

    def set_knots(self, knots):
        self.knots = knots
        self.has_values = len(np.unique(knots)) > 2
        self.known_waves = {}  # by value, until there are other knots

    def add(self, value):
        self.count += 1
        if self.wait > 1:
            self.wait -= 1
            return
        self.kept.append(value)
        self.wait = self.pace
        if len(self.kept) == KNOTS:
            every = np.arange(KNOTS)
            if self.count == KNOTS:
                self.set_knots(np.sort(self.kept))
            else:
                pooled = np.sort([*self.kept, *self.knots])
                self.set_knots(pooled[2 * every + every % 2])
            self.kept = []
            self.pace = self.wait = max(1.0, self.count / KNOTS)
        elif self.knots is None and len(self.kept) == FIRST_KNOTS:
            self.set_knots(np.sort(np.repeat(self.kept, KNOTS // FIRST_KNOTS)))

    def rank(self, value):
        below = np.searchsorted(self.knots, value)
        upto = np.searchsorted(self.knots, value, side="right")
        if below < upto:
            return (below + upto) / 2 / KNOTS
        if below in (0, KNOTS):
            return below / KNOTS
        low, high = self.knots[below - 1 : below + 1]
        return (below - 0.5 + (value - low) / (high - low)) / KNOTS

    def waves(self, value):
        if not self.is_number():
            return np.array([float(value != 0), 0.0, 0.0, 0.0])
        if value not in self.known_waves:
            turns = np.arange(1, WAVES + 1) * self.rank(value)
            self.known_waves[value] = np.sqrt(2) * np.cos(np.pi * turns)
        return self.known_waves[value]


class Functions:
    """Which functions there are: (feature, order) or (feature, order, feature, order)."""

    def __init__(self, prior, share):
        self.sketches, self.used = {}, [None] * MOST
        self.wave_scale = np.sqrt(0.3 * share / prior)
        self.cross_scale = np.sqrt(0.2 * share / prior)
        self.forget_scores()

    def forget_scores(self):
        self.sums, self.squares = np.zeros((2, CROSSED * WAVES, CROSSED * WAVES))

    def seen(self, stored):
        """Waves of the features of a row that have a sketch: numbers, and indicators that are 1."""
        return {
            j: self.sketches[j].waves(value)
            for j, value in stored
            if j in self.sketches and (self.sketches[j].is_number() or value != 0)
        }

    def values(self, seen):
        found = np.zeros(MOST)
        for f, used in enumerate(self.used):
            if used is None:
                continue
            found[f] = seen[used[0]][used[1] - 1] / used[1] if used[0] in seen else 0.0
            if len(used) == 2:
                found[f] *= self.wave_scale
            else:
                other = seen[used[2]][used[3] - 1] if used[2] in seen else 0.0
                found[f] *= self.cross_scale * other / used[3]
        return found

    def score(self, seen, residual, place_of):
        residual, places, values = np.clip(residual, -10, 10), [], []
        for j, waves in seen.items():
            sketch = self.sketches[j]
            if sketch.is_number():
                sketch.sums += residual * waves
                sketch.squares += (residual * waves) ** 2
            if place_of(j) <= CROSSED:
                first = (place_of(j) - 1) * WAVES
                there = np.flatnonzero(waves)
                places += (first + there).tolist()
                values += waves[there].tolist()
        terms = np.tril(np.outer(residual * np.array(values), values), -1)  # each pair once
        pairs = np.ix_(places, places)
        self.sums[pairs] += terms
        self.squares[pairs] += terms**2

    def count(self, stored):
        for j, value in stored:
            if j in self.sketches:
                self.sketches[j].add(value)

    def curvature(self, j):
        """Chi-square of all waves of a column."""
        sketch = self.sketches[j]
        seen = sketch.squares > 0
        return np.sum(sketch.sums[seen] ** 2 / sketch.squares[seen])

    def best_product(self):
        """The product farthest from chance, by places; None if none is far."""
        z = np.abs(self.sums) / np.sqrt(np.where(self.squares > 0, self.squares, np.inf))
        place = np.arange(len(z)) // WAVES
        z[place[:, None] == place] = 0.0
        i, j = np.unravel_index(np.argmax(z), z.shape)
        if not z[i, j] > 4:
            return None
        self.sums[i, j] = self.squares[i, j] = 0.0
        return i // WAVES + 1, i % WAVES + 1, j // WAVES + 1, j % WAVES + 1

    def known(self, made):
        return made in self.used or made[2:] + made[:2] in self.used
