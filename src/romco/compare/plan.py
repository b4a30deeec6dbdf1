"""Runs of a comparison: one frozen record for each, named by a digest of all its fields."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from romco.compare.controls import CONTROLS, ENGINE, title_of
from romco.compare.sources import digest_of, stream_of
from romco.learners import LEARNERS, known, learner
from romco.learners.registry import number_learner
from romco.parameters import setting
from romco.version import __version__

Parameters = Mapping[str, Any]
MAX_SHUFFLES = 5
SHUFFLED_EVENTS = 100_000  # larger files are read in fewer orders


@dataclass(frozen=True)
class Run:
    """One row of a table, or one learner with one setting, on one shuffle of one data set."""

    dataset: str
    digest: str  # of the data set's events
    learner: str
    parameters: tuple[tuple[str, Any], ...]  # all of them, defaults too, by name
    order: str
    seed: int
    rounds: int | None = None  # only the first so many; None for all
    records: int = 60  # about so many points along the stream; 0 in a comparison
    labels: tuple[tuple[str, Any], ...] = ()  # label policy: name, share, ...
    delay: int | str = 0  # events until a label is known; "true": as the data set has it
    version: str = __version__

    @property
    def name(self) -> str:
        """File name: readable, and different as soon as any field differs."""
        text = json.dumps(asdict(self), sort_keys=True)
        return f"{self.dataset}.{self.learner}.{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    @property
    def title(self) -> str:
        """Learner as tables print it."""
        return title_of(self.learner)


@dataclass(frozen=True)
class Comparison:
    """Rows to compare on one data set, fixed before anything runs."""

    dataset: str
    learners: tuple[str, ...] = ()  # rows beside the controls and ROMCO-Auto
    shuffles: int | None = None  # None: 5, fewer for large files
    order: str = "interleaved"
    settings: Mapping[str, Parameters] | None = None
    data_dir: Path | None = None

    @property
    def seeds(self) -> range:
        """Seeds of the shuffles; one where the order is as recorded."""
        if self.order == "recorded":
            return range(1)
        events = stream_of(self.dataset, self.data_dir).n_events
        usual = max(1, min(MAX_SHUFFLES, SHUFFLED_EVENTS // events))
        return range(self.shuffles or usual)

    def runs(self) -> list[Run]:
        """All runs, shuffle by shuffle."""
        digest = digest_of(self.dataset, self.data_dir)
        answers = stream_of(self.dataset, self.data_dir).answers
        given = self.settings or {}
        rows = dict.fromkeys((*CONTROLS, *self.learners, ENGINE))
        parameters = {
            row: () if row in CONTROLS else complete(method_of(row, answers), given.get(row, {}))
            for row in rows
        }
        return [
            Run(self.dataset, digest, row, parameters[row], self.order, seed, records=0)
            for seed in self.seeds
            for row in rows
        ]


def method_of(name: str, answers: int) -> str:
    """Return the learner whose parameters count for these answers (0: numbers)."""
    return number_learner(name) if answers == 0 else name


def complete(name: str, parameters: Parameters) -> tuple[tuple[str, Any], ...]:
    """Return all parameters of a learner by name, defaults where none are given."""
    whole = known(name).complete(parameters)
    return tuple(sorted((key, _plain(value)) for key, value in whole.items()))


def chosen_learners(text: str | None, answers: int = 1) -> tuple[str, ...]:
    """Return learner names from ``a,b``, ``all`` or ``paper``; none for None.

    ``answers`` is the stream's: learners that cannot answer so are refused by name.

    >>> chosen_learners("ogd-unique, romco-nucl")
    ('ogd-unique', 'romco-nucl')
    """
    if text is None:
        return ()
    if text == "all":
        return tuple(name for name in LEARNERS if _can_answer(name, answers))
    if text == "paper":
        return tuple(name for name, method in LEARNERS.items() if method.role == "paper")
    names = dict.fromkeys(part.strip().removesuffix("-number") for part in text.split(","))
    for name in filter(None, names):
        known(name)
        _make_small(name, answers)
    return tuple(known(name).name for name in names if name)


def chosen_settings(texts: Sequence[str], answers: int = 1) -> dict[str, dict[str, Any]]:
    """Return settings from texts such as ``ogd-unique.eta=0.5``, checked against the learner.

    >>> chosen_settings(["ogd-unique.eta=0.5", "ogd-unique.step=inverse-sqrt"])
    {'ogd-unique': {'eta': 0.5, 'step': 'inverse-sqrt'}}
    """
    settings: dict[str, dict[str, Any]] = {}
    for text in texts:
        name, value = setting(text, "learner.parameter=value")
        short, dot, parameter = name.rpartition(".")
        if not dot:
            raise ValueError(f"--set {text}: expected learner.parameter=value")
        settings.setdefault(known(short.removesuffix("-number")).name, {})[parameter] = value
    for short, parameters in settings.items():
        known(method_of(short, answers))(2, 2, **parameters)  # refuses a value out of range
    return settings


def _make_small(name: str, answers: int) -> None:
    if answers == 0:
        number_learner(name)
    elif answers > 1:
        learner("classes", 2, 2, inner=name)


def _can_answer(name: str, answers: int) -> bool:
    try:
        _make_small(name, answers)
    except ValueError:
        return False
    return True


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    return value.tolist() if isinstance(value, np.ndarray) else value
