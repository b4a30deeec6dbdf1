"""A real Chromium, driven by selenium; nothing is installed by the tests."""

from __future__ import annotations

import os
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


@contextmanager
def browser(folder: Path, width: int = 1200, dark: bool = False) -> Iterator[Any]:
    """A browser of its own profile that can reach nothing but this machine."""
    selenium = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    from selenium.webdriver.chrome.service import Service

    program = shutil.which("chromium") or shutil.which("chromium-browser")
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("no Chromium with chromedriver here: apt-get install chromium-driver")
    options = selenium.ChromeOptions()
    options.binary_location = program
    for flag in (*FLAGS, NOWHERE):
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={folder / f'profile-{os.getpid()}-{width}-{dark}'}")
    options.add_argument(f"--window-size={width},1000")
    if dark:
        options.add_argument("--force-dark-mode")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    made = selenium.Chrome(options=options, service=Service(driver))
    try:
        made.set_page_load_timeout(90)
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        made.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        metrics = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": width < 600}
        made.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        yield made
    finally:
        made.quit()
