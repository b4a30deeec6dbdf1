"""Sessions of hostile model files, in the hands of the command line.

``romco learn`` goes on where a model says that it stopped. All of that is text which anybody could
have written: how much of which file was read, how good it was, where predictions went, what shards
were doing, which labels were asked for.
"""

import copy
import json
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from numpy.random import Generator

from romco_lab.fuzz.acts import TOLD
from romco_lab.fuzz.files import File, put_together, taken_apart
from romco_lab.fuzz.mutations import one_of
from romco_lab.fuzz.strangers import retyped

WAYS = (
    (),
    ("--predictions", "log.jsonl"),
    ("--target", "number"),
    ("--shards", "2", "--hash", "6", "--classes", "0,1"),
    ("--threads", "2"),
)
ROWS = "".join(f"u{k % 4},{k % 2},{0.5 * (k % 5)},{'ab'[k % 2]}\n" for k in range(24))
MORE = "u1,1,2.5,a\nu9,0,1,b\nu2,1,-1,a\n"


def try_memory(rng: Generator, seeds: list[File], folder: Path) -> str:
    """Go on with a model whose memory was edited: every command ends with a status."""
    way = int(rng.integers(0, len(WAYS)))
    file = _edited(rng, sound()[way])
    with tempfile.TemporaryDirectory(dir=folder) as name:
        place = Path(name)
        shutil.copytree(_folder() / str(way), place, dirs_exist_ok=True)
        (place / "m.romco").write_bytes(put_together(file))
        if rng.random() < 0.8:
            (place / "events.csv").write_text("user,y,a,b\n" + ROWS + MORE)
        learned = _called(
            place, "learn", *WAYS[way], *(["--skip-bad"] if rng.random() < 0.3 else [])
        )
        for command in ("predict", "evaluate", "explain"):
            _called(place, command)
    if learned == 0:
        return "used"
    return "refused"


@cache
def _folder() -> Path:
    """One folder for each way of learning, as it leaves it."""
    whole = Path(tempfile.mkdtemp(prefix="romco-fuzz-"))
    for number, way in enumerate(WAYS):
        place = whole / str(number)
        place.mkdir()
        (place / "events.csv").write_text("user,y,a,b\n" + ROWS)
        assert _called(place, "learn", *way) == 0, way
    return whole


@cache
def sound() -> list[File]:
    """The model file of each way."""
    return [taken_apart((_folder() / str(k) / "m.romco").read_bytes()) for k in range(len(WAYS))]


def _edited(rng: Generator, sound: File) -> File:
    """Return its session, its part on shards, or its policy, as other text."""
    file = copy.deepcopy(sound)
    state = file.header["state"]
    parts: list[tuple[dict[str, Any], str]] = [
        (state, part) for part in ("session", "cluster", "labels", "asking") if state.get(part)
    ]
    if file.text is not None and file.text.get("notes"):
        parts.append((file.text, "notes"))
    for _ in range(int(rng.integers(1, 4))):
        holder, part = one_of(rng, parts)
        try:
            holder[part] = json.loads(retyped(rng, json.dumps(holder[part])))
        except (ValueError, RecursionError):
            continue  # it is no JSON any more
    return file


def _called(place: Path, command: str, *options: str) -> int:
    """The status of a command; raises what is no error for people."""
    from typer.testing import CliRunner

    from romco.cli.main import app

    paths = [str(place / o) if o.endswith(".jsonl") else o for o in options]
    given = ["--task", "user", "--label", "y"] if command in ("learn", "evaluate") else []
    source = [] if command == "explain" else [str(place / "events.csv")]
    model = (
        ["--model", str(place / "m.romco")] if command != "explain" else [str(place / "m.romco")]
    )
    result = CliRunner().invoke(app, [command, *source, *model, *given, *paths])
    said = (SystemExit, OSError, ImportError, MemoryError, *TOLD)
    if result.exception is not None and not isinstance(result.exception, said):
        raise result.exception
    return int(result.exit_code)
