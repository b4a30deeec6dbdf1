"""Pictures of the gallery: every page computes curves, and they are drawn."""

from pathlib import Path

import pytest

from romco_lab import gallery

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted((DOCS / "gallery").glob("*.md"))


def test_a_page_is_drawn(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        ">>> curves = {'a': [1.0, 2.0], 'b': [2.0, 1.0]}\n"
        ">>> x, x_label, y_label = range(2), 'events', 'error'\n",
        encoding="utf-8",
    )
    assert gallery.draw(page) == tmp_path / "page.svg"
    assert "<svg" in (tmp_path / "page.svg").read_text(encoding="utf-8")
    (tmp_path / "none.md").write_text("no example", encoding="utf-8")
    assert gallery.draw(tmp_path / "none.md") is None


@pytest.mark.slow
def test_a_page_that_explains_a_model_is_drawn(tmp_path):
    page = tmp_path / "page.md"
    page.write_text((DOCS / "what-a-column-does.md").read_text(encoding="utf-8"), encoding="utf-8")
    assert gallery.draw(page) == tmp_path / "page.svg"
    assert (DOCS / "what-a-column-does.svg").exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_page_has_its_picture(page):
    text = page.read_text(encoding="utf-8")
    assert ("curves = {" in text) == (f"]({page.stem}.svg)" in text)
    assert ("curves = {" in text) == page.with_suffix(".svg").exists()
