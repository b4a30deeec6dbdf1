"""What else can be asked of the data sets: one of several classes, or a number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Literal

from romco.streams import cheese, fars, nlswork, star, swissmetro
from romco.streams.storage import data_directory
from romco.streams.stream import Stream

Kind = Literal["classes", "number"]


@dataclass(frozen=True)
class Question:
    """A column of a data set that is to be predicted, and of what kind it is."""

    module: ModuleType
    column: str
    kind: Kind


QUESTIONS: Mapping[str, Question] = MappingProxyType(
    {
        "swissmetro": Question(swissmetro, "choice", "classes"),
        "fars": Question(fars, "injury_severity", "classes"),
        "cheese": Question(cheese, "log_volume", "number"),
        "nlswork": Question(nlswork, "ln_wage", "number"),
        "star": Question(star, "math", "number"),
    }
)


def ask(name: str, kind: str = "auto", data_dir: Path | None = None) -> Stream:
    """The stream of a data set's other question, named after both.

    Parameters
    ----------
    name:
        Of the data set.
    kind:
        "classes", "number" or "auto", the one that it has.
    data_dir:
        Where the files are; None is ``ROMCO_DATA``, else the cache of the user.

    Returns
    -------
    :
        The stream.

    Raises
    ------
    ValueError
        Where the data set has no such question.
    MissingData
        Where the file is not there; it tells where to get it.
    DamagedData
        Where it is not the one that is expected.

    >>> ask("spam", "classes")
    Traceback (most recent call last):
    ...
    ValueError: spam has two classes only; these have other targets: swissmetro and fars \
(classes); cheese, nlswork and star (number)

    """
    question = QUESTIONS.get(name)
    if question is None or kind not in ("auto", question.kind):
        has = "two classes only" if question is None else f"a {question.kind} to predict"
        if question is not None and question.kind == "classes":
            has = "several classes, no number"
        raise ValueError(f"{name} has {has}; these have other targets: {_told()}")
    events = question.module.events(data_directory(data_dir))
    found = events.tell_apart if question.kind == "classes" else events.measure
    return replace(found(question.column), name=f"{name}-{question.column}")


def _told() -> str:
    parts = []
    for kind in ("classes", "number"):
        *names, last = (name for name, question in QUESTIONS.items() if question.kind == kind)
        parts.append(f"{', '.join(names)} and {last} ({kind})")
    return "; ".join(parts)
