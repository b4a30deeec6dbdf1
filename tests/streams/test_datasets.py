import numpy as np
import pytest

from romco.streams import datasets
from romco.streams.stream import Stream


def test_unknown_name_lists_the_known():
    with pytest.raises(ValueError, match=r"no data set 'eachmovie'; there are simulated, "):
        datasets.load("eachmovie")


@pytest.mark.parametrize("name", ["simulated", "spam-like", "movies-like"])
def test_simulated_ones_are_always_present(tmp_path, name):
    assert datasets.present(name, tmp_path)


def test_simulated_ones_are_made_to_be_described(tmp_path):
    [found] = datasets.describe(tmp_path, ["simulated"])
    assert found.present
    assert found.problem is None
    assert found.statistics.events > 0


def test_statistics_count():
    stream = Stream("s", np.array([0, 0, 1]), np.ones((3, 2)), np.array([1.0, -1, 1]), ("a", "b"))
    figures = datasets.statistics(stream)
    assert (figures.tasks, figures.events, figures.features) == (2, 3, 2)
    assert (figures.fewest_events, figures.most_events) == (1, 2)
    assert figures.positive == pytest.approx(2 / 3)
    assert figures.positive_by_task == (0.5, 1.0)


def test_a_variant_has_parameters_or_is_refused():
    assert datasets.load("simulated@n_tasks=3,outliers=1,seed=2").n_tasks == 3
    with pytest.raises(ValueError, match="'spam-like' has no variant 'unscaled'"):
        datasets.load("spam-like@unscaled")
