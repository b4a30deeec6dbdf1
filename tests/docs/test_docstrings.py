"""What `romco` gives is described: parameters, what is returned, an example that runs."""

import inspect
import types

import pytest

import romco

NAMES = [name for name in romco.__all__ if not isinstance(getattr(romco, name), types.ModuleType)]
THINGS = {name: getattr(romco, name) for name in NAMES if name != "__version__"}
METHODS = {
    f"{kind.__name__}.{name}": method
    for kind in (romco.Model, romco.Learner, romco.Method, romco.Rounds)
    for name in vars(kind)
    if not name.startswith("_") and inspect.isroutine(method := getattr(kind, name))
}


def lacking(thing):
    """Which parts a description should have and has not."""
    text = inspect.getdoc(thing) or ""
    found = []
    if callable(thing):
        signature = inspect.signature(thing)
        parameters = [name for name in signature.parameters if name not in ("self", "cls")]
        if parameters:
            section = text.partition("Parameters\n----------\n")[2]
            found += [name for name in parameters if name not in section]
        gives = signature.return_annotation not in ("None", None, inspect.Signature.empty)
        if gives and not isinstance(thing, type) and "\n-------\n:" not in text:
            found += [] if "Yields\n------\n:" in text else ["Returns"]
    return found


@pytest.mark.parametrize("name", THINGS)
def test_what_romco_gives_is_described(name):
    thing = THINGS[name]
    assert lacking(thing) == []
    assert ">>>" in inspect.getdoc(thing), "no example"


@pytest.mark.parametrize("name", METHODS)
def test_methods_of_models_and_learners_are_described(name):
    assert lacking(METHODS[name]) == []


def test_a_bare_line_would_be_found():
    def bare(model, top=3) -> int:
        """One line."""

    assert lacking(bare) == ["model", "top", "Returns"]


@pytest.mark.parametrize("name", [name for name in romco.__all__ if name not in NAMES])
def test_rooms_say_what_they_are_for(name):
    assert inspect.getdoc(getattr(romco, name))
