"""Read model files: check everything, trust nothing, say what is wrong."""

import hashlib
import json
import os
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

MAGIC = b"romco\r\n\x1a"
FORMAT = 1
DTYPES = ("<f8", "<f4", "<i8", "<i4", "<u8", "<u4", "|u1", "|i1", "|b1")
# Parts of a state that may be long: not in the header.
JSON_PARTS = ("tasks", "features", "notes", "session", "history")

# Upper bounds of memory: per byte of text, per byte of arrays, per feature, per task.
TEXT_FACTOR, ARRAY_FACTOR, FEATURE_BYTES, TASK_BYTES = 40, 3, 16, 128
DEFAULT_LIMIT_BYTES, LIMIT_PER_FILE_BYTE = 2**33, 8


class ModelFileError(ValueError):
    """A file that is damaged, of another format, or no model file at all."""


def read(path: Path, limit: int | None = None) -> tuple[str, dict[str, Any]]:
    """Return the kind of a file and its state."""
    with path.open("rb") as file, refusing(path):
        size = os.fstat(file.fileno()).st_size
        limit = DEFAULT_LIMIT_BYTES + LIMIT_PER_FILE_BYTE * size if limit is None else limit
        header = read_header(file, path, size, limit)
        check_room(path, header, size, limit)
        blocks = dict(_blocks(file, path, header))
        if file.read(1):
            raise bad(path, "there is something after its end")
        kind, state = header["kind"], {**header["state"], "arrays": blocks}
        if kind != "learner":
            long = _parsed(blocks.pop("json").tobytes())
            state |= {part: long[part] for part in JSON_PARTS if part in long}
        return kind, state


def peek(path: Path) -> dict[str, Any]:
    """The header only; reads no array."""
    with path.open("rb") as file, refusing(path):
        size = os.fstat(file.fileno()).st_size
        return read_header(file, path, size, DEFAULT_LIMIT_BYTES + LIMIT_PER_FILE_BYTE * size)


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
    hint = f"; the one before it is {spare.name}" if spare.exists() else ""
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
            path, f"it has format {version}, this library reads format {FORMAT}: update romco"
        )
    if length > size:
        raise bad(path, "it is cut short, or the length of its header is wrong")
    if TEXT_FACTOR * length > limit:
        raise _too_large(path, TEXT_FACTOR * length, limit)
    text, digest = file.read(length), file.read(32)
    if hashlib.sha256(start + text).digest() != digest:
        raise bad(path, "its header is damaged")
    header = _parsed(text)
    if not isinstance(header, dict) or not isinstance(header.get("state"), dict):
        raise bad(path, "its header is no header")
    return {**header, "format": version}


def check_room(path: Path, header: Mapping[str, Any], size: int, limit: int) -> None:
    """Refuse a file that would take more memory than it may, before any is asked for."""
    arrays = text = 0
    for block in header["blocks"]:
        name, dtype, shape = block["name"], block["dtype"], block["shape"]
        if dtype not in DTYPES or not isinstance(name, str) or not is_shape(shape):
            raise bad(path, f"block {name!r} is a {dtype} array of shape {shape}")
        room = prod(max(n, 1) for n in shape) * np.dtype(dtype).itemsize
        arrays, text = (arrays, text + room) if name == "json" else (arrays + room, text)
    inner = header["state"].get("learner")
    sizes = inner if isinstance(inner, dict) else header["state"]
    d, m = (int(sizes[name]) for name in ("n_features", "n_tasks"))
    needed = ARRAY_FACTOR * arrays + TEXT_FACTOR * text
    needed += FEATURE_BYTES * max(d, 0) + TASK_BYTES * max(m, 0)
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
    left, seen = os.fstat(file.fileno()).st_size - file.tell(), set[str]()
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
        if hashlib.sha256(data).hexdigest() != block["sha256"]:
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
