"""Making a model: the learner that its target needs, and what a file must hold together."""

from __future__ import annotations

from typing import Any

from romco.learners import Learner, known, number_learner
from romco.model.features import Features, Names
from romco.model.targets import Target


def learner_for(target: Target, name: str, d: int, m: int, parameters: dict[str, Any]) -> Learner:
    """The learner of a name for a target, with room for d features and m tasks."""
    if target.kind == "classes":
        form, n = parameters.pop("form", None), max(2, len(target.classes))
        return known("classes")(d, m, inner=name, n_classes=n, form=form, parameters=parameters)
    made = known(number_learner(name) if target.kind == "number" else name)(d, m, **parameters)
    if (made.answers == 0) != (target.kind == "number"):
        raise ValueError(f"{made.name} does not predict {target.kind}")
    return made


def fixed_width(features: Features) -> int | None:
    """How many features there are for ever; None if they grow."""
    return None if isinstance(features, Names) else features.width


def check_size(learner: Learner, n_tasks: int, features: Features) -> None:
    """Raise ValueError where the names that a file has do not fit its learner."""
    n, d, width = learner.n_tasks, learner.n_features, fixed_width(features)
    if n_tasks > n or (width or features.width) > d or (width or d) != d:
        raise ValueError("the tasks or features named do not fit the learner's size")


def memories(state: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Notes and the program's own memory, which files of before have among the notes."""
    notes = dict(state["notes"])
    if "session" in state:
        return notes, dict(state["session"])
    return notes, {part: notes.pop(part) for part in ("columns", "sources") if part in notes}
