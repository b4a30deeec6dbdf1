import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array, csr_matrix

from romco.model import Columns, Hashed, Names
from romco.model.features import (
    as_matrix,
    cut,
    features_from_json,
    in_order,
    needed_widths,
    tidy,
)


def grown(features, rows):
    new = {}
    read = features.read(rows, new)
    features.add(new)
    return read


def test_names_grow_in_order_and_unknown_ones_weigh_nothing():
    names = Names()
    rows = grown(names, [{"a": 1, "b": 2}, {"c": 3.0, "a": 4}])
    assert [names.name(j) for j in range(names.width)] == ["a", "b", "c"]
    np.testing.assert_array_equal(as_matrix(rows, 3).toarray(), [[1, 2, 0], [4, 0, 3]])
    np.testing.assert_array_equal(needed_widths(rows), [2, 3])
    assert as_matrix(names.read([{"z": 1.0}]), 3).nnz == 0
    assert names.width == 3


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_frames_are_read_by_column(kind):
    frame = kind({"age": [1.0, 2.0], "town": ["Rome", "Bonn"]})
    names = Names()
    rows = grown(names, frame)
    assert [names.name(j) for j in range(3)] == ["age", "town=Rome", "town=Bonn"]
    np.testing.assert_array_equal(as_matrix(rows, 3).toarray(), [[1, 1, 0], [2, 0, 1]])


@pytest.mark.parametrize("sparse", [csr_array, csr_matrix])
def test_columns_take_arrays_sparse_rows_and_named_mappings(sparse):
    x = np.array([[1.0, 0.0], [0.0, 2.0]])
    columns = Columns(2, ["a", "b"])
    np.testing.assert_array_equal(columns.read(x), x)
    np.testing.assert_array_equal(as_matrix(columns.read(sparse(x)), 2).toarray(), x)
    mapped = columns.read([{"a": 1.0, "other": 9.0}, {"b": 2.0}])
    np.testing.assert_array_equal(as_matrix(mapped, 2).toarray(), x)
    for bad in ([[1.0]], [[1.0, np.nan]], sparse([[np.inf, 0.0]]), [1.0, 2.0]):
        with pytest.raises(ValueError, match=r"features|finite"):
            columns.read(bad)
    with pytest.raises(ValueError, match="no names"):
        Columns(2).read([{"a": 1.0}])
    with pytest.raises(ValueError, match="without names"):
        Names().read(x)


def test_tidy_sorts_and_adds_without_touching_the_input():
    values, columns = np.array([1.0, 2.0, 4.0, 8.0]), np.array([2, 0, 2, 1])
    kept = values.copy(), columns.copy()
    rows = tidy(values, columns, np.array([0, 3, 4]))
    np.testing.assert_array_equal(as_matrix(rows, 3).toarray(), [[2, 0, 5], [0, 8, 0]])
    np.testing.assert_array_equal(values, kept[0])
    np.testing.assert_array_equal(columns, kept[1])
    np.testing.assert_array_equal(as_matrix(cut(rows, 1, 2), 3).toarray(), [[0, 8, 0]])
    assert as_matrix(rows, 2).toarray().tolist() == [[2, 0], [0, 8]]  # beyond the width: dropped


@pytest.mark.parametrize("features", [Columns(2, ["a", 3]), Names(["a", ("b", 1)]), Hashed(16)])
def test_features_survive_json(features):
    again = features_from_json(features.to_json())
    assert again.to_json() == features.to_json()
    with pytest.raises(ValueError, match="unknown kind"):
        features_from_json({"kind": "guess"})


@pytest.mark.parametrize("size", [0, 3, 2**31])
def test_hash_size_must_be_a_power_of_two(size):
    with pytest.raises(ValueError, match="power of two"):
        Hashed(size)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_columns_of_a_frame_are_found_by_name(kind):
    columns = Columns(2, ["x", "y"])
    np.testing.assert_array_equal(
        columns.read(kind({"y": [3.0], "z": [9.0], "x": [1.0]})), [[1.0, 3.0]]
    )
    with pytest.raises(ValueError, match="no column 'y'"):
        columns.read(kind({"x": [1.0], "z": [3.0]}))


@pytest.mark.parametrize("text", ["str", object, "string", "category", "string[pyarrow]"])
def test_missing_cells_of_a_pandas_frame_are_absent(text):
    frame = pd.DataFrame({"town": pd.Series(["Rome", None], dtype=text), "age": [1.0, 2.0]})
    before = frame.copy()
    rows = grown(Names(), frame)
    np.testing.assert_array_equal(as_matrix(rows, 2).toarray(), [[1.0, 1.0], [0.0, 2.0]])
    pd.testing.assert_frame_equal(frame, before)
    frame.loc[0, "age"] = np.nan
    rows = grown(Names(), frame)
    np.testing.assert_array_equal(as_matrix(rows, 2).toarray(), [[1.0, 0.0], [0.0, 2.0]])


@pytest.mark.parametrize("features", [Names(), Hashed(8), Columns(1, ["a"])])
def test_a_single_mapping_is_not_rows(features):
    with pytest.raises(ValueError, match="put it in a list"):
        features.read({"a": 1.0})


def test_names_of_numpy_text_are_hashed_as_text():
    plain = Hashed(64).read([{"free": 1.0}])
    of_numpy = Hashed(64).read([{np.str_("free"): 1.0}])
    np.testing.assert_array_equal(of_numpy.columns, plain.columns)


@pytest.mark.parametrize(
    ("columns", "starts"),
    [
        ([0, 2, 5], [0, 3]),
        ([0, 2, 0], [0, 2, 3]),
        ([], [0]),
        ([], [0, 0, 0]),
        ([2, 1], [0, 2]),
        ([1, 1], [0, 2]),
        ([1, 1], [0, 1, 2]),
        ([3, 1], [0, 2, 2]),
    ],
)
def test_rows_in_order_are_found(columns, starts):
    columns, starts = np.array(columns, dtype=np.int32), np.array(starts, dtype=np.int32)
    row = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    assert in_order(columns, starts) == (np.diff(row * 100 + columns) > 0).all()


@pytest.mark.parametrize("starts", [[1, 2], [0, 1], [0, 3], [0, 2, 1, 2], [0, 5, 2], [0, -1, 2]])
def test_rows_that_do_not_fit_their_arrays_are_not_in_order(starts):
    assert not in_order(np.array([0, 1], dtype=np.int32), np.array(starts, dtype=np.int32))
