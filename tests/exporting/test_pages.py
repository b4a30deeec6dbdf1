"""The pages about export do what they show, and so does the page beside the JavaScript module."""

import doctest
import re
import shutil
import subprocess
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

import romco
from tests.exporting.streams import learned
from tests.server.browsers import browser

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


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves a folder and prints nothing."""

    def log_message(self, *_):
        pass


@pytest.fixture
def served(tmp_path):
    """Address of a folder."""
    handler = partial(QuietHandler, directory=tmp_path)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def set_and_read(driver, task, row):
    """Type a task and a row into the example page; return its answer."""
    script = """
        for (const [id, text] of Object.entries({ task: arguments[0], row: arguments[1] })) {
          document.getElementById(id).value = text;
          document.getElementById(id).dispatchEvent(new Event("input"));
        }
        return document.getElementById("answer").value;
    """
    return driver.execute_script(script, task, row)


@pytest.mark.parametrize("target", ["two classes", "classes", "number"])
def test_example_page(target, served, tmp_path, chromium):
    """It predicts what the model does, and is readable on a phone and in the dark."""
    from selenium.webdriver.support.ui import WebDriverWait

    model = learned(n=60, target=target, classes=3)
    romco.export(model, "js", tmp_path)
    with browser(chromium, width=360, dark=True) as driver:
        driver.get(f"{served}/example.html")
        WebDriverWait(driver, 90).until(lambda page: set_and_read(page, "user 1", "{}"))
        answer = set_and_read(driver, "user 1", '{"age": 70, "town": "Rome"}')
        row = [{"age": 70.0, "town": "Rome"}]
        if target == "number":
            kind, number = answer.split(": ")
            expected = model.predict(row, ["user 1"])[0]
            assert (kind, float(number)) == ("known task", pytest.approx(expected, rel=1e-12))
        else:
            chances = zip(model.classes, model.predict_proba(row, ["user 1"])[0], strict=True)
            listed = ", ".join(f"{name} {chance:.4f}" for name, chance in chances)
            assert answer == f"known task: {listed}"
        assert set_and_read(driver, "nobody", "{}").startswith("new task: ")
        assert "JSON" in set_and_read(driver, "nobody", "{nonsense")
        assert driver.execute_script("return document.documentElement.scrollWidth") <= 360
        ink = driver.execute_script("return getComputedStyle(document.body).color")
        assert ink == "rgb(255, 255, 255)"
