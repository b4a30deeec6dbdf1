"""Small changes to a Python file, each of which a good test suite should notice.

A change is known by where it is and what it does, not by its line, so that a list of changes
stays true while the file is edited.
"""

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

Act = Callable[[ast.AST], ast.AST]
BOUNDS = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
OPPOSITES = {ast.Eq: ast.NotEq, ast.In: ast.NotIn, ast.Is: ast.IsNot}
OPPOSITES |= {other: one for one, other in OPPOSITES.items()}
TWINS = {"min": "max", "any": "all", "minimum": "maximum"}
TWINS |= {other: one for one, other in TWINS.items()}
SIGNS = {ast.Add: ast.Sub, ast.Sub: ast.Add}


@dataclass(frozen=True)
class Change:
    """One change of one file."""

    name: str  # function: what
    line: int
    make: Callable[[], str]

    @property
    def source(self) -> str:
        """The whole file, changed."""
        return self.make()


def changes(source: str) -> list[Change]:
    """All changes of a file.

    >>> for change in changes("def least(a):\\n    return min(a, 7)"):
    ...     print(change.name)
    least: min(a, 7) -> max(a, 7)
    least: 7 -> 8 in return min(a, 7)
    """
    found: list[Change] = []
    counts: Counter[str] = Counter()
    for at, (node, where, around) in enumerate(_places(ast.parse(source))):
        for what, act in _acts(node, around):
            name = f"{where}: {what}"
            counts[name] += 1
            numbered = name if counts[name] == 1 else f"{name} ({counts[name]})"
            found.append(Change(numbered, node.lineno, partial(_applied, source, at, act)))
    return found


def _applied(source: str, at: int, act: Act) -> str:
    """The file with one change."""
    tree = ast.parse(source)
    target = list(_places(tree))[at][0]

    class Exchange(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            if node is target:
                return act(node)
            return self.generic_visit(node)

    return ast.unparse(ast.fix_missing_locations(Exchange().visit(tree)))


def _places(tree: ast.Module) -> Iterator[tuple[ast.AST, str, str]]:
    """Nodes within functions, with the function's name and the statement around them."""
    for node in tree.body:
        yield from _within(node, "", "")


def _within(node: ast.AST, where: str, around: str) -> Iterator[tuple[ast.AST, str, str]]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        where = f"{where}.{node.name}".lstrip(".")
        if not _is_protocol(node):
            for inner in node.body:
                yield from _within(inner, where, "")
        return
    if not where or isinstance(node, ast.JoinedStr) or _is_text(node):
        return  # what runs once on import, messages and docstrings
    yield node, where, around
    if isinstance(node, ast.Raise | ast.Import | ast.ImportFrom | ast.Global | ast.Assert):
        return  # what it says is for people
    around = ast.unparse(node) if isinstance(node, ast.stmt) else around
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "ctx", "type_params"):
            continue
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, ast.AST):
                yield from _within(inner, where, around)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_protocol(node: ast.AST) -> bool:
    bases = node.bases if isinstance(node, ast.ClassDef) else []
    return any(ast.unparse(base) == "Protocol" for base in bases)


def _acts(node: ast.AST, around: str) -> Iterator[tuple[str, Act]]:
    """Return the possible changes of a node: a description and a function for each."""
    text = ast.unparse(node)
    short = text.partition("\n")[0][:100]
    if _can_go(node):
        yield f"drop {short}", lambda _: ast.Pass()
    elif isinstance(node, ast.If | ast.While | ast.IfExp):
        yield f"not {ast.unparse(node.test)[:100]}", _negate
    elif isinstance(node, ast.BoolOp):
        yield f"{short} with the other of and, or", _other_word
        for i, part in enumerate(node.values):
            yield f"{short} without {ast.unparse(part)[:60]}", _without(i)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield from _compared(node, short)
    elif isinstance(node, ast.Call) and _twin(node.func):
        other = ast.unparse(_exchanged(ast.parse(text, mode="eval").body))[:100]
        yield f"{short} -> {other}", _exchanged
    elif isinstance(node, ast.BinOp) and type(node.op) in SIGNS and _counts(node):
        yield f"{short} with the other sign", _other_sign
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float, bool):
        value = not node.value if isinstance(node.value, bool) else node.value + 1
        line = around.partition("\n")[0][:60]
        yield f"{node.value} -> {value} in {line}", lambda _: ast.Constant(value)


def _can_go(node: ast.AST) -> bool:
    """Return whether it is a statement whose effect would be missed."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call)
    return isinstance(node, ast.Raise) or (
        isinstance(node, ast.Assign | ast.AugAssign) and _lasts(node)
    )


def _compared(node: ast.Compare, short: str) -> Iterator[tuple[str, Act]]:
    kind = type(node.ops[0])
    if kind in BOUNDS:
        yield f"{short} with another bound", _with_operator(BOUNDS[kind])
        turned = {ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt}
        yield f"not {short}", _with_operator(turned[kind])
    elif kind in OPPOSITES:
        yield f"not {short}", _with_operator(OPPOSITES[kind])


def _lasts(node: ast.Assign | ast.AugAssign) -> bool:
    """Return whether what is assigned stays when the function is over."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    parts = [p for t in targets for p in (t.elts if isinstance(t, ast.Tuple) else [t])]
    return isinstance(node, ast.AugAssign) or all(
        isinstance(part, ast.Attribute | ast.Subscript) for part in parts
    )


def _counts(node: ast.BinOp) -> bool:
    """Not text that is put together."""
    return not any(isinstance(part, ast.JoinedStr) or _is_str(part) for part in ast.walk(node))


def _is_str(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def _twin(name: ast.AST) -> str | None:
    if isinstance(name, ast.Name | ast.Attribute):
        return TWINS.get(name.id if isinstance(name, ast.Name) else name.attr)
    return None


def _exchanged(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.Call)
    twin, name = _twin(node.func), node.func
    assert twin is not None
    if isinstance(name, ast.Name):
        name.id = twin
    elif isinstance(name, ast.Attribute):
        name.attr = twin
    return node


def _negate(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.If | ast.While | ast.IfExp)
    node.test = ast.UnaryOp(ast.Not(), node.test)
    return node


def _other_word(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.BoolOp)
    node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    return node


def _without(i: int) -> Act:
    def act(node: ast.AST) -> ast.AST:
        assert isinstance(node, ast.BoolOp)
        left = node.values[:i] + node.values[i + 1 :]
        if len(left) == 1:
            return left[0]
        return ast.BoolOp(node.op, left)

    return act


def _with_operator(kind: type[ast.cmpop]) -> Act:
    def act(node: ast.AST) -> ast.AST:
        assert isinstance(node, ast.Compare)
        node.ops = [kind()]
        return node

    return act


def _other_sign(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.BinOp)
    node.op = SIGNS[type(node.op)]()
    return node
