import subprocess
import sys

import pytest

from romco import __version__
from romco.cli import compare
from romco.cli import main as cli
from romco.streams.datasets import DATASETS


@pytest.fixture
def romco(monkeypatch, capfd):
    """Call the command line; gives the exit code, what it printed and what it complained."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["romco", *map(str, arguments)])
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = end.code or 0
        printed, complained = capfd.readouterr()
        return code, printed, complained

    monkeypatch.setattr(compare.console, "width", 160)
    return call


def test_version(romco):
    assert romco("--version") == (0, f"{__version__}\n", "")


def test_learners_lists_names_and_defaults(romco):
    code, printed, _ = romco("learners")
    assert code == 0
    assert "romco-nucl" in printed
    assert "eta1=0.5" in printed


@pytest.mark.slow
def test_datasets_have_a_line_each(romco, tmp_path):
    code, printed, _ = romco("datasets", "--data-dir", tmp_path)
    assert code == 0
    for name in DATASETS:
        assert f"\n{name} " in printed
    [sizes] = [line.split() for line in printed.splitlines() if line.startswith("spam-like")]
    assert sizes[-4:] == ["4", "710-4129", "1458", "50%"]


@pytest.mark.slow
def test_compare_prints_a_table_and_names_the_page(romco, tmp_path):
    arguments = ("compare", "--learners", "ogd-unique,ogd-global", "--shuffles", 1, "--jobs", 1)
    code, printed, _ = romco(*arguments, "--out", tmp_path)
    assert code == 0
    assert "OGD-Global" in printed
    page = tmp_path / "simulated" / "index.html"
    assert printed.splitlines()[-1] == f"page: {page}"
    assert page.exists()
    _, again, _ = romco(*arguments, "--out", tmp_path)
    assert again.split("who predicts best")[1] == printed.split("who predicts best")[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "no data set 'nothing'; there are"),
        (["--learners", "nobody"], "unknown learner 'nobody'; known are romco-"),
        (["--set", "romco-nucl.eta=1"], "romco-nucl has no parameter 'eta'; it has eta1"),
        (["--order", "random"], "unknown order 'random'; known are synchronous"),
    ],
)
def test_mistakes_are_messages_with_exit_code_2(romco, arguments, message, tmp_path):
    code, _, complained = romco("compare", *arguments, "--out", tmp_path)
    assert code == 2
    assert message in complained
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_says_that_nothing_finished_is_lost(romco, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("romco.compare.report.perform", interrupted)
    code, printed, _ = romco("compare", "--out", tmp_path)
    assert code == 130
    assert "the same command goes on" in printed


@pytest.mark.parametrize(
    ("missing", "code", "message"),
    [
        ("typer", "from romco.__main__ import main; main()", "pip install 'romco[cli]'"),
        ("river", "import romco.adapters.river", "pip install 'romco[river]'"),
    ],
)
def test_what_is_not_installed_is_named(missing, code, message):
    code = f"import sys; sys.modules[{missing!r}] = None; {code}"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert found.returncode == 1
    assert message in found.stderr


def test_python_m_romco():
    found = subprocess.run(
        [sys.executable, "-m", "romco", "--version"], capture_output=True, check=True
    )
    assert found.stdout.decode().strip() == __version__


def test_a_mistyped_command_is_answered_by_the_one_that_is_close(romco):
    code, _, complained = romco("lern", "x.csv")
    assert code == 2
    assert "No such command 'lern'; did you mean learn" in complained
    code, _, complained = romco("xyz")
    assert code == 2
    assert "did you mean" not in complained


def test_one_of_a_thing_is_not_several(tmp_path, romco):
    file, model = tmp_path / "one.csv", tmp_path / "m.romco"
    file.write_text("who,a,y\nann,1,yes\n")
    complained = romco("learn", file, "--task", "who", "--label", "y", "--model", model)[2]
    assert "as read from the first row:" in complained
    assert "1 event learned, 1 task\n" in complained
    assert "1 task: 1 event, " in romco("evaluate", file, "--model", model)[1]
    assert "from 1 feature of 1 event of 1 task" in romco("explain", model)[1]


def test_tasks_that_are_left_out_are_counted(tmp_path, romco):
    file, model = tmp_path / "rows.csv", tmp_path / "m.romco"
    rows = [f"p{k % 23},{k},{'yes' if k % 3 else 'no'}\n" for k in range(60)]
    file.write_text("who,a,y\n" + "".join(rows))
    assert romco("learn", file, "--task", "who", "--label", "y", "--model", model)[0] == 0
    printed = romco("evaluate", file, "--model", model)[1]
    assert "- and 3 more tasks\nall 23 tasks: 60 events" in printed
