"""Online multi-task learning: one linear model per task, W = U + V.

U is low rank and shared by the tasks, V is personal and non-zero for few of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from romco import losses, penalties, steps, streams
from romco.evaluation import prequential
from romco.learners import LEARNERS, Learner, Method, grown, learner, restore
from romco.model import Columns, Hashed, Model, Names
from romco.modelfile import load, peek, save
from romco.rounds import Round, Rounds
from romco.version import __version__

if TYPE_CHECKING:
    from romco import batch
    from romco.adapters.sklearn import ROMCOClassifier
    from romco.insight import explain

__all__ = [
    "LEARNERS",
    "Columns",
    "Hashed",
    "Learner",
    "Method",
    "Model",
    "Names",
    "ROMCOClassifier",
    "Round",
    "Rounds",
    "__version__",
    "batch",
    "explain",
    "grown",
    "learner",
    "load",
    "losses",
    "peek",
    "penalties",
    "prequential",
    "restore",
    "save",
    "steps",
    "streams",
]


def __getattr__(name: str) -> Any:
    """Load on first use what would make ``import romco`` slow."""
    if name == "batch":
        return import_module("romco.batch")
    if name == "ROMCOClassifier":
        return import_module("romco.adapters.sklearn").ROMCOClassifier
    if name == "explain":
        return import_module("romco.insight").explain
    raise AttributeError(f"module 'romco' has no attribute {name!r}")
