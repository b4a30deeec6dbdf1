"""Batch models of scikit-learn and LightGBM, fitted again as a stream grows."""

import warnings
from functools import cache, partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack
from sklearn import config_context
from sklearn.linear_model import LogisticRegression, Ridge

from romco.rounds import Features
from romco.streams import Stream
from romco.typing import Floats

Places = NDArray[np.intp]
GROWTH = 1.25  # a model is fitted again once it can learn from so many times as many events
TREES_GROWTH = 1.5  # trees take longer
MIN_TREES_EVENTS = 50  # fewer cannot fill two leaves of LightGBM
MAX_EVENTS = 100_000  # of a table that is small enough to be fitted again and again
MAX_CELLS = 50_000_000  # of its rows, times classes
MAX_DENSE_COLUMNS = 256


@cache
def has_trees() -> bool:
    """Return whether LightGBM is installed."""
    return find_spec("lightgbm") is not None


def is_small(stream: Stream) -> bool:
    """Return whether a table can be fitted again and again; these models take no offset."""
    rows, columns = stream.x.shape
    cells = rows * columns
    if columns > MAX_DENSE_COLUMNS:
        cells = csr_array(stream.x).nnz
    few = rows <= MAX_EVENTS and cells * max(stream.answers, 1) <= MAX_CELLS
    return few and stream.offset is None


def with_tasks(x: Features, task: NDArray[np.int64], n_tasks: int) -> csr_array:
    """Return rows with one more column for each task."""
    one_hot = (np.ones(len(task)), (np.arange(len(task)), task))
    return csr_array(hstack([csr_array(x), csr_array(one_hot, shape=(len(task), n_tasks))]))


def standardised(x: Features) -> Features:
    """Scale columns of numbers by mean and standard deviation; indicators stay 0 and 1.

    Wide tables keep their zeros, and are scaled by their root mean square instead.
    """
    sparse = csr_array(x)
    n, d = sparse.shape
    counts = np.maximum(np.bincount(sparse.indices, minlength=d), 1)
    not_one = np.bincount(sparse.indices, sparse.data != 1.0, minlength=d)
    number = not_one > 0
    if d > MAX_DENSE_COLUMNS:
        size = np.sqrt(np.bincount(sparse.indices, sparse.data**2, minlength=d) / counts)
        factor = np.where(number & (size > 0.0), size, 1.0)
        values = sparse.data / factor[sparse.indices]
        return csr_array((values, sparse.indices, sparse.indptr), shape=(n, d))
    dense = sparse.toarray()
    spread = dense.std(axis=0)
    mean = np.where(number, dense.mean(axis=0), 0.0)
    return np.asarray((dense - mean) / np.where(number & (spread > 0.0), spread, 1.0))


def regress(
    stream: Stream, group: NDArray[np.int64], x: Features, y: Floats, known: Places, begin: Floats
) -> Floats:
    """Predict by scikit-learn's logistic or ridge regression with its defaults, one per group.

    ``y`` (n,) are class numbers or numbers. Each event is predicted from those of its group among
    the first ``known`` (n,); before there are any, by ``begin``: class frequencies (n, K), or
    means (n,). Frequencies count as one event of the group more, so that no class is impossible.
    """
    make = LogisticRegression
    if stream.answers == 0:
        make = Ridge
    predicted = begin.copy()
    x = standardised(x)
    for members in groups(group):
        rows = x[members]
        if not isinstance(rows, np.ndarray):  # columns that do not occur would get no weight
            rows = rows[:, np.unique(rows.indices)]
        of_group = np.searchsorted(members, known[members])
        _refit(make, rows, y[members], of_group, GROWTH, 1, predicted, members)
    return predicted


def boost(
    stream: Stream, group: NDArray[np.int64], x: Features, y: Floats, known: Places, begin: Floats
) -> Floats:
    """Predict by one LightGBM with its defaults for all, the task as a category."""
    import lightgbm

    make: Any = lightgbm.LGBMClassifier
    if stream.answers == 0:
        make = lightgbm.LGBMRegressor
    rows = csr_array(hstack([csr_array(group[:, None].astype(np.float64)), csr_array(x)]))
    rows.indices = rows.indices.astype(np.int32)
    rows.indptr = rows.indptr.astype(np.int32)
    predicted = begin.copy()
    settings = {"n_jobs": 1, "verbose": -1, "categorical_feature": [0]}
    everyone = np.arange(len(y))
    make = partial(make, **settings)
    _refit(make, rows, y, known, TREES_GROWTH, MIN_TREES_EVENTS, predicted, everyone)
    return predicted


def groups(group: NDArray[np.int64]) -> list[Places]:
    """Return the numbers of the events of each group, in their order."""
    order = np.argsort(group, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(group[order])) + 1)


def _refit(
    make: Any,
    x: Any,
    y: Floats,
    known: Places,
    growth: float,
    least: int,
    predicted: Floats,
    members: Places,
) -> None:
    """Predict rows (n,) by models of the first ``known`` (n,), into ``predicted[members]``."""
    n = len(y)
    at = int(np.searchsorted(known, least))
    while at < n:
        events = int(known[at])
        end = int(np.searchsorted(known, max(events + 1, int(np.ceil(growth * events)))))
        with config_context(assume_finite=True), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of few events, few steps, many classes
            found = _fitted(make, x[:events], y[:events], x[at:end], predicted.ndim == 2)
        where = members[at:end]
        if predicted.ndim == 1:
            predicted[where] = found
        else:
            classes, chances = found
            predicted[where] /= events + 1.0
            predicted[np.ix_(where, classes)] += chances * (events / (events + 1.0))
        at = end


def _fitted(make: Any, x: Any, y: Floats, new: Any, classify: bool) -> Any:
    """Fit, and return the numbers of new rows, or classes and their probabilities."""
    if not classify:
        return make().fit(x, y).predict(new)
    classes = np.unique(y)
    if len(classes) == 1:
        return classes.astype(np.intp), np.ones((new.shape[0], 1))
    model = make().fit(x, y)
    return model.classes_.astype(np.intp), model.predict_proba(new)
