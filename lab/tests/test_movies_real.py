"""MovieLens as it is; apart from test_movies.py, which makes it smaller."""

import numpy as np
import pytest

from romco_lab.datasets import movies
from romco_lab.datasets.storage import DamagedData


def test_real_stream(data_dir):
    stream = movies.load(data_dir)
    assert (stream.n_tasks, stream.n_events, stream.n_features) == (30, 6000, 913)
    assert 0.4 < np.mean(stream.y > 0) < 0.7


def test_damaged_real_file_is_refused(data_dir, damaged_copy):
    whole = (data_dir / movies.FILE).read_bytes()
    with pytest.raises(DamagedData, match=movies.SHA256):
        movies.load(damaged_copy(whole, movies.FILE, lambda content: content[:-1]))
