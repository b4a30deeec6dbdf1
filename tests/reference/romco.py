"""ROMCO with a full SVD at every update, as algorithms 1 and 2 of the paper read."""

import numpy as np


class Romco:
    def __init__(
        self,
        d,
        m,
        *,
        shrink,
        eta1,
        eta2,
        lambda1,
        lambda2,
        C=1.0,
        loss="hinge",
        update="loss",
        always_prox=False,
        step="constant",
        rho="constant",
        shrinkage="round",
    ):
        """`shrink(s, rho)` is the scalar prox of the spectral penalty; `loss` a name or a slope."""
        self.u, self.v = np.zeros((d, m)), np.zeros((d, m))
        self.shrink, self.eta1, self.eta2 = shrink, eta1, eta2
        self.lambda1, self.lambda2, self.C = lambda1, lambda2, C
        self.slope = SLOPES.get(loss, loss)
        self.update_on, self.always_prox, self.step, self.rho = update, always_prox, step, rho
        self.shrinkage, self.seen, self.t = shrinkage, set(), 0

    def predict(self, task, x):
        w = self.u[:, task] + self.v[:, task]
        return (x * w.T).sum(axis=1)

    def update(self, task, x, y):
        p = self.predict(task, x)
        self.t += 1
        self.seen |= set(task)
        share = len(set(task)) / len(self.seen) if self.shrinkage == "share" else 1.0
        wrong = np.where(p >= 0, 1, -1) != y
        slope = self.slope(p, y)
        active = wrong if self.update_on == "mistake" else slope != 0
        if not active.any() and not self.always_prox:
            return
        G = np.zeros_like(self.u)
        for i, row, along, on in zip(task, x, slope, active, strict=True):
            if on:
                G[:, i] += self.C * along * row
        decay = {"constant": 1.0, "inverse-sqrt": 1 / np.sqrt(self.t), "inverse": 1 / self.t}[
            self.step
        ]
        eta1, eta2 = self.eta1 * decay, self.eta2 * decay
        rho = {
            "constant": eta1 * self.lambda1,
            "1/t": 1 / self.t,
            "1/sqrt(t)": 1 / np.sqrt(self.t),
        }[self.rho]
        uh = self.u - eta1 * G
        left, s, right = np.linalg.svd(uh, full_matrices=False)
        s[s < 1e-200] = 0.0  # denormal numbers make LAPACK crawl
        self.u = (left * self.shrink(s, rho * share)) @ right
        self.u[:, ~uh.any(axis=0)] = 0.0  # a column of zeros stays one, also in rounding
        self.v = self.groups(self.v - eta2 * G, share * eta2)

    def groups(self, v, step):
        norms = np.linalg.norm(v, axis=0)
        return v * np.maximum(0.0, 1 - step * self.lambda2 / np.where(norms > 0, norms, np.inf))


SLOPES = {
    "hinge": lambda p, y: np.where(1 - y * p > 0, -y, 0.0),
    "squared-hinge": lambda p, y: -2 * y * np.maximum(0.0, 1 - y * p),
    "logistic": lambda p, y: -y / (1 + np.exp(y * p)),
}


def nuclear(s, rho):
    return np.maximum(0.0, s - rho)


def logdet(s, rho):
    """The root of the cubic by plain bisection on where the slope changes sign; rho <= 4."""
    if rho == 0.0:
        return s
    low, high = np.zeros_like(s), s.copy()
    for _ in range(60):  # to a part in 2^60 of s
        x = 0.5 * (low + high)
        rising = (x - s) / rho + 2 * x / (1 + x * x) > 0
        low, high = np.where(rising, low, x), np.where(rising, x, high)
    return 0.5 * (low + high)
