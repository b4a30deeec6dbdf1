"""The pages about export: programs and commands on them do what the pages show."""

import doctest
import re
import shutil
import subprocess
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
BLOCK = re.compile(r"```(\w+)\n(.*?)```", flags=re.DOTALL)
FILE_NAME = re.compile(r"(?:/\*|//|--) (\S+)")


def run_page(name, folder):
    """Run a page's blocks in order in a folder: examples, files that are named, and commands."""
    text = (DOCS / name).read_text(encoding="utf-8")
    names = {}
    for kind, content in BLOCK.findall(text):
        if kind == "python":
            example = doctest.DocTestParser().get_doctest(content, names, name, name, 0)
            failed, _ = doctest.DocTestRunner().run(example, clear_globs=False)
            names = example.globs
            assert failed == 0
        elif kind == "console":
            run_commands(content, folder)
        else:
            (folder / FILE_NAME.match(content)[1]).write_text(content, encoding="utf-8")


def run_commands(content, folder):
    for command, expected in re.findall(r"\$ (.*)\n((?:[^$].*\n)*)", content):
        done = subprocess.run(
            command, shell=True, cwd=folder, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), command
        assert done.stdout == expected


@pytest.mark.parametrize(
    ("page", "program", "package"),
    [
        ("export-c.md", "cc", "numpy"),
        ("export-javascript.md", "node", "numpy"),
        ("export-sql.md", "sqlite3", "duckdb"),
    ],
)
def test_pages(page, program, package, tmp_path, monkeypatch):
    pytest.importorskip(package, reason=f"{package} is not installed")
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    monkeypatch.chdir(tmp_path)
    run_page(page, tmp_path)
