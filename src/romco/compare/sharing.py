"""Does sharing help on these data, and by how much: one sentence, and one for each task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from romco.compare.results import Numbers, Outcome
from romco.presentation.tables import Table, mark_best

DEFAULT = "romco-auto"
ONE_TASK = "There is nothing to share between: all events are of one task."


@dataclass(frozen=True)
class Words:
    """How a difference of errors is told, and how an error is written."""

    fewer: str = "fewer"
    more: str = "more"
    what: str = " mistakes"
    error: str = "Error"
    form: str = ".2%"


MISTAKES = Words()
NUMBERS = Words("lower", "higher", " RMSE", "RMSE", ".4g")


def sentence(outcomes: Sequence[Outcome], words: Words = MISTAKES) -> str | None:
    """What the comparison says about sharing; None if it has nothing to say it from.

    The learner that shares is the default one where it ran; those it is compared with are the
    best in hindsight of the ones that learn each task alone, and of the ones that make no
    difference between tasks.
    """
    ours, alone, same = _sides(outcomes)
    if ours is None or alone is None:
        return None
    if _is_one_task(ours):
        return ONE_TASK
    told = [
        f"{ours.title} {_error(ours, words)}",
        f"each task alone {_error(alone, words)} ({alone.title})",
    ]
    if same is not None:
        told.append(f"one model for all {_error(same, words)} ({same.title})")
    return f"{_verdict(ours, alone, same, words)} {words.error}: {', '.join(told)}."


def tasks_table(outcomes: Sequence[Outcome]) -> Table | None:
    """Each task's error with sharing and alone, and what that says; None if there are no others."""
    ours, alone, _ = _sides(outcomes)
    if ours is None or alone is None or _is_one_task(ours):
        return None
    stream = ours.runs[0].stream
    told = zip(stream["tasks"], stream["events"], stream["positive"], strict=True)
    errors = 100 * ours.per_task("error_rate"), 100 * alone.per_task("error_rate")
    rows = [
        (
            *(str(task), f"{events:,}", f"{100 * positive / max(events, 1):.1f}"),
            *(f"{error[:, i].mean():.2f}" for error in errors),
            _story(*(error[:, i] for error in errors)),
        )
        for i, (task, events, positive) in enumerate(told)
    ]
    error = f"{ours.title}, error %", f"alone ({alone.title}), error %"
    head = ("task", "events", f"{stream['labels'][1]} %", *error, "in words")
    return Table("Task by task: does it gain from the others?", head, mark_best(rows, (None,) * 6))


def _story(ours: Numbers, alone: Numbers) -> str:
    """What sharing does to one task, by its errors (shuffles,) in percent."""
    if not _same_sign(ours - alone):
        return "no clear difference"
    points = float((alone - ours).mean())
    return f"{'gains' if points > 0 else 'better off alone, loses'} {abs(points):.1f} points"


def _sides(outcomes: Sequence[Outcome]) -> tuple[Outcome | None, Outcome | None, Outcome | None]:
    """Who shares, who learns each task alone, who makes no difference between tasks."""
    ran = [outcome for outcome in outcomes if not outcome.failed]
    alone = _best([outcome for outcome in ran if outcome.learner.endswith("-unique")])
    same = _best([outcome for outcome in ran if outcome.learner.endswith("-global")])
    shares = [o for o in ran if not o.learner.endswith(("-unique", "-global"))]
    return _best([o for o in shares if o.learner == DEFAULT] or shares), alone, same


def _is_one_task(outcome: Outcome) -> bool:
    return len(outcome.runs[0].stream["tasks"]) == 1


def _verdict(ours: Outcome, alone: Outcome, same: Outcome | None, words: Words) -> str:
    fewer = _fewer(ours, alone)
    if not _clear(ours, alone):
        return "Sharing makes no clear difference here."
    if fewer < 0:
        told = f"{-fewer:.0%} {words.more}{words.what}"
        return f"Sharing does not help here: {told} than each task alone."
    more = f"Sharing helps: {fewer:.0%} {words.fewer}{words.what} than each task alone"
    if same is None or not _clear(ours, same):
        return more + (", no clear difference to one model for all." if same else ".")
    other = _fewer(ours, same)
    how = words.fewer if other > 0 else words.more
    return f"{more}, {abs(other):.0%} {how} than one model for all."


def _fewer(ours: Outcome, theirs: Outcome) -> float:
    """Share of their mistakes that we do not make."""
    mine, other = (outcome.macro("error_rate").mean() for outcome in (ours, theirs))
    return float(1.0 - mine / max(other, 1e-12))


def _clear(ours: Outcome, theirs: Outcome) -> bool:
    """Whether the difference has the same sign in every shuffle."""
    return _same_sign(ours.macro("error_rate") - theirs.macro("error_rate"))


def _same_sign(differences: Numbers) -> bool:
    return bool(abs(np.sign(differences).sum()) == len(differences))


def _best(outcomes: Sequence[Outcome]) -> Outcome | None:
    return min(outcomes, key=lambda one: float(one.macro("error_rate").mean()), default=None)


def _error(outcome: Outcome, words: Words) -> str:
    return f"{outcome.macro('error_rate').mean():{words.form}}"
