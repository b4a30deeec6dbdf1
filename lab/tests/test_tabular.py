"""Tables as streams: what becomes of numbers, words and gaps; and the six real ones."""

import gzip
import hashlib

import numpy as np
import pytest

from romco_lab.datasets import cheese, fars, flights, nlswork, star, swissmetro
from romco_lab.datasets.storage import DamagedData
from romco_lab.datasets.tabular import Recipe, read

SHAPES = {  # events, tasks, features
    swissmetro: (5265, 585, 13),
    fars: (45208, 26, 2),
    nlswork: (13954, 2319, 9),
    cheese: (3474, 55, 2),
    star: (11935, 39, 2),
}
TEXT = b"shop,price,town,sold\na,2.5,Rome,1\nb,,Bonn,7\na,0,,3\n"


def recipe(content):
    digest = hashlib.sha256(content).hexdigest()
    return Recipe("t", "t/t.csv.gz", digest, "shop", ("price",), ("town",), "here", "free")


def written(tmp_path, text):
    content = gzip.compress(text, mtime=0)
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "t.csv.gz").write_bytes(content)
    return recipe(content), tmp_path


def test_numbers_stay_words_become_indicators_gaps_say_nothing(tmp_path):
    found = read(*written(tmp_path, TEXT), scaled=False)
    assert found.features == ("price", "town=Bonn", "town=Rome")
    np.testing.assert_array_equal(found.x.toarray(), [[2.5, 0, 1], [0, 1, 0], [0, 0, 0]])
    assert found.tasks == ("shop a", "shop b")
    np.testing.assert_array_equal(found.number("sold"), [1.0, 7.0, 3.0])
    assert np.isnan(found.number("price")[1])
    assert found.words("town")[1] == ("", "Bonn", "Rome")


def test_a_question_makes_a_stream(tmp_path):
    found = read(*written(tmp_path, TEXT))
    stream = found.choose(found.number("sold") > 2, ("few", "many"), "noted")
    np.testing.assert_array_equal(stream.y, [-1, 1, 1])
    assert stream.labels == ("few", "many")
    assert "noted" in stream.notes


def test_ragged_lines_are_refused(tmp_path):
    with pytest.raises(DamagedData, match="different width"):
        read(*written(tmp_path, TEXT + b"a,1\n"))


@pytest.mark.parametrize(
    "module",
    [
        cheese,
        *(
            pytest.param(one, marks=pytest.mark.slow, id=one.RECIPE.name)
            for one in SHAPES
            if one is not cheese
        ),
    ],
)
def test_real_ones(data_dir, module):
    stream = module.RECIPE.load(data_dir)
    events, tasks, numbers = SHAPES[module]
    assert (stream.n_events, stream.n_tasks) == (events, tasks)
    assert 0.2 < np.mean(stream.y > 0) < 0.8
    means = stream.x[:, :numbers].mean(axis=0)
    assert np.abs(means).max() < 1e-9  # standardised; raw they are not
    raw = module.RECIPE.load(data_dir, scaled=False)
    assert np.abs(raw.x[:, :numbers].mean(axis=0)).min() > 0.01


@pytest.mark.slow
def test_flights_have_a_calendar(data_dir):
    found = read(flights.RECIPE, data_dir)
    assert (len(found.task), len(found.tasks)) == (119729, 100)
    assert found.columns["weekday"][0] == "2"  # 2 January 2013 was a Wednesday
    assert found.columns["hour"][0] == "5"
    assert not any(name.startswith(("delay", "late")) for name in found.features)
