"""No circle between files, whether an import stands at the top or within a function."""

import ast
from collections.abc import Iterator
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


def imported(path: Path) -> Iterator[str]:
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
    graph["romco.explanations.facts"] = set(imported(tmp_path / "late.py"))
    with pytest.raises(CycleError):
        sorted_files(graph)
