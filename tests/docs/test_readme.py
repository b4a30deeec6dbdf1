"""The first page a stranger sees: its examples run, its links lead somewhere."""

import doctest
import re
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_the_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # one of them saves a model
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        page = str(ROOT / "README.md")
        failed, tried = doctest.testfile(page, module_relative=False, encoding="utf-8")
    assert tried > 8
    assert failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
