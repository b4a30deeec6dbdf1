"""A pipe that is fed line by line is answered line by line."""

import json
import subprocess
import sys

import pytest

PROGRAM = [sys.executable, "-c", "from romco.cli.main import app; app()"]
ROWS = ["ann,free money,yes", "bob,lunch at noon,no", "ann,free lunch,yes", "bob,money at noon,no"]


@pytest.mark.parametrize("command", ["learn", "predict"])
def test_each_line_is_answered_before_the_next_is_sent(tmp_path, command):
    table = "\n".join(["user,says,spam", *ROWS]) + "\n"
    columns = ["--task", "user", "--label", "spam", "--text", "says"]
    model = ["--model", str(tmp_path / "m.romco")]
    if command == "learn":
        arguments = ["learn", "-", "--format", "csv", *columns, *model, "--predictions", "-"]
    else:
        (tmp_path / "e.csv").write_text(table)
        subprocess.run(
            [*PROGRAM, "learn", str(tmp_path / "e.csv"), *columns, *model],
            check=True,
            capture_output=True,
        )
        arguments = ["predict", "-", "--format", "csv", *model]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([*PROGRAM, *arguments], text=True, bufsize=1, **pipes) as process:
        process.stdin.write("user,says,spam\n")
        for line, row in enumerate(ROWS, start=2):
            process.stdin.write(row + "\n")
            answer = json.loads(process.stdout.readline())  # would wait for ever
            assert (answer["line"], answer["task"]) == (line, row.split(",")[0])
            assert answer["label"] == row.split(",")[2]
            assert 0.0 <= answer["probability"] <= 1.0
        process.stdin.close()
        assert process.stdout.read() == ""
        assert process.wait() == 0
