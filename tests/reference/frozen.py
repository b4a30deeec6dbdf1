"""The formula of `romco.learners.frozen`, one event at a time."""

import numpy as np

from romco.learners.frozen import UNIT_FIELDS


def moderate(mean, variance):
    return mean / np.sqrt(1 + np.pi * max(0.0, variance) / 8)


def unit(units, j, x):
    f = dict(zip(UNIT_FIELDS, units.table[j], strict=True))
    if abs(x) < 1e-150:
        return units.row * f["zero"]
    centre, reach, factor = f["centre"], f["reach"], f["factor"]
    if f["count"] > 0:
        v = np.clip(x, -f["bound"], f["bound"])
        mean = (f["total"] + v) / f["count"]
        square = (f["square"] + v * v) / f["count"]
        variance, sure = square - mean**2, (f["count"] - 1) * mean**2
        known = sure / (sure + variance) if variance > 1e-9 * square else 1.0
        centre = mean * f["share"] * known
        variance = square - 2 * centre * mean + centre**2
        size = np.sqrt(variance if variance > 1e-9 * square else square)
        r = np.log(size) - units.common
        factor = np.exp(-units.common - r**5 / (r**4 + 1.4**4))
        reach = 10 * size
    return units.row * factor * np.clip(x - centre, -reach, reach)


def frozen_margin(predictor, task, row):
    """Margin of a task, or None for a new one, and a row that maps features to values."""
    p = predictor
    u = {j: unit(p.units, j, x) for j, x in row.items()}
    if sum(value**2 for value in u.values()) < p.units.empty:
        u = {}
    k = len(p.inputs)
    parts = {"weight": p.intercepts.copy(), "variance": np.zeros(k), "factor": np.ones(k)}

    def add(lanes, values, u):
        for (part, at), value in zip(lanes, values, strict=True):
            parts[part][at] += value * (u if part == "weight" else u * u)

    values = p.new_task if task is None else p.tasks.values[task]
    for (part, at), value in zip(p.tasks.lanes, values, strict=True):
        parts[part][at] = value if part == "factor" else parts[part][at] + value
    for j, value in u.items():
        add(p.features.lanes, p.features.values[j], value)
        for place in np.flatnonzero((p.pairs.task == task) & (p.pairs.feature == j)):
            add(p.pairs.lanes, p.pairs.read(np.array([place]))[0], value)
    for at, features, values in p.covariances:
        x = np.array([u.get(j, float(j == -1)) for j in features.tolist()])
        parts["variance"][at] += x @ values @ x
    z = np.array([moderate(*both) for both in zip(parts["weight"], parts["variance"], strict=True)])
    z *= parts["factor"]
    return moderate(p.weights @ z, z @ p.covariance @ z)
