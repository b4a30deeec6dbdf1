"""PA, PA-I, PA-II and COML as their papers' formulas read."""

import numpy as np

from tests.reference.linear import Linear, hinge


def rate(loss, s, C, variant):
    if variant == "PA":
        return loss / s
    if variant == "PA-I":
        return min(C, loss / s)
    return loss / (s + 1 / (2 * C))


class PassiveAggressive(Linear):
    def __init__(self, d, m, *, models, C=1.0, variant="PA-I"):
        super().__init__(d, m)
        self.models, self.C, self.variant = models, C, variant

    def learn(self, i, x, y):
        loss, s = hinge(self.W[:, i], x, y), x @ x
        if loss > 0 and s > 0:
            step = rate(loss, s, self.C, self.variant) * y * x
            if self.models == "unique":
                self.W[:, i] += step
            else:
                self.W += step[:, None]


def collaborate(w, u, x, y, eta1, eta2, C):
    """argmin eta1/2 |w' - w|^2 + eta2/2 |w' - u|^2 + C hinge(w')."""
    middle = (eta1 * w + eta2 * u) / (eta1 + eta2)
    tau = min(C, (eta1 + eta2) * hinge(middle, x, y) / (x @ x))
    return middle + tau / (eta1 + eta2) * y * x


class Collaborative(Linear):
    def __init__(self, d, m, *, eta1=1.0, eta2=1.0, C=1.0):
        super().__init__(d, m)
        self.u, self.eta1, self.eta2, self.C = np.zeros(d), eta1, eta2, C

    def learn(self, i, x, y):
        if x @ x == 0:
            return
        self.u = self.u + rate(hinge(self.u, x, y), x @ x, self.C, "PA-I") * y * x
        if hinge(self.W[:, i], x, y) > 0:
            self.W[:, i] = collaborate(self.W[:, i], self.u, x, y, self.eta1, self.eta2, self.C)
