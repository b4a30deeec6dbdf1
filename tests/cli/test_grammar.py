"""One grammar: an option has the same name, values and help text in every command."""

from collections import defaultdict

import pytest
import typer
from typer.testing import CliRunner

from romco.cli.main import BUILT_IN, app
from romco.cli.options import parse_label_budget, parse_target

# An option of two commands that means two things, and why.
DIFFERENT = {
    "--set": "compare has several learners: learner.parameter=value",
    "--out": "a file, or a folder of results",
    "--task": "the name of a column, or in explain the name of a task",
    "--label": "the name of a column, or in explain a label",
    "--format": "of rows of events, or of a log of choices",
    "--ignore": "columns of events, or of a log of choices",
    "--name": "host names of a server, the owner of a token",
    "--reward": "the kind of rewards, or the name of a column",
    "--floor": "of a chooser, or of the policy that is evaluated",
}


def options():
    """Return for each option the commands that have it, with its help text."""
    group = typer.main.get_command(app)
    found = defaultdict(dict)
    for name in BUILT_IN:
        for parameter in group.get_command(None, name).params:
            for flag in getattr(parameter, "opts", ()):
                if flag.startswith("--") and flag != "--help":
                    found[flag][name] = parameter.help
    return found


def test_an_option_is_the_same_in_every_command():
    differing = {flag: by for flag, by in options().items() if len(set(by.values())) > 1}
    assert differing.keys() - DIFFERENT.keys() == set(), differing


def test_label_budget_hashing_and_target_have_one_name():
    found = options()
    assert {"ask", "serve"} <= found["--labels"].keys()
    assert {"learn", "serve"} <= found["--hash"].keys()
    assert {"learn", "compare", "serve"} <= found["--target"].keys()
    assert not {"--budget", "--kind", "--bits"} & found.keys()


@pytest.mark.parametrize("text", ["0", "0%", "101%", "-5", "x", "", "1.5", "nan"])
def test_a_label_budget_is_a_share_or_a_number(text):
    with pytest.raises(ValueError, match=r"expected a share \(5% or 0.05\) or a number \(500\)"):
        parse_label_budget(text)


def test_an_unknown_target_lists_the_known():
    with pytest.raises(ValueError, match="expected auto, two-classes, classes, number"):
        parse_target("two classes")


@pytest.mark.parametrize("name", BUILT_IN)
def test_no_option_takes_another_for_its_value(name):
    command = typer.main.get_command(app).get_command(None, name)
    for parameter in command.params:
        if parameter.param_type_name == "option" and not parameter.is_flag:
            option = parameter.opts[0]
            with pytest.raises(typer.BadParameter.__base__, match=f"{option} needs a value"):
                command.make_context(name, [option, "--help"])


def test_a_value_may_begin_with_dashes_after_an_equals_sign(tmp_path):
    rows = tmp_path / "rows.csv"
    rows.write_text("user,--clicked,hour\nann,1,3\nbob,0,4\n" * 20)
    given = ["learn", str(rows), "--task", "user", "--label=--clicked"]
    done = CliRunner().invoke(app, [*given, "--model", str(tmp_path / "m.romco")])
    assert done.exit_code == 0, done.output
