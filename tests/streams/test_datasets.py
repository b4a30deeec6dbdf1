import numpy as np
import pytest

from romco.streams import datasets, movies
from romco.streams.stream import Stream

OLD = ("spam", "mhc", "movies", "emails")
TABULAR = ("swissmetro", "fars", "flights", "nlswork", "cheese", "star")
REAL = (*OLD, *TABULAR)


def test_every_data_set_is_listed_under_its_name():
    assert set(REAL) < set(datasets.DATASETS)
    assert all(name == entry.name for name, entry in datasets.DATASETS.items())


def test_unknown_name_lists_the_known():
    with pytest.raises(ValueError, match=r"no data set 'eachmovie'; there are spam, mhc"):
        datasets.load("eachmovie")


@pytest.mark.parametrize("name", REAL)
def test_missing_ones_say_where_they_come_from(tmp_path, name):
    [found] = datasets.describe(tmp_path, [name])
    assert not found.present
    assert not datasets.present(name, tmp_path)
    assert found.statistics is None
    assert found.dataset.provenance.origin
    assert all(place.is_relative_to(tmp_path) for place in found.place)
    with pytest.raises(FileNotFoundError, match=name):
        datasets.load(name, tmp_path)


def test_a_damaged_one_is_present_with_its_problem(tmp_path):
    path = tmp_path / movies.FILE
    path.parent.mkdir()
    path.write_text("1\t2\t3\t4\n")
    [found] = datasets.describe(tmp_path, ["movies"])
    assert found.present
    assert "fetch it again" in found.problem
    assert found.statistics is None


@pytest.mark.parametrize("name", [name for name in datasets.DATASETS if name not in REAL])
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


def test_real_ones_are_described(data_dir):
    found = {d.dataset.name: d.statistics for d in datasets.describe(data_dir, OLD)}
    assert [found[name].tasks for name in OLD] == [4, 12, 30, 15]
    assert [found[name].events for name in OLD] == [7070, 24640, 6000, 6000]
