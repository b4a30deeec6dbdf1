"""The formula of `romco.learners.frozen`, one event at a time."""

import numpy as np

from romco.learners.frozen import MISSING_IF_ZERO


def moderate(mean, variance):
    return mean / np.sqrt(1 + np.pi * max(0.0, variance) / 8)


def unit(units, j, x):
    centre, reach, factor, zero = units[j]
    if abs(x) < 1e-150:
        return zero
    return factor * np.clip(x - centre, -reach, reach)


def wave(functions, k, order, x):
    """Wave of one feature's value."""
    knots = functions.knots[k]
    if np.isnan(x) or (x == 0 and functions.kinds[k] == MISSING_IF_ZERO):
        return 0.0
    below, equal = int((knots < x).sum()), int((knots == x).sum())
    if equal:
        rank = (below + 0.5 * equal) / len(knots)
    elif below in (0, len(knots)):
        rank = below / len(knots)
    else:
        part = (x - knots[below - 1]) / (knots[below] - knots[below - 1])
        rank = (below - 0.5 + part) / len(knots)
    return np.sqrt(2) * np.cos(np.pi * order * rank)


def function_values(functions, row):
    values = [row.get(j, np.nan) for j in functions.features.tolist()]
    found = []
    for (k, order, second, second_order), scale in zip(
        functions.factors.tolist(), functions.scales, strict=True
    ):
        value = scale * wave(functions, k, order, values[k])
        if second >= 0:
            value *= wave(functions, second, second_order, values[second])
        found.append(value)
    return found


def frozen_margin(predictor, task, row):
    """Margin of a task, or None for a new one, and a row that maps features to values."""
    p = predictor
    u = {j: unit(p.units, j, x) for j, x in row.items()}
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
    if p.functions is not None:
        for f, value in enumerate(function_values(p.functions, row)):
            add(p.features.lanes, p.functions.weights[f], value)
            u[-2 - f] = value
    for j, value in u.items():
        for place in np.flatnonzero((p.pairs.task == task) & (p.pairs.feature == j)):
            add(p.pairs.lanes, p.pairs.read(np.array([place]))[0], value)
    for at, features, values in p.covariances:
        x = np.array([u.get(j, float(j == -1)) for j in features.tolist()])
        parts["variance"][at] += x @ values @ x
    z = np.array([moderate(*both) for both in zip(parts["weight"], parts["variance"], strict=True)])
    z *= parts["factor"]
    return moderate(p.weights @ z, z @ p.covariance @ z)
