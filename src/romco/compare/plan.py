"""Which runs: one frozen record for each, named by a digest of all its fields."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from romco.learners import LEARNERS, known
from romco.version import __version__

Parameters = Mapping[str, Any]


@dataclass(frozen=True)
class Run:
    """One learner with one setting on one shuffle of one data set."""

    dataset: str
    digest: str  # of the data set's events
    learner: str
    parameters: tuple[tuple[str, Any], ...]  # all of them, defaults too, by name
    order: str
    seed: int
    rounds: int | None = None  # only the first so many; None for all
    records: int = 60  # about so many points along the stream
    labels: tuple[tuple[str, Any], ...] = ()  # the policy that asks for them: name, share, ...
    delay: int | str = 0  # events until a label is known; "true": as the data set has it
    version: str = __version__

    @property
    def name(self) -> str:
        """Readable, and different as soon as any field differs."""
        text = json.dumps(asdict(self), sort_keys=True)
        return f"{self.dataset}.{self.learner}.{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    @property
    def title(self) -> str:
        """The learner as tables print it."""
        return title_of(self.learner)


def title_of(learner: str) -> str:
    """A learner's name as tables print it; one that is gone keeps its short name."""
    return LEARNERS[learner].title if learner in LEARNERS else learner


def complete(learner: str, parameters: Parameters) -> tuple[tuple[str, Any], ...]:
    """All parameters of a learner, in order of name: those given, defaults for the rest.

    >>> complete("ogd-unique", {"eta": 0.5})
    (('eta', 0.5), ('step', 'constant'))
    """
    whole = known(learner).complete(parameters)
    return tuple(sorted((name, _plain(value)) for name, value in whole.items()))


def _plain(value: Any) -> Any:
    """Without NumPy's types, which JSON does not know."""
    if isinstance(value, np.generic):
        return value.item()
    return value.tolist() if isinstance(value, np.ndarray) else value
