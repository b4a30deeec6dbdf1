"""Labels that come with all rows of one moment, or late: predictions know no more than they may."""

import datetime
import json

import numpy as np
import pytest
from typer.testing import CliRunner

import romco
from romco.cli.main import app
from romco.evaluation.arrival import Arrival
from romco.files import load

RNG = np.random.default_rng(0)
N = 2000
DAY = np.sort(RNG.integers(0, 40, N))
DAY[:1200] = 0  # longer than a block that is read at a time
DATES = [datetime.date(2024, 1, 1) + datetime.timedelta(days=int(day)) for day in DAY]
TASK = [f"t{k}" for k in RNG.integers(0, 5, N)]
A = RNG.normal(size=N)
LEVEL = RNG.choice([-2.0, 2.0], 40)[DAY]
TWO = np.where(LEVEL + A + RNG.logistic(size=N) > 0, "yes", "no")
MANY = np.where(A > 1.0, "car", TWO)
NUMBER = 50.0 + LEVEL + A + 0.1 * RNG.normal(size=N)
ROWS = [{"a": value} for value in A]
COLUMNS = ["--task", "who", "--label", "y", "--ignore", "day", "--numeric", "a"]


def write(path, labels, n=N):
    rows = [f"{TASK[i]},{A[i]:.17g},{DATES[i]},{labels[i]}" for i in range(n)]
    path.write_text("\n".join(["who,a,day,y", *rows]) + "\n")
    return str(path)


def invoke(*arguments):
    found = CliRunner().invoke(app, list(map(str, arguments)))
    assert found.exit_code == 0, found.output
    return found


def predicted(folder, labels, *options):
    """Learn a file; return what was predicted, the true label last, and the summary."""
    source, model, log = write(folder / "e.csv", labels), folder / "m.romco", folder / "p.jsonl"
    said = invoke("learn", source, "--model", model, *COLUMNS, "--predictions", log, *options)
    return [json.loads(line) for line in log.read_text().splitlines()], said.output


def days():
    starts = np.flatnonzero(np.diff(DAY, prepend=-1))
    return list(zip(starts, [*starts[1:], N], strict=True))


def test_a_day_is_predicted_before_any_label_of_it_is_known(tmp_path):
    rows, said = predicted(tmp_path, TWO, "--together", "day")
    assert "labels came with all rows of one day" in said
    model, margins = romco.Model(classes=("no", "yes")), []
    for begin, end in days():
        part = slice(begin, end)
        model.engine.live = True
        margins += model.margins(ROWS[part], TASK[part]).tolist()
        model.engine.live = False
        model.learn(ROWS[part][:1000], TWO[part][:1000], TASK[part][:1000], together=True)
        if end - begin > 1000:
            model.learn(ROWS[part][1000:], TWO[part][1000:], TASK[part][1000:], together=True)
        if end > 1500:
            break
    np.testing.assert_allclose([row["margin"] for row in rows][: len(margins)], margins, rtol=1e-9)


EVENTS, DAYS = ("--delay", "3"), ("--together", "day", "--delay", "2d")


@pytest.mark.parametrize(
    ("labels", "options"),
    [(TWO, DAYS), (MANY, DAYS), pytest.param(NUMBER, EVENTS, marks=pytest.mark.slow)],
)
def test_labels_not_known_yet_change_no_prediction(tmp_path, labels, options):
    """The predictions of an event are the same whatever the labels that come after it was made."""
    first = 1600
    by_day = "--together" in options
    changed = labels.copy()
    known = DAY[first] - 2 >= DAY if by_day else np.arange(N) < first - 3
    later = np.flatnonzero(~known & (np.arange(N) >= 1300))
    changed[later] = labels[later[::-1]]
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    rows, said = predicted(tmp_path / "one", labels, *options)
    others, _ = predicted(tmp_path / "other", changed, *options)
    assert " late" in said
    keys = ("predicted", "probability", "probabilities", "low", "high")
    end = first + 1
    if by_day:
        end = next(stop for begin, stop in days() if stop > first)
    for one, other in zip(rows[:end], others[:end], strict=True):
        assert [one.get(key) for key in keys] == [other.get(key) for key in keys]
    assert rows[end + 50 :] != others[end + 50 :]


def test_a_delay_is_that_of_single_calls_by_id(tmp_path):
    rows, said = predicted(tmp_path, TWO, "--delay", "7")
    assert "labels came 7 events late" in said
    model = romco.Model(classes=("no", "yes"))
    model.engine.live = True
    found = []
    for i in range(300):
        if i > 7:
            model.answer(i - 8, TWO[i - 8])
        found.append(model.predict_proba_one(ROWS[i], TASK[i], id=i)["yes"])
    np.testing.assert_allclose([row["probability"] for row in rows[:300]], found, rtol=1e-9)
    assert load(tmp_path / "m.romco").events == N  # the last ones too


def test_late_labels_cost_what_the_last_ones_told(tmp_path):
    (tmp_path / "late").mkdir()
    once, said = predicted(tmp_path, TWO)
    late, _ = predicted(tmp_path / "late", TWO, "--together", "day")
    assert "labels came right after each prediction" in said
    error = [np.mean([row["predicted"] != row["label"] for row in rows]) for rows in (once, late)]
    assert error[0] < error[1] - 0.03


def test_rows_that_are_not_sorted_are_named(tmp_path):
    source = write(tmp_path / "e.csv", TWO)
    lines = (tmp_path / "e.csv").read_text().splitlines()
    (tmp_path / "e.csv").write_text("\n".join([*lines, lines[1]]) + "\n")
    given = ["learn", source, "--model", tmp_path / "m.romco", *COLUMNS, "--together", "day"]
    assert "not all next to each other" in invoke(*given).output
    other = ["learn", source, "--model", str(tmp_path / "n.romco"), *given[4:], "--delay", "2d"]
    found = CliRunner().invoke(app, other)
    assert "needs rows in the order of time" in str(found.exception)


def test_a_history_is_evaluated_with_labels_that_come_late(tmp_path):
    chance = np.random.default_rng(1).random(N)
    labels = np.where(chance < np.where(DAY % 2, 0.9, 0.1), "yes", "no")
    model = tmp_path / "m.romco"
    path = tmp_path / "f.csv"
    rows = [f"{TASK[i]},s{DAY[i] % 2},d{DAY[i]},{labels[i]}" for i in range(N)]
    path.write_text("\n".join(["who,a,day,y", *rows]) + "\n")
    given = [*COLUMNS[:6], "--history", "a", "--hash", "10"]
    invoke("learn", path, "--model", model, *given)
    found = []
    for options in ([], ["--together", "day"], ["--delay", "100000"]):
        said = invoke("evaluate", path, "--model", model, "--json", *options)
        found.append(json.loads(said.stdout)["log_loss"])
    assert len(set(found)) == 3
    said = invoke("evaluate", path, "--model", model, "--together", "day").stdout
    assert "labels entered the history with all rows of one day" in said


def test_predict_says_how_old_its_history_is(tmp_path):
    rows = [f"u{k % 2},s{k % 3},{'yes' if k % 3 else 'no'}" for k in range(60)]
    (tmp_path / "e.csv").write_text("\n".join(["who,skill,y", *rows]) + "\n")
    model, out = tmp_path / "m.romco", tmp_path / "p.jsonl"
    columns = ["--task", "who", "--label", "y", "--history", "skill"]
    invoke("learn", tmp_path / "e.csv", "--model", model, *columns)
    said = invoke("predict", tmp_path / "e.csv", "--model", model, "--out", out).output
    assert "lacks 14.5 earlier labels of its task on average, 29 at most" in said
    made = [json.loads(line) for line in out.read_text().splitlines()]
    chances = [
        one["probability"] if one["label"] == "yes" else 1.0 - one["probability"] for one in made
    ]
    given = ["evaluate", tmp_path / "e.csv", "--model", model, "--json", "--delay", "60"]
    assert json.loads(invoke(*given).stdout)["log_loss"] == pytest.approx(-np.log(chances).mean())


@pytest.mark.parametrize(
    ("together", "delay", "message"),
    [(None, "7d", "name the column of the time"), (None, "soon", "expected a number of events")],
)
def test_delays_that_cannot_be_read(together, delay, message):
    with pytest.raises(ValueError, match=message):
        Arrival.parse(together, delay)


def test_shards_take_no_late_labels(tmp_path):
    source = write(tmp_path / "e.csv", TWO)
    given = ["learn", source, "--model", str(tmp_path / "m.romco"), *COLUMNS, "--delay", "3"]
    for more in (["--shards", "2"], ["--threads", "2"]):
        found = CliRunner().invoke(app, [*given, *more])
        assert "--delay" in str(found.exception)


def test_a_moment_without_a_time_is_named(tmp_path):
    (tmp_path / "e.csv").write_text("day,user,label\n2024-01-01,ann,yes\nNA,ann,no\n")
    columns = ["--task", "user", "--label", "label", "--together", "day", "--delay", "1d"]
    given = ["learn", str(tmp_path / "e.csv"), "--model", str(tmp_path / "m.romco"), *columns]
    found = CliRunner().invoke(app, given)
    assert "line 3: 'day': 'NA' is neither seconds nor a date" in str(found.exception)
