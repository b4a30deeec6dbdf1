"""Docstrings: public names have one with an example; sections say more than the signature."""

import ast
import inspect
import re
import types
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import romco
from romco import evaluation, labels, server, shards, streams

SOURCE = Path(romco.__file__).parent
NAMES = [name for name in romco.__all__ if not isinstance(getattr(romco, name), types.ModuleType)]
THINGS = {name: getattr(romco, name) for name in NAMES if name != "__version__"} | {
    f"{room.__name__}.{name}": thing
    for room in (labels, shards, server, evaluation, streams)
    for name in room.__all__
    if callable(thing := getattr(room, name))
}
SECTION = re.compile(
    r"\n(?:Parameters|Returns|Yields|Attributes)\n-{4,}\n(.*?)(?=\n\n[^\s]|\Z)", re.S
)
ENTRY = re.compile(r"^(\S[^\n]*|:)\n((?:[ \t]+[^\n]*(?:\n|$)|\n(?=[ \t]))+)", re.M)
FILLER = {
    *("a", "an", "all", "any", "are", "as", "by", "each", "for", "give", "given", "how", "in"),
    *("is", "it", "its", "many", "none", "of", "on", "one", "or", "some", "that", "the", "these"),
    *("this", "those", "to", "what", "where", "which", "whose", "with", "return", "returned"),
}
# Entries that rooms still have to trim; lower it, never raise it.
MOST_COPIES = 8
MOST_EMPTY = 0


@cache
def parsed(text):
    return ast.parse(text)


def nodes(path):
    return ast.walk(parsed(path.read_text(encoding="utf-8")))


def docstrings(path):
    """Yield the docstrings of a file."""
    for node in nodes(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, ast.get_docstring(node) or ""


def entries(text):
    """Yield the name and the description of each entry of a docstring's sections."""
    for section in SECTION.findall("\n" + text):
        for name, description in ENTRY.findall(section.partition("\n>>>")[0] + "\n"):
            yield name.rstrip(":"), " ".join(description.split())


def says_nothing(name, description):
    """Return whether a description has no word beyond the parameter's name and filler."""
    words = set(re.findall(r"[a-z]+", description.lower()))
    known = set(re.findall(r"[a-z]+", name.lower()))
    known |= {f"{word}s" for word in known} | {word.removesuffix("s") for word in known}
    return not words - FILLER - known


def found_in(path):
    return [entry for _, text in docstrings(path) for entry in entries(text)]


def copies(path):
    """Return the descriptions that a file has more than once."""
    counts = Counter(description for _, description in found_in(path))
    return [description for description, times in counts.items() if times > 1]


def empty(path):
    """Return the entries of a file that only repeat the signature."""
    return [(name, text) for name, text in found_in(path) if says_nothing(name, text)]


FILES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("name", THINGS)
def test_public_names_are_described_with_an_example(name):
    thing = THINGS[name]
    text = inspect.getdoc(thing if callable(thing) else type(thing))
    assert text
    assert ">>>" in text


@pytest.mark.parametrize("name", [name for name in romco.__all__ if name not in NAMES])
def test_modules_say_what_they_are_for(name):
    assert inspect.getdoc(getattr(romco, name))


def test_no_two_equal_entries_in_a_module():
    found = {str(path.relative_to(SOURCE)): copies(path) for path in FILES}
    assert sum(map(len, found.values())) <= MOST_COPIES, {k: v for k, v in found.items() if v}


def test_an_entry_says_more_than_the_signature():
    found = {str(path.relative_to(SOURCE)): empty(path) for path in FILES}
    assert sum(map(len, found.values())) <= MOST_EMPTY, {k: v for k, v in found.items() if v}


def test_a_method_is_described_where_it_is_declared():
    """A method without a docstring has one in a base class or protocol of the same folder."""
    described, bare = {}, set()
    for path in FILES:
        for node in nodes(path):
            for part in node.body if isinstance(node, ast.ClassDef) else ():
                if isinstance(part, ast.FunctionDef) and not part.name.startswith("_"):
                    if ast.get_docstring(part):
                        described.setdefault(path.parent, set()).add(part.name)
                    elif not any("setter" in ast.unparse(name) for name in part.decorator_list):
                        bare.add((path.parent, node.name, part.name))
    public = {row for row in bare if not row[1].startswith("_")}
    assert not {row for row in public if row[2] not in described.get(row[0], ())}


def test_such_entries_would_be_found(tmp_path):
    section = "\n    Parameters\n    ----------\n    model:\n        {}\n    seed:\n        {}\n"
    first = (
        f'def f(model, seed):\n    """F.\n{section.format("Its model.", "Its model.")}\n    """\n'
    )
    path = tmp_path / "m.py"
    path.write_text(first)
    assert copies(path) == ["Its model."]
    assert empty(path) == [("model", "Its model.")]
    told = section.format("A fitted model, or a file of one.", "None draws one.")
    path.write_text(f'def f(model, seed):\n    """F.\n{told}\n    """\n')
    assert (copies(path), empty(path)) == ([], [])
