import numpy as np
import pytest
from numpy.testing import assert_allclose

from romco_lab.datasets import emails
from romco_lab.datasets.storage import DamagedData, MissingData


def test_missing_and_wrong_files(tmp_path, damaged_copy):
    with pytest.raises(MissingData, match="discovery challenge"):
        emails.load(tmp_path)
    with pytest.raises(DamagedData, match=emails.SHA256):
        emails.load(damaged_copy(b"MATLAB", emails.FILE, lambda content: content))


def test_real_stream(data_dir):
    stream = emails.load(data_dir)
    assert (stream.n_tasks, stream.n_events, stream.n_features) == (15, 6000, 1500)
    np.testing.assert_array_equal(np.bincount(stream.task), 400)
    np.testing.assert_array_equal(np.bincount(stream.task, weights=stream.y), 0.0)
    lengths = np.sqrt(stream.x.multiply(stream.x).sum(axis=1))
    assert_allclose(lengths[lengths > 0], 1.0)
    assert np.count_nonzero(lengths == 0) < 10


def test_truncated_real_file_is_refused(data_dir, damaged_copy):
    whole = (data_dir / emails.FILE).read_bytes()
    with pytest.raises(DamagedData, match="truncated or altered"):
        emails.load(damaged_copy(whole, emails.FILE, lambda content: content[:5000]))
