import os
import sys
import warnings

import pytest


@pytest.fixture(autouse=True)
def _every_checkpoint(monkeypatch):
    """Save whenever it is due, however long that takes."""
    monkeypatch.setattr("romco.shards.shards.SAVE_TIME_RATIO", 0.0)


@pytest.fixture(scope="session")
def ray():
    """A local Ray for all tests of a run, with which it also ends."""
    found = pytest.importorskip("ray", reason="needs Ray: pip install 'romco[ray]'")
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found.init(
            num_cpus=2,
            include_dashboard=False,
            log_to_driver=False,
            configure_logging=False,
            runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}},
        )
    yield found
    found.shutdown()
