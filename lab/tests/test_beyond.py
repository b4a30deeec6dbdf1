"""The report beyond the paper: its measures, its ablations, and the whole on small streams."""

from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest

import romco
from romco.kernels.auto import constants
from romco.kernels.auto.auto import INPUT_NAMES
from romco.streams import simulated, synchronous
from romco_lab.beyond import contest as beyond
from romco_lab.beyond import report as beyond_report
from romco_lab.beyond import scenes
from romco_lab.beyond import tables as beyond_tables
from romco_lab.beyond import verdict as beyond_verdict
from romco_lab.beyond.ablations import VARIANTS, as_they_are, variant
from romco_lab.beyond.probes import area, by_turn, calibration, scores

STREAM = simulated(n_tasks=8, n_features=12, n_events=40, outliers=2)
ROUNDS = synchronous(STREAM, seed=3)
NAMES = ("romco-auto", "romco-nucl", "pa-unique", "arow-unique", "arow-global", "arow-shared")


def test_development_and_test_shuffles_are_apart():
    assert len(beyond.TEST) == 10
    assert not set(beyond.DEVELOPMENT) & set(beyond.TEST)


def test_area_counts_pairs_in_the_right_order():
    rng = np.random.default_rng(0)
    y, margins = rng.random(60) < 0.3, np.round(rng.normal(size=60), 1)
    gap = margins[y][:, None] - margins[~y][None, :]
    assert area(y, margins) == pytest.approx(np.mean((gap > 0) + 0.5 * (gap == 0)))


def test_calibration_of_sure_and_right_is_perfect():
    found = calibration(np.array([True, False]), np.array([800.0, -800.0]))
    assert found["brier"] == pytest.approx(0.0)
    assert [row[0] for row in found["bins"]] == [1, 0, 0, 0, 0, 0, 0, 0, 0, 1]


def test_errors_by_turn_add_up_to_the_error():
    margins = romco.learner("pa-unique", 12, 8).replay(ROUNDS)
    wrong = (margins >= 0) != (ROUNDS.y > 0)
    errors, events = map(np.array, by_turn(ROUNDS, wrong, 8))
    assert errors.sum() == wrong.sum()
    np.testing.assert_array_equal(events.sum(axis=0), np.bincount(ROUNDS.task))
    np.testing.assert_array_equal(events[0], 5)
    assert scores(ROUNDS, margins, 8)["error"] == pytest.approx(wrong.mean())  # equal sizes


def test_late_tasks_come_when_the_others_are_half_done():
    rounds = scenes.late(STREAM, seed=1)
    waits = scenes.late_tasks(8, seed=1)
    turn = np.repeat(np.arange(len(rounds)), np.diff(rounds.starts))
    for task in range(8):
        assert turn[rounds.task == task].min() == (20 if task in waits else 0)
    assert sorted(rounds.y) == sorted(ROUNDS.y)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_predicts_otherwise(name):
    learner, whole = variant(name, 12, 8), romco.learner("romco-auto", 12, 8)
    live = np.allclose(learner.replay(ROUNDS), whole.replay(ROUNDS))
    margins = learner.predict_frozen(ROUNDS.events)
    assert np.isfinite(margins).all()
    frozen = np.allclose(margins, whole.predict_frozen(ROUNDS.events))
    # The moment is of live predictions, where these rounds need none; copies are of frozen ones.
    assert live == (name in ("auto without old copies", "auto without moment"))
    assert frozen == (name == "auto without moment")


@pytest.mark.parametrize("name", ["own hinge", "mixed logistic", "global hinge"])
def test_an_input_that_is_left_out_is_never_heard(name):
    left_out, single = variant(f"auto without {name}", 12, 8), variant(f"only {name}", 12, 8)
    for learner in (left_out, single):
        learner.replay(ROUNDS)
    k = INPUT_NAMES.index(name)
    for weights in ("weight", "frozen_weight"):
        assert left_out.arrays()[weights][k] == 0.0
        np.testing.assert_array_equal(single.arrays()[weights], np.eye(len(INPUT_NAMES))[k])


@pytest.mark.parametrize(("name", "other"), [("own", "unique"), ("global", "global")])
def test_a_single_learner_is_what_it_is_said_to_be(name, other, monkeypatch):
    monkeypatch.setattr(constants, "AGREEMENT_ODDS", 1e300)  # no task is unlike others
    plain = romco.learner(f"arow-{other}", 12, 8, r=0.3).replay(ROUNDS)
    single = variant(f"only {name} hinge", 12, 8)
    as_they_are(single)
    np.testing.assert_allclose(single.replay(ROUNDS), plain, rtol=1e-4, atol=1e-6)  # of length 1


def test_an_intercept_is_one_more_feature():
    plain, more = (scenes.scene(name, 0) for name in ("simulated", "simulated+1"))
    np.testing.assert_array_equal(more.x[:, :-1], plain.x)
    np.testing.assert_allclose(more.x[:, -1], 1.0)  # as the length of the rows


@contextmanager
def silent(what, total):
    yield lambda run: None


@pytest.fixture
def small(monkeypatch, tmp_path):
    """The whole plan, with few learners and settings on short streams."""
    few = {name: romco.LEARNERS[name] for name in NAMES}
    for module in (beyond, beyond_tables, beyond_verdict):
        monkeypatch.setattr(module, "LEARNERS", few)
    for module in (beyond, beyond_tables, beyond_verdict):
        monkeypatch.setattr(module, "PEERS", ("arow-unique",), raising=False)
    monkeypatch.setattr(beyond, "BUDGET", beyond.Budget(2, 1, 1))
    monkeypatch.setattr(scenes, "stream_of", lambda name, data_dir: STREAM)
    monkeypatch.setattr(scenes, "digest_of", lambda name, data_dir: "small")
    for name, make in scenes.CLAIMS.items():
        monkeypatch.setitem(scenes.CLAIMS, name, partial(make, n_events=30))
    monkeypatch.setattr(scenes, "crowd", partial(scenes.crowd, n=80, words=10))
    contest = beyond.Contest(tmp_path / "runs", datasets=("small",), shuffles=(0, 1))
    beyond.run_all(contest, 1, silent)
    return contest


@pytest.mark.slow
def test_the_page_is_written_from_stored_results_alone(small, tmp_path):
    before = sorted(path.stat().st_mtime_ns for path in small.results.iterdir())
    page = beyond_report.write(small, tmp_path / "docs", "romco beyond")
    text = page.read_text()
    for name in NAMES:
        assert romco.LEARNERS[name].title in text
    for picture in ("learning-curves", "reliability"):
        assert (tmp_path / "docs" / "beyond" / f"{picture}.png").stat().st_size > 5_000
        assert f"]({picture}.png)" in text
    beyond.run_all(small, 1, silent)  # nothing is left to run
    assert sorted(path.stat().st_mtime_ns for path in small.results.iterdir()) == before
    best = beyond.mean_error(small.best("small", "arow-shared"))
    assert best <= beyond.mean_error(small.default("small", "arow-shared"))
