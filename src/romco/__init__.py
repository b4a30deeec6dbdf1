"""Online multi-task learning: one linear model per task, W = U + V.

U is low rank and shared by the tasks, V is personal and non-zero for few of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from romco.version import __version__

if TYPE_CHECKING:
    from romco import batch, labels, losses, penalties, policies, steps, streams
    from romco.adapters.personal import PersonalLayer
    from romco.adapters.sklearn import ROMCOClassifier, ROMCORegressor
    from romco.choosing import Chooser
    from romco.evaluation import prequential
    from romco.explanations import effects, explain, reasons
    from romco.exporting import export
    from romco.files import load, save
    from romco.io.modelfile import peek
    from romco.io.schema import Schema
    from romco.learners import LEARNERS, Learner, Method, grown, learner, restore
    from romco.model import Columns, Hashed, Model, Names
    from romco.rounds import Round, Rounds
    from romco.shards import Shards

__all__ = [
    "LEARNERS",
    "Chooser",
    "Columns",
    "Hashed",
    "Learner",
    "Method",
    "Model",
    "Names",
    "PersonalLayer",
    "ROMCOClassifier",
    "ROMCORegressor",
    "Round",
    "Rounds",
    "Schema",
    "Shards",
    "__version__",
    "batch",
    "effects",
    "explain",
    "export",
    "grown",
    "labels",
    "learner",
    "load",
    "losses",
    "peek",
    "penalties",
    "policies",
    "prequential",
    "reasons",
    "restore",
    "save",
    "steps",
    "streams",
]

# Loaded on first use, so that ``romco --version`` and ``import romco`` take no time: the module
# of each name; modules themselves are found by their own name.
_MODULES = {
    **dict.fromkeys(("LEARNERS", "Learner", "Method", "grown", "learner", "restore"), "learners"),
    **dict.fromkeys(("Columns", "Hashed", "Model", "Names"), "model"),
    **dict.fromkeys(("Round", "Rounds"), "rounds"),
    **dict.fromkeys(("effects", "explain", "reasons"), "explanations"),
    **dict.fromkeys(("load", "save"), "files"),
    "Chooser": "choosing",
    "PersonalLayer": "adapters.personal",
    "ROMCOClassifier": "adapters.sklearn",
    "ROMCORegressor": "adapters.sklearn",
    "Schema": "io.schema",
    "peek": "io.modelfile",
    "Shards": "shards",
    "export": "exporting",
    "prequential": "evaluation",
}


def __getattr__(name: str) -> Any:
    """Load a public name or module on first use."""
    if name in _MODULES:
        value = getattr(import_module(f"romco.{_MODULES[name]}"), name)
    elif not name.startswith("_") and _is_module(name):
        value = import_module(f"romco.{name}")
    else:
        raise AttributeError(f"module 'romco' has no attribute {name!r}")
    globals()[name] = value
    return value


def _is_module(name: str) -> bool:
    from importlib.util import find_spec  # here, so that `import romco` stays fast

    return find_spec(f"romco.{name}") is not None


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
