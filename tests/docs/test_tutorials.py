"""Every example on the pages of the documentation runs."""

import doctest
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


ELSEWHERE = ("methods.md",)  # its example leaves something behind, so it has a test of its own
PAGES = sorted(
    page.relative_to(DOCS).as_posix()
    for page in DOCS.rglob("*.md")
    if page.name not in ELSEWHERE and "\n>>> " in page.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("page", PAGES)
def test_python_examples(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if "import lightgbm" in (DOCS / page).read_text(encoding="utf-8"):
        pytest.importorskip("lightgbm", reason="this page is about LightGBM")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        failed, tried = doctest.testfile(str(DOCS / page), module_relative=False, encoding="utf-8")
    assert tried > 0
    assert failed == 0


def test_the_tutorials_are_among_them():
    assert {"tutorial-sklearn.md", "tutorial-river.md"} <= set(PAGES)


def test_commands(tmp_path):
    text = (DOCS / "tutorial-cli.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```console\n\$ (.*?)```", text, flags=re.DOTALL)
    commands = [command for block in blocks for command in block.split("\n$ ")]
    assert len(commands) >= 6
    program = tmp_path / "bin" / "romco"
    program.parent.mkdir()
    start = "if __name__ == '__main__':\n    from romco.cli.main import main\n    main()\n"
    program.write_text(f"#!{sys.executable}\n{start}")
    program.chmod(0o755)
    here = (str(program.parent), str(Path(sys.executable).parent), os.environ["PATH"])
    path = os.pathsep.join(here)
    outputs, told = {}, []
    for command in commands:
        done = subprocess.run(
            command,
            shell=True,
            cwd=tmp_path,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        outputs[command.split()[1] if command.startswith("romco") else command] = done
        told += [done.stdout] if command.startswith("romco explain") else []
    assert "2,000 learned before" in outputs["learn"].stderr
    assert "all 20 tasks" in outputs["evaluate"].stdout
    assert "who predicts best" in outputs["compare"].stdout
    explained = "".join(told)
    assert "Kinds of tasks: " in explained
    assert "user 7, " in explained  # its story
    assert "margin for spam" in explained
    assert explained.split("its own\n")[1].startswith("user 7")
    assert (tmp_path / "users.html").stat().st_size > 2000
    assert len((tmp_path / "predictions.jsonl").read_text().splitlines()) == 2000
