"""The page of the command line is the one that the code gives."""

import runpy
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_page_of_options_is_that_of_the_code():
    made = runpy.run_path(str(DOCS / "options.py"))
    text = made["PAGE"].read_text(encoding="utf-8")
    assert text == made["page"](), "run: python docs/options.py"
    assert "| `--together` |" in text
