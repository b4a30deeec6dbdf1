"""Means of the mixed learner of numbers, found from all rows at once.

Row by row, what all tasks share and what a task has of its own move as if they were independent:
what one of them learned too much of is not given back. Where all rows are at hand, the mode of the
posterior is found, with the same functions of columns, variances and noise. It is penalised least
squares, whose weights of rows are those of Student's t. Each step is solved by conjugate gradients,
preconditioned by the precisions of all weights and by the covariances of those that most rows have.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from romco.kernels.auto import constants
from romco.kernels.auto.auto import (
    CURVE_FIELDS,
    FEATURE_FIELDS,
    PAIR_FIELDS,
    STREAM_FIELDS,
    TASK_FIELDS,
)
from romco.learners.base import Arrays
from romco.rounds import Round
from romco.typing import Floats

AutoNumber = Any  # which is made of this
ENTRIES_MAX = 10_000_000  # of a design; they take 300 MB
STEPS_MAX = 20  # of weights of rows
ITERATIONS_MAX = 200  # of conjugate gradients in a step
TOLERANCE = 1e-5  # of a residual, relative
BLOCK_MAX = 300  # weights whose precision matrix is factored
BLOCK_SHARE = 0.5  # of the rows, that have each of them
SETTLED = 1e-3  # mean change of a prediction; answers have variance 1
MEAN = FEATURE_FIELDS.index("mixed_mean")
LEVEL = TASK_FIELDS.index("level_information")
SLOPE = PAIR_FIELDS.index("slope_information")
OWN_LEVEL = TASK_FIELDS.index("own_level_mean")
OWN_LEVEL_SPENT = TASK_FIELDS.index("own_level_spent")
CURVE = CURVE_FIELDS.index("slope_information")


class Rows(NamedTuple):
    """The rows of all weights, and their answers."""

    design: Any  # (n, p) sparse: intercept, features, functions, levels, slopes, own curves
    y: Floats  # (n,) from the origin
    weight: Floats  # (n,)


def find_means(
    learner: AutoNumber, rounds: Iterable[Round], state: Arrays, given: Arrays, share: float
) -> bool:
    """Replace the means in a state of the learner, in which none is information.

    ``share`` of each is that in the state ``given``, which learned the events in their order.
    Return False, and change nothing, where the rows are too many.
    """
    size = np.sqrt(learner.kernel.answer_variance())
    rows = _read(learner, rounds, state)
    if rows is None or size == 0.0:
        return False
    parts = _means(state)
    start = np.concatenate([part.ravel() for part in parts]) / size
    noise = float(state["stream"][STREAM_FIELDS.index("mixed_noise")])
    used = np.unique(rows.design.indices)
    rows = Rows(rows.design[:, used], rows.y / size, rows.weight)
    found = np.zeros(len(start))  # as are those that no row has
    found[used] = size * mode(rows, _priors(learner, state)[used], noise, start[used])
    before = state["intercept"][0, MEAN]
    ends = np.cumsum([part.size for part in parts])
    joint = np.split(found, ends[:-1])
    for part, mean, own in zip(parts, joint, _means(given), strict=True):
        part[...] = (1.0 - share) * mean.reshape(part.shape) + share * own
    known = state["tasks"][:, OWN_LEVEL_SPENT] > 0.0  # else it is 0, and stays there
    state["tasks"][known, OWN_LEVEL] -= state["intercept"][0, MEAN] - before
    return True


def mode(rows: Rows, prior: Floats, noise: float, mean: Floats) -> Floats:
    """Return the mode (p,) of weights, from others on.

    ``prior`` (p,) are their variances; errors follow Student's t whose squared scale is ``noise``.
    """
    from scipy.linalg import cho_factor, cho_solve  # here, so that `import romco` stays fast
    from scipy.sparse import csr_array
    from scipy.sparse.linalg import LinearOperator, cg

    nu = constants.DEGREES_OF_FREEDOM
    design, transposed = rows.design, rows.design.T
    block = _frequent(design)
    dense = design[:, block].toarray()
    squares = csr_array((design.data**2, design.indices, design.indptr), shape=design.shape).T
    predicted = design @ mean
    size = (len(mean), len(mean))
    for _ in range(STEPS_MAX):
        error = rows.y - predicted
        trust = rows.weight * (nu + 1.0) / (nu * noise + error**2)
        diagonal = squares @ trust + 1.0 / prior
        factor = cho_factor((dense.T * trust) @ dense + np.diag(1.0 / prior[block]))

        def times(v: Floats, trust: Floats = trust) -> Floats:
            return np.asarray(transposed @ (trust * (design @ v)) + v / prior)

        def scaled(v: Floats, diagonal: Floats = diagonal, factor: Any = factor) -> Floats:
            result = v / diagonal
            result[block] = cho_solve(factor, v[block])
            return result

        mean, _ = cg(
            LinearOperator(size, matvec=times, dtype=float),
            transposed @ (trust * rows.y),
            x0=mean,
            rtol=TOLERANCE,
            maxiter=ITERATIONS_MAX,
            M=LinearOperator(size, matvec=scaled, dtype=float),
        )
        before, predicted = predicted, design @ mean
        if np.abs(predicted - before).mean() <= SETTLED:
            break
    return np.asarray(mean)


def _frequent(design: Any) -> NDArray[np.intp]:
    """Return the columns of a design that most rows have."""
    counts = np.bincount(design.indices, minlength=design.shape[1])
    order = np.argsort(-counts, kind="stable")[:BLOCK_MAX]
    return order[counts[order] > BLOCK_SHARE * design.shape[0]]


def _means(state: Arrays) -> list[Floats]:
    """Return views of the means, in the order of the columns of a design."""
    return [
        state["intercept"][:, MEAN],
        state["features"][:, MEAN],
        state["functions"][:, MEAN],
        state["tasks"][:, LEVEL],
        state["personal"][..., SLOPE],
        state["curves"][:, CURVE],
    ]


def _priors(learner: AutoNumber, state: Arrays) -> Floats:
    """Return the prior variance (p,) of each mean, by that of the answers."""
    level, slopes = learner.variances()
    n_tasks = len(state["tasks"])
    own = np.tile(slopes, n_tasks)
    if "personal_keys" in state:
        own = slopes[state["personal_keys"] & 0xFFFFFFFF]
    curves = learner.kernel.curve_variances()[state["curves_keys"] & 0xFFFFFFFF]
    shared = 1 + len(state["features"]) + len(state["functions"])
    return np.concatenate([np.full(shared, learner.prior), np.full(n_tasks, level), own, curves])


def _read(learner: AutoNumber, rounds: Iterable[Round], state: Arrays) -> Rows | None:
    """Read rows as the mixed learner does; None if they are too many."""
    from scipy.sparse import csr_array, vstack

    sizes = np.array([part.size for part in _means(state)])
    first = np.cumsum(sizes) - sizes
    pair_keys = state.get("personal_keys")
    if pair_keys is None:
        task = np.arange(len(state["tasks"]))
        pair_keys = (task[:, None] << 32 | np.arange(len(state["features"]))).ravel()
    origin = float(state["stream"][STREAM_FIELDS.index("origin")])
    parts, answers, weights = [], [], []
    for round in rounds:
        events = learner.events_of(round)
        starts, feature, value, _, _, functions, _ = learner.kernel.entries(events)
        n = len(round.task)
        every = np.arange(n)
        row = np.repeat(every, np.diff(starts))
        of_function, function = np.nonzero(functions)
        drawn = functions[of_function, function]
        own, own_row, own_value = _own(pair_keys, round.task, row, feature, value)
        curve, curve_row, curve_value = _own(
            state["curves_keys"], round.task, of_function, function, drawn
        )
        columns = [np.zeros(n, dtype=np.int64), feature, function, round.task, own, curve]
        places = [part + at for part, at in zip(columns, first, strict=True)]
        values = [np.ones(n), value, drawn, np.ones(n), own_value, curve_value]
        at = [every, row, of_function, every, own_row, curve_row]
        entries = np.concatenate(values), (np.concatenate(at), np.concatenate(places))
        parts.append(csr_array(entries, shape=(n, sizes.sum())))
        offset = 0.0 if round.offset is None else round.offset
        answers.append(round.y - offset - origin)
        weights.append(np.ones(n) if round.weight is None else round.weight)
        if sum(part.nnz for part in parts) > ENTRIES_MAX:
            return None
    return Rows(vstack(parts, format="csr"), np.concatenate(answers), np.concatenate(weights))


def _own(
    keys: NDArray[np.int64],
    task: NDArray[np.int64],
    row: NDArray[np.intp],
    column: NDArray[Any],
    value: Floats,
) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
    """Return numbers of stored pairs of a task and a column, and rows and values of each."""
    if not len(keys):
        return np.empty(0, np.intp), np.empty(0, np.intp), np.empty(0)
    wanted = task[row].astype(np.int64) << 32 | column
    found = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    stored = keys[found] == wanted
    return found[stored], row[stored], value[stored]
