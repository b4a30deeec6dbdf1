"""Model files: JSON and raw arrays, checked by SHA-256, never pickle.

Format 1, all numbers little-endian::

    8 bytes   magic, 72 6f 6d 63 6f 0d 0a 1a ("romco", CR, LF, SUB: a text transfer would break it)
    4 bytes   format version, uint32
    8 bytes   length n of the header, uint64
    n bytes   header: JSON, UTF-8
    32 bytes  SHA-256 of all bytes before
    ...       blocks, one after the other, in the order the header lists them

The header holds ``library`` (version), ``kind`` ("model", "learner", or an estimator's),
``summary`` (for people), ``state`` (all that is no array) and ``blocks``: name, dtype, shape,
SHA-256 of each. The block ``json`` is text: names of tasks and features, notes and session.
"""

import hashlib
import json
import struct
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from romco.io import durable, validation
from romco.io.validation import DTYPES, FORMAT, JSON_PARTS, MAGIC
from romco.io.validation import ModelFileError as ModelFileError
from romco.learners import Learner, restore
from romco.model import Model
from romco.model.features import features_from_json
from romco.model.target import TwoClasses

# Kinds of estimators, and where each is: it is imported when a file of its kind is loaded.
ESTIMATORS = {
    "scikit-learn": "romco.adapters.sklearn:ROMCOClassifier",
    "scikit-learn number": "romco.adapters.sklearn:ROMCORegressor",
    "river": "romco.adapters.river:ROMCOClassifier",
    "river number": "romco.adapters.river:ROMCORegressor",
    "personal layer": "romco.adapters.personal:PersonalLayer",
}


@runtime_checkable
class Estimator(Protocol):
    """Another library's estimator around a model; saved and loaded as that estimator."""

    @property
    def file_kind(self) -> str:
        """Key in ``ESTIMATORS``."""

    def fitted_model(self) -> Model:
        """Return the model inside."""

    def file_settings(self) -> dict[str, Any]:
        """Return its parameters, for JSON."""

    @classmethod
    def from_file_settings(cls, settings: dict[str, Any], model: Model) -> Self:
        """Return the estimator of that description around a model."""


def save(model: Model | Learner | Estimator, path: str | Path) -> None:
    """Write a model, a bare learner or an estimator; the file is always the old or the new one.

    The file that was there before is kept as ``<path>.bak``; the new one has its permissions.
    Raises OSError if it cannot be written, and ValueError if the learner has overflowed: the old
    file is there still.

    >>> import tempfile, romco
    >>> path = Path(tempfile.mkdtemp()) / "ann.romco"
    >>> save(romco.learner("ogd-unique", n_features=3, n_tasks=2), path)
    >>> load(path).name, peek(path)["format"]
    ('ogd-unique', 1)
    """
    if isinstance(model, Model | Learner):
        kind = "model" if isinstance(model, Model) else "learner"
        summary, state = _summary(model), model.state()
    else:
        if not isinstance(model, Estimator):
            kind = type(model).__name__
            raise TypeError(
                f"romco.save takes models, learners and estimators of romco, not {kind}; of a "
                "pipeline save the romco step, pipeline[-1], and the other steps with joblib"
            )
        kind, inner = model.file_kind, model.fitted_model()
        summary, state = _summary(inner), {**inner.state(), "estimator": model.file_settings()}
    durable.replace(path, _encode(kind, summary, state), keep_last=True)


def save_state(state: dict[str, Any], path: str | Path) -> None:
    """Write the state of a model, from which there may be no model in one piece."""
    durable.replace(path, _encode("model", _summary_of(state), state), keep_last=True)


def load(path: str | Path, limit: int | None = None) -> Any:
    """Load the model, learner or estimator of a file, which goes on as if it had never stopped.

    Everything is checked before anything is used; no code in the file is ever run. ``limit`` bounds
    the bytes of memory that it may take, 8 GiB and 8 times the file's size by default. Raises
    ModelFileError if anything in the file is wrong, or it is from a later version.

    >>> import tempfile, romco
    >>> path = Path(tempfile.mkdtemp()) / "ann.romco"
    >>> save(romco.Model(tasks=["ann"]), path)
    >>> load(path).tasks
    ['ann']
    """
    kind, state = validation.read(Path(path), limit)
    with validation.refusing(Path(path)):
        if kind == "model":
            return Model.from_state(state)
        if kind == "learner":
            return restore(state)
        if kind in ESTIMATORS:
            return _estimator(kind).from_file_settings(state["estimator"], Model.from_state(state))
        raise ValueError(f"unknown kind {kind!r}")


def load_state(path: str | Path, limit: int | None = None) -> dict[str, Any]:
    """Return the state of a model file, with what shards keep in it."""
    kind, state = validation.read(Path(path), limit)
    if kind != "model":
        raise validation.bad(Path(path), f"it holds no model with names, but a bare {kind}")
    return state


def peek(path: str | Path) -> dict[str, Any]:
    """Return format, library, kind, summary and sizes of a model file; reads no array.

    >>> import tempfile, romco
    >>> path = Path(tempfile.mkdtemp()) / "ann.romco"
    >>> save(romco.Model(tasks=["ann"]), path)
    >>> peek(path)["kind"]
    'model'
    """
    return validation.peek(Path(path))


def _encode(
    kind: str, summary: dict[str, Any], state: dict[str, Any]
) -> Iterator[bytes | memoryview]:
    state = dict(state)
    arrays: dict[str, NDArray[Any]] = {
        name: np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        for name, array in state.pop("arrays").items()
    }
    header: dict[str, Any] = {"library": _version(), "kind": kind, "summary": summary}
    if kind != "learner":
        text = _json({part: state.pop(part) for part in JSON_PARTS if part in state})
        arrays["json"] = np.frombuffer(text, dtype=np.uint8)
    header["state"] = state
    header["blocks"] = [_describe(name, array) for name, array in arrays.items()]
    text = _json(header)
    head = MAGIC + struct.pack("<IQ", FORMAT, len(text)) + text
    yield head + hashlib.sha256(head).digest()
    for array in arrays.values():
        yield _content(array)


def _estimator(kind: str) -> type[Estimator]:
    module, _, name = ESTIMATORS[kind].partition(":")
    found: type[Estimator] = vars(import_module(module))[name]
    return found


def _describe(name: str, array: NDArray[Any]) -> dict[str, Any]:
    if array.dtype.str not in DTYPES:
        raise TypeError(f"array {name!r} of {array.dtype} cannot be saved; use one of {DTYPES}")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(
            f"array {name!r} holds numbers that are not finite, which no file may: the model has "
            "overflowed; go on from the last one that was saved"
        )
    digest = hashlib.sha256(_content(array)).hexdigest()
    return {"name": name, "dtype": array.dtype.str, "shape": list(array.shape), "sha256": digest}


def _content(array: NDArray[Any]) -> memoryview:
    """The bytes of an array in one piece, where they are: copies of large ones take long."""
    return array.reshape(-1).view(np.uint8).data


def _summary(model: Model | Learner) -> dict[str, Any]:
    if isinstance(model, Model):
        return {
            "learner": model.engine.learner.name,
            "tasks": len(model.tasks),
            "features": model.features.width,
            "events": model.events,
            "classes": [str(label) for label in model.classes],
            "positive": None if model.engine.positive is None else str(model.engine.positive),
        }
    return {"learner": model.name, "tasks": model.n_tasks, "features": model.n_features}


def _summary_of(state: Mapping[str, Any]) -> dict[str, Any]:
    labels = TwoClasses.from_json(state["labels"])
    return {
        "learner": state["learner"]["learner"],
        "tasks": sum(name is not None for name in state["tasks"]),
        "features": features_from_json(state["features"]).width,
        "events": state["events"],
        "classes": [str(label) for label in labels.classes],
        "positive": None if labels.positive is None else str(labels.positive),
    }


def _json(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False, separators=(",", ":"), default=_plain).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{value!r} of {type(value).__name__} cannot be written to a model file")


def _version() -> str:
    from importlib.metadata import version

    return version("romco")
