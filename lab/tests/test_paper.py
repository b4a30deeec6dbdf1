import csv
import shutil
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

import romco
from romco.compare import sources
from romco.learners import registry
from romco.streams import datasets
from romco_lab import figures
from romco_lab import learner_runs as running
from romco_lab.paper import experiment as planning
from romco_lab.paper import report as reporting
from romco_lab.paper.experiment import TUNING_SEED, Experiment, PaperData, sources_for
from romco_lab.paper.measure import measure
from romco_lab.paper.printed import printed, printed_numbers

SHAPES = {"spam": (4, 60), "mhc": (6, 40), "movies": (5, 30), "mine": (3, 30)}
LEARNERS = ("romco-nucl", "romco-logd", "pa-unique", "ogd-unique", "cw-col", "my-own")
TRIALS = 2  # for each parameter


def tiny(name, data_dir=None):
    """A small stand-in for each data set; ``mine`` is a data set that somebody adds.

    A simulated stream is made as its name says; another preparation of a data set is the tiny
    one with longer rows.
    """
    first, mark, how = name.partition("@")
    if first == "simulated":
        return datasets.load(name, data_dir)
    if mark:
        stream = tiny(first)
        return replace(stream, name=name, x=stream.x * (2.0 + len(how)))
    n_tasks, n_events = SHAPES[name.removesuffix("-like")]
    return romco.streams.simulated(n_tasks, 12, n_events, outliers=1, name=name)


@contextmanager
def silent(what, total):
    yield lambda run: None


@pytest.fixture(scope="module")
def world():
    """Tiny data sets, and a learner that somebody lists."""
    with pytest.MonkeyPatch.context() as patch:
        for cached in (sources.stream_of, sources.shuffled, sources.digest_of):
            cached.cache_clear()
        patch.setattr(sources, "load", tiny)
        patch.setitem(figures.LOOK, "figure.constrained_layout.use", False)  # most of the time
        own = registry.Method(
            registry.LEARNERS["ogd-unique"].make, "My-Own", fixed={"models": "unique"}
        )
        patch.setitem(registry.LEARNERS, "my-own", own)
        yield
    for cached in (sources.stream_of, sources.shuffled, sources.digest_of):
        cached.cache_clear()


def make_experiment(real):
    pairs = [(name, name if real else f"{name}-like") for name in SHAPES]
    found = tuple(PaperData(*pair) for pair in pairs)
    return Experiment(found, LEARNERS, shuffles=2, trials=TRIALS, tuned_on=0.5)


@pytest.fixture(scope="module")
def report(world, tmp_path_factory):
    """A report without figures: to draw them takes most of the time."""
    out = tmp_path_factory.mktemp("paper")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reporting, "figures", lambda *_: [])
        measure(make_experiment(real=True), out, 1, "romco paper all", silent)
    return out


@pytest.fixture(scope="module")
def drawn(report, world, tmp_path_factory):
    """The same report with its figures."""
    out = shutil.copytree(report, tmp_path_factory.mktemp("drawn") / "paper")
    measure(make_experiment(real=True), out, 1, "romco paper all", silent)
    return out


def rows(out):
    with (out / "summary.csv").open() as file:
        return list(csv.DictReader(file))


def test_the_summary_has_every_number_once_under_the_agreed_columns(report):
    head = (report / "summary.csv").read_text().splitlines()[0]
    assert head == ("dataset,learner,task,measure,mean,std_over_shuffles,std_over_tasks,printed")
    found = [(r["dataset"], r["learner"], r["task"], r["measure"]) for r in rows(report)]
    assert len(found) == len(set(found))
    assert {name for _, name, _, _ in found} == set(LEARNERS)
    assert {name for name, _, _, _ in found} == set(SHAPES)
    macro = {measure for _, _, task, measure in found if task == "macro"}
    assert macro == {"error_rate", "f1_positive", "f1_negative", "seconds"}


def test_printed_numbers_stand_beside_ours(report):
    [row] = [
        r
        for r in rows(report)
        if (r["dataset"], r["learner"], r["task"], r["measure"])
        == ("mhc", "romco-logd", "macro", "error_rate")
    ]
    assert row["printed"] == "37.91"
    assert 0 < float(row["mean"]) < 100
    assert float(row["std_over_tasks"]) > 0


def test_a_listed_learner_and_an_added_data_set_are_in_every_table(report):
    text = (report / "tables.md").read_text()
    for title in ("Table 2. spam", "Table 4. mhc", "Table 5. movies", "Further table. mine"):
        table = text.split(f"**{title}")[1].split("**\n\n")[1].split("\n\n")[0]
        assert "| My-Own |" in table
    for title in ("Table 3.", "Each method against ROMCO-NuCl"):
        table = text.split(f"**{title}")[1].split("**\n\n")[1].split("\n\n")[0]
        assert "| My-Own |" in table
        assert "mine" in table.splitlines()[0]


@pytest.mark.slow
def test_all_figures_come_three_ways(drawn):
    names = {path.name for path in (drawn / "figures").iterdir()}
    stems = {"figure1", "figure2", "figure3", "figure4", "figure5", "figure6", "figure-mine"}
    stems |= {"beside"}  # the tiny users of spam have names of their own: none is printed
    assert names == {f"{stem}.{kind}" for stem in stems for kind in ("svg", "png", "pdf")}


@pytest.mark.slow
def test_the_verdict_is_on_the_first_screen_of_a_page_that_needs_no_other_file(drawn):
    page = (drawn / "index.html").read_text()
    assert (
        page.index("<h2>Verdict</h2>") < page.index("clearly ahead of both") < page.index("Table 1")
    )
    assert "http://" not in page
    assert "https://" not in page
    assert 'src="data:image/svg+xml' in page
    tables = (drawn / "tables.tex").read_text()
    assert tables.count(r"\begin{tabular}") == tables.count(r"\end{tabular}") > 8


@pytest.mark.slow
def test_the_first_page_has_the_verdict_one_table_and_one_figure(drawn):
    text = (drawn / "README.md").read_text()
    verdict, rest = text.split("**Error, %, averaged over tasks (printed number)**")
    assert "## Verdict" in verdict
    assert "**does not hold**" in verdict or "**holds**" in verdict
    assert "CW-COL" in verdict  # the fairest rival by name
    assert text.count("![") == 1
    assert text.count("\n| --- |") == 1
    for line in rest.split("## More")[1].split("\n- [")[1:]:
        assert (drawn / line.split("](")[1].split(")")[0]).exists()


def test_the_whole_tuning_curve_is_stored(report):
    with (report / "tuning.csv").open() as file:
        trials = list(csv.DictReader(file))
    per_method = {(t["dataset"], t["learner"]) for t in trials}
    assert len(per_method) == len(SHAPES) * len(LEARNERS)
    expected = [TRIALS * len(registry.LEARNERS[name].space) for name in LEARNERS]
    assert len(SHAPES) * sum(expected) >= len(trials) > len(per_method)
    tried = [t for t in trials if (t["dataset"], t["learner"]) == ("spam", "romco-nucl")]
    assert len(tried) == TRIALS * 4  # trials for each parameter


def test_tuning_uses_a_shuffle_of_its_own(world):
    experiment = make_experiment(real=True)
    assert {run.seed for run in experiment.tuning_runs()} == {TUNING_SEED}
    settings = {(run.dataset, run.learner): run.parameters for run in experiment.tuning_runs()}
    assert TUNING_SEED not in {run.seed for run in experiment.main_runs(settings)}


def test_batch_methods_may_run_on_fewer_shuffles(world):
    whole = Experiment((PaperData("spam", "spam"),), ("pa-unique", "mtfl"), shuffles=3)
    fewer = replace(whole, batch_shuffles=2)
    settings = {("spam", name): () for name in whole.learners}
    assert [run.learner for run in whole.main_runs(settings)].count("mtfl") == 3
    runs = fewer.main_runs(settings)
    assert [run.seed for run in runs if run.learner == "mtfl"] == [0, 1]
    assert [run.seed for run in runs if run.learner == "pa-unique"] == [0, 1, 2]


def test_started_again_it_repeats_nothing_and_reports_the_same(
    report, monkeypatch, world, tmp_path
):
    again = shutil.copytree(report, tmp_path / "again")
    before = (report / "summary.csv").read_text()
    monkeypatch.setattr(running, "_fresh", lambda *_: pytest.fail("ran again"))
    monkeypatch.setattr(reporting, "figures", lambda *_: [])  # drawing is slow
    measure(make_experiment(real=True), again, 1, "romco paper all", silent)
    assert (again / "summary.csv").read_text() == before


@pytest.mark.slow
def test_on_simulated_data_every_title_says_so(world, tmp_path, monkeypatch):
    monkeypatch.setattr(reporting, "figures", lambda *_: [])
    measure(make_experiment(real=False), tmp_path, 1, "romco paper all", silent)
    text = (tmp_path / "tables.md").read_text()
    titles = [
        line for line in text.splitlines() if line.startswith("**Table") or "**Further" in line
    ]
    assert len(titles) > 4
    for title in titles[1:]:
        assert "SIMULATED" in title or title.startswith("**Table 3")
    assert "SIMULATED" in (tmp_path / "README.md").read_text().splitlines()[0]
    assert {row["printed"] for row in rows(tmp_path)} == {""}


def test_sources_fall_back_to_the_simulated_shape(monkeypatch):
    missing = sources_for("all", Path("no-such-place"))
    assert [source.name for source in missing] == ["spam", "mhc", "movies", "emails"]
    assert all(source.dataset == f"{source.name}-like" for source in missing)
    monkeypatch.setattr(planning, "present", lambda name, data_dir: True)
    assert all(source.real for source in sources_for("all"))
    with pytest.raises(ValueError, match="no data set 'films'; there are all, simulated"):
        sources_for("films")


def test_printed_facts():
    assert printed("movies", "romco-nucl", "macro", "error_rate") == 19.14
    assert printed("spam", "romco-nucl", "User4 (pua)", "f1_negative") == 93.23
    assert printed("spam", "mtfl", "macro", "seconds") == 78.012
    assert printed("emails", "mtfl", "macro", "error_rate") is None
    assert len({key[1] for key in printed_numbers()}) == 11
