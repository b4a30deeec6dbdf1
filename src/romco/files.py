"""Save models, learners, choosers and estimators to files, and load them.

:mod:`romco.io.modelfile` has the format.
"""

from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from romco.io.modelfile import read, refusing, save_state
from romco.learners import restore

CLASSES = {  # module and name by kind of file: imported when such a file is loaded
    "model": ("romco.model", "Model"),
    "chooser": ("romco.choosing", "Chooser"),
    "personal layer": ("romco.adapters.personal", "PersonalLayer"),
    "scikit-learn": ("romco.adapters.sklearn", "ROMCOClassifier"),
    "scikit-learn number": ("romco.adapters.sklearn", "ROMCORegressor"),
    "river": ("romco.adapters.river", "ROMCOClassifier"),
    "river number": ("romco.adapters.river", "ROMCORegressor"),
}


@runtime_checkable
class Stored(Protocol):
    """An object that a file can hold; its class restores it by ``from_state``."""

    @property
    def file_kind(self) -> str:
        """Key in ``CLASSES``; "learner" for learners, which are restored by name."""

    def state(self) -> dict[str, Any]:
        """Return JSON-able values, and NumPy arrays ``"arrays"``."""


def save(model: Stored, path: str | Path) -> None:
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
    if not isinstance(model, Stored):
        kind = type(model).__name__
        raise TypeError(
            f"romco.save takes models, learners, choosers and estimators of romco, not {kind}; "
            "of a pipeline save the romco step, pipeline[-1], and the other steps with joblib"
        )
    save_state(model.state(), path, model.file_kind)


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
