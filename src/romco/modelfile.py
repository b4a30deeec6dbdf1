"""Model files: JSON and raw arrays, checked by SHA-256, never pickle.

Format 1, all numbers little-endian::

    8 bytes   magic, 72 6f 6d 63 6f 0d 0a 1a ("romco", CR, LF, SUB: a text transfer would break it)
    4 bytes   format version, uint32
    8 bytes   length n of the header, uint64
    n bytes   header: JSON, UTF-8
    32 bytes  SHA-256 of all bytes before
    ...       blocks, one after the other, in the order the header lists them

The header holds ``library`` (version), ``kind`` ("model" or "learner"), ``summary`` (for
people), ``state`` (all that is no array) and ``blocks``: name, dtype, shape, SHA-256 of
each. The block ``json`` is text: names of tasks and features, and notes.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from romco import durable
from romco.learners import Learner, restore
from romco.model import Model
from romco.model.features import features_from_json
from romco.model.labels import Labels

MAGIC = b"romco\r\n\x1a"
FORMAT = 1
DTYPES = ("<f8", "<f4", "<i8", "<i4", "<u8", "<u4", "|u1", "|i1", "|b1")
LONG = (
    "tasks",
    "features",
    "notes",
)  # parts of a model's state that can be long: not in the header


class ModelFileError(ValueError):
    """A file that is damaged, of another format, or no model file at all."""


def save(model: Model | Learner, path: str | Path) -> None:
    """Write a model or a bare learner so that the file is at every moment the old or the new one.

    The file that was there before is kept as ``<path>.bak``; the new one has its permissions.

    >>> import tempfile, romco
    >>> path = Path(tempfile.mkdtemp()) / "ann.romco"
    >>> save(romco.learner("ogd-unique", n_features=3, n_tasks=2), path)
    >>> load(path).name, peek(path)["format"]
    ('ogd-unique', 1)
    """
    kind = "model" if isinstance(model, Model) else "learner"
    durable.replace(path, _encode(kind, _summary(model), model.state()), keep_last=True)


def save_state(state: dict[str, Any], path: str | Path) -> None:
    """Write the state of a model, from which there may be no model in one piece."""
    durable.replace(path, _encode("model", _summary_of(state), state), keep_last=True)


def load(path: str | Path) -> Any:
    """The model or learner of a file, to go on as if it had never stopped.

    Everything is checked before anything is used; no code in the file is ever run.
    Raises :class:`ModelFileError` if the file is damaged or from a later version.
    """
    kind, state = _read(Path(path))
    try:
        if kind not in ("model", "learner"):
            raise ValueError(f"unknown kind {kind!r}")
        return Model.from_state(state) if kind == "model" else restore(state)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise _bad(Path(path), f"its content does not hold together: {error!r}") from error


def load_state(path: str | Path) -> dict[str, Any]:
    """The state of the model of a file, with what it holds beside, as shards keep."""
    kind, state = _read(Path(path))
    if kind != "model":
        raise _bad(Path(path), f"it holds no model with names, but a bare {kind}")
    return state


def peek(path: str | Path) -> dict[str, Any]:
    """The header only: format, library, kind, summary, parameters, sizes; reads no array."""
    path = Path(path)
    with path.open("rb") as file:
        return _read_header(file, path)


def _encode(kind: str, summary: dict[str, Any], state: dict[str, Any]) -> Iterator[bytes]:
    state = dict(state)
    arrays: dict[str, NDArray[Any]] = {
        name: np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        for name, array in state.pop("arrays").items()
    }
    header: dict[str, Any] = {"library": _version(), "kind": kind, "summary": summary}
    if kind == "model":
        text = _json({part: state.pop(part) for part in LONG})
        arrays["json"] = np.frombuffer(text, dtype=np.uint8)
    header["state"] = state
    header["blocks"] = [_describe(name, array) for name, array in arrays.items()]
    text = _json(header)
    head = MAGIC + struct.pack("<IQ", FORMAT, len(text)) + text
    yield head + hashlib.sha256(head).digest()
    for array in arrays.values():
        yield array.tobytes()


def _read(path: Path) -> tuple[str, dict[str, Any]]:
    """What kind of thing a file holds, and its state."""
    with path.open("rb") as file:
        header = _read_header(file, path)
        blocks = dict(_read_blocks(file, path, header))
        if file.read(1):
            raise _bad(path, "there is something after its end")
    try:
        kind, state = header["kind"], {**header["state"], "arrays": blocks}
        if kind == "model":
            long = json.loads(blocks.pop("json").tobytes())
            state |= {part: long[part] for part in LONG}
        return kind, state
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _bad(path, f"its content does not hold together: {error!r}") from error


def _read_header(file: BinaryIO, path: Path) -> dict[str, Any]:
    start = file.read(len(MAGIC) + 12)
    if start[: len(MAGIC)] != MAGIC:
        raise _bad(path, "it is no romco model file")
    if len(start) < len(MAGIC) + 12:
        raise _bad(path, "it is cut short")
    version, length = struct.unpack("<IQ", start[len(MAGIC) :])
    if version != FORMAT:
        raise _bad(
            path, f"it has format {version}, this library reads format {FORMAT}: update romco"
        )
    if length > path.stat().st_size:
        raise _bad(path, "it is cut short, or the length of its header is wrong")
    text, digest = file.read(length), file.read(32)
    if hashlib.sha256(start + text).digest() != digest:
        raise _bad(path, "its header is damaged")
    header: dict[str, Any] = json.loads(text)
    return {"format": version, **header}


def _read_blocks(
    file: BinaryIO, path: Path, header: Mapping[str, Any]
) -> Iterator[tuple[str, NDArray[Any]]]:
    left = path.stat().st_size - file.tell()
    for block in header["blocks"]:
        name, dtype, shape = block["name"], block["dtype"], tuple(block["shape"])
        if dtype not in DTYPES or not all(isinstance(n, int) and n >= 0 for n in shape):
            raise _bad(path, f"block {name!r} is a {dtype} array of shape {shape}")
        size = prod(shape) * np.dtype(dtype).itemsize
        if size > left:
            raise _bad(path, f"it is cut short within block {name!r}")
        data = file.read(size)
        left -= size
        if hashlib.sha256(data).hexdigest() != block["sha256"]:
            raise _bad(path, f"block {name!r} is damaged")
        array = np.frombuffer(data, dtype=dtype).reshape(shape)
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise _bad(path, f"block {name!r} holds numbers that are not finite")
        yield name, array.astype(array.dtype.newbyteorder("="))


def _describe(name: str, array: NDArray[Any]) -> dict[str, Any]:
    if array.dtype.str not in DTYPES:
        raise TypeError(f"array {name!r} of {array.dtype} cannot be saved; use one of {DTYPES}")
    digest = hashlib.sha256(array.tobytes()).hexdigest()
    return {"name": name, "dtype": array.dtype.str, "shape": list(array.shape), "sha256": digest}


def _summary(model: Model | Learner) -> dict[str, Any]:
    if isinstance(model, Model):
        return {
            "learner": model.learner.name,
            "tasks": len(model.tasks),
            "features": model.features.width,
            "events": model.events,
            "classes": [str(label) for label in model.classes],
            "positive": None if model.positive is None else str(model.positive),
        }
    return {"learner": model.name, "tasks": model.n_tasks, "features": model.n_features}


def _summary_of(state: Mapping[str, Any]) -> dict[str, Any]:
    labels = Labels.from_json(state["labels"])
    return {
        "learner": state["learner"]["learner"],
        "tasks": sum(name is not None for name in state["tasks"]),
        "features": features_from_json(state["features"]).width,
        "events": state["events"],
        "classes": [str(label) for label in labels.classes],
        "positive": None if labels.positive is None else str(labels.positive),
    }


def _json(value: Any) -> bytes:
    """Compact UTF-8; numbers that JSON does not have are refused."""
    return json.dumps(value, allow_nan=False, separators=(",", ":"), default=_plain).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{value!r} of {type(value).__name__} cannot be written to a model file")


def _bad(path: Path, why: str) -> ModelFileError:
    spare = path.with_name(path.name + ".bak")
    hint = f"; the one before it is {spare.name}" if spare.exists() else ""
    return ModelFileError(f"{path.name} cannot be used: {why}{hint}")


def _version() -> str:
    from importlib.metadata import version

    return version("romco")
