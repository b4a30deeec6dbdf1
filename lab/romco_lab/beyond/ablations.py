"""romco-auto with a part switched off, or with another constant.

``python -m romco_lab.beyond.ablations`` prints by how much each part changes the log loss on the
development sets, at most 20,000 events of each, in the order of the file, shuffled and by task.
The first 70 % are learned and predicted live, the rest frozen. With ``--sensitivity`` it prints the
change where a constant is doubled or halved. Names of sets may follow.
"""

import sys
from collections.abc import Callable, Mapping
from functools import partial
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from romco.kernels.auto import constants
from romco.kernels.auto.auto import INPUT_NAMES, STREAM_FIELDS
from romco.learners.auto import Auto
from romco.rounds import Rounds
from romco.streams.datasets import load

Make = Callable[[int, int], Auto]  # from the number of features and tasks
DEVELOPMENT_SETS = (
    *("swissmetro", "star", "nlswork", "fars", "flights", "mhc", "movies", "emails", "spam"),
)
MAX_EVENTS = 20_000
LEARNED = 0.7  # of the events; the others are predicted frozen
OWN, MIXED, HINGE, GLOBAL = LEARNERS = INPUT_NAMES[1:5]


def fix(learner: Auto, *inputs: str, weight: float | None = None) -> None:
    """Let stacking weights of inputs stay as they are, or at a given weight."""
    arrays = learner.arrays()
    at = [INPUT_NAMES.index(name) for name in inputs]
    for model in ("", "frozen_"):
        covariance = arrays[f"{model}covariance"]
        covariance[at] = covariance[:, at] = 0.0
        if weight is not None:
            arrays[f"{model}weight"][at] = weight


def set_stream(learner: Auto, name: str, value: float) -> None:
    """Set a number of the stream's state."""
    learner.arrays()["stream"][STREAM_FIELDS.index(name)] = value


def close_blocks(learner: Auto) -> None:
    """Let no feature have covariances, nor a slope of the moment."""
    for name in ("frequent", "mixed_frequent"):
        learner.arrays()[name][1:] = -2.0  # nothing may join


def hear_only(learner: Auto, name: str) -> None:
    """Let one input be the margin."""
    fix(learner, *INPUT_NAMES, weight=0.0)
    fix(learner, name, weight=1.0)
    set_stream(learner, "tracking", 0.0)


def as_they_are(learner: Auto) -> None:
    """Let a fresh learner take features as they are: of size beyond measure, never found anew."""
    learner.arrays()["units"][:, 4:] = 1e300, 1.0, np.inf, np.inf


def changed(change: Callable[..., None], *given: str | float, **more: float) -> Make:
    """Return what makes learners and changes them."""

    def make(n_features: int, n_tasks: int) -> Auto:
        learner = Auto(n_features, n_tasks)
        change(learner, *given, **more)
        return learner

    return make


def with_constant(name: str, factor: float) -> Make:
    """Return what makes learners with a constant times a factor; of a growth, what exceeds 1."""
    least = 1.0 if name.endswith("GROWTH") else 0.0
    other = {name: least + factor * (getattr(constants, name) - least)}

    def make(n_features: int, n_tasks: int) -> Auto:
        with mock.patch.dict(vars(constants), other):
            return Auto(n_features, n_tasks)

    return make


without = partial(changed, fix, weight=0.0)
SINGLE = {f"only {name}": changed(hear_only, name) for name in LEARNERS}
ABLATIONS = {
    "auto without U": without(*INPUT_NAMES[5:]),
    **{f"auto without {name}": without(name) for name in LEARNERS},
    "auto without hinge": without(OWN, HINGE),
    "auto without logistic": without(MIXED, GLOBAL),
    "auto without learned variances": changed(set_stream, "variances_due", 1e300),
    "auto without covariances": changed(close_blocks),
    "auto without moment": changed(set_stream, "tracking", 0.0),
    "auto without old copies": with_constant("COPY_GROWTH", 0.0),
    "auto with stacking models that do not learn": changed(fix, *INPUT_NAMES),
    "auto with features as they are": changed(as_they_are),
}
VARIANTS = {**ABLATIONS, **SINGLE}


def variant(name: str, n_features: int, n_tasks: int) -> Auto:
    """Return a fresh romco-auto with a part switched off.

    >>> variant("auto without own hinge", 3, 2).trust()["own hinge"]
    0.0
    """
    return VARIANTS[name](n_features, n_tasks)


def log_losses(learner: Auto, rounds: Rounds) -> NDArray[np.float64]:
    """Return mean log losses of single events: the first are learned live, the others frozen."""
    n = int(LEARNED * len(rounds.y))
    others = rounds[n:].events
    live = np.logaddexp(0.0, -rounds.y[:n] * learner.replay(rounds[:n]))
    frozen = np.logaddexp(0.0, -others.y * learner.predict_frozen(others))
    return np.array([live.mean(), frozen.mean()])


def orders(task: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return events as they are, shuffled, and by task."""
    n = len(task)
    return [np.arange(n), np.random.default_rng(n).permutation(n), np.argsort(task, kind="stable")]


def changes(name: str, makes: Mapping[str, Make]) -> NDArray[np.float64]:
    """Return per cent (learners, orders, 2) by which log losses on a set exceed the usual ones."""
    stream, found = load(name), []
    for order in orders(stream.task[:MAX_EVENTS]):
        task = stream.task[order]
        rounds = Rounds(task, stream.x[order], stream.y[order], np.arange(len(order) + 1))
        shape = stream.x.shape[1], int(task.max()) + 1
        usual = log_losses(Auto(*shape), rounds)
        found.append([log_losses(make(*shape), rounds) / usual for make in makes.values()])
    return 100.0 * (np.array(found).transpose(1, 0, 2) - 1.0)


def print_table(makes: Mapping[str, Make], sets: tuple[str, ...]) -> None:
    """Print mean, least and most change of each learner, live and frozen, and the worst sets."""
    found = np.stack([changes(name, makes) for name in sets], axis=1)  # learners, sets, orders, 2
    print("| | live: mean, least, most | on | frozen: mean, least, most | on |")
    print("|---|---|---|---|---|")
    for name, by_set in zip(makes, found, strict=True):
        cells = []
        for one in (by_set[..., 0], by_set[..., 1]):
            worst = sets[int(one.max(axis=1).argmax())]
            cells.append(f"{one.mean():+.2f}, {one.min():+.2f}, {one.max():+.2f} | {worst}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    some = tuple(name for name in sys.argv[1:] if name in DEVELOPMENT_SETS)
    names = [name for name in vars(constants) if name.isupper()]
    pairs = [(name, factor) for name in names for factor in (2.0, 0.5)]
    scaled = {f"{name} x {factor:g}": with_constant(name, factor) for name, factor in pairs}
    print_table(scaled if "--sensitivity" in sys.argv else ABLATIONS, some or DEVELOPMENT_SETS)
