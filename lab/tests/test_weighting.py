import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose
from scipy.sparse import csr_array

from romco_lab.datasets.weighting import best, most_frequent, tf_idf, unit_rows

counts = arrays(
    np.float64, st.tuples(st.integers(1, 8), st.integers(1, 8)), elements=st.integers(0, 5)
)


def tf_idf_plainly(table, damped):
    n, d = table.shape
    out = np.zeros((n, d))
    for i in range(n):
        for j in range(d):
            if table[i, j]:
                tf = 1 + np.log(table[i, j]) if damped else table[i, j]
                out[i, j] = tf * np.log(n / np.count_nonzero(table[:, j]))
        length = np.sqrt((out[i] ** 2).sum())
        out[i] /= length if length else 1.0
    return out


@given(counts, st.booleans())
def test_tf_idf_is_its_definition(table, damped):
    sparse = csr_array(table)
    found = tf_idf(sparse, damped)
    assert_allclose(found.toarray(), tf_idf_plainly(table, damped), atol=1e-12)
    assert np.all(found.data != 0)
    np.testing.assert_array_equal(sparse.toarray(), table)  # the counts are left alone


@given(counts)
def test_unit_rows_have_length_one_or_zero(table):
    lengths = np.linalg.norm(unit_rows(table), axis=1)
    assert_allclose(lengths, (table != 0).any(axis=1).astype(float))


@given(counts, st.integers(0, 10))
def test_most_frequent_columns_beat_all_others(table, n):
    chosen = most_frequent(csr_array(table), n)
    frequency = np.count_nonzero(table, axis=0)
    others = np.delete(frequency, chosen)
    assert len(chosen) == min(n, np.count_nonzero(frequency))
    assert np.all(np.diff(chosen) > 0)
    assert len(chosen) == 0 or frequency[chosen].min() >= others.max(initial=0)


def test_best_leaves_out_what_is_worth_nothing():
    np.testing.assert_array_equal(best(np.array([0.0, 2.0, -1.0]), 3), [1])
