"""Averaging of learners that learned the same events in different orders.

Margins are linear in the weights, so the mean of the weights has the mean of the margins. Arrays
are averaged by the names of their fields. Covariances of frequent features and counts of events
are taken from one order, because every order learned each label once. Fields that follow the last
events are those of the given order.

The given order counts only if it matters, which the stacking weights for frozen predictions show.
Between random orders they differ by chance. If those of the given order differ more, later events
are unlike earlier ones.
"""

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from romco.kernels.auto.auto import (
    CURVE_FIELDS,
    FEATURE_FIELDS,
    PAIR_FIELDS,
    PLACE_FIELDS,
    STREAM_FIELDS,
    TASK_FIELDS,
    AutoKernel,
)
from romco.kernels.auto.functions import SKETCH_FIELDS
from romco.learners.base import Arrays
from romco.learners.joint import find_means
from romco.learners.sharing import columns_of
from romco.rounds import Round
from romco.typing import Floats

Auto = Any  # romco-auto, which is made of this
GIVEN_ORDER_SHARE = 0.5  # of the given order in the weights, where it matters
JOINT_STACKING = 0.5  # of stacking weights that remain where means were found from all rows
CAUTION = 2.0  # factor of the variance between random orders, estimated from few orders
AVERAGED = (
    *("features", "functions", "intercept", "tasks", "stream"),
    *("weight", "covariance", "frozen_covariance"),
    *("errors", "frozen_errors"),
)
ANSWERS = ("origin", "total", "squares")  # the same in all orders, measured from the first
LAST_OF_STREAM = ("moment", "moment_variance", "tracking", "drift")  # follow the last events
LAST_OF_TASKS = ("residual", "answer")
LAST_OF_PLACES = ("moment_mean", "moment_spent")
UNIT_FIELDS = (
    *("count", "mean", "deviations", "centre", "size", "factor", "due_count", "due_events"),
)
COUNTED = [UNIT_FIELDS.index(name) for name in ("count", "deviations")]
DUE = [UNIT_FIELDS.index(name) for name in ("due_count", "due_events")]
OBSERVED_EVENTS = 16.0  # that observed rows count as in the unit of rows
FAR_OFF = 1e300  # never: number of events until units are computed again


class OrderShares(NamedTuple):
    """Weights (k + 1,) of k random orders and of the given one, the last, in averages."""

    of_learners: Floats
    of_stacking: Floats  # of stacking weights


def keep_units(state: Arrays) -> None:
    """Set counts of rows back, and fix the units of features until states are averaged."""
    total, count = state["clock"][:2]
    if count:
        state["clock"][:2] = OBSERVED_EVENTS * total / count, OBSERVED_EVENTS
        if "stream" in state:
            state["stream"][STREAM_FIELDS.index("unit")] = np.exp(-0.5 * total / count)
    state["units"][:, DUE] = FAR_OFF


def copy_units(state: Arrays, found: Arrays) -> None:
    """Copy units of features, found in all rows, to a learner without events."""
    for name in ("units", "typical", "clock"):
        state[name][...] = found[name]
    keep_units(state)


def count_rows_once(state: Arrays) -> None:
    """Halve counts of rows, which were counted twice, and let units change again."""
    state["units"][:, COUNTED] *= 0.5
    state["units"][:, DUE] = state["units"][:, :1]
    state["typical"][0] *= 0.5


def copy_functions(state: Arrays, found: Arrays) -> None:
    """Copy functions and ranks of columns to a learner without events, and fix them."""
    for name in ("definitions", "frequent", "mixed_frequent"):
        state[name][...] = found[name]
    sketches = _columns(PLACE_FIELDS, SKETCH_FIELDS)
    state["places"][:, sketches] = found["places"][:, sketches]
    state["stream"][STREAM_FIELDS.index("functions_due")] = FAR_OFF


def average(
    first: Auto,
    others: Sequence[Auto],
    given: Auto,
    order_shares: OrderShares | None = None,
    rounds: Iterable[Round] = (),
) -> None:
    """Replace ``first`` by the weighted mean of ``first``, ``others`` and ``given``.

    ``first`` and ``others`` learned the events in random orders, ``given`` in the given order, all
    with the same units. Without ``order_shares`` the shares follow from the stacking weights.
    """
    states = [learner.arrays() for learner in (first, *others, given)]
    weights = np.array([state["frozen_weight"] for state in states])
    if order_shares is None:
        order_shares = shares_of_orders(weights, states[0]["frozen_covariance"])
    shares = order_shares.of_learners.copy()
    of_stacking = order_shares.of_stacking.copy()
    units = np.array([_of_stream(state, "unit") for state in states])
    shares[units != units[0]] = 0.0  # numbers: the order was so odd that the unit of rows moved
    shares /= shares.sum()
    for state in states:
        _move_origin(state, _of_stream(states[0], "origin"))
    first.kernel.restart_subspace()
    directions = first.directions().copy()
    for learner, state in zip((first, *others, given), states, strict=True):
        _scale_information(state, learner.kernel, to_means=True)
    blocks = first.kernel.global_block, first.kernel.mixed_block
    spent = [block.read_block()[1:] for block in blocks]
    _average_arrays(states, shares)
    for block, kept in zip(blocks, spent, strict=True):
        block.put_block(np.vstack([block.read_block()[:1], kept]))
    first.kernel.others_change()
    averaged = states[0] | averaged_pairs("personal", states, shares)
    averaged |= averaged_pairs("curves", states, shares)
    if rounds and first.answers == 0:  # numbers: means of all rows at once
        last = np.zeros(len(shares))
        last[-1] = 1.0
        of_given = states[-1] | averaged_pairs("personal", states, last)
        of_given |= averaged_pairs("curves", states, last)
        if find_means(first, rounds, averaged, of_given, shares[-1]):
            of_stacking[:-1] *= JOINT_STACKING
    states[0]["frozen_weight"][:] = of_stacking @ weights
    first.kernel.others_change()
    _scale_information(averaged, first.kernel, to_means=False)
    for name, store in first.stores.items():
        store.load(averaged, name)
    first.kernel.others_change()
    rows = np.flatnonzero(directions.any(axis=1)).astype(np.int32)
    first.kernel.put_directions(rows, np.ascontiguousarray(directions[rows]))


def shares_of_orders(weights: Floats, covariance: Floats) -> OrderShares:
    """Return the shares of all orders from stacking weights (k + 1, n), the given one last."""
    matters = order_effect(weights[:-1], weights[-1], covariance)
    n = len(weights) - 1
    order_shares = [
        np.append(np.full(n, (1.0 - share) / n), share)
        for share in (GIVEN_ORDER_SHARE * matters, matters)
    ]
    return OrderShares(*order_shares)


def _of_stream(state: Arrays, name: str) -> float:
    return float(state["stream"][STREAM_FIELDS.index(name)])


def _move_origin(state: Arrays, origin: float) -> None:
    """Shift labels that are numbers to another origin; two classes have none."""
    shift = _of_stream(state, "origin") - origin
    moved = _columns(FEATURE_FIELDS, ("global_mean", "global_copy", "mixed_mean", "mixed_copy"))
    state["intercept"][:, moved] += shift
    state["tasks"][:, TASK_FIELDS.index("answer")] += shift


def _scale_information(state: Arrays, kernel: AutoKernel, *, to_means: bool) -> None:
    """Replace precision times mean of levels and slopes by the mean, or the other way round.

    States differ in precision, so averaging means needs the means themselves.
    """
    slopes = kernel.slope_variances()
    if "personal_keys" in state:
        slopes = slopes[state["personal_keys"] & 0xFFFFFFFF]
    curves = kernel.curve_variances()[state["curves_keys"] & 0xFFFFFFFF]
    parts = (
        (state["tasks"], TASK_FIELDS, "level", _of_stream(state, "level_variance")),
        (state["personal"], PAIR_FIELDS, "slope", slopes),
        (state["curves"], CURVE_FIELDS, "slope", curves),
    )
    for values, fields, name, variance in parts:
        information, precision = _columns(fields, (f"{name}_information", f"{name}_precision"))
        scale = 1.0 / variance + values[..., precision]
        values[..., information] *= 1.0 / scale if to_means else scale


def order_effect(shuffled: Floats, given: Floats, covariance: Floats) -> float:
    """Return how far an order of events differs from random ones: 0 where it is like them, up to 1.

    It is the James-Stein factor that shrinks the weights (n,) of the given order towards the mean
    of those of random orders (k, n), whose variance is a multiple of a covariance (n, n).

    >>> random = np.array([[0.9, 0.1, 0.0], [1.1, -0.1, 0.1], [1.0, 0.0, -0.1]])
    >>> order_effect(random, np.array([1.05, 0.05, 0.0]), np.eye(3))
    0.0
    >>> round(order_effect(random, np.array([0.0, 2.0, 0.0]), np.eye(3)), 2)
    0.99
    """
    k, n = shuffled.shape
    precision = np.linalg.pinv(covariance, hermitian=True)
    centre = shuffled.mean(axis=0)
    spread = shuffled - centre
    variance = np.einsum("ki,ij,kj->", spread, precision, spread) / (n * (k - 1)) * (1.0 + 1.0 / k)
    difference = given - centre
    distance = difference @ precision @ difference
    by_chance = CAUTION * (n - 2) * variance
    return float(1.0 - by_chance / distance) if distance > by_chance else 0.0


def _average_arrays(states: Sequence[Arrays], shares: Floats) -> None:
    """Replace arrays of the first state by means, all but those of pairs and directions."""
    first, given = states[0], states[-1]
    _average_places(states, shares)
    answers = _columns(STREAM_FIELDS, ANSWERS)
    of_answers = first["stream"][answers].copy()
    for name in filter(first.__contains__, AVERAGED):
        first[name][...] = mean_of(map(itemgetter(name), states), shares)
    last = _columns(STREAM_FIELDS, LAST_OF_STREAM)
    first["stream"][last] = given["stream"][last]
    first["stream"][answers] = of_answers
    first["stream"][STREAM_FIELDS.index("functions_due")] = 0.0  # others may join from now on
    last = _columns(TASK_FIELDS, LAST_OF_TASKS)
    first["tasks"][:, last] = given["tasks"][:, last]
    count_rows_once(first)


def _average_places(states: Sequence[Arrays], shares: Floats) -> None:
    """Average variances of slopes over the states in which a feature has a place."""
    first = states[0]
    averaged = list(columns_of(PLACE_FIELDS, "evidence", "variance"))
    last = _columns(PLACE_FIELDS, LAST_OF_PLACES)
    frequent = first["frequent"]
    is_feature = (frequent >= 0.0) & (frequent < len(first["features"]))
    for k in np.flatnonzero(is_feature):
        total = np.zeros(len(averaged))
        weight = 0.0
        for state, share in zip(states, shares, strict=True):
            for at in np.flatnonzero(state["frequent"][1:] == frequent[k]) + 1:
                total += share * state["places"][at, averaged]
                weight += share
                latest = state["places"][at, last]  # in the end that of the given order
        first["places"][k, last] = latest
        first["places"][k, averaged] = total / weight


def _columns(fields: Sequence[str], names: Sequence[str]) -> list[int]:
    """Return the column numbers of some fields."""
    return list(map(fields.index, names))


def averaged_pairs(name: str, states: Sequence[Arrays], shares: Floats) -> Arrays:
    """Return the mean of (task, feature) pairs; a pair that a state lacks counts as zero."""
    values = list(map(itemgetter(name), states))
    of_keys = f"{name}_keys"
    if of_keys not in states[0]:
        return {name: mean_of(values, shares)}
    stored = list(map(itemgetter(of_keys), states))
    keys = np.unique(np.concatenate(stored))
    mean = np.zeros((len(keys), values[0].shape[1]))
    for own_keys, own, share in zip(stored, values, shares, strict=True):
        mean[np.searchsorted(keys, own_keys)] += share * own
    return {name: mean, of_keys: keys}


def mean_of(arrays: Iterable[Floats], shares: Floats) -> Floats:
    """Return the weighted sum of arrays."""
    total: Any = 0.0
    for array, share in zip(arrays, shares, strict=True):
        total = total + share * array
    return np.asarray(total)
