"""Errors of an earlier run, for learners that were not run again: same data, shuffles and tuning.

Only what has no stored results is shown from here, and marked.
"""

from __future__ import annotations

from romco.beyond.contest import REAL, Contest
from romco.beyond.scenes import INTERCEPT
from romco.compare.results import Finished

MARK = "*"
NOTE = f"{MARK} of an earlier run of the same settings on the same shuffles; not run again"
EARLIER = {  # macro error, %, on spam, emails, mhc, movies
    "romco-nucl": (6.31, 5.50, 31.43, 32.91),
    "romco-logd": (6.29, 5.41, 31.38, 32.80),
    "ogd-unique": (6.29, 5.61, 31.43, 32.79),
    "ogd-global": (7.27, 4.16, 35.65, 34.22),
    "pa-shared": (6.36, 3.21, 31.49, 33.83),
    "arow-shared": (5.12, 3.18, 30.81, 33.68),
    "pa-unique": (6.06, 5.24, 31.43, 32.83),
    "pa-global": (7.01, 4.00, 35.63, 34.20),
    "arow-unique": (4.75, 5.20, 31.21, 32.95),
    "arow-global": (5.41, 3.88, 35.75, 35.33),
    "coml": (6.52, 3.88, 34.01, 33.83),
    "cw-col": (5.25, 3.83, 35.21, 34.98),
    "omtl": (6.22, 5.24, 31.46, 32.88),
    "osmtl-e": (6.55, 5.94, 31.11, 32.75),
    "osmtl-t": (6.57, 5.91, 31.11, 32.74),
    "perceptron-coupled": (8.81, 5.82, 36.20, 39.55),
    "omtlvon": (8.81, 5.86, 36.35, 39.47),
    "omtllog": (8.38, 5.86, 36.20, 39.72),
    "mtfl": (11.05, 6.81, 29.93, 33.47),
    "trml": (10.64, 6.64, 30.74, 31.93),
}
WITH_INTERCEPT = {  # the same of peers that are given a constant feature
    "pa-unique": (8.28, 10.79, 33.42, 35.01),
    "arow-unique": (4.92, 5.87, 30.79, 31.41),
    "arow-global": (5.50, 3.95, 35.63, 35.42),
    "pa-shared": (8.44, 5.56, 32.62, 31.76),
    "arow-shared": (5.33, 3.50, 30.46, 30.64),
}
FIRST_EVENTS = {  # error, %, over the first 10, 20, 50 events of a new task, on the same sets
    "arow-unique": ((30.0, 24.5, 19.0), (31.1, 22.2, 13.5), (54.7, 49.7, 43.3), (41.8, 39.6, 36.2)),
    "arow-global": ((39.0, 30.0, 24.8), (3.3, 3.5, 3.5), (39.3, 38.7, 37.9), (33.7, 34.7, 35.2)),
    "arow-shared": ((34.0, 27.5, 21.2), (3.6, 3.7, 3.3), (38.0, 38.7, 36.5), (33.8, 33.7, 34.4)),
}


def stored(contest: Contest, dataset: str, learner: str) -> list[Finished] | None:
    """The files of a learner with its best setting, None where it was not run."""
    try:
        return contest.best(dataset, learner)
    except FileNotFoundError:
        return None


def earlier(dataset: str, learner: str) -> float:
    """Macro error, %, of the earlier run; infinite where there is none."""
    plain = dataset.removesuffix(INTERCEPT)
    found = (EARLIER if plain == dataset else WITH_INTERCEPT).get(learner)
    return found[REAL.index(plain)] if found and plain in REAL else float("inf")


def first_events(dataset: str, learner: str) -> list[str]:
    """Error, %, over the first 10, 20, 50 events of a new task in the earlier run; or nothing."""
    found = FIRST_EVENTS.get(learner)
    if found is None or dataset not in REAL:
        return []
    return [f"{error:.1f}{MARK}" for error in found[REAL.index(dataset)]]
