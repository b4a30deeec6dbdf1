"""What a command imports, and which files a wheel holds."""

import json
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest
import yaml
from setuptools import Distribution
from setuptools.command.egg_info import FileList
from setuptools.config.pyprojecttoml import apply_configuration

import romco

ROOT = Path(__file__).parents[1]
PROGRAM = """
import json, sys
from romco.cli.main import app
try:
    app(sys.argv[1:], standalone_mode=False)
finally:
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""
HEAVY = ("matplotlib", "multiprocessing", "pandas", "pyarrow", "ray", "scipy", "sklearn", "uvicorn")
OTHER_ROOMS = (
    "romco.compare",
    "romco.forgetting",
    "romco.server",
    "romco.streams.datasets",
    "romco_lab",
)


def imported(*arguments):
    """Run a command in a process of its own; return the names of the modules it imported."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, arguments)],
        check=True,
        capture_output=True,
        text=True,
    )
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("events")
    rows = [f"ann,{'yes' if k % 2 else 'no'},{k % 2},{k}" for k in range(40)]
    (folder / "events.csv").write_text("\n".join(["user,answer,a,b", *rows]) + "\n")
    return folder / "events.csv"


def test_learn_and_predict_import_what_they_need(file):
    model = file.with_name("m.romco")
    learn = imported("learn", file, "--task", "user", "--label", "answer", "--model", model)
    predict = imported("predict", file, "--model", model)
    assert "romco.model" in learn & predict
    assert not learn & {*HEAVY, *OTHER_ROOMS}
    assert not predict & {*HEAVY, *OTHER_ROOMS, "romco.shards"}


def test_the_version_is_printed_without_numpy():
    assert not imported("--version") & {"numpy", "rich.console", *HEAVY, *OTHER_ROOMS}


def wheel_files():
    """Return the files of a wheel but for the compiled kernels, relative to src."""
    distribution = apply_configuration(Distribution(), ROOT / "pyproject.toml")
    distribution.script_name = "setup.py"
    command = distribution.get_command_obj("build_py")
    command.ensure_finalized()
    modules = [Path(path) for _, _, path in command.find_all_modules()]
    data = [Path(folder, name) for _, folder, _, names in command.data_files for name in names]
    return [path.relative_to("src") for path in (*modules, *data)]


def test_a_wheel_holds_the_library_and_nothing_else(monkeypatch):
    monkeypatch.chdir(ROOT)
    files = wheel_files()
    kinds = Counter(path.suffix for path in files)
    assert {path.parts[0] for path in files} == {"romco"}
    assert set(kinds) <= {
        ".py",
        ".pyi",
        ".pxd",
        ".typed",
        ".html",
        ".css",
        ".js",
        ".svg",
        ".h",
        ".mjs",
    }
    assert {Path("romco/py.typed"), Path("romco/presentation/page.css")} <= set(files)
    assert not [path for path in files if {"paper", "beyond", "lab", "tests"} & set(path.parts)]


def test_an_sdist_holds_all_that_its_tests_compile(monkeypatch):
    monkeypatch.chdir(ROOT)
    files = FileList()
    for line in (ROOT / "MANIFEST.in").read_text().splitlines():
        if line and not line.startswith("#"):
            files.process_template_line(line)
    programs = [str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("*.c")]
    assert len(programs) >= 3
    assert set(programs) <= set(files.files)


def recipe():
    return yaml.safe_load((ROOT / "packaging" / "conda" / "recipe.yaml").read_text())


def test_all_files_name_the_same_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    (newest, *_) = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    found = citation["version"], newest, recipe()["context"]["version"]
    assert found == (romco.__version__,) * 3


def test_the_conda_recipe_needs_what_the_wheel_and_its_build_need():
    with (ROOT / "pyproject.toml").open("rb") as file:
        metadata = tomllib.load(file)
    terminal = metadata["project"]["optional-dependencies"]["terminal"]
    requirements = recipe()["requirements"]
    for needed, listed in (
        (metadata["build-system"]["requires"], requirements["host"]),
        (metadata["project"]["dependencies"] + terminal, requirements["run"]),
    ):
        assert set(needed) == {one.replace(" ", "") for one in listed} - {"python", "pip"}
