"""Learners of another package join in every command and every process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ENTRIES = """
[romco.learners]
mine = their_learners:MINE
plain = their_learners:Plain
ogd-unique = their_learners:MINE
"""
MODULE = """
from romco import Method
from romco.learners.linear import CoupledPerceptron
from romco.learners.linear import Gradient

class Plain(CoupledPerceptron):
    "Coupled perceptrons of another package."

MINE = Method(Gradient, "Their-Own", fixed={"models": "unique"})
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder in which the package is, as an installer leaves it."""
    site = tmp_path_factory.mktemp("site")
    about = site / "their_learners-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: their-learners\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRIES)
    (site / "their_learners.py").write_text(MODULE)
    return site


@pytest.fixture
def romco(site, tmp_path):
    """The command line of an environment that has the package."""

    def call(*arguments):
        paths = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
        return subprocess.run(
            [sys.executable, "-m", "romco", *map(str, arguments)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": paths, "COLUMNS": "160"},
            capture_output=True,
            text=True,
            check=False,
        )

    return call


def test_they_are_listed_and_do_not_replace_those_of_this_package(romco):
    done = romco("learners")
    assert done.returncode == 0, done.stderr
    assert "Their-Own" in done.stdout
    assert "plain" in done.stdout
    assert "OGD-Unique" in done.stdout


@pytest.mark.slow
def test_they_are_compared_in_processes_of_their_own(romco, tmp_path):
    events = Path(tmp_path, "events.csv")
    events.write_text("user,y,x\n" + "ann,1,1\nbob,0,-1\nbob,1,2\nann,0,3\n" * 10)
    wanted = ("--task", "user", "--label", "y", "--learners", "mine,ogd-unique", "--shuffles", 1)
    values = ("--set", "mine.eta=0.65", "--set", "ogd-unique.eta=0.65")
    done = romco("compare", events, *wanted, *values, "--jobs", 2)
    assert done.returncode == 0, done.stderr
    rows = next(tmp_path.rglob("table.md")).read_text().splitlines()
    mine, theirs = (next(r for r in rows if t in r).split("|")[2] for t in ("Their", "OGD"))
    assert mine.replace("*", "") == theirs.replace("*", "")  # the same method, the same error


def test_they_are_learned_saved_and_loaded(romco, tmp_path):
    events = Path(tmp_path, "events.csv")
    events.write_text("user,y,x\n" + "ann,1,1\nbob,0,-1\n" * 20)
    columns = ("--task", "user", "--label", "y")
    made = romco("learn", events, "--model", "m.romco", "--learner", "plain", *columns)
    assert made.returncode == 0, made.stderr
    told = romco("explain", "m.romco")
    assert "plain predicts y (1 or not) from 1 feature of 40 events" in told.stdout + told.stderr
