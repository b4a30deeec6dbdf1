"""The commands for files, through the command line."""

import json

import pytest
from typer.testing import CliRunner

from romco.cli.main import app
from romco.files import load, save
from romco.io.modelfile import peek
from romco.io.schema import Schema
from romco.model import Model


@pytest.fixture
def events(tmp_path):
    lines = ["user,words,price,spam"]
    for i in range(300):
        spam = (i * 7) % 3 == 0
        text = "win free money" if spam != (i % 5 == 4) else "lunch at noon"
        lines.append(f"user {i % 5},{text},{i % 10},{'spam' if spam else 'ham'}")
    path = tmp_path / "events.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def learned(events, tmp_path, *more):
    model = tmp_path / "m.romco"
    columns = ("--task", "user", "--label", "spam", "--text", "words", "--features", "price")
    return model, call("learn", events, *columns, "--model", model, *more)


def test_learn_predict_evaluate_explain(events, tmp_path):
    model, result = learned(
        events, tmp_path, "--learner", "romco-nucl", "--set", "eta1=0.2", "--classes", "ham,spam"
    )
    assert result.exit_code == 0, result.output
    assert "300 events" in result.output
    assert "5 tasks" in result.output
    assert peek(model)["state"]["learner"]["parameters"]["eta1"] == 0.2
    _, again = learned(events, tmp_path)
    assert "300 of them before" in again.output

    answers = call("predict", events, "--model", model)
    rows = [json.loads(line) for line in answers.stdout.splitlines()]
    assert len(rows) == 300
    schema = ["line", "task", "predicted", "probability", "positive", "margin", "label"]
    assert list(rows[0]) == schema
    assert rows[0]["positive"] == "spam"
    assert call("predict", events, "--model", model, "--out", tmp_path / "p.jsonl").stdout == ""
    assert call("predict", events, "--model", model, "--out", "-").stdout == answers.stdout
    assert (tmp_path / "p.jsonl").read_text() == answers.stdout

    scores = json.loads(call("evaluate", events, "--model", model, "--json").stdout)
    assert scores["error"] < scores["baseline"]
    assert scores["positive"] == "spam"
    assert scores["auc"] > 0.7
    assert scores["log_loss"] < scores["baseline_log_loss"]
    assert len(scores["tasks"]) == 5
    assert "all 5 tasks" in call("evaluate", events, "--model", model).stdout

    told = call("explain", model, "--html", tmp_path / "page.html")
    assert "user 4" in told.stdout
    assert "words:" in told.stdout
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")


def test_hashed_features_and_other_learners(events, tmp_path):
    model, result = learned(events, tmp_path, "--hash", 10, "--learner", "ogd-unique")
    assert result.exit_code == 0, result.output
    header = peek(model)
    assert header["summary"]["features"] == 1024
    assert header["summary"]["learner"] == "ogd-unique"
    _, other = learned(events, tmp_path, "--learner", "romco-nucl")
    assert "with --learner ogd-unique, not with --learner romco-nucl" in str(other.exception)


@pytest.mark.parametrize("target", ["classes", "number"])
def test_a_learner_may_be_named_again(target, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("user,x,y\n" + "".join(f"u{k % 3},{k % 5},{k % 4}\n" for k in range(40)))
    given = ("--task", "user", "--label", "y", "--target", target, "--learner", "romco-auto")
    for _ in range(2):
        result = call("learn", path, *given, "--model", tmp_path / "m.romco")
        assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--learner", "guess"], "unknown learner 'guess'; known are"),
        (["--set", "eta1"], "expected parameter=value"),
        (["--set", "eta9=1"], "no parameter 'eta9'"),
        (["--classes", "a"], "two different labels"),
    ],
)
def test_mistakes_are_named_and_write_nothing(events, tmp_path, more, message):
    model, result = learned(events, tmp_path, *more)
    assert message in str(result.exception)
    assert not model.exists()


@pytest.mark.parametrize("order", ["spam first", "ham first"])
@pytest.mark.parametrize("more", [(), ("--positive", "ham")])
def test_the_positive_label_does_not_depend_on_the_order_of_rows(events, tmp_path, order, more):
    head, *rows = events.read_text().splitlines()
    rows.sort(key=lambda row: row.endswith("spam"), reverse=order == "spam first")
    events.write_text("\n".join([head, *rows]) + "\n")
    model, result = learned(events, tmp_path, "--predictions", tmp_path / "p.jsonl", *more)
    positive = more[-1] if more else "spam"
    assert f"positive label: {positive}" in result.output
    assert peek(model)["summary"]["positive"] == positive
    written = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert {row["positive"] for row in written} == {positive}  # from the first row on
    assert all((row["margin"] >= 0) == (row["predicted"] == positive) for row in written)
    assert [row["label"] for row in written] == [row.rsplit(",", 1)[1] for row in rows]
    assert f"({positive} or not)" in call("explain", model).stdout


def test_unknown_tasks_are_hinted_at(events, tmp_path):
    model, _ = learned(events, tmp_path)
    events.write_text(events.read_text().replace("user ", "User-"))
    told = call("predict", events, "--model", model)
    assert "5 of 5 tasks are unknown to the model" in told.stderr
    assert "'user 0' learned" in told.stderr
    assert len(told.stdout.splitlines()) == 300


def test_progress_has_the_baseline_and_counts_what_was_learned(events, tmp_path):
    events.write_text(events.read_text() + "user 1,oops,1,neither\nuser 1,a b,1\n")
    model, result = learned(events, tmp_path, "--skip-bad", "--target", "two-classes")
    assert "300 events learned" in result.output
    assert "2 bad rows skipped" in result.output
    assert load(model).events == 300
    assert "(baseline 34." in result.output
    assert "log loss" in result.output
    assert "AUC" in result.output
    table = call("evaluate", events, "--model", model, "--skip-bad").stdout
    assert "baseline" in table
    assert "positive label: spam, 33.33% of events" in table
    assert "probabilities differ from frequencies by " in table


TABLE = ["shop,id,at,note,town,sold"] + [
    f"s{i % 4},{1000 + 7919 * i % 997},2024-0{i % 9 + 1}-11,{'good' if i % 3 else 'bad'} thing to "
    f"buy {i},{('Rome', 'Bonn')[i % 2]},{'yes' if i % 3 else 'no'}"
    for i in range(200)
]


@pytest.fixture
def shops(tmp_path):
    path = tmp_path / "shops.csv"
    path.write_text("\n".join(TABLE) + "\n")
    return path


def test_columns_are_told_kept_and_applied_alike(shops, tmp_path):
    model = tmp_path / "m.romco"
    columns = ("--task", "shop", "--label", "sold", "--model", model)
    told = call("learn", shops, *columns).output
    assert "id    id-like" in told
    assert "at    date" in told
    assert "note  text" in told
    assert "town  category" in told
    assert "warning: column 'id' looks like an id" in told
    kinds = {"id": "ignored", "at": "day", "note": "text", "town": "category"}
    assert Schema.from_session(load(model).session).kinds == kinds
    assert "note:good" in load(model).features.to_json()["names"]
    again = call("learn", shops, *columns).output
    assert "200 of them before" in again
    assert "as read from the first" not in again
    short = tmp_path / "short.csv"
    short.write_text("\n".join(TABLE[:2]) + "\n")  # would be guessed otherwise
    whole = call("predict", shops, "--model", model).stdout.splitlines()[0]
    assert call("predict", short, "--model", model).stdout == whole + "\n"
    other = call("learn", shops, *columns, "--categorical", "note")
    assert "column 'note' was learned as text, not as category" in str(other.exception)


def test_options_overrule_the_guess(shops, tmp_path):
    model = tmp_path / "m.romco"
    call("learn", shops, "--no-task", "--label", "sold", "--model", model, "--numeric", "id",
         "--categorical", "note", "--ignore", "at,shop", "--text", "town")  # fmt: skip
    kept = load(model)
    assert kept.tasks == ["all"]
    names = kept.features.to_json()["names"]
    assert "id" in names
    assert "town:rome" in names
    assert not any(name.startswith(("at", "shop")) for name in names)
    assert call("predict", shops, "--model", model).exit_code == 0
    both = call("learn", shops, "--text", "note", "--ignore", "note", "--model", model)
    assert "cannot be both text and ignored" in str(both.exception)


def test_other_columns_are_said(shops, tmp_path):
    model = tmp_path / "m.romco"
    call("learn", shops, "--task", "shop", "--label", "sold", "--model", model)
    table = shops.read_text().replace("town", "city", 1)
    shops.write_text(table)
    told = call("predict", shops, "--model", model).stderr
    assert "not there: 'town'; never learned, so not used: 'city'" in told
    shops.write_text(table.replace("shop,id,at,note", "shop,a,b,c", 1))
    told = call("predict", shops, "--model", model)
    assert "has none of the columns that were learned" in str(told.exception)
    assert told.stdout == ""


def test_names_do_not_command_the_terminal():
    from romco.cli.output import inert

    assert inert("plain [/bold] ä") == "plain [/bold] ä"
    assert inert("a\x1b[31m\r\u202e") == "a\\x1b[31m\\r\\u202e"


@pytest.mark.parametrize("hashed", [(), ("--hash", 12)])
def test_reasons_of_an_event_add_up_to_what_is_predicted(events, tmp_path, hashed):
    model, result = learned(events, tmp_path, *hashed)
    assert result.exit_code == 0, result.output
    answers = call("predict", events, "--model", model, "--reasons", 2).stdout.splitlines()
    row = json.loads(answers[4])
    told = row["reasons"]
    parts = [*told["features"], told.get("others", {"adds": 0.0})]
    total = told["intercept"] + sum(each["adds"] for each in parts)
    assert total == pytest.approx(row["margin"], abs=1e-9)
    assert told["label"] == row["positive"] == "spam"
    cells = {"words": "win free money", "price": 4}  # as the file has it in that line
    one = ("explain", model, "--task", "user 4", "--event", json.dumps(cells))
    found = json.loads(call(*one, "--json").stdout)
    assert found["margin"] == pytest.approx(row["margin"])
    assert {each["feature"] for each in told["features"]} <= {
        *("words:win", "words:free", "words:money", "price")
    }
    lines = call(*one, "--top", 2).stdout.splitlines()
    assert lines[0].startswith("margin for spam")
    assert "2 other features" in lines[-1]
    turned = call(*one, "--label", "ham").stdout
    assert turned.startswith("margin for ham")
    new = call("explain", model, "--task", "nobody", "--event", json.dumps(cells)).stdout
    assert "explained by what tasks have in common" in new


def test_an_event_may_name_its_own_task(events, tmp_path):
    model, _ = learned(events, tmp_path)
    given = call("explain", model, "--task", "user 4", "--event", '{"price": 4}')
    named = call("explain", model, "--event", json.dumps({"user": "user 4", "price": 4}))
    assert named.exit_code == 0, named.output
    assert named.stdout == given.stdout


def test_without_a_file_an_event_is_its_features(tmp_path):
    model = Model()
    events = [{"free": 1}, {"lunch": 1}, {"free": 1}]
    model.learn(events, ["spam", "ham", "spam"], ["ann", "ann", "bob"])
    save(model, tmp_path / "m.romco")
    given = ("--task", "ann", "--event", '{"free": 1}', "--json")
    found = json.loads(call("explain", tmp_path / "m.romco", *given).stdout)
    assert found["label"] == "spam"


def test_a_model_is_explained_as_json(events, tmp_path):
    model, _ = learned(events, tmp_path, "--numeric", "price")
    found = json.loads(call("explain", model, "--json").stdout)
    assert found["events"] == 300
    assert [curve["column"] for curve in found["curves"]] == ["price"]
    assert {"user 4"} <= {task["task"] for task in found["tasks"]}


def test_one_task_is_explained_by_name(events, tmp_path):
    model, _ = learned(events, tmp_path)
    title, head, row, *_ = call("explain", model, "--task", "user 4").stdout.splitlines()
    assert (title, head.split()[:2]) == ("Task by task", ["task", "events"])
    assert row.split()[:3] == ["user", "4", "60"]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (["--task", "nobody"], "no task 'nobody' is known; there are 'user 0'"),
        (["--event", "{}"], "say whose event it is"),
        (["--task", "user 4", "--event", "{words"], "--event is not JSON"),
        (["--task", "user 4", "--event", "[1]"], "one JSON object"),
        (["--task", "user 4", "--event", '{"price": "dear"}'], "price"),
        (["--task", "user 4", "--event", '{"prise": 4}'], "no column 'prise' (did you mean"),
        (["--task", "user 4", "--event", "{}", "--label", "eggs"], "'eggs' is not one"),
        (["--task", "user 4", "--html", "x.html"], "leave --task and --event out"),
        (["--label", "eggs"], "goes with --task and --event"),
    ],
)
def test_what_cannot_be_explained_says_why(events, tmp_path, given, why):
    model, _ = learned(events, tmp_path, "--numeric", "price")
    result = call("explain", model, *given)
    assert result.exit_code != 0
    assert why in str(result.exception)


def test_a_table_with_other_separators_is_read_and_told(events, tmp_path):
    events.write_text(events.read_text().replace(",", ";"))
    model, result = learned(events, tmp_path)
    assert result.exit_code == 0, result.output
    assert "rows, separated by ';':" in result.output
    assert load(model).events == 300


def test_a_file_of_one_label_is_warned_of(events, tmp_path):
    _, result = learned(events, tmp_path)
    assert "all events have" not in result.output
    events.write_text(events.read_text().replace(",ham", ",spam"))
    (tmp_path / "m.romco").unlink()
    _, result = learned(events, tmp_path)
    assert result.exit_code == 0, result.output
    assert "all events have the label 'spam'" in result.output
