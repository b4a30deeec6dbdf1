"""One event after the other, written plainly: the twin of ``romco.kernels.step``.

Names become numbers in dictionaries, each event is a round of one for a learner that is made anew,
twice as large, when it has no room. Only for learners whose new tasks need no start.
"""

import math

import numpy as np

import romco
from romco import Round


class PlainModel:
    def __init__(self, name, n_features=64, n_tasks=8, target="two classes"):
        self.learner = romco.learner(name, n_features, n_tasks)
        self.features, self.tasks, self.labels, self.target = {}, {}, {}, target
        self.seen, self.log_a, self.curvature = {}, 0.0, 1.0

    def number(self, numbers, name):
        return numbers.setdefault(name, len(numbers))

    def row(self, x, numbers):
        """Values by column; names that are not among the numbers are added."""
        row = {}
        for name, value in x.items():
            if value is None:
                continue
            if not abs(float(value)) <= 1e60:
                raise ValueError(name)
            column = self.number(numbers, name)
            row[column] = row.get(column, 0.0) + float(value)
        return row

    def round(self, row, task, y):
        dense = np.zeros((1, self.learner.n_features))
        for column, value in row.items():
            dense[0, column] = value
        return Round(np.array([task]), dense, np.array([y]))

    def make_room(self):
        d, m = self.learner.n_features, self.learner.n_tasks
        while d < len(self.features):
            d *= 2
        while m < len(self.tasks):
            m *= 2
        if (d, m) != (self.learner.n_features, self.learner.n_tasks):
            self.learner = romco.grown(self.learner, d, m)

    def learn_one(self, x, y, task):
        features = dict(self.features)
        row = self.row(x, features)
        self.features = features
        number = self.number(self.tasks, task)
        if self.target == "two classes":
            y = self.labels.setdefault(y, -1.0 if not self.labels else 1.0)
        self.make_room()
        round = self.round(row, number, float(y))
        margin = float(self.learner.predict(round)[0])
        self.learner.update(round)
        self.seen[task] = self.seen.get(task, 0) + 1
        if self.target == "two classes":
            self.calibrate(margin, y)
        return margin

    def calibrate(self, margin, y):
        z = min(max(y * math.exp(self.log_a) * margin, -500.0), 500.0)
        miss = 1.0 / (1.0 + math.exp(z))
        self.curvature = max(1.0, 0.999 * self.curvature + z * z * miss * (1.0 - miss))
        step = min(max(z * miss / self.curvature, -0.5), 0.5)
        self.log_a = min(max(self.log_a + step, -30.0), 30.0)

    def margin_one(self, x, task):
        known = dict(self.features)
        row = self.row(x, known)
        row = {column: value for column, value in row.items() if column < len(self.features)}
        return float(self.learner.predict_frozen(self.round(row, self.tasks[task], 1.0))[0])
