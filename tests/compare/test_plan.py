import dataclasses

import pytest

from romco.compare.run import Run, complete

RUN = Run("simulated", "abc", "ogd-unique", (("eta", 1.0),), "synchronous", 0)


def test_equal_runs_have_equal_names():
    assert dataclasses.replace(RUN).name == RUN.name


@pytest.mark.parametrize(
    "change",
    [
        {"dataset": "spam"},
        {"digest": "abd"},
        {"learner": "ogd-global"},
        {"parameters": (("eta", 2.0),)},
        {"order": "interleaved"},
        {"seed": 1},
        {"rounds": 10},
        {"records": 10},
        {"labels": (("name", "random"), ("share", 0.1))},
        {"delay": 5},
        {"version": "9.9"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_every_field_changes_the_name(change):
    assert dataclasses.replace(RUN, **change).name != RUN.name


def test_the_list_of_changes_above_is_complete():
    tried = test_every_field_changes_the_name.pytestmark[0].args[1]
    assert {next(iter(change)) for change in tried} == {f.name for f in dataclasses.fields(Run)}


def test_complete_fills_in_defaults_in_order_of_name():
    pairs = complete("romco-nucl", {"eta2": 0.25})
    assert [name for name, _ in pairs] == sorted(name for name, _ in pairs)
    assert dict(pairs)["eta2"] == 0.25
    assert dict(pairs)["update"] == "loss"


@pytest.mark.parametrize(
    ("learner", "parameters", "message"),
    [
        ("romco-x", {}, "unknown learner 'romco-x'; known are romco-"),
        ("ogd-unique", {"etta": 1}, "ogd-unique has no parameter 'etta'; it has eta, step"),
    ],
)
def test_unknown_names_are_told_the_known_ones(learner, parameters, message):
    with pytest.raises(ValueError, match=message):
        complete(learner, parameters)
