import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from romco_lab.datasets import mhc
from romco_lab.datasets.storage import DamagedData, MissingData

peptides = st.lists(st.text(mhc.AMINO_ACIDS, min_size=2, max_size=12), max_size=5)


@given(peptides)
def test_pair_counts_are_counts_of_pairs(some):
    counts = mhc.pair_counts(some)
    assert counts.shape == (len(some), 400)
    for row, peptide in zip(counts, some, strict=True):
        pairs = [peptide[i : i + 2] for i in range(len(peptide) - 1)]
        for i, first in enumerate(mhc.AMINO_ACIDS):
            for j, second in enumerate(mhc.AMINO_ACIDS):
                assert row[20 * i + j] == pairs.count(first + second)


def test_no_look_ahead_a_row_depends_on_its_peptide_alone():
    together = mhc.pair_counts(["ACDEFGHIK", "LMNPQRSTV"])
    np.testing.assert_array_equal(together[:1], mhc.pair_counts(["ACDEFGHIK"]))


def test_missing_and_wrong_files(tmp_path, damaged_copy):
    with pytest.raises(MissingData, match="srep32115"):
        mhc.load(tmp_path)
    table = gzip.compress(b"allele,peptide,binder\n")
    with pytest.raises(DamagedData, match="mhc1_binding"):
        mhc.load(damaged_copy(table, mhc.FILE, lambda content: content))


@pytest.mark.slow
def test_real_stream(data_dir):
    stream = mhc.load(data_dir)
    assert (stream.n_tasks, stream.n_features) == (12, 400)
    events = np.bincount(stream.task)
    assert (events.sum(), events.min(), events.max()) == (24640, 410, 4162)
    assert stream.labels == ("non-binder", "binder")
    assert_allclose(np.linalg.norm(stream.x, axis=1), 1.0)


@pytest.mark.slow
def test_real_counts_are_of_eight_pairs(data_dir):
    stream = mhc.load(data_dir, normalise=False)
    np.testing.assert_array_equal(stream.x.sum(axis=1), 8.0)


def test_damaged_real_file_is_refused(data_dir, damaged_copy):
    whole = (data_dir / mhc.FILE).read_bytes()
    turned = damaged_copy(whole, mhc.FILE, lambda c: c[:999] + bytes([c[999] ^ 1]) + c[1000:])
    with pytest.raises(DamagedData, match=mhc.SHA256):
        mhc.load(turned)
