"""What docs/serving.md says with curl, and the files to deploy with."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import get_args

import pytest

from romco.model import Model
from romco.server.routes import ROUTES, SUMMARIES

DOCS = Path(__file__).resolve().parents[2] / "docs"


def name_of(kind):
    """Return the name of a type, or of the one that it is a list of too."""
    return f"`{(get_args(kind) or [kind])[0].__name__}`"


def table():
    """Return the routes as a Markdown table."""
    lines = ["| request | scope | body | response | |", "|---|---|---|---|---|"]
    for route in ROUTES:
        body = "" if route.body is None else name_of(route.body.type)
        response = route.media.split(";")[0]
        if route.response is not None:
            response = name_of(route.response)
        many = ", one or a list" if route.response else ""
        request = f"`{route.method} {route.path}`"
        summary = SUMMARIES[route.name]
        lines.append(f"| {request} | {route.scope} | {body}{many} | {response} | {summary} |")
    return "\n".join(lines)


def test_curl_examples(serving, tmp_path):
    if shutil.which("curl") is None:
        pytest.skip("no curl here")
    text = (DOCS / "serving.md").read_text(encoding="utf-8")
    commands = re.findall(r"^\$ (curl .*)$", text, flags=re.MULTILINE)
    assert len(commands) >= 10
    with serving(new=lambda: Model(classes=("ham", "spam"))) as service:
        for command in commands:
            there = command.replace("http://127.0.0.1:8400", service.url)
            done = subprocess.run(
                [*shlex.split(there), "--fail-with-body"],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, (command, done.stdout, done.stderr)
        assert service.served.sequence == 3
    assert (tmp_path / "served.romco").stat().st_size > 1000


def test_the_unit_is_one_that_systemd_understands(tmp_path):
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("no systemd here")
    unit = tmp_path / "romco.service"
    text = (DOCS / "deploy" / "romco.service").read_text()
    unit.write_text(text.replace("/usr/local/bin/romco", "/bin/true"))
    done = subprocess.run([program, "verify", str(unit)], capture_output=True, text=True)
    assert "Unknown" not in done.stderr
    assert done.returncode == 0, done.stderr


def test_the_table_of_routes_is_the_one_that_is_declared():
    assert table() in (DOCS / "serving.md").read_text(encoding="utf-8")


if __name__ == "__main__":
    print(table())
