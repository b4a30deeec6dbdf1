"""No label is visible to its own prediction, whichever way events come."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import romco
from romco.cli.main import app
from romco.model.rows import Rows
from romco.server.protocol import LearnRequest, PredictRequest
from tests.server.conftest import opened

COLUMNS = ["skill", "item"]
N = 40
LATE = 3  # events between a prediction and its label
RNG = np.random.default_rng(0)
ROWS = [{"skill": f"s{a}", "item": f"i{b}"} for a, b in RNG.integers(0, 3, (N, 2))]
TASKS = [f"t{k}" for k in RNG.integers(0, 3, N)]
LABELS = RNG.integers(0, 2, N)


def model(**options):
    return romco.Model(classes=("no", "yes"), history=COLUMNS, **options)


def words(labels):
    return [("no", "yes")[k] for k in labels]


def single(labels, folder):
    made = model()
    events = zip(ROWS, words(labels), TASKS, strict=True)
    return [made.learn_one(row, y, task) for row, y, task in events]


def batch(labels, folder):
    return model().learn(ROWS, words(labels), TASKS)


def frozen(labels, folder):
    return model().learn(ROWS, words(labels), TASKS, weight=np.r_[np.ones(5), np.zeros(N - 5)])


def frame(labels, folder):
    pandas = pytest.importorskip("pandas")
    made, margins = romco.ROMCOClassifier(history=COLUMNS), []
    for k in range(N):
        X, y = pandas.DataFrame(ROWS[k : k + 1]), words(labels[k : k + 1])
        if k:
            margins.append(made.decision_function(X, task=TASKS[k])[0])
        made.partial_fit(X, y, classes=["no", "yes"], task=TASKS[k])
    return [0.0, *margins]


def river(labels, folder):
    adapters = pytest.importorskip("romco.adapters.river")
    made, chances = adapters.ROMCOClassifier(history=COLUMNS), []
    for row, y, task in zip(ROWS, words(labels), TASKS, strict=True):
        chances.append(made.predict_proba_one(row, task=task).get("yes", 0.5))
        made.learn_one(row, y, task=task)
    return [0.5, *chances[1:]]


def table(labels, path):
    lines = [
        f"{task},{row['skill']},{row['item']},{60 * k},{y}"
        for k, (row, y, task) in enumerate(zip(ROWS, words(labels), TASKS, strict=True))
    ]
    path.write_text("\n".join(["who,skill,item,at,answer", *lines]) + "\n")
    return str(path)


def run(*arguments):
    found = CliRunner().invoke(app, list(map(str, arguments)))
    assert found.exit_code == 0, found.output
    return found.stdout


READ = ("--task", "who", "--label", "answer")
PAST = ("--history", "skill,item", "--time", "at")


def file(labels, folder):
    source, out = table(labels, folder / "events.csv"), folder / "said.jsonl"
    for old in (out, folder / "m.romco"):
        old.unlink(missing_ok=True)
    more = ("--classes", "no,yes", "--predictions", out, "--checkpoint-every", 7)
    run("learn", source, "--model", folder / "m.romco", *READ, *PAST, *more)
    return [json.loads(line)["margin"] for line in out.read_text().splitlines()]


def delayed(labels, folder):
    made, margins = model(), []
    for k in range(N):
        made.predict_one(ROWS[k], TASKS[k], id=k)
        margins.append(float(made.pending._events[k].margin))
        if k >= LATE:
            made.answer(k - LATE, words(labels)[k - LATE])
    return margins


def service(labels, folder):
    margins = []
    with opened(folder / str(len(list(folder.iterdir()))), model) as made:
        for k in range(N):
            asked = [PredictRequest(id=str(k), task=TASKS[k], x=ROWS[k])]
            responses, pending = made.served.respond(asked)
            made.keep(pending).result()
            margins.append(responses[0].margin)
            if k >= LATE:
                answer = LearnRequest(y=words(labels)[k - LATE], id=str(k - LATE))
                assert made.learn([answer]).result()[0].status == "applied"
    return margins


def shards(labels, folder):
    with romco.Shards(
        n=3, engine="serial", classes=("no", "yes"), history=COLUMNS, every=4
    ) as made:
        return made.learn(ROWS, words(labels), TASKS)


def threads(labels, folder):
    source, out = table(labels, folder / "events.csv"), folder / "said.jsonl"
    for old in (out, folder / "m.romco"):
        old.unlink(missing_ok=True)
    more = ("--classes", "no,yes", "--predictions", out, "--threads", 2)
    run("learn", source, "--model", folder / "m.romco", *READ, *PAST, *more)
    return [json.loads(line)["margin"] for line in out.read_text().splitlines()]


MODES = {
    "late": (delayed, service),
    "now": (single, batch, frozen, frame, river, file, shards, threads),
}


@pytest.mark.parametrize(
    ("mode", "delay"),
    [(mode, LATE * (when == "late")) for when, some in MODES.items() for mode in some],
)
def test_a_label_is_never_visible_to_its_own_prediction(mode, delay, tmp_path):
    before = np.array(mode(LABELS, tmp_path))
    assert len(before) == N

    @settings(max_examples=2, deadline=None, database=None, derandomize=True)
    @given(st.integers(0, N - 10))
    def check(k):
        changed = LABELS.copy()
        changed[k] = 1 - changed[k]
        after = np.array(mode(changed, tmp_path))
        np.testing.assert_array_equal(after[: k + 1 + delay], before[: k + 1 + delay])
        assert (after[k + 1 + delay :] != before[k + 1 + delay :]).any()

    check()


def test_a_second_pass_does_not_see_the_labels_of_the_first():
    pandas = pytest.importorskip("pandas")
    made = romco.ROMCOClassifier("romco-nucl", history=["skill"], epochs=3)
    made.fit(pandas.DataFrame(ROWS), words(LABELS), task=TASKS)
    table = made.model_.engine.history.kernel.arrays()
    whole = table["table"][table["category"] == -1]
    assert whole[:, 0].sum() == N  # each label once


@pytest.mark.parametrize("library", ["sklearn", "river"])
def test_an_estimator_with_a_time_column_is_a_model(library, tmp_path):
    pandas, estimators = pytest.importorskip("pandas"), pytest.importorskip(library)
    assert estimators
    rows, labels = [{**row, "at": float(60 * k * k)} for k, row in enumerate(ROWS)], words(LABELS)
    schema = romco.Schema({"at": "time"}, complete=True)
    expected = romco.Model(history=COLUMNS, schema=schema, classes=("no", "yes"))
    expected.learn(rows, labels, TASKS)
    if library == "sklearn":
        made = romco.ROMCOClassifier(history=COLUMNS, time="at")
        made.partial_fit(pandas.DataFrame(rows), labels, classes=["no", "yes"], task=TASKS)
        with pytest.raises(ValueError, match="for history="):
            romco.ROMCOClassifier(time="at").fit(pandas.DataFrame(rows), labels, task=TASKS)
    else:
        from romco.adapters.river import ROMCOClassifier

        made = ROMCOClassifier(history=COLUMNS, time="at")
        for row, label, task in zip(rows, labels, TASKS, strict=True):
            made.learn_one(row, label, task=task)
    model = made.model_ if library == "sklearn" else made.model
    later = [{**row, "at": 1e6 + k} for k, row in enumerate(ROWS)]
    turn = 1.0 if model.classes[-1] == "yes" else -1.0
    np.testing.assert_allclose(
        turn * model.margins(later, TASKS), expected.margins(later, TASKS), rtol=1e-9
    )
    romco.save(made, tmp_path / "m.romco")
    again = romco.load(tmp_path / "m.romco")
    assert again.time == "at"


@pytest.mark.parametrize("n", [1, 3])
def test_shards_that_read_files_keep_the_history_of_their_tasks(n, tmp_path):
    """A file, then another one, are learned as the same rows are by threads."""
    header, *lines = Path(table(LABELS, tmp_path / "events.csv")).read_text().splitlines()
    files = [tmp_path / "1.csv", tmp_path / "2.csv"]
    for file, part in zip(files, (lines[:25], lines[25:]), strict=True):
        file.write_text("\n".join([header, *part]) + "\n")
    margins = []
    for option in ("--threads", "--shards"):
        path = tmp_path / f"{option}.romco"
        for sources in (files[:1], files):
            more = ("--classes", "no,yes", "--hash", 10, "--every", 5, option, n)
            run("learn", *sources, "--model", path, *READ, *PAST, *more)
        found = romco.load(path)
        rows = [{**row, "at": 60 * k} for k, row in enumerate(ROWS)]
        margins.append(found.margins(rows, TASKS))
        assert found.events == N
        assert found.engine.history.kernel.arrays()["table"][:, 0].sum() > N
    if n == 1:  # several shards that read files do not learn what all tasks share
        np.testing.assert_array_equal(*margins)
    else:
        np.testing.assert_allclose(*margins, atol=0.7)


@pytest.mark.parametrize("engine", ["serial", "threads"])
def test_one_shard_is_a_model_and_all_go_on_from_a_file(engine, tmp_path):
    rng = np.random.default_rng(5)
    weight = np.r_[np.ones(5), rng.integers(0, 2, N - 5).astype(float)]
    expected = model()
    margins = expected.learn(ROWS, words(LABELS), TASKS, weight=weight)
    for n in (1, 3):
        with romco.Shards(n=n, engine=engine, classes=("no", "yes"), history=COLUMNS) as made:
            found = made.learn(ROWS, words(LABELS), TASKS, weight=weight)
            one = made.model()
            made.save(tmp_path / f"{n}.romco")
            again = made.learn(ROWS, words(LABELS), TASKS)
            made.forget("t1")
            assert made.model().engine.history.tasks.find("t1") < 0
        past, other = one.engine.history.arrays(), expected.engine.history.arrays()
        for name, array in other.items():
            np.testing.assert_array_equal(past[name], array)
        if n == 1:
            np.testing.assert_array_equal(found, margins)
            np.testing.assert_array_equal(one.margins(ROWS, TASKS), expected.margins(ROWS, TASKS))
        with romco.Shards.load(tmp_path / f"{n}.romco", n, engine=engine) as resumed:
            np.testing.assert_array_equal(resumed.learn(ROWS, words(LABELS), TASKS), again)


def test_a_checkpoint_at_a_barrier_has_the_history_until_then(tmp_path):
    def shards(folder):
        return romco.Shards(
            n=2,
            engine="serial",
            classes=("no", "yes"),
            history=COLUMNS,
            every=5,
            checkpoint=folder,
            checkpoint_every=1,
        )

    with shards(tmp_path / "a") as made:
        margins = made.learn(ROWS, words(LABELS), TASKS)
    with shards(tmp_path / "a") as made:
        done = made.events
        history = made.model().engine.history.arrays()["history.table"]
        assert 0 < done <= N
    expected = model().engine.history
    past = LABELS[:done].astype(float)
    expected.expand(TASKS[:done], model().features.encode(ROWS[:done], False), past)
    np.testing.assert_array_equal(history, expected.arrays()["history.table"])
    assert len(margins) == N


def test_a_file_is_learned_as_rows_are_and_predict_evaluate_explain_follow(tmp_path):
    file(LABELS, tmp_path)
    made = romco.load(tmp_path / "m.romco")
    assert made.engine.history.kernel.columns == ("skill", "item")
    assert made.schema.time == "at"
    rows = [{**row, "at": 60 * k} for k, row in enumerate(ROWS)]
    schema = romco.Schema({"skill": "category", "item": "category", "at": "time"})
    same = model(schema=schema)
    same.learn(rows, words(LABELS), TASKS)
    np.testing.assert_array_equal(made.margins(rows, TASKS), same.margins(rows, TASKS))

    source = table(LABELS, tmp_path / "more.csv")
    said = run("predict", source, "--model", tmp_path / "m.romco", "--format", "csv")
    assert len(said.splitlines()) >= N
    found = json.loads(run("evaluate", source, "--model", tmp_path / "m.romco", "--json"))
    followed = same.engine.predict_and_observe(Rows(rows, TASKS, words(LABELS)))
    right = (followed.margins >= 0.0) == LABELS
    assert found["error"] == pytest.approx(1.0 - right.mean())
    reasons = romco.reasons(made, rows[-1], TASKS[-1])
    names = [str(one.feature) for one in reasons.features]
    assert any("so far for this skill" in name for name in names)
    assert not any(name.startswith("history.") for name in names)
    assert sum(one.total for one in reasons.features) + reasons.intercept == pytest.approx(
        reasons.margin
    )
    run("explain", tmp_path / "m.romco")


def test_options_that_contradict_the_file_are_refused(tmp_path):
    file(LABELS, tmp_path)
    source = table(LABELS, tmp_path / "more.csv")
    for options in (("--history", "skill"), ("--time", "at"), (*PAST, "--numeric", "skill")):
        found = CliRunner().invoke(
            app, ["learn", source, "--model", str(tmp_path / "m.romco"), *READ, *options]
        )
        assert found.exit_code != 0
    other = table(1 - LABELS, tmp_path / "other.csv")
    run("learn", other, "--model", tmp_path / "m.romco", *READ)  # the file has its history
    assert romco.load(tmp_path / "m.romco").events == 2 * N


def test_a_served_model_keeps_its_history_through_a_restart(tmp_path):
    lessons = [
        LearnRequest(y=y, id=str(k), task=task, x=row)
        for k, (row, y, task) in enumerate(zip(ROWS, words(LABELS), TASKS, strict=True))
    ]
    with opened(tmp_path / "data", model) as made:
        made.learn(lessons[:25]).result()
        made.checkpoint().result()
        made.learn(lessons[25:]).result()
    expected = model()
    expected.learn(ROWS, words(LABELS), TASKS)
    with opened(tmp_path / "data", model) as made:
        asked = [PredictRequest(task=task, x=row) for row, task in zip(ROWS, TASKS, strict=True)]
        margins = [one.margin for one in made.served.respond(asked)[0]]
    np.testing.assert_allclose(margins, expected.margins(ROWS, TASKS), atol=1e-12)
