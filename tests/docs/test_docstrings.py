"""Docstrings of public names: an example that runs, and no entry twice."""

import ast
import inspect
import re
import types
from collections import Counter
from pathlib import Path

import pytest

import romco
from romco import evaluation, labels, server, shards, streams
from romco.adapters import estimators
from romco.model import Columns, Features, Hashed, Names
from romco.runs import Session

try:
    from romco.adapters import river
except ImportError:  # an extra
    RIVER, STREAMS = (), ()
else:
    RIVER, STREAMS = (river.ROMCOClassifier, river.ROMCORegressor), (river.TaskStream,)

CONCISE = ("evaluation", "labels")  # rooms whose sections say more than the signature
NAMES = [name for name in romco.__all__ if not isinstance(getattr(romco, name), types.ModuleType)]
THINGS = {name: getattr(romco, name) for name in NAMES if name != "__version__"}
ROOMS = {
    f"{room.__name__}.{name}": thing
    for room in (labels, shards, server, evaluation, streams)
    for name in room.__all__
    if callable(thing := getattr(room, name))
}
ROOMS |= {kind.__name__: kind for kind in (Names, Hashed, Columns, Session)}
ROOMS |= {f"river.{kind.__name__}": kind for kind in RIVER}
KINDS = (romco.Model, romco.Learner, romco.Method, romco.Rounds, Features)
KINDS += (romco.ROMCOClassifier, romco.ROMCORegressor, estimators.TaskEstimator, *STREAMS)
KINDS += tuple(thing for thing in ROOMS.values() if isinstance(thing, type))


def own_methods(kind):
    """Those with a meaning of their own: what a contract asks for is described there."""
    asked = {name for base in kind.__mro__[1:] if base in KINDS for name in vars(base)}
    for name in vars(kind).keys() - asked:
        routed = name.startswith("set_") and name.endswith("_request")  # made by scikit-learn
        if not name.startswith("_") and not routed and inspect.isroutine(getattr(kind, name)):
            yield name


METHODS = {
    f"{kind.__module__}.{kind.__name__}.{name}": getattr(kind, name)
    for kind in KINDS
    for name in sorted(own_methods(kind))
}


ENTRY = re.compile(r"^ {4}(?=\S)(.+?)(?=\n\S|\Z)", re.M | re.S)
SECTION = re.compile(
    r"^(?:Parameters|Returns|Yields|Raises)\n-+\n(.*?)(?=\n\n[A-Z>]|\Z)", re.M | re.S
)


def entries(path):
    """Return the texts of all section entries of a module's docstrings."""
    nodes = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    texts = [
        ast.get_docstring(node) or ""
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, nodes)
    ]
    return [one for text in texts for part in SECTION.findall(text) for one in ENTRY.findall(part)]


@pytest.mark.parametrize("name", [*THINGS, *ROOMS])
def test_public_names_have_a_docstring_with_an_example(name):
    thing = THINGS[name] if name in THINGS else ROOMS[name]
    assert ">>>" in (inspect.getdoc(thing) or ""), "no example"


@pytest.mark.parametrize("name", METHODS)
def test_public_methods_have_a_docstring(name):
    assert inspect.getdoc(METHODS[name])


@pytest.mark.parametrize("room", CONCISE)
def test_no_two_section_entries_of_a_module_are_equal(room):
    for path in sorted((Path(romco.__file__).parent / room).rglob("*.py")):
        repeated = [text for text, n in Counter(entries(path)).items() if n > 1]
        assert repeated == [], path.name


@pytest.mark.parametrize("name", ["Policy.ask", "Shards.learn", "Client.wait", "Names.read"])
def test_methods_of_every_public_room_are_looked_at(name):
    assert any(method.endswith(f".{name}") for method in METHODS)


def test_a_repeated_entry_is_noticed(tmp_path):
    section = "Parameters\n    ----------\n    a:\n        Its name.\n    b:\n        Its name.\n"
    text = f"Do it.\n\n    {section}\n    "
    (tmp_path / "bad.py").write_text(f'def f(a, b):\n    """{text}"""\n')
    assert entries(tmp_path / "bad.py") == ["Its name.", "Its name."]


@pytest.mark.parametrize("name", [name for name in romco.__all__ if name not in NAMES])
def test_rooms_say_what_they_are_for(name):
    assert inspect.getdoc(getattr(romco, name))
