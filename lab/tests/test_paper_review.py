import numpy as np
import pytest
from matplotlib.figure import Figure
from test_paper import silent, world  # noqa: F401 - a fixture

from romco.compare.results import read
from romco.compare.run import place
from romco_lab.paper import report as reporting
from romco_lab.paper.experiment import Experiment, PaperData
from romco_lab.paper.measure import measure
from romco_lab.paper.review import PREPARED, Extent, Review
from romco_lab.paper.rivals import FAIR
from romco_lab.paper.worlds import MAPS, PANELS, RIVALS, Axis, WorldMap

SHAPE = {"n_tasks": 4, "n_features": 6, "n_events": 20, "rank": 1, "outliers": 1, "noise": 0.1}
SMALL = WorldMap(
    "map-small",
    Axis("n_events", (10, 20), "events"),
    Axis("outliers", (0, 2), "outliers"),
    SHAPE,
    trials=1,
    worlds=2,
)
EXTENT = Extent(trials=1, steps=(0.1, 1.0), strengths=(1e-3, 1e-1), maps=(SMALL,))
LEARNERS = ("romco-nucl", "romco-logd", "pa-unique", "omtllog")


@pytest.fixture(scope="module")
def experiment():
    return Experiment((PaperData("spam", "spam"),), LEARNERS, shuffles=2, trials=2)


@pytest.fixture(scope="module")
def out(world, experiment, tmp_path_factory):  # noqa: F811
    folder, draw = tmp_path_factory.mktemp("review"), Figure.savefig

    def save(figure, path, **how):
        if path.suffix != ".pdf":  # to draw a figure takes most of the time
            draw(figure, path, **how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", save)
        patch.setattr(reporting, "figures", lambda *_: [])  # these are drawn in test_paper.py
        measure(experiment, folder, 1, "romco paper spam", silent, EXTENT)
    return folder


@pytest.fixture(scope="module")
def review(out, experiment):
    return Review(experiment, experiment.chosen(out / "runs"), EXTENT)


@pytest.mark.slow
def test_one_page_answers_what_a_reviewer_asks(out):
    page = (out / "fair.md").read_text()
    for name in PREPARED:
        assert name.partition("@")[2] in page
    for panel in PANELS:
        assert f"**{panel}: outliers by events**" in page
    assert "| OMTLLOG | trigger = margin |" in page
    assert "PA-Unique" in page.split("as tuned, and the best of a dense grid")[1]
    assert (out / "figures" / "map-small.png").exists()
    assert "(fair.md)" in (out / "README.md").read_text()
    assert "`romco paper spam`" in (out / "reproduction.md").read_text()


@pytest.mark.slow
def test_the_best_in_hindsight_is_no_worse_than_what_was_tuned(out, review, experiment):
    results = out / "runs"
    [source] = experiment.sources
    for name in ("romco-nucl", "romco-logd"):
        tuned = experiment.main_runs(review.chosen)
        errors = [read(place(run, results)).error() for run in tuned if run.learner == name]
        best = review.hindsight.best(source, name, results).macro("error_rate")
        assert best.mean() <= np.mean(errors) + 1e-12


@pytest.mark.slow
def test_a_cell_of_the_map_is_the_difference_of_errors_in_fresh_worlds(out):
    results = out / "runs"
    found = SMALL.panels(results)["against PA-Unique"]
    for cell in SMALL.cells():
        errors = SMALL.errors_by_learner(cell, results)
        gaps = [100 * (np.mean(errors[n]) - np.mean(errors["pa-unique"])) for n in LEARNERS[:2]]
        assert found[cell].gap.mean in [pytest.approx(gap) for gap in gaps]
        assert found[cell].gap.shuffles == SMALL.worlds


def test_tuning_sees_no_world_that_is_judged():
    for one in (*MAPS, SMALL):
        cell = one.cells()[0]
        tuned = {run.dataset for name in RIVALS for run in one.tuning_runs(cell, name)}
        judged = {one.world_name(cell, seed) for seed in range(one.worlds)}
        assert len(tuned) == 1
        assert not tuned & judged


def test_every_rival_of_the_paper_has_its_reading():
    from romco import LEARNERS as ALL

    paper = {name for name, method in ALL.items() if method.role == "paper"}
    assert set(FAIR) == paper - {"romco-nucl", "romco-logd"}
    assert set(RIVALS[:7]) <= set(FAIR)
