"""No state can make the core read or write where it should not: it is refused, or it works."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(first, last):
    """The last number that was tried and the exit code, in a process of its own."""
    command = [sys.executable, "-m", "tests.kernels.mutations", str(first), str(last)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = done.stdout.split()
    assert done.returncode == 0, f"mutation {lines[-1:]}: {done.stderr[-2000:]}"
    return int(lines[-1])


def test_states_that_were_tampered_with():
    taken = run(0, 300)
    assert 8 < taken < 220  # some changes are harmless, most are seen


@pytest.mark.slow
def test_many_states_that_were_tampered_with():
    run(1000, 21_000)
