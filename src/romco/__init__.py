"""Online multi-task learning: one linear model per task, W = U + V.

U is low rank and shared by the tasks, V is personal and non-zero for few of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from romco import losses, penalties, steps, streams
from romco.evaluation import prequential
from romco.io.modelfile import load, peek, save
from romco.learners import LEARNERS, Learner, Method, grown, learner, restore
from romco.model import Columns, Hashed, Model, Names
from romco.rounds import Round, Rounds
from romco.version import __version__

if TYPE_CHECKING:
    from romco import batch, labels
    from romco import shards as cluster
    from romco.adapters.regression import ROMCORegressor
    from romco.adapters.sklearn import ROMCOClassifier
    from romco.explanations import explain, reasons
    from romco.shards import Shards

__all__ = [
    "LEARNERS",
    "Columns",
    "Hashed",
    "Learner",
    "Method",
    "Model",
    "Names",
    "ROMCOClassifier",
    "ROMCORegressor",
    "Round",
    "Rounds",
    "Shards",
    "__version__",
    "batch",
    "cluster",
    "explain",
    "grown",
    "labels",
    "learner",
    "load",
    "losses",
    "peek",
    "penalties",
    "prequential",
    "reasons",
    "restore",
    "save",
    "steps",
    "streams",
]


# Loaded on first use: each would make ``import romco`` slow. Where it is, and its name there.
_LATER = {
    "ROMCOClassifier": ("romco.adapters.sklearn", "ROMCOClassifier"),
    "ROMCORegressor": ("romco.adapters.regression", "ROMCORegressor"),
    "Shards": ("romco.shards", "Shards"),
    "batch": ("romco.batch", None),
    "cluster": ("romco.shards", None),
    "explain": ("romco.explanations", "explain"),
    "reasons": ("romco.explanations", "reasons"),
    "labels": ("romco.labels", None),
}


def __getattr__(name: str) -> Any:
    """Load a public name on first use."""
    if name not in _LATER:
        raise AttributeError(f"module 'romco' has no attribute {name!r}")
    where, what = _LATER[name]
    module = import_module(where)
    return module if what is None else getattr(module, what)
