"""Save models, learners, choosers and estimators to files, and load them.

:mod:`romco.io.modelfile` has the format.
"""

from importlib import import_module
from pathlib import Path
from typing import Any

from romco.io.modelfile import read, refusing, save_state
from romco.learners import Learner, restore

CLASSES = {  # module and name by kind of file: imported when such a file is loaded
    "model": ("romco.model.model", "Model"),
    "chooser": ("romco.choosing.chooser", "Chooser"),
    "personal layer": ("romco.adapters.personal", "PersonalLayer"),
    "scikit-learn": ("romco.adapters.sklearn", "ROMCOClassifier"),
    "scikit-learn number": ("romco.adapters.sklearn", "ROMCORegressor"),
    "river": ("romco.adapters.river", "ROMCOClassifier"),
    "river number": ("romco.adapters.river", "ROMCORegressor"),
}


def save(model: Any, path: str | Path) -> None:
    """Write a model, learner, chooser or estimator; the file is always the old or the new one.

    The file that was there before is kept as ``<path>.bak``; the new one has its permissions.
    Raises OSError if it cannot be written, and ValueError if the learner has overflowed: the old
    file is there still.

    >>> import tempfile, romco
    >>> path = Path(tempfile.mkdtemp()) / "ann.romco"
    >>> save(romco.learner("ogd-unique", n_features=3, n_tasks=2), path)
    >>> load(path).name, romco.peek(path)["format"]
    ('ogd-unique', 2)
    """
    kind = _kind_of(model)
    save_state(model.state(), path, kind)


def load(path: str | Path, limit: int | None = None) -> Any:
    """Load the model, learner, chooser or estimator of a file; it goes on as if never stopped.

    Everything is checked before anything is used; no code in the file is ever run. ``limit`` bounds
    the bytes of memory that it may take, 8 GiB and 8 times the file's size by default. Raises
    ModelFileError if anything in the file is wrong, or it is from another version.

    >>> import tempfile, romco
    >>> path = Path(tempfile.mkdtemp()) / "ann.romco"
    >>> save(romco.Model(tasks=["ann"]), path)
    >>> load(path).tasks
    ['ann']
    """
    kind, state = read(Path(path), limit)
    with refusing(Path(path)):
        if kind == "learner":
            return restore(state)
        if kind not in CLASSES:
            raise ValueError(f"unknown kind {kind!r}")
        module, name = CLASSES[kind]
        return vars(import_module(module))[name].from_state(state)


def _kind_of(model: Any) -> str:
    """Return the kind of file that holds an object; TypeError if none does."""
    if isinstance(model, Learner):
        return "learner"
    kinds = {place: kind for kind, place in CLASSES.items()}
    for one in type(model).__mro__:
        place = one.__module__, one.__name__
        if place in kinds:
            return kinds[place]
    raise TypeError(
        "romco.save takes models, learners, choosers and estimators of romco, not "
        f"{type(model).__name__}; of a pipeline save the romco step, pipeline[-1], and the other "
        "steps with joblib"
    )
