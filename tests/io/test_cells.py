import datetime
import math
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from romco.io.cells import BadCell, encode_cell, encode_free, encode_text, read_name
from romco.kernels.io.encoder import Encoder
from romco.kernels.io.lexicon import Lexicon


def encoded(value):
    features = {}
    encode_free("c", value, features)
    return features


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_is_the_same_as_text_and_as_itself(number):
    assert encoded(repr(number)) == encoded(number) == {"c": number}


@given(st.integers(-(10**15), 10**15))
def test_an_identity_does_not_depend_on_the_type(number):
    forms = (number, float(number), str(number), Decimal(number))
    assert {read_name("c", {"c": form}) for form in forms} == {str(number)}


@pytest.mark.parametrize(
    ("value", "features"),
    [
        ("", {}),
        ("  ", {}),
        (None, {}),
        (float("nan"), {}),
        ("nan", {}),
        (" NA ", {}),
        ("N/A", {}),
        ("Null", {}),
        ("none", {"c=none": 1.0}),
        (datetime.date(2024, 2, 29), {"c=2024-02-29": 1.0}),
        (datetime.timedelta(minutes=1.5), {"c": 90.0}),
        (np.timedelta64(2, "h"), {"c": 7200.0}),
        (pd.Timedelta("1min"), {"c": 60.0}),
        (pd.Interval(0, 2), {"c=(0, 2]": 1.0}),
        (pd.Period("2024-02"), {"c=2024-02": 1.0}),
        (True, {"c": 1.0}),
        (Decimal("0.5"), {"c": 0.5}),
        (" Rome ", {"c=Rome": 1.0}),
        ("1_000", {"c=1_000": 1.0}),
        ("Zürich", {"c=Zürich": 1.0}),
        ([2, 3.5], {"c.0": 2.0, "c.1": 3.5}),
        (["a", "b", "a"], {"c=a": 2.0, "c=b": 1.0}),
        ({"x": 1, "y": {"z": "q"}}, {"c.x": 1.0, "c.y.z=q": 1.0}),
    ],
)
def test_what_a_cell_becomes(value, features):
    assert encoded(value) == features


@pytest.mark.parametrize("value", ["-inf", "Infinity", "1e999", float("inf"), 10**400])
def test_a_number_must_be_finite(value):
    with pytest.raises(BadCell) as caught:
        encoded(value)
    assert caught.value.column == "c"
    assert "finite" in caught.value.reason


@pytest.mark.parametrize("value", ["\udc80", b"bytes", object()])
def test_what_is_no_feature_is_refused(value):
    with pytest.raises(BadCell):
        encoded(value)


@pytest.mark.parametrize(
    ("value", "text"), [(True, "true"), (False, "false"), (0.5, "0.5"), (" a b ", "a b")]
)
def test_identities(value, text):
    assert read_name("c", {"c": value}) == text


def test_somebody_may_be_called_na():
    assert read_name("c", {"c": "NA"}) == "NA"


@pytest.mark.parametrize("value", ["", " ", None, [], float("nan"), "\udcff"])
def test_an_identity_must_be_there(value):
    with pytest.raises(BadCell):
        read_name("c", {"c": value})


def test_words_are_lower_case_and_counted():
    features = {}
    encode_text("c", "Été, ÉTÉ! x2", features)
    length = math.hypot(math.log(3.0), math.log(2.0))
    assert features == pytest.approx(
        {"c:été": math.log(3.0) / length, "c:x2": math.log(2.0) / length}
    )
    with pytest.raises(BadCell):
        encode_text("c", 7, features)


def test_words_of_any_length_have_the_numbers_of_their_names():
    words = [("abcdefghij" * 4)[:n] for n in range(1, 41)]
    encoder = Encoder(encode_cell, Lexicon(), {"text": ("text",)})
    encoder.add_row({"text": "; ".join(words).upper()}, ())
    _, names = encoder.take()
    assert [encoder.lexicon.number(f"text:{word}") for word in words] == names.tolist()
    assert len(encoder.lexicon) == len(words)
