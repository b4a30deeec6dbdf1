"""romco-auto with a part switched off: a stacking model cannot give weight to its input.

``python -m romco_lab.beyond.ablations`` prints by how much each part changes the log loss on the
development sets, at most 20,000 events of each, in the order of the file, shuffled and by task.
With ``--sensitivity`` it prints the change where a constant of the stacking models is doubled or
halved, in the order of the file.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from romco.learners import auto
from romco.learners.auto import INPUTS, KINDS, Auto
from romco.learners.base import Arrays
from romco.rounds import Rounds
from romco.streams.datasets import load

Numbers = NDArray[np.float64]
DEVELOPMENT_SETS = (
    *("swissmetro", "star", "nlswork", "fars", "flights", "mhc", "movies", "emails", "spam"),
)
MAX_EVENTS = 20_000
CONSTANTS = ("INPUT_DOUBT", "SCALE_DOUBT", "LEVEL_DOUBT", "DOUBT", "RENEWAL")  # of the learner

GLOBAL = (0, 1)
ALONE = (2, 3)
MARGIN = (0, 2, 4)
LOGISTIC = (1, 3)
TOGETHER = (4,)
COPIES = (*GLOBAL, *ALONE, *TOGETHER)
DIRECTIONS = tuple(range(5, 9))
LEVEL = (9,)
LIKE_ALL = KINDS.index("like all")
ON_ITS_OWN = KINDS.index("on their own")
NEVER_OLD = -1e300  # events: too few ever for anything to be told
NONE = 1e-300  # tasks of a kind that does not exist: too few ever to matter


@dataclass(frozen=True)
class Variant:
    """Which voices are silent, which kinds of tasks there are not, and what is begun with."""

    silent: tuple[int, ...] = ()
    missing: tuple[int, ...] = ()  # kinds
    trust: tuple[tuple[int, float], ...] = ()  # weights to begin with, if not the usual ones
    learns: bool = True
    units: bool = True  # whether features have units of their own
    follows: bool = True  # drift, and turns of all
    watches: bool = True  # turns of single tasks, and newcomers
    covariances: bool = True  # of few features


def _only(voice: int) -> Variant:
    others = tuple(k for k in range(len(INPUTS)) if k != voice)
    return Variant(others, (LIKE_ALL, ON_ITS_OWN), ((voice, 1.0),), learns=False)


SINGLE = {f"only {INPUTS[voice]}": _only(voice) for voice in COPIES}
ABLATIONS = {
    "auto without U": Variant(DIRECTIONS),
    "auto without together": Variant(TOGETHER, trust=((0, 2.0), (2, 2.0))),
    "auto without logistic": Variant(LOGISTIC),
    "auto without margin": Variant(MARGIN, trust=((1, 1.0), (3, 1.0))),
    "auto without global": Variant(GLOBAL, (LIKE_ALL,)),
    "auto without alone": Variant(ALONE, (ON_ITS_OWN,)),
    "auto without level": Variant(LEVEL),
    "auto without tasks like all": Variant(missing=(LIKE_ALL,)),
    "auto without tasks on their own": Variant(missing=(ON_ITS_OWN,)),
    "auto with stacking models that do not learn": Variant(learns=False),
    "auto with features as they are": Variant(units=False),
    "auto without covariances": Variant(covariances=False),
    "auto without drift": Variant(follows=False),
    "auto without turns and newcomers": Variant(watches=False),
}
VARIANTS = {**ABLATIONS, **SINGLE}


def variant(name: str, n_features: int, n_tasks: int) -> Auto:
    """A fresh romco-auto with a part switched off.

    >>> variant("auto without U", 3, 2).chances().shape
    (2, 3)
    """
    chosen = VARIANTS[name]
    learner = Auto(n_features, n_tasks)
    arrays = learner.arrays()
    for inputs, weight, covariance, renewal in _stacking_models(arrays):
        at = [place for place, voice in enumerate(inputs) if voice in chosen.silent]
        weight[at] = 0.0
        _settle(covariance, renewal, at if chosen.learns else list(range(len(weight))))
        for voice, start in chosen.trust:
            if voice in inputs:
                weight[inputs.index(voice)] = start
    arrays["kinds"][list(chosen.missing)] = NONE
    if not chosen.units:
        as_they_are(learner)
    if not chosen.covariances:
        arrays["frequent"][1:] = -2.0  # no place is free
    if not chosen.follows:
        arrays["turn"][0], arrays["turn"][6] = NEVER_OLD, 0.0
    if not chosen.watches or LIKE_ALL in chosen.missing:  # whom newcomers are taken for
        arrays["change"][:, 0] = NEVER_OLD
    return learner


def as_they_are(learner: Auto) -> None:
    """Let a fresh learner take features as they are: of size beyond measure, never found anew."""
    learner.arrays()["units"][:, 4:] = 1e300, 1.0, np.inf, np.inf


def _stacking_models(arrays: Arrays) -> Iterator[tuple[tuple[int, ...], Numbers, Numbers, Numbers]]:
    """Return inputs, weights, covariance and renewal of each stacking model."""
    yield tuple(range(len(INPUTS))), arrays["weight"], arrays["covariance"], arrays["renewal"]
    pairs = arrays["pair_weight"], arrays["pair_covariance"], arrays["pair_renewal"]
    yield from zip((GLOBAL, ALONE), *pairs, strict=True)


def _settle(covariance: Numbers, renewal: Numbers, places: list[int]) -> None:
    """No doubt about these weights, now or ever, so they stay as they are."""
    covariance[places, :] = covariance[:, places] = 0.0
    renewal[places] = 0.0


def log_loss(learner: Auto, rounds: Rounds) -> float:
    """Mean log loss of events that are predicted, then learned."""
    return float(np.logaddexp(0.0, -rounds.y * learner.replay(rounds)).mean())


def orders(task: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Events as they are, shuffled, and by task."""
    n = len(task)
    return [np.arange(n), np.random.default_rng(n).permutation(n), np.argsort(task, kind="stable")]


def changes(name: str) -> dict[str, list[float]]:
    """Per cent by which log loss grows on a set without each part, in three orders."""
    stream = load(name)
    found: dict[str, list[float]] = {part: [] for part in ABLATIONS}
    for order in orders(stream.task[:MAX_EVENTS]):
        task = stream.task[order]
        rounds = Rounds(task, stream.x[order], stream.y[order], np.arange(len(order) + 1))
        shape = stream.x.shape[1], int(task.max()) + 1
        whole = log_loss(Auto(*shape), rounds)
        for part, more in found.items():
            more.append(100.0 * (log_loss(variant(part, *shape), rounds) / whole - 1.0))
    return found


def sensitivities(constant: str, factor: float) -> list[float]:
    """Per cent by which log loss grows on each set with a constant times a factor."""
    usual = getattr(auto, constant)
    found = []
    for name in DEVELOPMENT_SETS:
        stream = load(name)
        n = min(MAX_EVENTS, len(stream.y))
        shape = (stream.x.shape[1], int(stream.task.max()) + 1)
        rounds = Rounds(stream.task[:n], stream.x[:n], stream.y[:n], np.arange(n + 1))
        whole = log_loss(Auto(*shape), rounds)
        setattr(auto, constant, factor * usual)
        try:
            found.append(100.0 * (log_loss(Auto(*shape), rounds) / whole - 1.0))
        finally:
            setattr(auto, constant, usual)
    return found


def print_sensitivities() -> None:
    """Print mean and largest change for each constant."""
    print("| constant | value | x 2: mean, most | / 2: mean, most |\n|---|---|---|---|")
    for constant in CONSTANTS:
        cells = []
        for factor in (2.0, 0.5):
            found = sensitivities(constant, factor)
            cells.append(f"{np.mean(found):+.2f}, {max(found):+.2f}")
        print(f"| {constant} | {getattr(auto, constant):g} | {' | '.join(cells)} |")


def print_ablations() -> None:
    """Print what each part is worth."""
    sets = {name: changes(name) for name in DEVELOPMENT_SETS}
    print("| without | mean | least | most | on |\n|---|---|---|---|---|")
    for part in ABLATIONS:
        by_set = {name: found[part] for name, found in sets.items()}
        every = [change for found in by_set.values() for change in found]
        where = max(by_set, key=lambda name: max(by_set[name]))
        print(
            f"| {part.removeprefix('auto ').removeprefix('without ')} | {np.mean(every):+.2f} "
            f"| {min(every):+.2f} | {max(every):+.2f} | {where} |"
        )


if __name__ == "__main__":
    print_sensitivities() if "--sensitivity" in sys.argv else print_ablations()
