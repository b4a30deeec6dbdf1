"""Imports point one way: no circle between files, and layers for the cimports of kernels."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import romco

SOURCE = Path(romco.__file__).parent
FILES = {
    ".".join(["romco", *path.relative_to(SOURCE).with_suffix("").parts]).removesuffix(
        ".__init__"
    ): path
    for path in SOURCE.rglob("*.py")
}


@cache
def imported(path: Path) -> frozenset[str]:
    return frozenset(_imported(path))


def _imported(path: Path) -> Iterator[str]:
    """The files of this package that a file imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in FILES)
        elif isinstance(node, ast.ImportFrom) and node.module in FILES:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in FILES else str(node.module) for name in inner)


def sorted_files(graph: dict[str, set[str]]) -> list[str]:
    return list(TopologicalSorter(graph).static_order())


def test_no_circle_between_files() -> None:
    graph = {name: set(imported(path)) - {name} for name, path in FILES.items()}
    assert len(sorted_files(graph)) == len(FILES)


def test_a_circle_would_be_found(tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text("def f():\n    from romco.explanations import explaining\n")
    graph = {name: set(imported(path)) - {name} for name, path in FILES.items()}
    graph["romco.explanations.text"] = set(imported(tmp_path / "late.py"))
    with pytest.raises(CycleError):
        sorted_files(graph)


# Rooms of kernels, lowest first; a kernel cimports from its own room and from those below.
LAYERS = (("core",), ("io",), ("romco", "baselines", "auto", "choosing"), ("merge",), ("step",))
CIMPORT = re.compile(r"^\s*from romco\.(kernels|server)\.(\w+)\S* cimport", re.M)


def layer(room: str) -> int:
    return next((k for k, rooms in enumerate(LAYERS) if room in rooms), len(LAYERS))


def upward(path: Path, room: str) -> list[str]:
    """Return the rooms above, or beside, its own from which a kernel cimports."""
    found = CIMPORT.findall(path.read_text(encoding="utf-8"))
    return [
        other
        for kind, other in found
        if kind == "server" or (other != room and layer(other) >= layer(room))
    ]


def test_kernels_cimport_from_below_only() -> None:
    kernels = SOURCE / "kernels"
    paths = [path for kind in ("*.pyx", "*.pxd") for path in kernels.rglob(kind)]
    assert len(paths) > 40
    rooms = {path: path.relative_to(kernels).with_suffix("").parts[0] for path in paths}
    assert all(layer(room) < len(LAYERS) for room in rooms.values()), set(rooms.values())
    assert {str(path): found for path in paths if (found := upward(path, rooms[path]))} == {}


def test_an_upward_cimport_would_be_found(tmp_path: Path) -> None:
    (tmp_path / "a.pyx").write_text("from romco.kernels.auto.lanes cimport both\n")
    assert upward(tmp_path / "a.pyx", "io") == ["auto"]
    assert upward(tmp_path / "a.pyx", "baselines") == ["auto"]
    assert upward(tmp_path / "a.pyx", "merge") == []
