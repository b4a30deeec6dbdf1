"""One thought a line: how often lines of the library hold several, per 1,000 lines of code."""

import ast
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "romco"
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def is_conditional(node):
    return isinstance(node, ast.IfExp)


def is_comprehension(node):
    return isinstance(node, COMPREHENSIONS)


def assigns_computed_values(node):
    """Whether a statement assigns two or more values that are neither names nor constants."""
    if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Tuple):
        return False
    if not isinstance(node.value, ast.Tuple):
        return False
    simple = (ast.Name, ast.Constant, ast.Attribute)
    computed = [value for value in node.value.elts if not isinstance(value, simple)]
    return len(computed) >= 2


def count_code_lines(text, tree):
    """Lines that are neither empty, nor a comment, nor part of a docstring."""
    docstrings = set()
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            docstrings |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    lines = enumerate(map(str.strip, text.splitlines()), start=1)
    return sum(number not in docstrings and line[:1] not in ("", "#") for number, line in lines)


@cache
def parsed(text):
    """Return all nodes of a module, and its number of lines of code."""
    tree = ast.parse(text)
    return list(ast.walk(tree)), count_code_lines(text, tree)


def share(texts, counts):
    """Nodes per 1,000 lines of code for which ``counts`` is true."""
    nodes = lines = 0
    for found, n in map(parsed, texts):
        nodes += sum(map(counts, found))
        lines += n
    return 1000 * nodes / lines


@pytest.mark.parametrize(
    ("counts", "limit"),
    [
        (is_conditional, 10),
        (is_comprehension, 25),
        (assigns_computed_values, 4),
    ],
)
def test_lines_hold_one_thought(counts, limit):
    texts = [path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))]
    assert share(texts, counts) <= limit


@pytest.mark.parametrize(
    ("text", "counts", "expected"),
    [
        ('"""Docs."""\n\n# a comment\nx = 1 if y else 2\n', is_conditional, 1000),
        ("x = 1\ny = [a for a in (b for b in c)]\n", is_comprehension, 1000),
        ("first, second = f(x), g(x)\n", assigns_computed_values, 1000),
        ("first, second = x, 1\n", assigns_computed_values, 0),
        ("first, second = f(x)\n", assigns_computed_values, 0),
    ],
)
def test_what_is_counted(text, counts, expected):
    assert share([text], counts) == expected
