"""Commands and data sets that the lab adds to the command line."""

import pytest
from typer.testing import CliRunner

from romco.cli.main import app
from romco.streams import datasets, simulated


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)), env={"COLUMNS": "160"})


@pytest.mark.parametrize("command", ["paper", "beyond", "label-study"])
def test_the_lab_adds_commands(command):
    assert command in run("--help").output
    assert "--data-dir" in run(command, "--help").output


def test_datasets_say_what_is_here_and_where_the_rest_comes_from(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets, "simulated", lambda *_, **__: simulated(2, 3, 4, 1, 0))
    printed = run("datasets", "--data-dir", tmp_path).output
    assert "missing" in printed
    assert "grouplens.org" in printed


def test_a_missing_data_set_is_an_error_that_names_it(tmp_path):
    done = run("compare", "spam", "--data-dir", "no-such-place", "--out", tmp_path)
    assert "data set 'spam' is not in no-such-place" in str(done.exception)


def test_policies_are_compared_on_a_data_set(tmp_path):
    given = ("simulated", "--labels", "10%", "--policies", "budget", "--shuffles", 1)
    done = run("label-study", *given, "--learner", "arow-shared", "--jobs", 1, "--out", tmp_path)
    assert done.exit_code == 0, done.output
    assert "error against labels" in done.output
    assert (tmp_path / "simulated" / "index.html").exists()
