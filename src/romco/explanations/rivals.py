"""One class against all the others: its log-odds, and how much each pair of classes has in it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from romco.learners.classes import Classes, coupled

Numbers = NDArray[np.float64]
NODES, WEIGHTS = np.polynomial.legendre.leggauss(64)


def odds_against_rest(scores: Numbers, label: int) -> float:
    """Log p / (1 - p) of a class, from log-probabilities (K,).

    >>> round(odds_against_rest(np.log([0.2, 0.5, 0.3]), 1), 9)
    0.0
    """
    others = np.delete(scores, label)
    top = others.max()
    return float(scores[label] - top - np.log(np.exp(others - top).sum()))


def shares_of_pairs(learner: Classes, odds: Numbers, label: int) -> Numbers:
    r"""By what (P,) log-odds L of a class against the rest are a sum over those of pairs, z (P,).

    .. math:: L(z) = L(0) + \sum_p c_p z_p, \qquad
              c_p = \int_0^1 \partial L / \partial z_p (t z)\, dt

    Probabilities of many classes are no linear function of what their pairs say; c_p is how much
    a pair moves them on average on the straight way from knowing nothing to what all have said.
    """
    power = power_of(learner)
    times = 0.5 * (NODES + 1.0)
    slopes = [_slopes(learner, t * odds, label, power) for t in times]
    return np.asarray(0.5 * WEIGHTS @ np.array(slopes))


def shares_of_classes(scores: Numbers, label: int) -> Numbers:
    r"""The same for scores (K,) of which probabilities are the softmax: L = L(0) + sum_k c_k s_k.

    >>> scores = np.log([0.2, 0.5, 0.3])
    >>> found = shares_of_classes(scores, 1) @ scores - np.log(2.0)
    >>> bool(np.isclose(found, odds_against_rest(scores, 1)))
    True
    """
    others = np.delete(scores, label)
    ways = 0.5 * (NODES + 1.0)[:, None] * (others - others.max())
    chances = np.exp(ways - ways.max(axis=1, keepdims=True))
    shares = -0.5 * WEIGHTS @ (chances / chances.sum(axis=1, keepdims=True))
    return np.asarray(np.insert(shares, label, 1.0))


def factors_of(learner: Classes) -> Numbers:
    """By what margins of the inner learners (P,) become log-odds."""
    arrays = learner.arrays()
    return np.exp([float(arrays[f"{n}.scale"][0]) for n in range(len(learner.pairs()))])


def power_of(learner: Classes) -> float:
    """To what probabilities are raised; 1 for two classes."""
    return float(np.exp(learner.arrays()["power"][0])) if learner.answers > 2 else 1.0


def scores_of(learner: Classes, odds: Numbers) -> Numbers:
    """Log-probabilities (K,) from the log-odds of pairs."""
    share = learner.unknown()
    return coupled(learner.pairs(), odds[None, :], learner.answers, power_of(learner), share)[0]


def _slopes(learner: Classes, odds: Numbers, label: int, power: float) -> Numbers:
    """dL/dz (P,): a pair moves the scores -power log(1 + sum exp(-z)) of its two classes."""
    pairs, classes = learner.pairs(), learner.answers
    against = np.ones(classes)
    moved = np.zeros((len(pairs), classes))
    for p, ((low, high), z) in enumerate(zip(pairs, np.clip(odds, -500.0, 500.0), strict=True)):
        for place, loss in ((high, -z), (low, z)):
            if place >= 0:
                against[place] += np.exp(loss)
                moved[p, place] = np.exp(loss) if place == high else -np.exp(loss)
    moved *= power / against
    chances = against**-power
    chances[label] = 0.0
    return np.asarray(moved[:, label] - moved @ (chances / chances.sum()))
