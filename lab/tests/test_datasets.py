import pytest

from romco.streams import datasets
from romco_lab.datasets import movies

OLD = ("spam", "mhc", "movies", "emails")
TABULAR = ("swissmetro", "fars", "flights", "nlswork", "cheese", "star")
REAL = (*OLD, *TABULAR)


def test_every_data_set_is_listed_under_its_name():
    assert set(REAL) < set(datasets.DATASETS)
    assert all(name == datasets.DATASETS[name].name for name in REAL)


@pytest.mark.parametrize("name", REAL)
def test_missing_ones_say_where_they_come_from(tmp_path, name):
    [found] = datasets.describe(tmp_path, [name])
    assert not datasets.present(name, tmp_path)
    assert found.stream is None
    assert found.problem.startswith(f"missing: get it from {found.dataset.origin}; put it at ")
    assert all(str(tmp_path / place) in found.problem for place in found.dataset.places)
    for variant in ("", *(f"@{key}" for key in found.dataset.variants)):
        with pytest.raises(FileNotFoundError, match=name):
            datasets.load(name + variant, tmp_path)


def test_a_damaged_one_is_present_with_its_problem(tmp_path):
    path = tmp_path / movies.FILE
    path.parent.mkdir()
    path.write_text("1\t2\t3\t4\n")
    [found] = datasets.describe(tmp_path, ["movies"])
    assert found.problem.startswith("damaged: ")
    assert "fetch it again" in found.problem
    assert found.stream is None


@pytest.mark.slow
def test_real_ones_are_described(data_dir):
    found = {d.dataset.name: d.stream for d in datasets.describe(data_dir, OLD)}
    assert [found[name].n_tasks for name in OLD] == [4, 12, 30, 15]
    assert [found[name].n_events for name in OLD] == [7070, 24640, 6000, 6000]


@pytest.mark.parametrize(
    ("name", "answers"), [("swissmetro@classes", 3), ("cheese@number", 0), ("star@number", 0)]
)
def test_other_targets_are_variants(data_dir, name, answers):
    stream = datasets.load(name, data_dir)
    assert (stream.name, stream.answers) == (name, answers)
