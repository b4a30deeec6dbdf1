"""romco-auto with a part switched off: a judge does not hear what it cannot give weight to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from romco.learners.auto import VOICES, Auto

GLOBAL, ALONE, MARGIN, LOGISTIC = (0, 1), (2, 3), (0, 2), (1, 3)
DIRECTIONS = tuple(range(4, len(VOICES)))
FIRST_OWN = 2  # the second judge hears the voices from here on, two of them
SURE = -20.0  # evidence that a task is not independent, as far as the kernel lets it go


@dataclass(frozen=True)
class Variant:
    """Which voices the judges do not hear, what they begin with, and whether they learn."""

    silent: tuple[int, ...] = ()  # to the first judge
    own_silent: tuple[int, ...] = ()  # to the second one; both silent: no task is independent
    trust: tuple[tuple[int, float], ...] = ()  # weights to begin with, if not the usual ones
    learns: bool = True


def _only(voice: int) -> Variant:
    others = tuple(k for k in range(len(VOICES)) if k != voice)
    return Variant(others, ALONE, ((voice, 1.0),), learns=False)


SINGLE = {f"only {VOICES[voice]}": _only(voice) for voice in (*GLOBAL, *ALONE)}
ABLATIONS = {
    "auto without U": Variant(DIRECTIONS),
    "auto without independence": Variant(own_silent=ALONE),
    "auto without U and independence": Variant(DIRECTIONS, ALONE),
    "auto without logistic": Variant(LOGISTIC, (3,)),
    "auto without margin": Variant(MARGIN, (2,), ((1, 1.0), (3, 1.0))),
    "auto without global": Variant(GLOBAL),
    "auto without alone": Variant(ALONE, ALONE),
    "auto with judges that do not learn": Variant(learns=False),
}
VARIANTS = {**ABLATIONS, **SINGLE}


def variant(name: str, n_features: int, n_tasks: int) -> Auto:
    """A fresh romco-auto with a part switched off.

    >>> variant("auto without U", 3, 2).trust()["direction 1"]
    0.0
    """
    chosen, learner = VARIANTS[name], Auto(n_features, n_tasks)
    arrays = learner.arrays()
    own = [k - FIRST_OWN for k in chosen.own_silent]
    _silence(arrays["weight"], arrays["covariance"], chosen.silent)
    _silence(arrays["own_weight"], arrays["own_covariance"], own)
    for voice, weight in chosen.trust:
        arrays["weight"][voice] = weight
        if voice in ALONE and voice not in chosen.own_silent:
            arrays["own_weight"][voice - FIRST_OWN] = weight
    if not chosen.learns:
        arrays["covariance"][:] = arrays["own_covariance"][:] = 0.0
    if len(own) == len(ALONE):
        arrays["evidence"][:] = SURE
    return learner


def _silence(
    weight: NDArray[np.float64], covariance: NDArray[np.float64], voices: Sequence[int]
) -> None:
    """No weight, and no doubt that could ever give it one."""
    at = list(voices)
    weight[at] = 0.0
    covariance[at, :] = 0.0
    covariance[:, at] = 0.0
