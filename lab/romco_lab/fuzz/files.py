"""A model file taken apart and put together again, with checksums that are right."""

import hashlib
import json
import struct
import zlib
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romco.io.modelfile import FORMAT, MAGIC

START = len(MAGIC) + 12


@dataclass
class File:
    """A header and its arrays, as they will be written: whatever they hold."""

    header: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    text: dict[str, Any] | None  # of the block "json"


def taken_apart(data: bytes) -> File:
    """Return the header and the arrays of a sound file."""
    (length,) = struct.unpack("<Q", data[START - 8 : START])
    header = json.loads(data[START : START + length])
    at = START + length + 32
    arrays = {}
    for block in header.pop("blocks"):
        size = prod(block["shape"]) * np.dtype(block["dtype"]).itemsize
        array = np.frombuffer(data[at : at + size], dtype=block["dtype"])
        arrays[block["name"]] = array.reshape(block["shape"]).copy()
        at += size
    text = json.loads(arrays.pop("json").tobytes()) if "json" in arrays else None
    return File(header, arrays, text)


def put_together(file: File) -> bytes:
    """The file, with right checksums and lengths."""
    arrays = {name: np.ascontiguousarray(array) for name, array in file.arrays.items()}
    if file.text is not None:
        arrays["json"] = np.frombuffer(json.dumps(file.text).encode(), dtype=np.uint8)
    blocks = [
        {
            "name": name,
            "dtype": array.dtype.str,
            "shape": list(array.shape),
            "crc32": zlib.crc32(array.tobytes()),
        }
        for name, array in arrays.items()
    ]
    text = json.dumps({**file.header, "blocks": blocks}).encode()
    head = MAGIC + struct.pack("<IQ", FORMAT, len(text)) + text
    body = b"".join(array.tobytes() for array in arrays.values())
    return head + hashlib.sha256(head).digest() + body
