"""Model files: JSON and raw arrays, checked against damage, never pickle.

Format 2, all numbers little-endian::

    8 bytes   magic, 72 6f 6d 63 6f 0d 0a 1a ("romco", CR, LF, SUB: a text transfer would break it)
    4 bytes   format version, uint32
    8 bytes   length n of the header, uint64
    n bytes   header: JSON, UTF-8
    32 bytes  SHA-256 of all bytes before
    ...       blocks, one after the other, in the order the header lists them

The header holds ``library`` (version), ``kind`` ("model", "learner", "chooser", or an estimator's),
``summary`` (for people), ``state`` (all that is no array) and ``blocks``: name, dtype, shape,
CRC-32 of each. The block ``json`` is text: names of tasks and features, notes and session.
"""

import hashlib
import json
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import starmap
from math import prod
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from romco.io import durable
from romco.version import __version__

MAGIC = b"romco\r\n\x1a"
FORMAT = 2
DTYPES = ("<f8", "<f4", "<i8", "<i4", "<u8", "<u4", "|u1", "|i1", "|b1")
# Parts of a state that may be long: not in the header.
JSON_PARTS = ("tasks", "features", "notes", "session", "history", "alone")

# Upper bounds of memory: per byte of text, per byte of arrays, per feature, per task.
TEXT_FACTOR, ARRAY_FACTOR, FEATURE_BYTES, TASK_BYTES = 40, 3, 16, 128
DEFAULT_LIMIT_BYTES, LIMIT_PER_FILE_BYTE = 2**33, 8


class ModelFileError(ValueError):
    """A file that is damaged, of another format, or no model file at all."""


def save_state(state: dict[str, Any], path: str | Path, kind: str = "model") -> None:
    """Write the state of a model, of which there may be no model in one piece."""
    durable.replace(path, _encode(kind, state), keep_last=True)


def load_state(path: str | Path) -> dict[str, Any]:
    """Return the state of a model file, with what shards keep in it."""
    kind, state = read(Path(path))
    if kind != "model":
        raise bad(Path(path), f"it holds no model with names, but a bare {kind}")
    return state


def peek(path: str | Path) -> dict[str, Any]:
    """Return format, library, kind, summary and sizes of a model file; reads no array.

    >>> import tempfile, romco
    >>> path = Path(tempfile.mkdtemp()) / "ann.romco"
    >>> romco.save(romco.Model(tasks=["ann"]), path)
    >>> peek(path)["kind"]
    'model'
    """
    with Path(path).open("rb") as file, refusing(Path(path)):
        return read_header(file, Path(path), *_limits(file, None))


# Writing


def _encode(kind: str, state: dict[str, Any]) -> Iterator[bytes | memoryview]:
    header: dict[str, Any] = {"library": __version__, "kind": kind, "summary": _summary(state)}
    state = dict(state)
    arrays: dict[str, NDArray[Any]] = {}
    for name, array in state.pop("arrays").items():
        arrays[name] = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    if kind != "learner":
        text = _json({part: state.pop(part) for part in JSON_PARTS if part in state})
        arrays["json"] = np.frombuffer(text, dtype=np.uint8)
    header["state"] = state
    header["blocks"] = list(starmap(_describe, arrays.items()))
    text = _json(header)
    head = MAGIC + struct.pack("<IQ", FORMAT, len(text)) + text
    yield head + hashlib.sha256(head).digest()
    for array in arrays.values():
        yield _content(array)


def _describe(name: str, array: NDArray[Any]) -> dict[str, Any]:
    if array.dtype.str not in DTYPES:
        raise TypeError(f"array {name!r} of {array.dtype} cannot be saved; use one of {DTYPES}")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(
            f"array {name!r} holds numbers that are not finite, which no file may: the model has "
            "overflowed; go on from the last one that was saved"
        )
    found = zlib.crc32(_content(array))
    return {"name": name, "dtype": array.dtype.str, "shape": list(array.shape), "crc32": found}


def _content(array: NDArray[Any]) -> memoryview:
    """The bytes of an array in one piece, where they are: copies of large ones take long."""
    return array.reshape(-1).view(np.uint8).data


def _summary(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sizes of a learner, or of a model with its names, for people."""
    if "labels" not in state:
        return {
            "learner": state["learner"],
            "tasks": state["n_tasks"],
            "features": state["n_features"],
        }
    features, labels = state["features"], state["labels"]
    positive = None
    if isinstance(labels, dict):  # many classes, or a number
        entries = sorted(labels.get("labels", ()), key=itemgetter(1))
    else:  # the last number is the side that users see
        entries = sorted(labels, key=itemgetter(-1))
        positive = next((str(label) for label, *_, side in entries if side > 0.0), None)
    return {
        "learner": state["learner"]["learner"],
        "tasks": sum(name is not None for name in state["tasks"]),
        "features": features.get("width") or features.get("size") or len(features["names"]),
        "events": state["events"],
        "classes": list(map(str, map(itemgetter(0), entries))),
        "positive": positive,
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


# Reading: check everything, trust nothing, say what is wrong


def read(path: Path, limit: int | None = None) -> tuple[str, dict[str, Any]]:
    """Return the kind of a file and its state."""
    with path.open("rb") as file, refusing(path):
        size, limit = _limits(file, limit)
        header = read_header(file, path, size, limit)
        check_room(path, header, limit)
        blocks = dict(_blocks(file, path, header))
        if file.read(1):
            raise bad(path, "there is something after its end")
        kind = header["kind"]
        state = {**header["state"], "arrays": blocks}
        if kind != "learner":
            long = _parsed(blocks.pop("json").tobytes())
            state |= {part: long[part] for part in JSON_PARTS if part in long}
        return kind, state


@contextmanager
def refusing(path: Path) -> Iterator[None]:
    """Report every error within as the file's fault."""
    try:
        yield
    except (ModelFileError, OSError):
        raise
    except MemoryError as error:
        raise bad(path, "there is not enough memory for it") from error
    except Exception as error:
        raise bad(path, f"its content does not hold together: {error!r}") from error


def bad(path: Path, why: str) -> ModelFileError:
    """Return the error of a refused file, with the reason and the backup."""
    spare = path.with_name(path.name + ".bak")
    hint = ""
    if spare.exists():
        hint = f"; the one before it is {spare.name}"
    return ModelFileError(f"{path.name} cannot be used: {why}{hint}")


def read_header(file: BinaryIO, path: Path, size: int, limit: int) -> dict[str, Any]:
    """Return the checked header of a model file of ``size`` bytes."""
    start = file.read(len(MAGIC) + 12)
    if start[: len(MAGIC)] != MAGIC:
        raise bad(path, "it is no romco model file")
    if len(start) < len(MAGIC) + 12:
        raise bad(path, "it is cut short")
    version, length = struct.unpack("<IQ", start[len(MAGIC) :])
    if version != FORMAT:
        raise bad(
            path,
            f"it has format {version}, this library reads format {FORMAT}: use the romco that "
            "wrote it",
        )
    if length > size:
        raise bad(path, "it is cut short, or the length of its header is wrong")
    if TEXT_FACTOR * length > limit:
        raise _too_large(path, TEXT_FACTOR * length, limit)
    text = file.read(length)
    if hashlib.sha256(start + text).digest() != file.read(32):
        raise bad(path, "its header is damaged")
    header = _parsed(text)
    if not isinstance(header, dict) or not isinstance(header.get("state"), dict):
        raise bad(path, "its header is no header")
    return {**header, "format": version}


def _limits(file: BinaryIO, limit: int | None) -> tuple[int, int]:
    """Return the size of a file, and the bytes of memory that it may take."""
    size = os.fstat(file.fileno()).st_size
    if limit is None:
        limit = DEFAULT_LIMIT_BYTES + LIMIT_PER_FILE_BYTE * size
    return size, limit


def check_room(path: Path, header: Mapping[str, Any], limit: int) -> None:
    """Refuse a file that would take more memory than it may, before any is asked for."""
    arrays = text = 0
    for block in header["blocks"]:
        name, dtype, shape = block["name"], block["dtype"], block["shape"]
        if dtype not in DTYPES or not isinstance(name, str) or not is_shape(shape):
            raise bad(path, f"block {name!r} is a {dtype} array of shape {shape}")
        room = prod(max(n, 1) for n in shape) * np.dtype(dtype).itemsize
        if name == "json":
            text += room
        else:
            arrays += room
    inner = header["state"].get("learner")
    sizes = inner
    if not isinstance(inner, dict):
        sizes = header["state"]
    needed = ARRAY_FACTOR * arrays + TEXT_FACTOR * text
    needed += FEATURE_BYTES * max(int(sizes["n_features"]), 0)
    needed += TASK_BYTES * max(int(sizes["n_tasks"]), 0)
    if needed > limit:
        raise _too_large(path, needed, limit)


def is_shape(shape: Any) -> bool:
    """Return True for a list of at most eight lengths."""
    return (
        isinstance(shape, list)
        and len(shape) <= 8
        and all(type(n) is int and 0 <= n < 2**48 for n in shape)
    )


def _blocks(
    file: BinaryIO, path: Path, header: Mapping[str, Any]
) -> Iterator[tuple[str, NDArray[Any]]]:
    left = os.fstat(file.fileno()).st_size - file.tell()
    seen = set[str]()
    for block in header["blocks"]:
        name, dtype, shape = block["name"], block["dtype"], tuple(block["shape"])
        if name in seen:
            raise bad(path, f"it has two blocks {name!r}")
        seen.add(name)
        size = prod(shape) * np.dtype(dtype).itemsize
        if size > left:
            raise bad(path, f"it is cut short within block {name!r}")
        data = file.read(size)
        left -= size
        if zlib.crc32(data) != block["crc32"]:
            raise bad(path, f"block {name!r} is damaged")
        array = np.frombuffer(data, dtype=dtype).reshape(shape)
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise bad(path, f"block {name!r} holds numbers that are not finite")
        yield name, array.astype(array.dtype.newbyteorder("="))


def _parsed(text: bytes) -> Any:
    return json.loads(text, parse_constant=_no_number)


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number that JSON has")


def _too_large(path: Path, needed: int, limit: int) -> ModelFileError:
    return bad(
        path,
        f"it may take {needed / 2**20:,.0f} MiB of memory, more than the {limit / 2**20:,.0f} "
        "that are allowed: romco.load(path, limit=...) says how many bytes",
    )
