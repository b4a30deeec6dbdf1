"""The spam set as it is; apart from test_spam.py, which makes the corpora smaller."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from conftest import write_folders
from romco_lab.datasets import spam
from romco_lab.datasets.storage import DamagedData


@pytest.mark.parametrize(
    ("selection", "features"), [("information-gain", (1440, 1470)), ("frequency", (1500, 2000))]
)
def test_real_stream(data_dir, selection, features):
    stream = spam.load(data_dir, selection)
    np.testing.assert_array_equal(np.bincount(stream.task), [1090, 710, 4130, 1140])
    assert features[0] <= stream.n_features <= features[1]
    legitimate = [np.mean(stream.y[stream.task == task] < 0) for task in range(4)]
    assert_allclose(legitimate, [0.56, 0.80, 0.56, 0.50], atol=0.005)
    lengths = np.sqrt(stream.x.multiply(stream.x).sum(axis=1))
    assert_allclose(lengths[lengths > 0], 1.0)
    assert np.count_nonzero(lengths == 0) < 10
    assert any("nothing real is shared" in note for note in stream.notes)


@pytest.mark.slow
def test_real_archive_and_its_original_layout_agree(data_dir, tmp_path):
    with np.load(data_dir / spam.ARCHIVE) as archive:
        part, name, corpus = archive["part"], archive["filename"], archive["corpus"]
        ends, tokens = archive["indptr"], archive["tokens"]
    keys = list(spam.CORPORA)
    messages = (
        (keys[corpus[i]], part[i], name[i], tokens[ends[i] : ends[i + 1]].tolist())
        for i in range(len(part))
    )
    write_folders(tmp_path / "pu_corpora_public", messages)
    one, other = spam.load(data_dir), spam.load(tmp_path)
    assert (one.x != other.x).nnz == 0
    np.testing.assert_array_equal(one.y, other.y)
    np.testing.assert_array_equal(one.task, other.task)


def test_truncated_real_archive_is_refused(data_dir, damaged_copy):
    whole = (data_dir / spam.ARCHIVE).read_bytes()
    data = damaged_copy(whole, spam.ARCHIVE, lambda content: content[:-1])
    with pytest.raises(DamagedData, match="truncated or altered"):
        spam.load(data)
