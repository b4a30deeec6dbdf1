import pytest

from romco.streams import datasets


def test_unknown_name_lists_the_known():
    with pytest.raises(ValueError, match=r"no data set 'eachmovie'; there are simulated, "):
        datasets.load("eachmovie")


@pytest.mark.parametrize("name", ["simulated", "spam-like", "movies-like"])
def test_simulated_ones_are_always_present(tmp_path, name):
    assert datasets.present(name, tmp_path)


def test_simulated_ones_are_made_to_be_described(tmp_path):
    [(dataset, stream, problem)] = datasets.describe(tmp_path, ["simulated"])
    assert (dataset.name, problem) == ("simulated", "")
    assert stream.n_events > 0


def test_a_variant_has_parameters_or_is_refused():
    assert datasets.load("simulated@n_tasks=3,outliers=1,seed=2").n_tasks == 3
    with pytest.raises(ValueError, match="'spam-like' has no variant 'unscaled'"):
        datasets.load("spam-like@unscaled")
