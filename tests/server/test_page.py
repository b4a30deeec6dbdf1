"""The page in a real Chromium."""

from __future__ import annotations

import pytest

from romco.server.routes import create_token as create
from romco.server.routes import read_tokens
from tests.server.browsers import browser
from tests.server.streams import lessons

NASTY = "<img src=x onerror=\"document.title='broken in'\">"
STREAM = lessons(400, seed=2, tasks=15)


def wait(driver, text: str, seconds: float = 90.0):
    """Until a script gives something true."""
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(driver, seconds, 0.1).until(lambda d: d.execute_script(f"return {text}"))


def fill(service) -> None:
    client = service.client
    client.predict([{"id": e.id, "task": e.task, "x": e.x} for e in STREAM])
    client.learn([{"id": e.id, "y": e.y} for e in STREAM[:390]])
    client.learn({"task": NASTY, "x": {NASTY: 1.0, "f1": NASTY}, "y": "no"})


@pytest.fixture
def shown(serving, tmp_path, chromium):
    with serving() as service, browser(chromium) as driver:
        fill(service)
        driver.get(service.url + "/")
        wait(driver, "document.getElementById('state').className === 'live'")
        wait(driver, "document.querySelectorAll('#table tbody tr').length")
        yield service, driver
        assert driver.title == "romco"  # no name has become markup
        trouble = [entry for entry in driver.get_log("browser") if entry["level"] != "INFO"]
        assert not trouble
        foreign = (
            "performance.getEntriesByType('resource').map(e => e.name)"
            ".filter(name => !name.startsWith(location.origin) && !name.startsWith('data:'))"
        )
        assert driver.execute_script(f"return {foreign}") == []


def rows(driver) -> list[str]:
    script = "[...document.querySelectorAll('#table tbody tr td:first-child')]"
    return driver.execute_script(f"return {script}.map(cell => cell.textContent)")


def text(driver, name: str) -> str:
    return driver.execute_script(f"return document.getElementById('{name}').textContent")


def test_the_page_tells_what_goes_on(shown):
    service, driver = shown
    wait(driver, "document.getElementById('learning').textContent !== '-'")
    assert text(driver, "tasks") == str(len(service.served.model.tasks))
    assert text(driver, "pending") == "10"
    assert text(driver, "error").endswith("%")
    assert "rank" in text(driver, "tasks-note")
    for chart in ("error-chart", "calibration-chart", "kinds", "rate-chart"):
        assert driver.execute_script(f"return !!document.querySelector('#{chart} svg')"), chart
    service.client.learn([{"id": e.id, "y": e.y} for e in STREAM[390:]])
    wait(driver, "document.getElementById('pending').textContent === '0'")


@pytest.mark.slow
def test_the_table_sorts_and_searches(shown):
    service, driver = shown
    assert NASTY in rows(driver)
    click = "document.querySelector('[data-order={}]').click()"
    driver.execute_script(click.format("task"))
    wait(driver, "document.querySelector('[data-order=task]').parentElement.ariaSort")
    names = [str(task) for task in service.served.model.tasks]
    wait(driver, "document.querySelector('#table tbody td').textContent.startsWith('<')")
    assert rows(driver) == sorted(names)
    driver.execute_script(click.format("task"))
    wait(driver, "!document.querySelector('#table tbody td').textContent.startsWith('<')")
    assert rows(driver) == sorted(names, reverse=True)
    from selenium.webdriver.common.by import By

    driver.find_element(By.ID, "search").send_keys("USER1")
    wait(driver, "document.getElementById('found').textContent.startsWith('6 ')")
    assert all("user1" in name for name in rows(driver))


def test_a_task_has_a_page_of_its_own(shown):
    _, driver = shown
    from selenium.webdriver.common.by import By

    driver.find_element(By.LINK_TEXT, NASTY).click()
    wait(driver, "document.querySelectorAll('#one-nearest .bars a').length === 3")
    assert text(driver, "one-name") == NASTY
    assert NASTY in text(driver, "one-features")
    assert not driver.execute_script("return document.querySelector('#one img')")
    driver.execute_script("location.hash = '#/task/user1'")
    wait(driver, "!!document.querySelector('#one-curve path.curve')")
    assert "Kind: " in text(driver, "one-about")
    driver.execute_script("location.hash = '#/task/nobody'")
    wait(driver, "document.getElementById('one-about').textContent.startsWith('no task')")
    driver.get_log("browser")  # the 404 that was asked for


def test_a_prediction_can_be_tried(shown):
    service, driver = shown
    from selenium.webdriver.common.by import By

    driver.find_element(By.ID, "try-task").send_keys("user1")
    features = driver.find_element(By.ID, "try-x")
    features.clear()
    features.send_keys('{"f1": 2.0, "f2": -1}')
    driver.find_element(By.CSS_SELECTOR, "#try button").click()
    wait(driver, "document.getElementById('try-answer').textContent.includes('margin')")
    told = service.client.predict({"task": "user1", "x": {"f1": 2.0, "f2": -1.0}})
    assert text(driver, "try-answer").startswith(f"{told['label']}, probability")
    wait(driver, "document.querySelectorAll('#try-why .bars svg').length === 2")
    positive = service.served.model.engine.target.positive
    assert f"to the margin for {positive}" in text(driver, "try-why")
    features.clear()
    features.send_keys("{nonsense")
    driver.find_element(By.CSS_SELECTOR, "#try button").click()
    wait(driver, "document.getElementById('try-answer').textContent.includes('JSON')")


def test_readable_on_a_phone_and_in_the_dark(serving, tmp_path, chromium):
    with serving() as service, browser(chromium, width=390, dark=True) as driver:
        fill(service)
        driver.get(service.url + "/")
        wait(driver, "document.querySelectorAll('#table tbody tr').length")
        assert driver.execute_script("return document.documentElement.scrollWidth") <= 390
        paper = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
        ink = driver.execute_script("return getComputedStyle(document.body).color")
        assert brightness(paper) < 60 < 180 < brightness(ink)
        size = "parseFloat(getComputedStyle(document.body).fontSize)"
        assert driver.execute_script(f"return {size}") >= 16


def brightness(color: str) -> float:
    return sum(map(float, color.strip("rgba()").split(",")[:3])) / 3


@pytest.mark.slow
def test_a_token_is_asked_for(serving, tmp_path, chromium):
    secret = create(tmp_path / "tokens", ["read"], "")
    with serving(tokens=read_tokens(tmp_path / "tokens")) as service, browser(chromium) as driver:
        driver.get(service.url + "/")
        wait(driver, "!document.getElementById('door').hidden")
        from selenium.webdriver.common.by import By

        driver.find_element(By.ID, "token").send_keys(secret)
        driver.find_element(By.CSS_SELECTOR, "#door button").click()
        wait(driver, "document.getElementById('state').className === 'live'")
