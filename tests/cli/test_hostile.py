"""The command line against what users do: one clear line, exit code 2, nothing changed."""

import contextlib
import gzip
import resource
import shlex
import shutil
import signal
import subprocess
import sys

import pytest

import romco
from romco.cli import main as cli
from romco.files import load
from romco.io.modelfile import save_state

FILES = {
    "ok.csv": "u,a,y\nx,1,p\nz,2,n\nx,3,p\n",
    "inf.csv": "u,a,y\nx,inf,p\n",
    "three.csv": "u,a,y\nx,1,p\nz,2,n\nx,3,q\n",
    "empty.csv": "",
    "header.csv": "u,a,y\n",
    "short.csv": "u,a,y\nx,1\n",
    "bad.jsonl": "{bad\n",
    "nolabel.jsonl": '{"u": "x", "a": 1}\n',
    "bad.svm": "1 qid:3 1:a\n",
    "bad.parquet": "PAR1 garbage",
    "odd.dat": "u,a,y\n",
    "huge.csv": "u,a,y\n" + "x,1e300,p\nx,-1e300,n\n" * 3,
}
FILES["one-huge.csv"] = "u,a,b,y\nx,1,2,p\nz,1e200,1,n\nz,2,-1e61,p\nx,-1,1e60,n\nz,2,1,n\n"
LEARN = "--task u --label y --model new.romco"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder with all files, a model and a bare learner."""
    folder = tmp_path_factory.mktemp("written")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    (folder / "binary.csv").write_bytes(bytes(range(256)))
    (folder / "cut.csv.gz").write_bytes(gzip.compress(FILES["ok.csv"].encode())[:20])
    with contextlib.chdir(folder):
        run("learn ok.csv --task u --label y --model ok.romco --predictions ok.jsonl")
    romco.save(romco.learner("pa-unique", 3, 2), folder / "bare.romco")
    return folder


@pytest.fixture
def folder(written, tmp_path, monkeypatch):
    shutil.copytree(written, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(command):
    """Exit code of a command that was typed."""
    argv, sys.argv = sys.argv, ["romco", *shlex.split(command)]
    try:
        cli.main()
    except SystemExit as end:
        return end.code or 0
    finally:
        sys.argv = argv
    return 0


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("learn ok.csv --task nope --label y --model new.romco", "no column 'nope'; there are 'u'"),
        ("learn ok.csv --task u --label nope --model new.romco", "no column 'nope'"),
        (f"learn ok.csv {LEARN} --features nope", "no column 'nope'"),
        (f"learn ok.csv {LEARN} --text nope", "no column 'nope'"),
        ("learn ok.csv --model new.romco", "--task COLUMN"),
        ("learn ok.csv --task u --model new.romco", "--label COLUMN"),
        (f"learn inf.csv {LEARN}", "line 2, column 'a': inf is not a finite number"),
        (f"learn empty.csv {LEARN}", "is empty"),
        (f"learn header.csv {LEARN}", "nothing to learn from: header.csv has no events; new.romco"),
        (f"learn short.csv {LEARN}", "line 2: has 2 cells where the header has 3"),
        (f"learn bad.jsonl {LEARN}", "line 1: not valid JSON"),
        (f"learn nolabel.jsonl {LEARN}", "column 'y': is missing"),
        ("learn bad.svm --model new.romco", "'a' is not a number"),
        (f"learn bad.parquet {LEARN}", "not Parquet"),
        (f"learn binary.csv {LEARN}", "not UTF-8 text"),
        (f"learn sheet.xlsx {LEARN}", "Excel files are not read: save the sheet as CSV"),
        (f"learn table.feather {LEARN}", "Arrow files are not read: save the table as Parquet"),
        (f"learn cut.csv.gz {LEARN}", "damaged or cut"),
        (f"learn odd.dat {LEARN}", "--format, one of csv"),
        (f"learn ok.csv {LEARN} --format xml", "--format, one of csv"),
        (f"learn ok.csv {LEARN} --learner nope", "unknown learner 'nope'; known are romco-nucl"),
        (f"learn ok.csv {LEARN} --set C=1", "no parameter 'C'"),
        (f"learn ok.csv {LEARN} --set C", "expected parameter=value"),
        (f"learn ok.csv {LEARN} --learner pa-unique --set C=abc", "C must be a positive number"),
        (f"learn ok.csv {LEARN} --learner pa-unique --set C=[1]", "C must be a positive number"),
        (f"learn ok.csv {LEARN} --learner pa-unique --set variant=3", "variant must be one of"),
        (f"learn ok.csv {LEARN} --classes p", "two different labels"),
        (f"learn ok.csv {LEARN} --classes a,b", "line 2, column 'y': a third label 'p'"),
        (f"learn huge.csv {LEARN}", "line 2: feature 'a' is 1e+300: features are numbers up to"),
        (f"learn missing.csv {LEARN}", "missing.csv: No such file"),
        ("learn ok.csv --task u --label y --model no/new.romco", "no folder no"),
        ("learn ok.csv --task u --label y --model .", "Is a directory"),
        ("learn ok.csv --task u --label y --model ok.csv", "no romco model file"),
        ("learn ok.csv --task u --label y --model bare.romco", "bare learner"),
        (f"learn ok.csv {LEARN} --predictions no/p.jsonl", "no/p.jsonl: No such file"),
        ("learn inf.csv --task u --label y --model ok.romco --predictions ok.jsonl", "line 2"),
        ("learn ok.csv --task u --label a --model ok.romco", "with label 'y', not 'a'"),
        (
            "learn ok.csv --task u --label y --model ok.romco --learner pa-unique",
            "ok.romco was made with --learner romco-auto, not with --learner pa-unique",
        ),
        (
            "learn ok.csv --task u --label y --model ok.romco --hash 9",
            "without --hash, not with --hash 9",
        ),
        (
            "learn ok.csv --task u --label y --model ok.romco --classes p,n",
            "not with --classes p,n",
        ),
        (
            "learn ok.csv --task u --label y --model ok.romco --positive n",
            "not with --positive n",
        ),
        ("predict ok.csv --model missing.romco", "missing.romco: No such file"),
        ("predict ok.csv --model bare.romco", "bare learner"),
        (
            "predict - --model ok.romco",
            "stdin: the format does not follow from its name: say --format",
        ),
        ("predict ok.csv --model ok.romco --out no/x", "no folder no"),
        ("predict ok.csv --model ok.romco --task nope", "no column 'nope'"),
        ("predict inf.csv --model ok.romco --out answers.jsonl", "line 2, column 'a'"),
        ("evaluate empty.csv --model ok.romco", "is empty"),
        ("evaluate three.csv --model ok.romco", "line 4, column 'y': label 'q' is not one of"),
        ("explain ok.csv", "no romco model file"),
        ("explain .", "Is a directory"),
    ],
)
def test_one_line_and_nothing_changed(folder, capsys, command, message):
    before = contents(folder)
    capsys.readouterr()
    assert run(command) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert out == ""
    assert contents(folder) == before


def test_what_comes_before_a_bad_row_is_kept_and_it_goes_on_once_mended(folder, capsys):
    assert run(f"learn three.csv {LEARN} --target two-classes") == 2
    assert "what comes before it is in new.romco" in capsys.readouterr().err
    assert load(folder / "new.romco").events == 2
    (folder / "three.csv").write_text(FILES["three.csv"].replace("q", "p"))
    assert run(f"learn three.csv {LEARN}") == 0
    assert load(folder / "new.romco").events == 3


def test_a_third_label_is_no_dead_end(folder):
    assert run(f"learn three.csv {LEARN}") == 0
    assert set(load(folder / "new.romco").classes) == {"n", "p", "q"}
    (folder / "new.romco").unlink()
    assert run(f"learn three.csv {LEARN} --target two-classes") == 2
    assert run(f"learn three.csv {LEARN} --target classes") == 0  # goes on
    assert load(folder / "new.romco").events == 3
    assert load(folder / "new.romco").engine.target.kind == "classes"


def test_bad_rows_are_counted_where_they_are_skipped(folder, capsys):
    for command in ("evaluate three.csv", "predict inf.csv"):
        assert run(f"{command} --model ok.romco --skip-bad") in (0, 2)
        assert "1 bad row skipped" in capsys.readouterr().err


def test_the_same_options_again_are_no_contradiction(folder):
    command = "learn ok.csv --task u --label y --model ok.romco"
    assert run(f"{command} --learner romco-auto --classes n,p --positive p") == 0


def signalled(number, save):
    """Python code of the command line that sends itself a signal after a save of a file."""
    return f"""
import os
from romco.cli.main import main
from romco.io import durable
from romco.shards.schedule import Schedule
Schedule.first = 0
saves, replace = [], durable.replace
def replace_and_signal(*given, **options):
    replace(*given, **options)
    saves.append(given)
    if len(saves) == {save}:
        os.kill(os.getpid(), {int(number)})
durable.replace = replace_and_signal
main()
"""


def started(folder, command, code="from romco.cli.main import main; main()", **options):
    lines = ["u,a,y", *(f"{i % 50},{i % 7},{'pn'[i % 2]}" for i in range(30_000))]
    (folder / "long.csv").write_text("\n".join(lines) + "\n")
    return subprocess.Popen(
        [sys.executable, "-c", code, *command.split()],
        cwd=folder,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        **options,
    )


def test_an_interrupt_says_how_to_go_on(folder):
    code = signalled(signal.SIGINT, 3)
    process = started(folder, f"learn long.csv {LEARN} --checkpoint-every 2000", code)
    _, err = process.communicate(timeout=100)
    assert process.returncode == 130, err
    assert "the same command goes on from there" in err
    assert "Traceback" not in err
    assert load(folder / "new.romco").events % 2000 == 0
    assert not [path for path in folder.iterdir() if path.name.endswith(".partial")]


def test_a_full_disk_keeps_the_last_good_model(folder):
    before = contents(folder)

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    process = started(
        folder, "learn long.csv --task u --label y --model ok.romco", preexec_fn=limit
    )
    _, err = process.communicate(timeout=100)
    (folder / "long.csv").unlink()
    assert process.returncode == 2
    assert err == "error: ok.romco: File too large\n"
    assert contents(folder) == before


def test_a_huge_value_is_one_bad_row(folder, capsys):
    assert run(f"learn one-huge.csv {LEARN}") == 2
    assert "line 3: feature 'a' is 1e+200" in capsys.readouterr().err
    assert load(folder / "new.romco").events == 1  # what comes before it is kept
    (folder / "new.romco").unlink()
    for learner in ("romco-auto", "pa-unique", "mtfl", "romco-logd"):
        model = f"{learner}.romco"
        command = f"--task u --label y --model {model} --skip-bad"
        assert run(f"learn one-huge.csv {command} --learner {learner}") == 0
        assert "2 bad rows skipped" in capsys.readouterr().err
        assert load(folder / model).events == 3
        for verb in ("predict", "evaluate"):
            assert run(f"{verb} one-huge.csv {command}") == 0
            assert "2 bad rows skipped" in capsys.readouterr().err
            assert run(f"{verb} one-huge.csv --task u --label y --model {model}") == 2
            assert "line 3: a feature is 1e+200" in capsys.readouterr().err
        assert run(f"learn ok.csv --task u --label y --model {model}") == 0  # it goes on


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGTERM")
@pytest.mark.parametrize(
    "how", ["--threads 2", pytest.param("--shards 2 --engine serial", marks=pytest.mark.slow)]
)
def test_sigterm_in_shards_saves_what_was_learned_and_says_so(how, folder):
    rows = "".join(f"t{i % 9},{i % 7 - 3},{'p' if i % 3 else 'n'}\n" for i in range(3_000))
    (folder / "long.csv").write_text("u,a,y\n" + rows)
    command = f"learn long.csv {LEARN} {how} --hash 8 --every 100 --checkpoint-every 500"
    program = [sys.executable, "-c", signalled(signal.SIGTERM, 1)]
    done = subprocess.run([*program, *command.split()], capture_output=True, text=True)
    assert done.returncode == 143, done.stderr
    assert "the same command goes on" in done.stderr
    assert run(command) == 0
    assert run(command.replace("new.romco", "whole.romco")) == 0
    one, other = load(folder / "new.romco"), load(folder / "whole.romco")
    assert one.events == other.events == 3_000
    tasks = [f"t{i}" for i in range(9)]
    found = [model.margins([{"a": 1.0}] * 9, tasks).tolist() for model in (one, other)]
    assert found[0] == found[1]


def test_a_file_without_events_leaves_a_model_as_it_was(folder, capsys):
    before = contents(folder)
    assert run("learn header.csv --task u --label y --model ok.romco") == 0
    told = capsys.readouterr().err
    assert "nothing to learn from: header.csv has no events; ok.romco stays as it was" in told
    assert "error" not in told
    assert contents(folder) == before
    classes = "--classes n,p"
    assert run(f"learn header.csv {LEARN} {classes} --shards 2 --engine serial") == 0
    told = capsys.readouterr().err
    assert "0 events learned, there was nothing to learn from" in told
    assert "error" not in told


ODD_LINES = ('{"u": "x", "a": 1' + "0" * 400 + ', "y": "p"}', '{"u": "x", "\\ud800": 1, "y": "p"}')


@pytest.mark.parametrize("odd", ODD_LINES, ids=["a long number", "no text"])
def test_a_line_that_cannot_be_learned_is_told_or_skipped(folder, odd, capsys):
    good = '{"u": "x", "a": 1, "y": "p"}\n{"u": "z", "a": 2, "y": "n"}\n'
    (folder / "odd.jsonl").write_text(good + odd + "\n" + good)
    assert run(f"learn odd.jsonl {LEARN}") == 2
    assert "odd.jsonl, line 3" in capsys.readouterr().err
    assert run(f"learn odd.jsonl {LEARN} --skip-bad") == 0
    assert load(folder / "new.romco").events == 4


@pytest.mark.parametrize(
    "columns",
    [
        7,
        [],
        {"features": "ab"},
        {"features": [None]},
        {"task": 1},
        {"label": []},
        {"weight": {}},
        {"columns": []},
        {"columns": {"a": ["magic", "free"]}},
        {"columns": {"a": []}},
    ],
    ids=str,
)
def test_what_a_model_remembers_of_columns_is_not_trusted(folder, columns, capsys):
    model = load(folder / "ok.romco")
    state = model.state()
    schema = state["session"]["schema"]
    state["session"]["schema"] = schema | columns if isinstance(columns, dict) else columns
    save_state(state, folder / "ok.romco")
    for command in (
        "learn ok.csv --task u --label y --model ok.romco",
        "predict ok.csv --model ok.romco",
        "evaluate ok.csv --model ok.romco",
    ):
        assert run(command) == 2
        assert (
            "ok.romco cannot be used: its content does not hold together" in capsys.readouterr().err
        )
