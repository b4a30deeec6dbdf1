"""The newer sets: what is developed on and what is reported are apart; peers learn in one loop."""

import json

import numpy as np
import pytest

import romco
from romco.streams import interleaved, simulated
from romco_lab.beyond import newer
from romco_lab.beyond.newcomers import first_events
from romco_lab.beyond.peers import VW, Own, River, prequential_margins

STREAM = simulated(n_tasks=5, n_features=6, n_events=60, outliers=1, seed=2)
ROUNDS = interleaved(STREAM, seed=0)


def fresh():
    return romco.learner("romco-auto", 6, 5)


def test_development_and_test_data_share_no_event():
    early, late = newer.development(STREAM), newer.test(STREAM)
    assert len(early) + len(late) == STREAM.n_events
    np.testing.assert_array_equal(np.concatenate([early.y, late.y]), STREAM.y)


def test_the_loop_is_the_learners_own():
    margins = prequential_margins(Own(fresh(), ROUNDS), len(ROUNDS))
    expected = fresh().replay(ROUNDS)
    np.testing.assert_allclose(margins, expected, rtol=1e-12)


def test_late_answers_are_not_known_before():
    margins = prequential_margins(Own(fresh(), ROUNDS), len(ROUNDS), delay=50)
    np.testing.assert_array_equal(margins[:51], 0.0)
    assert np.abs(margins[60:]).min() >= 0.0
    assert np.abs(margins[60:]).max() > 0.1


@pytest.mark.parametrize(
    ("package", "make"),
    [
        ("river", lambda: River(ROUNDS, 0.1, True)),
        ("vowpalwabbit", lambda: VW(ROUNDS, "logistic", 0.5, True)),
    ],
)
def test_peers_learn(package, make):
    pytest.importorskip(package)
    margins = prequential_margins(make(), len(ROUNDS))
    assert np.mean((margins[150:] >= 0) == (ROUNDS.y[150:] > 0)) > 0.55


def test_newcomers_are_no_worse_off_for_being_told_of_tasks():
    told, untold = (first_events(STREAM, way, 200, seed=0) for way in (True, False))
    assert told.error < untold.error + 10.0
    assert 0.0 <= told.auc <= 100.0


def test_columns_are_changed_before_the_stream_starts():
    x = newer.changed(ROUNDS.x, newer.POWERS)
    powers = np.log10(np.abs(x.toarray() / ROUNDS.x)).round(9)
    assert len(np.unique(powers)) > 1
    assert (powers == powers[0]).all()
    assert newer.changed(ROUNDS.x, newer.CONSTANT).toarray()[:, -1].tolist() == [1e6] * len(ROUNDS)
    np.testing.assert_array_equal(newer.changed(ROUNDS.x, "").toarray(), ROUNDS.x)


def test_a_page_is_written_from_what_was_measured(tmp_path):
    results = tmp_path / "newer.jsonl"
    line = {"events": 9, "error": 12.5, "log_loss": 0.3, "auc": 90.0}
    names = [f"star, standardised, 0 late: {peer}" for peer in ("romco-auto", "VW a", "VW b")]
    results.write_text("".join(json.dumps({"name": name, **line}) + "\n" for name in names))
    page = newer.page(newer.read(results))
    assert "| romco-auto | standardised | at once | 12.50 | 0.3000 | 90.0 |" in page
    assert page.count("VW") == 1  # the better one of its family
