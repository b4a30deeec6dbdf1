"""What `romco` gives is described: parameters, what is returned, an example that runs."""

import inspect
import types

import pytest

import romco
from romco import evaluation, labels, server, shards, streams
from romco.adapters import estimators
from romco.evaluation import baselines
from romco.model import Columns, Features, Hashed, Names
from romco.runs import Session
from romco.streams import datasets, questions

try:
    from romco.adapters import river
except ImportError:  # an extra
    RIVER, STREAMS = (), ()
else:
    RIVER, STREAMS = (river.ROMCOClassifier, river.ROMCORegressor), (river.TaskStream,)

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
LOADING = ("load", "events", "clock", "ask", "present", "describe", "statistics")
GUESSING = ("majority", "last", "mean", "task_mean")
LOADERS = {
    f"{module.__name__}.{name}": function
    for module in (
        *(baselines, datasets, questions, streams.spam, streams.mhc, streams.movies),
        *(streams.emails, streams.swissmetro, streams.fars, streams.flights, streams.nlswork),
        *(streams.cheese, streams.star),
    )
    for name in (*LOADING, *GUESSING)
    if inspect.isfunction(function := vars(module).get(name))
}
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


def lacking(thing):
    """Which parts a description should have and has not."""
    text = inspect.getdoc(thing) or ""
    found = []
    if callable(thing) and not is_contract(thing):
        signature = inspect.signature(thing)
        parameters = [name for name in signature.parameters if name not in ("self", "cls")]
        if parameters:
            section = text.partition("Parameters\n----------\n")[2]
            found += [name for name in parameters if name not in section]
        gives = signature.return_annotation not in ("None", None, inspect.Signature.empty)
        if gives and not isinstance(thing, type) and "\n-------\n:" not in text:
            found += [] if "Yields\n------\n:" in text else ["Returns"]
    return found


def is_contract(thing):
    """Whether it is a contract, which nobody makes one of."""
    return bool(vars(thing).get("_is_protocol")) if isinstance(thing, type) else False


@pytest.mark.parametrize("name", [*THINGS, *ROOMS])
def test_what_romco_gives_is_described(name):
    thing = THINGS[name] if name in THINGS else ROOMS[name]
    assert lacking(thing) == []
    assert ">>>" in inspect.getdoc(thing), "no example"


@pytest.mark.parametrize("name", METHODS)
def test_methods_are_described(name):
    assert lacking(METHODS[name]) == []


@pytest.mark.parametrize("name", LOADERS)
def test_loaders_are_described(name):
    assert lacking(LOADERS[name]) == []


def test_nothing_is_left_out_by_how_it_is_looked_for():
    for name in ("labels.policies.Policy.ask", "shards.shards.Shards.learn"):
        assert f"romco.{name}" in METHODS
    for name in ("server.client.Client.wait", "adapters.sklearn.ROMCOClassifier.predict_proba"):
        assert f"romco.{name}" in METHODS
    assert "romco.model.features.Names.read" in METHODS
    assert not RIVER or "romco.adapters.river.ROMCORegressor.learn_many" in METHODS
    assert {"romco.streams.spam.load", "romco.evaluation.baselines.mean"} <= set(LOADERS)


def test_a_bare_line_would_be_found():
    def bare(model, top=3) -> int:
        """One line."""

    assert lacking(bare) == ["model", "top", "Returns"]


@pytest.mark.parametrize("name", [name for name in romco.__all__ if name not in NAMES])
def test_rooms_say_what_they_are_for(name):
    assert inspect.getdoc(getattr(romco, name))
