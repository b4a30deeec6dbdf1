"""Does sharing help on these data, and by how much: one sentence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from romco.experiments.results import Outcome

DEFAULT = "romco-auto"


def sentence(outcomes: Sequence[Outcome]) -> str | None:
    """What the comparison says about sharing; None if it has nothing to say it from.

    The learner that shares is the default one where it ran; those it is compared with are the
    best in hindsight of the ones that learn each task alone, and of the ones that make no
    difference between tasks.
    """
    ran = [outcome for outcome in outcomes if not outcome.failed]
    alone = _best([outcome for outcome in ran if outcome.learner.endswith("-unique")])
    same = _best([outcome for outcome in ran if outcome.learner.endswith("-global")])
    shares = [o for o in ran if not o.learner.endswith(("-unique", "-global"))]
    ours = _best([o for o in shares if o.learner == DEFAULT] or shares)
    if ours is None or alone is None:
        return None
    told = [f"{ours.title} {_error(ours)}", f"each task alone {_error(alone)} ({alone.title})"]
    if same is not None:
        told.append(f"one model for all {_error(same)} ({same.title})")
    return f"{_verdict(ours, alone, same)} Error: {', '.join(told)}."


def _verdict(ours: Outcome, alone: Outcome, same: Outcome | None) -> str:
    fewer = _fewer(ours, alone)
    if not _clear(ours, alone):
        return "Sharing makes no clear difference here."
    if fewer < 0:
        return f"Sharing does not help here: {-fewer:.0%} more mistakes than each task alone."
    more = f"Sharing helps: {fewer:.0%} fewer mistakes than each task alone"
    if same is None or not _clear(ours, same):
        return more + (", no clear difference to one model for all." if same else ".")
    other = _fewer(ours, same)
    return f"{more}, {abs(other):.0%} {'fewer' if other > 0 else 'more'} than one model for all."


def _fewer(ours: Outcome, theirs: Outcome) -> float:
    """Share of their mistakes that we do not make."""
    mine, other = (outcome.macro("error_rate").mean() for outcome in (ours, theirs))
    return float(1.0 - mine / max(other, 1e-12))


def _clear(ours: Outcome, theirs: Outcome) -> bool:
    """Whether the difference has the same sign in every shuffle."""
    difference = np.sign(ours.macro("error_rate") - theirs.macro("error_rate"))
    return bool(abs(difference.sum()) == len(difference))


def _best(outcomes: Sequence[Outcome]) -> Outcome | None:
    return min(outcomes, key=lambda one: float(one.macro("error_rate").mean()), default=None)


def _error(outcome: Outcome) -> str:
    return f"{outcome.macro('error_rate').mean():.2%}"
