"""Names of strangers are shown as they are spelled, and do nothing else."""

import json

import pytest

import romco
from romco.cli import main as cli
from romco.files import save
from romco.presentation.screen import inert
from romco.runs.resume import STDOUT
from romco.runs.resume import PredictionLog as Log

HOSTILE = "evil\x1b[2J\r\n\u202e\x9b31m<script>[/bold]$\\frac{"


@pytest.fixture
def model():
    made = romco.Model("romco-nucl", classes=("no", HOSTILE))
    rows = [{HOSTILE: 1.0, "b": -0.5}, {"b": 2.0, HOSTILE: -1.0}, {"c": 1.0}]
    for _ in range(4):
        made.learn(rows, [HOSTILE, "no", "no"], [HOSTILE, "ann", "third"])
    return made


def harmless(text):
    return all(c.isprintable() for c in text.replace("\n", ""))


def test_explanations_and_reasons(model):
    found = romco.explain(model)
    for text in (str(found), str(romco.reasons(model, {HOSTILE: 1.0}, HOSTILE))):
        assert harmless(text)
        assert "\\x1b[2J" in text
        assert not any(line.startswith("\u202e") for line in text.splitlines())
    assert "<script>[/bold]" not in found.page()
    assert "\x1b" not in found.page()


def test_the_command(model, tmp_path, capsys, monkeypatch):
    save(model, tmp_path / "m.romco")
    monkeypatch.setattr("sys.argv", ["romco", "explain", str(tmp_path / "m.romco")])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert not ended.value.code
    out = capsys.readouterr()
    assert "evil" in out.out
    assert harmless(out.out + out.err)


@pytest.mark.parametrize("target", ["two classes", "classes", "number"])
def test_evaluations_of_every_target(target, tmp_path, capsys, monkeypatch):
    made = romco.Model("pa-unique", target=target)
    task, label = "evil\x9b2J\u202e", "yes\x9b2J"
    labels = {"two classes": [label, "no"], "classes": [label, "no"], "number": [1, 2]}[target]
    made.learn([{"a": 1.0}, {"a": -1.0}], labels, [task, "ann"])
    save(made, tmp_path / "m.romco")
    rows = [{"user": task, "y": labels[0], "a": 1.0}, {"user": "ann", "y": labels[1], "a": 2.0}]
    (tmp_path / "e.jsonl").write_text("\n".join(map(json.dumps, rows)))
    command = ["romco", "evaluate", str(tmp_path / "e.jsonl"), "--task", "user", "--label", "y"]
    monkeypatch.setattr("sys.argv", [*command, "--model", str(tmp_path / "m.romco")])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert not ended.value.code
    out = capsys.readouterr()
    assert "evil" in out.out
    assert harmless(out.out + out.err)


def test_predictions_aloud_mean_what_they_meant(capsys):
    row = {"task": HOSTILE, "label": "\U000e0001ä"}
    Log(STDOUT).write(row)
    said = capsys.readouterr().out
    assert harmless(said)
    assert json.loads(said) == row
    assert "ä" in said
    assert inert('{"a": 1}', json.dumps) == '{"a": 1}'
