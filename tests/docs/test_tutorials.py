"""Every example on the pages of the documentation runs."""

import doctest
import os
import re
import shlex
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from romco.cli.main import main

DOCS = Path(__file__).resolve().parents[2] / "docs"


ELSEWHERE = ("methods.md",)  # its example leaves something behind, so it has a test of its own
PAGES = sorted(
    page.relative_to(DOCS).as_posix()
    for page in DOCS.rglob("*.md")
    if page.name not in ELSEWHERE and "\n>>> " in page.read_text(encoding="utf-8")
)
# Their examples take seconds.
SLOW_PAGES = (
    "serving.md",
    "howto/nightly-base.md",
    "howto/choosing-pipelines.md",
    "gallery/label-budget.md",
    "gallery/recommendations.md",
)


@pytest.mark.first_events(20_000)
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.slow] * (page in SLOW_PAGES)) for page in PAGES],
)
def test_python_examples(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for package in ("lightgbm", "onnxruntime", "duckdb"):
        if f"import {package}" in (DOCS / page).read_text(encoding="utf-8"):
            pytest.importorskip(package, reason=f"this page needs {package}")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        failed, tried = doctest.testfile(str(DOCS / page), module_relative=False, encoding="utf-8")
    assert tried > 0
    assert failed == 0


def test_the_tutorials_are_among_them():
    assert {"tutorial-sklearn.md", "tutorial-river.md"} <= set(PAGES)


@pytest.fixture
def typed(tmp_path, monkeypatch, capfd):
    """Run a command as it is typed; gives exit code, output and errors.

    Only what needs a shell, such as a pipe, gets one and a process of its own.
    """
    program = tmp_path / "bin" / "romco"
    program.parent.mkdir()
    start = "if __name__ == '__main__':\n    from romco.cli.main import main\n    main()\n"
    program.write_text(f"#!{sys.executable}\n{start}")
    program.chmod(0o755)
    here = (str(program.parent), str(Path(sys.executable).parent), os.environ["PATH"])
    monkeypatch.setenv("PATH", os.pathsep.join(here))
    monkeypatch.chdir(tmp_path)

    def run(command):
        if not command.startswith("romco "):
            code = subprocess.run(command, shell=True, check=False).returncode
        else:
            monkeypatch.setattr("sys.argv", shlex.split(command))
            with pytest.raises(SystemExit) as end:
                main()
            code = end.value.code or 0
        return code, *capfd.readouterr()

    return run


TAKE_SECONDS = ("romco compare", "--reasons")


@pytest.mark.parametrize("left_out", [TAKE_SECONDS, pytest.param((), marks=pytest.mark.slow)])
def test_commands(tmp_path, typed, left_out):
    text = (DOCS / "tutorial-cli.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```console\n\$ (.*?)```", text, flags=re.DOTALL)
    commands = [command for block in blocks for command in block.split("\n$ ")]
    assert len(commands) >= 6
    outputs, told = {}, []
    for command in commands:
        if any(part in command for part in left_out):
            continue
        code, out, said = typed(command)
        assert code == 0, f"{command}\n{said}"
        outputs[command.split()[1] if command.startswith("romco") else command] = out, said
        told += [out] if command.startswith("romco explain") else []
    assert "2,000 of them before" in outputs["learn"][1]
    assert "all 20 tasks" in outputs["evaluate"][0]
    assert left_out or "who predicts best" in outputs["compare"][0]
    explained = "".join(told)
    assert "Kinds of tasks: " in explained
    assert "different (user 7)" in explained
    assert "margin for spam" in explained
    for rows in explained.split("its own\n")[1:]:  # of all users, and of this one
        assert rows.startswith("user 7 ")
    assert (tmp_path / "users.html").stat().st_size > 2000
    assert len((tmp_path / "predictions.jsonl").read_text().splitlines()) == 2000
