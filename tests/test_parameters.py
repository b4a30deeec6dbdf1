"""Checks of single parameters, and the grammar of ``--set``."""

import numpy as np
import pytest

import romco
from romco.cli.options import parse_settings
from romco.compare.run import chosen_settings
from romco.parameters import not_negative, positive, setting, truth, whole


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("False", False), ("false", False), ("FALSE", False), ("true", True), (" True ", True)),
        *(("none", None), ("null", None), ("3", 3), ("-2", -2), ("0.5", 0.5), (".5", 0.5)),
        *(("1e-3", 0.001), ("L2", "L2"), ("von Neumann", "von Neumann"), ('"3"', "3"), ("", "")),
        ("[[1, 0.5], [0.5, 1]]", [[1, 0.5], [0.5, 1]]),
    ],
)
def test_both_ways_to_set_have_one_grammar(text, value):
    assert setting(f"p={text}") == ("p", value)
    assert type(setting(f"p={text}")[1]) is type(value)
    assert parse_settings([f"p={text}"]) == {"p": value}


@pytest.mark.parametrize(("text", "value"), [("False", False), ("TRUE", True)])
def test_a_truth_value_is_one(text, value):
    assert chosen_settings([f"romco-nucl.always_prox={text}"]) == {
        "romco-nucl": {"always_prox": value}
    }
    made = romco.learner("romco-nucl", 3, 2, **parse_settings([f"always_prox={text}"]))
    assert made.parameters["always_prox"] is value


@pytest.mark.parametrize("value", ["False", "no", 0, 1, None, 0.0, []])
def test_what_is_no_truth_value_is_refused(value):
    with pytest.raises(ValueError, match="always_prox must be True or False"):
        romco.learner("romco-nucl", 3, 2, always_prox=value)


def test_numpy_truth_values_are_taken():
    assert truth("p", np.True_) is True
    assert truth("p", np.False_) is False


@pytest.mark.parametrize("text", ["eta", "=3", " =3", ""])
def test_what_is_no_setting_is_told(text):
    with pytest.raises(ValueError, match="expected parameter=value"):
        setting(text)


@pytest.mark.parametrize("check", [whole, positive, not_negative])
@pytest.mark.parametrize("value", [10**400, -(10**400), float("nan"), float("inf"), "1", True])
def test_numbers_that_cannot_be_calculated_with_are_refused(check, value):
    with pytest.raises(ValueError, match="p must be"):
        check("p", value)
