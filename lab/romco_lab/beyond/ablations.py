"""romco-auto with a part switched off: the stacking models cannot give weight to its input.

``python -m romco_lab.beyond.ablations`` prints by how much each part changes the log loss on the
development sets, at most 20,000 events of each, in the order of the file, shuffled and by task.
The first 70 % are learned and predicted live, the rest frozen. With ``--sensitivity`` it prints the
change where a constant is doubled or halved. Names of sets may follow.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from romco.kernels.auto import constants
from romco.kernels.auto.auto import INPUT_NAMES, STREAM_FIELDS
from romco.learners.auto import Auto
from romco.rounds import Rounds
from romco.streams.datasets import load

DEVELOPMENT_SETS = (
    *("swissmetro", "star", "nlswork", "fars", "flights", "mhc", "movies", "emails", "spam"),
)
MAX_EVENTS = 20_000
LEARNED = 0.7  # of the events; the others are predicted frozen
LEARNERS, DIRECTIONS = INPUT_NAMES[1:5], INPUT_NAMES[5:]
CLOSED = -2.0  # a place that no feature may join
NEVER = 1e300  # events that no stream will see


@dataclass(frozen=True)
class Variant:
    """What a learner begins with, where that is not as usual."""

    silent: tuple[str, ...] = ()  # inputs of the stacking models
    only: str = ""  # the one input that is heard, with a weight of 1
    learns: bool = True  # whether the stacking models do
    deviates: bool = True  # whether tasks deviate from their weights
    units: bool = True  # whether features have units of their own
    covariances: bool = True  # of frequent features, and slopes of the moment
    stream: Mapping[str, float] = field(default_factory=dict)  # numbers of the stream's state
    constants: Mapping[str, float] = field(default_factory=dict)


SINGLE = {
    f"only {name}": Variant(only=name, learns=False, stream={"tracking": 0.0}) for name in LEARNERS
}
ABLATIONS = {
    "auto without U": Variant(DIRECTIONS),
    **{f"auto without {name}": Variant((name,)) for name in LEARNERS},
    "auto without hinge": Variant(("own hinge", "global hinge")),
    "auto without logistic": Variant(("mixed logistic", "global logistic")),
    "auto without deviations": Variant(deviates=False),
    "auto without learned variances": Variant(stream={"variances_due": NEVER}),
    "auto without covariances": Variant(covariances=False),
    "auto without moment": Variant(stream={"tracking": 0.0}),
    "auto without old copies": Variant(constants={"COPY_GROWTH": 1.0}),
    "auto with stacking models that do not learn": Variant(learns=False),
    "auto with features as they are": Variant(units=False),
}
VARIANTS = {**ABLATIONS, **SINGLE}


def variant(name: str, n_features: int, n_tasks: int) -> Auto:
    """Return a fresh romco-auto with a part switched off.

    >>> variant("auto without own hinge", 3, 2).trust()["own hinge"]
    0.0
    """
    chosen = VARIANTS[name]
    with mock.patch.dict(vars(constants), chosen.constants):
        learner = Auto(n_features, n_tasks)
    arrays = learner.arrays()
    silent = {*chosen.silent, *(INPUT_NAMES if chosen.only else ())}
    for model in ("", "frozen_"):
        weight, covariance = arrays[f"{model}weight"], arrays[f"{model}covariance"]
        for k, one in enumerate(INPUT_NAMES):
            if one in silent:
                weight[k] = float(one == chosen.only)
            if one in silent or not chosen.learns:
                covariance[k] = covariance[:, k] = 0.0
                arrays["renewal"][k] = 0.0
    for one in ("own hinge", "mixed logistic"):
        if one in silent or not (chosen.learns and chosen.deviates):
            learner.field("tasks", f"{one.split()[0]}_spent")[:] = constants.DEVIATION_VARIANCE
    for number, value in chosen.stream.items():
        arrays["stream"][STREAM_FIELDS.index(number)] = value
    if not chosen.units:
        as_they_are(learner)
    if not chosen.covariances:
        arrays["frequent"][1:] = arrays["mixed_frequent"][1:] = CLOSED
    return learner


def as_they_are(learner: Auto) -> None:
    """Let a fresh learner take features as they are: of size beyond measure, never found anew."""
    learner.arrays()["units"][:, 4:] = 1e300, 1.0, np.inf, np.inf


def log_losses(learner: Auto, rounds: Rounds) -> NDArray[np.float64]:
    """Return mean log losses of single events: the first are learned live, the others frozen."""
    n = int(LEARNED * len(rounds.y))
    learned, others = rounds[:n], rounds[n:].events
    live = np.logaddexp(0.0, -learned.y * learner.replay(learned))
    frozen = np.logaddexp(0.0, -others.y * learner.predict_frozen(others))
    return np.array([live.mean(), frozen.mean()])


def orders(task: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return events as they are, shuffled, and by task."""
    n = len(task)
    return [np.arange(n), np.random.default_rng(n).permutation(n), np.argsort(task, kind="stable")]


def changes(name: str, make: Mapping[str, Callable[[int, int], Auto]]) -> NDArray[np.float64]:
    """Return per cent (learners, orders, 2) by which log losses on a set exceed the usual ones."""
    stream, found = load(name), []
    for order in orders(stream.task[:MAX_EVENTS]):
        task = stream.task[order]
        rounds = Rounds(task, stream.x[order], stream.y[order], np.arange(len(order) + 1))
        shape = stream.x.shape[1], int(task.max()) + 1
        usual = log_losses(Auto(*shape), rounds)
        found.append([log_losses(one(*shape), rounds) / usual for one in make.values()])
    return 100.0 * (np.array(found).transpose(1, 0, 2) - 1.0)


def with_constant(name: str, factor: float) -> Callable[[int, int], Auto]:
    """Return what makes learners with a constant times a factor."""

    def make(n_features: int, n_tasks: int) -> Auto:
        with mock.patch.dict(vars(constants), {name: factor * getattr(constants, name)}):
            return Auto(n_features, n_tasks)

    return make


def without(name: str) -> Callable[[int, int], Auto]:
    """Return what makes learners with a part switched off."""
    return lambda n_features, n_tasks: variant(name, n_features, n_tasks)


def print_table(make: Mapping[str, Callable[[int, int], Auto]], sets: tuple[str, ...]) -> None:
    """Print mean, least and most change of each learner, live and frozen, and the worst sets."""
    found = np.stack([changes(name, make) for name in sets], axis=1)  # learners, sets, orders, 2
    print("| | live: mean, least, most | on | frozen: mean, least, most | on |")
    print("|---|---|---|---|---|")
    for name, by_set in zip(make, found, strict=True):
        cells = []
        for one in (by_set[..., 0], by_set[..., 1]):
            worst = sets[int(one.max(axis=1).argmax())]
            cells.append(f"{one.mean():+.2f}, {one.min():+.2f}, {one.max():+.2f} | {worst}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    chosen_sets = tuple(name for name in sys.argv[1:] if name in DEVELOPMENT_SETS)
    parts = {name: without(name) for name in ABLATIONS}
    scaled = {
        f"{name} x {factor:g}": with_constant(name, factor)
        for name in sorted(vars(constants))
        if name.isupper()
        for factor in (2.0, 0.5)
    }
    print_table(scaled if "--sensitivity" in sys.argv else parts, chosen_sets or DEVELOPMENT_SETS)
