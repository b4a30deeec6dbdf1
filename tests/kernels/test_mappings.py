"""Agreement: compiled reading of mappings equals its plain twin."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from romco.kernels.io.encoded import Encoded
from romco.kernels.io.lexicon import Lexicon
from romco.kernels.io.mappings import HashedMappings, LexiconColumns, NamedMappings, hash_name
from tests.reference import mappings as plain

NAMES = st.text(max_size=6) | st.integers(-5, 5)
VALUES = st.floats(-1e6, 1e6) | st.integers(-9, 9) | st.booleans() | st.text(max_size=3) | st.none()
ROWS = st.lists(st.dictionaries(NAMES, VALUES, max_size=12), max_size=6)


def unpacked(values, columns, starts):
    return [
        dict(zip(columns[a:b].tolist(), values[a:b].tolist(), strict=True))
        for a, b in pairwise(starts)
    ]


@given(ROWS)
@settings(max_examples=20)
def test_hashed_equals_plain(rows):
    got = unpacked(*HashedMappings(8).read(rows))
    assert got == [plain.hashed(row, 8) for row in rows]
    assert all(list(row) == sorted(row) for row in got)


@given(ROWS)
@settings(max_examples=20)
def test_named_equals_plain(rows):
    new = {}
    got = unpacked(*NamedMappings({}, new).read(rows))
    known = {}
    assert got == [plain.named(row, known) for row in rows]
    assert new == known


TEXTS = st.lists(st.tuples(st.text("abcß", min_size=1, max_size=3), st.floats(-9, 9)), max_size=9)


@given(st.lists(TEXTS, max_size=6), st.integers(0, 6))
@settings(max_examples=20)
def test_encoded_rows_equal_plain_whatever_was_adopted_between(rows, adopted):
    lexicon, found, known = Lexicon(), LexiconColumns(), {}
    for block in (rows[:adopted], rows[adopted:], rows):
        cells = [cell for row in block for cell in row]
        numbers = np.array([lexicon.number(name) for name, _ in cells], dtype=np.int32)
        starts = np.cumsum([0, *map(len, block)]).astype(np.int64)
        encoded = Encoded(np.array([value for _, value in cells]), numbers, starts, lexicon)
        new, expected = {}, dict(known)
        got = unpacked(*NamedMappings(known, new).read_encoded(encoded, found))
        assert got == [_added(row, _named(expected)) for row in block]
        assert {**known, **new} == expected
        unread = unpacked(*NamedMappings(known).read_encoded(encoded, found))
        kept = [{at: value for at, value in row.items() if at < len(known)} for row in got]
        assert unread == kept
        if adopted % 2:  # else it was refused: its names stay free
            known.update(new)
        hashed = unpacked(*HashedMappings(8).read_encoded(encoded, LexiconColumns()))
        assert hashed == [_added(row, _hashed) for row in block]


def _named(known):
    return lambda name: (known.setdefault(name, len(known)), 1.0)


def _hashed(name):
    h = plain.hash_name(name)
    return h % 8, -1.0 if h >= 2**63 else 1.0


def _added(row, column_of):
    """Columns and the sums of their values, by a function that gives a name's column and sign."""
    found = {}
    for name, value in row:
        column, sign = column_of(name)
        found[column] = found[column] + sign * value if column in found else sign * value
    return dict(sorted(found.items()))


def test_unknown_names_are_dropped_without_new():
    values, columns, starts = NamedMappings({"a": 0}).read([{"b": 1.0, "a": 2.0}, {"b": 1.0}])
    assert (values.tolist(), columns.tolist(), starts.tolist()) == ([2.0], [0], [0, 1, 1])


@pytest.mark.parametrize(
    ("name", "expected"),
    [("", 17280346270528514342), ("age", None), ("straße", None), ("word:free", None)],
)
def test_hash_never_changes(name, expected):
    assert hash_name(name) == plain.hash_name(name)
    if expected is not None:
        assert hash_name(name) == expected


@pytest.mark.parametrize("value", [np.nan, np.inf, [1.0], "x" and object()])
def test_bad_values_are_refused_by_name(value):
    for reader in (NamedMappings({}, {}), HashedMappings(8)):
        with pytest.raises(ValueError, match=r"row 1: feature 'b'"):
            reader.read([{"a": 1.0}, {"b": value}])


def test_row_that_is_no_mapping_is_refused():
    with pytest.raises(ValueError, match="expected a mapping"):
        HashedMappings(8).read([[1.0, 2.0]])


def test_names_are_found_however_they_became_known():
    class Name(str):
        __slots__ = ()

    known = {Name("ann"): 0, "bob": 1, "b" * 40: 2, "é": 3, 7: 4}
    reader = NamedMappings(known)
    assert reader.read([{"ann": 1.0, "bob": 2.0, "b" * 40: 3.0, "é": 4.0, 7: 5.0}])[1].tolist() == [
        0, 1, 2, 3, 4,
    ]  # fmt: skip
    known.update((f"later {i}", 5 + i) for i in range(100))
    assert reader.read([{"later 99": 1.0, "later 0": 1.0, "never": 1.0}])[1].tolist() == [5, 104]


@pytest.mark.parametrize("size", [2**8, 2**16, 2**30])
@pytest.mark.parametrize("n", [3, 24, 25, 400])
def test_long_rows_are_sorted_whatever_the_size(n, size):
    row = {f"name {i}": float(i) for i in range(n)}
    assert unpacked(*HashedMappings(size).read([row])) == [plain.hashed(row, size)]
    values, columns, _ = HashedMappings(size).read([row])
    assert (np.diff(columns) > 0).all()
    assert len(values) == len(columns)
