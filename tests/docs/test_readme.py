"""The first page a stranger sees: its examples run, its links lead somewhere."""

import re
import warnings
from pathlib import Path

import pytest

import romco

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
ENTRY_POINT_GROUPS = {"commands", "datasets", "formats", "label_policies"}
FILES = {"sqlite"}  # romco.sqlite


def python_blocks(page):
    """Blocks that a reader can paste: without prompts."""
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [block for block in blocks if ">>> " not in block]


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_first_example_can_be_pasted(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for block in python_blocks(ROOT / page):
            exec(block, names)
    assert capsys.readouterr().out.splitlines()[0] == "spam"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_public_names_of_the_docs_exist():
    text = "".join(page.read_text(encoding="utf-8") for page in [*PAGES, ROOT / "CHANGELOG.md"])
    named = set(re.findall(r"`romco\.([A-Za-z_]+)", text)) - ENTRY_POINT_GROUPS - FILES
    assert "penalties" in named
    assert [name for name in sorted(named) if not hasattr(romco, name)] == []
