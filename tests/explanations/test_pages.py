"""The pages of explain and compare in a real Chromium: sorted, searched, narrow and dark."""

import numpy as np
import pytest

import romco
from romco.explanations import explain
from romco.presentation.page import document
from romco.presentation.tables import Cell, Table, as_html
from tests.server.browsers import browser

STREAM = romco.streams.simulated(n_tasks=12, n_features=10, n_events=150, outliers=1, seed=2)


def explained():
    model = romco.Model(features=romco.Columns(10), classes=(-1, 1))
    tasks = [f"user {10 * i}" for i in STREAM.task]
    model.learn(STREAM.x, STREAM.y, tasks)
    model.learn(STREAM.x[:7], STREAM.y[:7], tasks[:7])  # so that numbers of events differ
    return explain(model).page()


def compared():
    rows = [[Cell(f"learner {i}"), Cell(f"{number:.2f}")] for i, number in enumerate(NUMBERS)]
    return document("Errors", as_html(Table("Errors", ["learner", "error %"], rows, [])))


NUMBERS = [9.5, 10.25, 100.0, 3.0, 8.125, 20.0, 7.0, 4.5, 11.0, 6.25, 40.0, 5.0]
PAGES = {"explain": explained, "compare": compared}


def shown(driver, column):
    """Texts of a column of the last table, of the rows that are not hidden."""
    return driver.execute_script(
        "return [...[...document.querySelectorAll('table.sortable')].at(-1).tBodies[0].rows]"
        f".filter(row => !row.hidden).map(row => row.cells[{column}].dataset.value"
        f" ?? row.cells[{column}].textContent)"
    )


@pytest.mark.parametrize(
    ("page", "column"),
    [("explain", 1), pytest.param("explain", 0, marks=pytest.mark.slow), ("compare", 1)],
)
def test_tables_are_sorted_by_a_click_and_searched(page, column, tmp_path, chromium):
    from selenium.webdriver.common.by import By

    (tmp_path / "page.html").write_text(PAGES[page]())
    with browser(chromium) as driver:
        driver.get((tmp_path / "page.html").as_uri())
        table = driver.find_elements(By.CSS_SELECTOR, "table.sortable")[-1]
        head = table.find_elements(By.CSS_SELECTOR, "thead th button")[column]
        before = shown(driver, column)

        def key(text):
            return float(text.removeprefix("user "))

        for down in (False, True):
            head.click()
            assert shown(driver, column) == sorted(before, key=key, reverse=down)
        box = driver.find_element(By.CSS_SELECTOR, "input[type=search]")
        name = shown(driver, 0)[3]
        box.send_keys(name.upper())
        found = shown(driver, 0)
        assert name in found
        assert len(found) < len(before)
        assert all(name in other for other in found) or page == "explain"  # stories name others
        box.clear()
        box.send_keys("nobody is called so")
        assert shown(driver, 0) == []
        assert [entry["message"] for entry in driver.get_log("browser")] == []


def test_long_tables_end_after_50_rows_with_more(tmp_path, chromium):
    from selenium.webdriver.common.by import By

    rows = [[Cell(f"user {i}"), Cell(f"({i})")] for i in range(120)]
    page = document("Users", as_html(Table("Users", ["user", "events"], rows, [])))
    (tmp_path / "page.html").write_text(page)
    with browser(chromium) as driver:
        driver.get((tmp_path / "page.html").as_uri())
        more = driver.find_element(By.CSS_SELECTOR, "button.more")
        assert (len(shown(driver, 0)), more.text) == (50, "70 more")
        box = driver.find_element(By.CSS_SELECTOR, "input[type=search]")
        box.send_keys("user 11")  # 11 and 110 to 119: those beyond the 50th are found, too
        assert len(shown(driver, 0)) == 11
        assert not more.is_displayed()
        box.clear()
        box.send_keys("user")
        more.click()
        assert len(shown(driver, 0)) == 120


def test_common_effects_come_first_and_classes_have_their_section():
    text = explained()
    assert text.index("Common to all tasks: the largest effects") < text.index(
        "<caption>Task by task"
    )
    assert "level: Probability of 1" in text
    assert ">100%</text>" in text  # the axis of the bars
    rng = np.random.default_rng(0)
    x, labels = rng.normal(size=(90, 3)), [("bus", "car", "train")[k % 3] for k in range(90)]
    model = romco.Model(features=romco.Columns(3), target="classes")
    model.learn(x, labels, [f"t{k % 4}" for k in range(90)])
    found = explain(model)
    classes = found.page()
    assert "<h2>Classes</h2><ul><li>For bus: " in classes
    assert "level: " not in classes
    assert "differs in: score of a class per standard deviation of a column" in classes
    assert "\ntask  events  kind " in str(found)


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize(("width", "dark"), [(375, False), (1200, True)])
def test_nothing_is_cut_on_a_phone_and_dark_is_dark(page, width, dark, tmp_path, chromium):
    (tmp_path / "page.html").write_text(PAGES[page]())
    with browser(chromium, width, dark) as driver:
        driver.get((tmp_path / "page.html").as_uri())
        wide = driver.execute_script("return document.documentElement.scrollWidth")
        assert wide <= width
        script = "return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
        background = sum(driver.execute_script(script)[:3])
        assert background < 200 if dark else background > 600
