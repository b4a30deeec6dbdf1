"""The command `romco export`."""

import pytest

import romco
from romco.cli.main import main
from tests.exporting.streams import learned


def run(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["romco", "export", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code or 0


def test_it_writes_what_the_function_writes(tmp_path, monkeypatch, capsys):
    model = learned(n=50)
    romco.save(model, tmp_path / "m.romco")
    romco.export(model, "js", tmp_path / "by function")
    out = tmp_path / "by command"
    assert run(monkeypatch, tmp_path / "m.romco", "--to", "js", "--out", out) == 0
    assert "model.romcoexp: " in capsys.readouterr().err
    for path in (tmp_path / "by function").iterdir():
        assert (out / path.name).read_bytes() == path.read_bytes()


def test_it_exports_estimators(tmp_path, monkeypatch):
    estimator = romco.ROMCOClassifier()
    estimator.fit([[1.0, 0.0], [0.0, 1.0]] * 4, [0, 1] * 4, task=[1, 2] * 4)
    romco.save(estimator, tmp_path / "m.romco")
    out = tmp_path / "out"
    assert run(monkeypatch, tmp_path / "m.romco", "--to", "c", "--out", out) == 0
    assert {path.name for path in out.iterdir()} == {"model.romcoexp", "romco.h"}


def test_errors_are_one_line(tmp_path, monkeypatch, capsys):
    romco.save(romco.Model(target="classes"), tmp_path / "m.romco")
    assert run(monkeypatch, tmp_path / "m.romco", "--to", "c", "--out", tmp_path / "out") == 2
    assert "error: the model does not know two classes yet" in capsys.readouterr().err
