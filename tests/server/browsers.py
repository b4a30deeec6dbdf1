"""A real Chromium, driven by selenium; nothing is installed by the tests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-default-apps",
    "--no-default-browser-check",
]
NOWHERE = "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"


def start(profile: Path) -> Any:
    """Return a Chromium that can reach nothing but this machine; skip where there is none."""
    selenium = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    from selenium.webdriver.chrome.service import Service

    program = shutil.which("chromium") or shutil.which("chromium-browser")
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("no Chromium with chromedriver here: apt-get install chromium-driver")
    options = selenium.ChromeOptions()
    options.binary_location = program
    for flag in (*FLAGS, NOWHERE, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    made = selenium.Chrome(options=options, service=Service(driver))
    made.set_page_load_timeout(90)
    return made


@contextmanager
def browser(chromium: Any, width: int = 1200, dark: bool = False) -> Iterator[Any]:
    """Give the browser a screen and an empty log; leave its page at the end."""
    features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    metrics = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": width < 600}
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    chromium.get_log("browser")
    try:
        yield chromium
    finally:
        chromium.get("about:blank")
