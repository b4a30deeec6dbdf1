"""Posteriors in new units and under new priors, as if all rewards had been learned so.

It is done whenever the number of rewards has doubled. A posterior is its prior times a Gaussian
likelihood: the prior is replaced, and the likelihood is expressed in the new units.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from romco.kernels.choosing import ChooserKernel, FeatureTable, Posterior

Numbers = NDArray[np.float64]
Moments = tuple[Numbers, Numbers]  # mean (d,) and covariance (d, d)
SCORE_VARIANCE = 10.0  # of an action's score before anything is learned
LEVEL_VARIANCE = 0.3  # of a person's level for an action, before anything is learned
LEVEL_VARIANCES = 0.03, 3.0  # range of its estimates
ACTION_LEVELS = 0.03, 1.0  # range of the estimated variance of actions' levels, times the first
LEVEL_PRIOR_COUNT = 10.0  # levels that the first one counts as
LEVEL_STEPS = 20
DENSE_SHARE = 0.5  # columns of which more values are not 0 are centred
JITTERS = 0.0, 1e-12, 1e-9, 1e-6, 1e-3  # added to a correlation matrix until it has a factor


class Units(NamedTuple):
    """New origins and units; new standardised columns are factor times old ones plus shift."""

    origin: Numbers
    unit: Numbers
    factor: Numbers
    shift: Numbers
    squared_norm: float  # mean of standardised rows, without column 0


def recentre(kernel: ChooserKernel, reward: float) -> None:
    """Express all posteriors in the units of what was seen so far; ``reward`` comes next."""
    centre = kernel.centre
    if kernel.numeric:
        centre = kernel.reward_mean if kernel.rewards else reward
    context = _units(kernel.context)
    features = _units(kernel.features)
    own_weights = SCORE_VARIANCE / (1.0 + context.squared_norm)
    shared_weights = own_weights / (1.0 + features.squared_norm)
    change = np.diag(context.factor)
    change[1:, 0] = context.shift[1:]
    rise = centre - kernel.centre
    old = kernel.own_level, kernel.own_weights
    own = [_restated(one, *old, own_weights, change, rise) for one in kernel.own]
    own_level = _action_level_variance(own, own_weights, kernel.deviation**2)
    own = [_with_level_prior(one, own_weights, own_level) for one in own]
    change = _change_of_products(kernel, context, features)
    old = kernel.shared_weights, kernel.shared_weights
    shared = _restated(kernel.shared, *old, shared_weights, change, 0.0)
    precision = 1.0 / kernel.level_variances - 1.0 / kernel.levels
    weighted_mean = kernel.level_means / kernel.level_variances
    used = np.ones(kernel.slots, dtype=bool)
    used[kernel.free] = False
    seen = precision[used], weighted_mean[used], kernel.deviation**2
    levels = _level_variance(*seen, kernel.levels, LEVEL_VARIANCE, LEVEL_VARIANCES)
    variances = 1.0 / (precision + 1.0 / levels)
    moments = own, shared, (weighted_mean * variances, variances)
    priors = own_level, own_weights, shared_weights, levels
    kernel.replace(*moments, context[:2], features[:2], priors, centre)


def _level_variance(
    precision: Numbers,
    weighted_mean: Numbers,
    noise: float,
    levels: float,
    first: float,
    limits: tuple[float, float],
) -> float:
    """Return the prior variance of levels that expectation maximisation finds.

    ``precision`` and ``weighted_mean`` are of the likelihood of each level, ``levels`` is where to
    start; ``first`` is the variance that counts as LEVEL_PRIOR_COUNT levels.
    """
    for _ in range(LEVEL_STEPS if noise > 0.0 else 0):
        variances = 1.0 / (precision + 1.0 / levels)
        squares = (weighted_mean * variances) ** 2 / noise + variances
        total = squares.sum() + LEVEL_PRIOR_COUNT * first
        levels = float(np.clip(total / (len(squares) + LEVEL_PRIOR_COUNT), *limits))
    return levels


def _action_level_variance(own: Sequence[Moments | None], first: float, noise: float) -> float:
    """Return the prior variance of the actions' levels, column 0; ``first`` is the one in use."""
    learned = [one for one in own if one is not None]
    means = np.array([mean[0] for mean, _ in learned])
    variances = np.array([covariance[0, 0] for _, covariance in learned])
    precision = np.maximum(1.0 / variances - 1.0 / first, 0.0)
    limits = ACTION_LEVELS[0] * first, ACTION_LEVELS[1] * first
    return _level_variance(precision, means / variances, noise, first, first, limits)


def _with_level_prior(moments: Moments | None, old: float, new: float) -> Moments | None:
    """Return mean and covariance under another prior variance of column 0."""
    if moments is None:
        return None
    mean, covariance = moments
    column = covariance[:, 0]
    step = 1.0 / new - 1.0 / old
    gain = step / (1.0 + step * column[0])
    return mean - gain * mean[0] * column, covariance - gain * np.outer(column, column)


def _units(table: FeatureTable) -> Units:
    """Return units from the statistics of columns.

    A column that is mostly 0 keeps 0 as its origin; its unit is the size of its other values.
    """
    columns = slice(0, table.width)
    rows = max(table.rows, 1.0)
    mean = table.mean[columns]
    variance = table.deviations[columns] / rows
    nonzero = table.nonzero[columns]
    dense = nonzero > DENSE_SHARE * rows
    square = (variance + mean**2) * rows / np.maximum(nonzero, 1.0)
    size = np.sqrt(np.where(dense & (variance > 0.0), variance, square))
    origin = np.where(dense, mean, 0.0)
    unit = np.where(size > 0.0, size, 1.0)
    factor = table.unit[columns] / unit
    shift = (table.origin[columns] - origin) / unit
    squares = (variance + (mean - origin) ** 2) / unit**2
    return Units(origin, unit, factor, shift, float(squares[1:].sum()))


def _change_of_products(kernel: ChooserKernel, x: Units, z: Units) -> Numbers:
    """Return C with new z ⊗ x = C @ old z ⊗ x."""
    place = {pair: c for c, pair in enumerate(kernel.pairs)}
    change = np.zeros((len(place), len(place)))
    for (j, k), c in place.items():
        change[c, c] = z.factor[j] * x.factor[k]
        if k:
            change[c, place[j, 0]] += z.factor[j] * x.shift[k]
        if j:
            change[c, place[0, k]] += z.shift[j] * x.factor[k]
        if j and k:
            change[c, place[0, 0]] += z.shift[j] * x.shift[k]
    return change


def _restated(
    posterior: Posterior | None,
    old_level: float,
    old_weights: float,
    new_prior: float,
    change: Numbers,
    rise: float,
) -> Moments | None:
    """Return mean and covariance in new units, in which a row is ``change @ row``.

    The priors are variances; that of column 0 was ``old_level``. All rewards are lower by ``rise``.
    """
    if posterior is None or not posterior.width:
        return None
    d = posterior.width
    precision = _inverse(posterior.covariance)
    weighted_mean = precision @ posterior.mean
    precision -= np.eye(d) / old_weights
    precision[0, 0] += 1.0 / old_weights - 1.0 / old_level
    weighted_mean -= rise * precision[:, 0]
    change = change[:d, :d]
    precision = change @ precision @ change.T
    precision += np.eye(d) / new_prior
    covariance = _inverse((precision + precision.T) / 2.0)
    return covariance @ (change @ weighted_mean), covariance


def _inverse(matrix: Numbers) -> Numbers:
    """Return the inverse of a symmetric matrix that is positive definite but for rounding."""
    size = np.sqrt(np.abs(np.diag(matrix)))
    scale = np.outer(size, size)
    identity = np.eye(len(size))
    for jitter in JITTERS:
        try:
            factor = cho_factor(matrix / scale + jitter * identity, lower=True)
        except np.linalg.LinAlgError:
            continue
        inverse = cho_solve(factor, identity) / scale
        return (inverse + inverse.T) / 2.0
    return np.diag(1.0 / size**2)
