"""Contributions of features to a margin of romco-auto; shared and personal parts add up to it."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from romco.kernels.auto.subspace import PROGRESS

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Numbers = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]
DIRECTIONS = [6, 7, 8, 9], [12, 13, 14, 15]  # columns of `shared` that hold B, on either side


class Contributions(NamedTuple):
    """Parts of margins: features through what tasks share, through the task's own, and the rest.

    A feature that is nearly always there contributes by its distance from its mean.
    """

    shared: "csr_array"  # (n, d)
    personal: "csr_array"  # (n, d)
    intercept: Numbers  # (n,)

    def margins(self) -> Numbers:
        """Their sums (n,)."""
        return np.asarray(self.shared.sum(axis=1) + self.personal.sum(axis=1) + self.intercept)


def factor_in_use(arrays: Arrays) -> Numbers:
    """F (m, 4), of the side of the subspace that is in use."""
    return arrays["factor"][:, 4 * side_in_use(arrays) :][:, :4]


def side_in_use(arrays: Arrays) -> int:
    """Return which of the two sides of the subspace is in use, 0 or 1."""
    return int(arrays["progress"][3] == 1.0)


def with_second_side(arrays: Arrays, directions: str, at: int) -> Arrays:
    """Add an empty side to a subspace whose B are four columns of an array, from ``at`` on."""
    array, factor, progress = arrays[directions], arrays["factor"], np.zeros(PROGRESS)
    progress[4:8] = array[:, at : at + 4].any(axis=0)
    return {
        **arrays,
        directions: np.hstack([array, np.zeros((len(array), 4))]),
        "factor": np.hstack([factor, np.zeros_like(factor)]),
        "progress": progress,
    }


def contributions(
    arrays: Arrays,
    task: NDArray[np.int64],
    chances: Numbers,
    starts: NDArray[np.int64],
    features: NDArray[np.int32],
    values: Numbers,
    own: Numbers,
    variances: Numbers,
) -> Contributions:
    """Parts of the margins of events (n,) whose entries (k,) follow one another.

    Given how unsure the learners and combiners are of an event, all that they say is linear in
    its features; and log-odds M of a mixture of log-odds m_k with chances c_k are linear in these:
    M = sum_k c_k g(m_k) / g(M) m_k, where g(m) = tanh(m / 2) / m.
    """
    from scipy.sparse import csr_array  # here, so that `import romco` stays fast

    row = np.repeat(np.arange(len(task)), np.diff(starts))
    all_ = arrays["shared"][features]
    heard = _stacking_inputs(arrays, task, row, values, all_, own, variances)
    a = _coefficients(arrays, chances, heard.z)
    sure_all, sure_own, sure_forgets = heard.sure.T
    common = np.column_stack(
        [
            *(a[:, 0], a[:, 1] * sure_all, a[:, 4]),
            *(a[:, 5:9] * factor_in_use(arrays)[task]).T,
            a[:, 10] * sure_forgets,
        ]
    )
    personal = np.column_stack([a[:, 2], a[:, 3] * sure_own, a[:, 4]])
    shape = (len(task), len(arrays["shared"]))

    def part(coefficient: Numbers, vectors: Numbers) -> "csr_array":
        terms = values * (coefficient[row] * vectors).sum(axis=1)
        return csr_array((terms, features, starts), shape=shape)

    level = a[:, 9] * heard.z[:, 9] + (a[:, [1, 3, 10]] * heard.sure * heard.intercept).sum(axis=1)
    return Contributions(
        part(common, all_[:, [0, 1, 2, *DIRECTIONS[side_in_use(arrays)], 10]]),
        part(personal, own[:, :3]),
        level,
    )


class _Inputs(NamedTuple):
    z: Numbers  # (n, 11) inputs of the combiners; margin of the learner that forgets
    sure: Numbers  # (n, 3) by how much variance shrinks the logistic learners
    intercept: Numbers  # (n, 3) of theirs


def _stacking_inputs(
    arrays: Arrays,
    task: NDArray[np.int64],
    row: NDArray[np.int64],
    values: Numbers,
    all_: Numbers,
    own: Numbers,
    variances: Numbers,
) -> _Inputs:
    def sums(terms: Numbers) -> Numbers:
        totals = np.zeros((len(task), terms.shape[1]))
        np.add.at(totals, row, terms)
        return totals

    x = values[:, None]
    u, v = sums(x * all_[:, :3]), sums(x * own[:, :3])
    b, c = arrays["intercept"][:, 0]
    level = np.full(len(task), arrays["level"][0, 0])
    own_level = c + arrays["own_intercept"][task, 0]
    intercept = np.column_stack([np.full(len(task), b), own_level, level])
    sure = _sureness(variances)
    forgets = sums(x * all_[:, 10:11])[:, 0]
    logistic = sure * (np.column_stack([u[:, 1], v[:, 1], forgets]) + intercept)
    directions = sums(x * all_[:, DIRECTIONS[side_in_use(arrays)]]) * factor_in_use(arrays)[task]
    z = [u[:, 0], logistic[:, 0], v[:, 0], logistic[:, 1], u[:, 2] + v[:, 2]]
    task_level = arrays["own_intercept"][task, 2]
    return _Inputs(np.column_stack([*z, directions, task_level, logistic[:, 2]]), sure, intercept)


def _coefficients(arrays: Arrays, chances: Numbers, z: Numbers) -> Numbers:
    """Return coefficients (n, 11): the margin is their sum over the stacking inputs."""
    parts = []
    first = slice(0, 10), arrays["weight"], arrays["covariance"]
    places = slice(0, 2), slice(2, 4)
    others = zip(places, arrays["pair_weight"], arrays["pair_covariance"], strict=True)
    for heard, weight, covariance in (first, *others):
        part = np.zeros_like(z)
        variance = ((z[:, heard] @ covariance) * z[:, heard]).sum(axis=1)
        part[:, heard] = _sureness(variance)[:, None] * weight
        parts.append(part)
    forgets = np.zeros_like(z)
    forgets[:, 10] = 1.0
    settled = chances[:, 4:] * _mix(chances[:, :3], z, parts)
    weight = chances[:, 3:4]
    return _mix(np.hstack([1.0 - weight, weight]), z, [settled, forgets])


def _mix(chances: Numbers, z: Numbers, parts: list[Numbers]) -> Numbers:
    """Coefficients (n, 11) of the log-odds of a mixture, from those of its parts."""
    margins = np.array([(part * z).sum(axis=1) for part in parts]).T
    yes = (chances * (1.0 / (1.0 + np.exp(-margins)))).sum(axis=1)
    whole = np.log(yes / (1.0 - yes))
    mixture = chances * _gain(margins) / _gain(whole)[:, None]
    return np.asarray(np.einsum("nk,knv->nv", mixture, np.array(parts)))


def _sureness(variance: Numbers) -> Numbers:
    return np.asarray(1.0 / np.sqrt(1.0 + np.pi * variance / 8.0))


def _gain(margin: Any) -> Numbers:
    """tanh(m / 2) / m, a half at 0."""
    safe = np.where(np.abs(margin) > 1e-6, margin, 1.0)
    return np.asarray(np.where(np.abs(margin) > 1e-6, np.tanh(safe / 2.0) / safe, 0.5))
