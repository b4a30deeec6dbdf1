"""Posteriors in new units and under new priors, as if all rewards had been learned so.

It is done whenever the number of rewards has doubled. A posterior is its prior times a Gaussian
likelihood: the prior is replaced, and the likelihood is expressed in the new units.
"""

from collections.abc import Collection
from itertools import chain
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit

from romco.kernels.choosing import FIRST_TRUST, ChooserKernel, FeatureTable, Person, Posterior
from romco.typing import Floats

SCORE_VARIANCE = 10.0  # of an action's score before anything is learned, by that of the noise,
SIGNAL_VARIANCES = 2.0  # and at least so many times that of numeric rewards,
MAX_SCORE_VARIANCE = 1000.0  # up to this, where actions have no features
LEVEL_VARIANCE = 0.3  # of a person's level for an action, before anything is learned
LEVEL_VARIANCES = 0.03, 3.0  # range of its estimates
PRIOR_RANGE = 0.03, 1.0  # of the estimated variances of actions' weights, times the first
PRIOR_COUNT = 10.0  # weights, levels or people that the first value counts as
PRIOR_STEPS = 5
LEVEL_STEPS = 20
TRUST_STEPS = 20
DENSE_SHARE = 0.5  # columns of which more values are not 0 are centred
SMALLEST_EIGENVALUE = 1e-9  # of a correlation matrix that is not positive definite


class Units(NamedTuple):
    """New origins and units; new standardised columns are factor times old ones plus shift."""

    origin: Floats
    unit: Floats
    factor: Floats
    shift: Floats
    squared_norm: float  # mean of standardised rows, without column 0


class Priors(NamedTuple):
    """Prior variances of an action's level and other weights, and of shared weights."""

    own_level: float
    own_weights: float
    shared_weights: float


class Likelihood(NamedTuple):
    """Sums over rewards, each times its precision, of N learned actions and of all actions.

    Columns that an action lacks are 0.
    """

    rows: Floats  # of x x' (N, d, d)
    rewards: Floats  # of x r (N, d)
    crossed: Floats  # of x (z ⊗ x)' (N, d, p)
    products: Floats  # of (z ⊗ x) (z ⊗ x)', of all (p, p)
    product_rewards: Floats  # of (z ⊗ x) r, of all (p,)


class Moments(NamedTuple):
    """Posterior of the shared weights, and of each action's own given those.

    An action's own weights have mean ``own_mean - slopes @ u``.
    """

    own_mean: Floats  # (N, d)
    own_covariance: Floats  # (N, d, d)
    slopes: Floats  # (N, d, p)
    shared_mean: Floats  # (p,)
    shared_covariance: Floats  # (p, p)


def recentre(kernel: ChooserKernel, reward: float, people: Collection[Person]) -> None:
    """Express all posteriors in the units of what was seen so far; ``reward`` comes next."""
    centre = kernel.centre
    if kernel.numeric and kernel.rewards:
        centre += _mean_level(kernel)
    elif kernel.numeric:
        centre = reward
    context = _units(kernel.context)
    features = _units(kernel.features)
    score = SCORE_VARIANCE
    if not kernel.shared.width:
        score = min(max(score, SIGNAL_VARIANCES * kernel.signal), MAX_SCORE_VARIANCE)
    weights = score / (1.0 + context.squared_norm)
    first = Priors(weights, weights, weights / (1.0 + features.squared_norm))
    noise = kernel.deviation**2
    kernel.trust = _estimate_trust(people)
    levels = _estimate_level_variance(kernel, noise, people)
    seen = _restated(_likelihood(kernel), kernel, context, features, centre - kernel.centre)
    priors = _estimate_priors(seen, first, noise)
    found = _moments(seen, priors)
    own = map(Posterior, found.own_mean, found.own_covariance, found.slopes)
    no_slopes = np.zeros((len(found.shared_mean), 0))
    kernel.replace(
        [None if one is None else next(own) for one in kernel.own],
        Posterior(found.shared_mean, found.shared_covariance, no_slopes),
        context[:2],
        features[:2],
        (*priors, levels),
        centre,
    )


def _mean_level(kernel: ChooserKernel) -> float:
    """Return the mean of the intercepts of all actions that had rewards.

    That of all rewards would be higher: good actions have most of them.
    """
    shared = kernel.shared.mean
    intercepts = [
        one.mean[0] - one.slopes[0] @ shared[: one.pairs] for one in kernel.own if one is not None
    ]
    return float(np.mean(intercepts) + shared[:1].sum())


def _estimate_trust(people: Collection[Person]) -> float:
    """Return the log-odds that a new person reports no opposites, by expectation maximisation."""
    evidence = np.array([person.evidence for person in people])
    trust = FIRST_TRUST
    for _ in range(TRUST_STEPS):
        honest = expit(trust + evidence).sum() + PRIOR_COUNT * expit(FIRST_TRUST)
        trust = float(logit(honest / (len(evidence) + PRIOR_COUNT)))
    return trust


def _estimate_level_variance(
    kernel: ChooserKernel, noise: float, people: Collection[Person]
) -> float:
    """Return the prior variance of people's levels that expectation maximisation finds.

    Those who more likely than not report the opposite say nothing of others' levels.
    """
    variance = kernel.levels
    trusted = [one.levels.values() for one in people if kernel.trust + one.evidence >= 0.0]
    information, precision = np.array([*chain(*trusted)]).reshape(-1, 2).T
    for _ in range(LEVEL_STEPS if noise > 0.0 else 0):
        variances = 1.0 / (precision + 1.0 / variance)
        squares = (information * variances) ** 2 / noise + variances
        total = squares.sum() + PRIOR_COUNT * LEVEL_VARIANCE
        variance = float(np.clip(total / (len(squares) + PRIOR_COUNT), *LEVEL_VARIANCES))
    return variance


def _likelihood(kernel: ChooserKernel) -> Likelihood:
    """Return sums over the rewards: the posteriors without their priors."""
    learned = [one for one in kernel.own if one is not None]
    shape = len(learned), kernel.context.width
    p = kernel.shared.width
    priors = Priors(kernel.own_level, kernel.own_weights, kernel.shared_weights)
    mean = np.zeros(shape)
    covariance = np.zeros((*shape, shape[1]))
    slopes = np.zeros((*shape, p))
    if learned:
        covariance[:] = np.diag(_own_prior(shape[1], priors))
    for k, one in enumerate(learned):
        mean[k, : one.width] = one.mean
        covariance[k, : one.width, : one.width] = one.covariance
        slopes[k, : one.width, : one.pairs] = one.slopes
    precision = _inverse(covariance)
    rewards = np.einsum("nij,nj->ni", precision, mean)
    crossed = precision @ slopes
    products = _inverse(kernel.shared.covariance[None])[0]
    product_rewards = products @ kernel.shared.mean
    product_rewards = product_rewards + np.tensordot(slopes, rewards, ([0, 1], [0, 1]))
    products = products + np.tensordot(crossed, slopes, ([0, 1], [0, 1]))
    products = products - np.eye(p) / priors.shared_weights
    if learned:
        precision = precision - np.diag(1.0 / _own_prior(shape[1], priors))
    return Likelihood(precision, rewards, crossed, products, product_rewards)


def _restated(
    given: Likelihood, kernel: ChooserKernel, context: Units, features: Units, rise: float
) -> Likelihood:
    """Return the sums in new units, in which all rewards are lower by ``rise``."""
    change = np.diag(context.factor)
    change[1:, 0] = context.shift[1:]
    p = len(given.product_rewards)
    products = _change_of_products(kernel, context, features)[:p, :p]
    rewards = given.rewards - rise * given.rows[:, :, 0]
    product_rewards = given.product_rewards - rise * given.crossed[:, 0].sum(axis=0)
    return Likelihood(
        change @ given.rows @ change.T,
        rewards @ change.T,
        change @ given.crossed @ products.T,
        products @ given.products @ products.T,
        products @ product_rewards,
    )


def _moments(given: Likelihood, priors: Priors) -> Moments:
    """Return the posterior under some priors."""
    d, p = given.crossed.shape[1:]
    covariance = _inverse(given.rows + np.diag(1.0 / _own_prior(d, priors)))
    slopes = covariance @ given.crossed
    mean = np.einsum("nij,nj->ni", covariance, given.rewards)
    precision = given.products - np.tensordot(given.crossed, slopes, ([0, 1], [0, 1]))
    shared = _inverse((precision + np.eye(p) / priors.shared_weights)[None])[0]
    weighted = given.product_rewards - np.tensordot(slopes, given.rewards, ([0, 1], [0, 1]))
    return Moments(mean, covariance, slopes, shared @ weighted, shared)


def _estimate_priors(given: Likelihood, first: Priors, noise: float) -> Priors:
    """Return the prior variances under which the rewards are likely (MacKay's fixed point).

    Without features of actions only that of their levels: a wide prior guards against choices that
    are greedy too soon. With features there is doubt to divide between shared and own weights.
    """
    found = first
    for _ in range(PRIOR_STEPS if noise > 0.0 else 0):
        mean, covariance, slopes, shared_mean, shared_covariance = _moments(given, found)
        own = mean - slopes @ shared_mean
        through_shared = ((slopes @ shared_covariance) * slopes).sum(axis=2)
        doubt = np.einsum("nii->ni", covariance) + through_shared
        own_level = _variance(own[:, 0], doubt[:, 0], noise, found.own_level, first.own_level)
        if not len(shared_mean):
            found = found._replace(own_level=own_level)
            continue
        weights = own[:, 1:], doubt[:, 1:], noise, found.own_weights, first.own_weights
        shared = shared_mean, np.diag(shared_covariance), noise
        variances = found.shared_weights, first.shared_weights
        found = Priors(own_level, _variance(*weights), _variance(*shared, *variances))
    return found


def _variance(mean: Floats, variance: Floats, noise: float, prior: float, first: float) -> float:
    """Return the next estimate of the prior variance of weights with these moments under it."""
    known = max(mean.size - float(variance.sum()) / prior, 0.0)  # weights that rewards tell of
    squares = float((mean**2).sum()) / noise
    found = (squares + PRIOR_COUNT * first) / (known + PRIOR_COUNT)
    return min(max(found, PRIOR_RANGE[0] * first), PRIOR_RANGE[1] * first)


def _own_prior(width: int, priors: Priors) -> Floats:
    """Return the prior variances of an action's own weights."""
    prior = np.full(width, priors.own_weights)
    prior[0] = priors.own_level
    return prior


def _units(table: FeatureTable) -> Units:
    """Return units from the statistics of columns.

    A column that is mostly 0 keeps 0 as its origin; its unit is the size of its other values.
    """
    rows = max(table.rows, 1.0)
    mean, deviations, nonzero, old_origin, old_unit = table.columns[: table.width].T
    variance = deviations / rows
    dense = nonzero > DENSE_SHARE * rows
    square = (variance + mean**2) * rows / np.maximum(nonzero, 1.0)
    size = np.sqrt(np.where(dense & (variance > 0.0), variance, square))
    origin = np.where(dense, mean, 0.0)
    unit = np.where(size > 0.0, size, 1.0)
    factor = old_unit / unit
    shift = (old_origin - origin) / unit
    squares = (variance + (mean - origin) ** 2) / unit**2
    return Units(origin, unit, factor, shift, float(squares[1:].sum()))


def _change_of_products(kernel: ChooserKernel, x: Units, z: Units) -> Floats:
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


def _inverse(matrices: Floats) -> Floats:
    """Return inverses of symmetric matrices (N, d, d), positive definite but for rounding."""
    size = np.sqrt(np.abs(np.einsum("nii->ni", matrices)))
    scale = size[:, :, None] * size[:, None, :]
    scaled = (matrices + matrices.transpose(0, 2, 1)) / (2.0 * scale)
    try:
        half = np.linalg.inv(np.linalg.cholesky(scaled))
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(scaled)
        roots = np.sqrt(np.maximum(values, SMALLEST_EIGENVALUE))
        half = (vectors / roots[:, None, :]).transpose(0, 2, 1)
    return half.transpose(0, 2, 1) @ half / scale
