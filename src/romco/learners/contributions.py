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
        """Return the sums (n,)."""
        return np.asarray(self.shared.sum(axis=1) + self.personal.sum(axis=1) + self.intercept)


def factor_in_use(arrays: Arrays) -> Numbers:
    """F (m, 4), of the side of the subspace that is in use."""
    return arrays["factor"][:, 4 * side_in_use(arrays) :][:, :4]


def side_in_use(arrays: Arrays) -> int:
    """Return which of the two sides of the subspace is in use, 0 or 1."""
    return int(arrays["progress"][3] == 1.0)


def add_second_side(arrays: Arrays, directions: str, at: int) -> None:
    """Add an empty side to a subspace whose B are four columns of an array, from ``at`` on."""
    array, factor, progress = arrays[directions], arrays["factor"], np.zeros(PROGRESS)
    progress[4:8] = array[:, at : at + 4].any(axis=0)
    arrays[directions] = np.hstack([array, np.zeros((len(array), 4))])
    arrays |= {"factor": np.hstack([factor, np.zeros_like(factor)]), "progress": progress}


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

    row, n = np.repeat(np.arange(len(task)), np.diff(starts)), len(task)
    side, factor = DIRECTIONS[side_in_use(arrays)], factor_in_use(arrays)[task]
    everybody, x = arrays["shared"][features], values[:, None]

    def sums(terms: Numbers) -> Numbers:
        totals = np.zeros((n, terms.shape[1]))
        np.add.at(totals, row, terms)
        return totals

    u, v, forgets = sums(x * everybody[:, :3]), sums(x * own[:, :3]), sums(x * everybody[:, 10:11])
    b, c = arrays["intercept"][:, 0]
    own_level, level = c + arrays["own_intercept"][task, 0], arrays["level"][0, 0]
    intercept = np.column_stack([np.full(n, b), own_level, np.full(n, level)])
    sure = _sureness(variances)
    logistic = sure * (np.column_stack([u[:, 1], v[:, 1], forgets[:, 0]]) + intercept)
    z = np.column_stack(
        [
            *(u[:, 0], logistic[:, 0], v[:, 0], logistic[:, 1], u[:, 2] + v[:, 2]),
            *(sums(x * everybody[:, side]) * factor, arrays["own_intercept"][task, 2]),
            logistic[:, 2],
        ]
    )
    a = _coefficients(arrays, chances, z)
    common = np.column_stack(
        [a[:, 0], a[:, 1] * sure[:, 0], a[:, 4], a[:, 5:9] * factor, a[:, 10] * sure[:, 2]]
    )
    personal = np.column_stack([a[:, 2], a[:, 3] * sure[:, 1], a[:, 4]])

    def part(coefficient: Numbers, vectors: Numbers) -> "csr_array":
        terms = values * (coefficient[row] * vectors).sum(axis=1)
        return csr_array((terms, features, starts), shape=(n, len(arrays["shared"])))

    rest = a[:, 9] * z[:, 9] + (a[:, [1, 3, 10]] * sure * intercept).sum(axis=1)
    return Contributions(
        part(common, everybody[:, [0, 1, 2, *side, 10]]), part(personal, own[:, :3]), rest
    )


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
