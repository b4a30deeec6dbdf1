"""What must work wherever a wheel is installed: import, learn, save, load, the command line.

``python tests/smoke.py`` needs nothing but the installed package (and its extra ``cli``).
"""

import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import numpy as np

import romco

EVENTS = "user,words,clicked\n" + "ann,buy now,yes\nbob,good lunch,no\n" * 20


def learners(folder):
    """Every compiled learner learns; the default one goes through a file bit for bit."""
    stream = romco.streams.simulated(n_tasks=4, n_features=6, n_events=20)
    rounds = romco.streams.synchronous(stream, seed=0)
    for name in romco.LEARNERS:
        learner = romco.learner(name, n_features=6, n_tasks=4)
        margins = learner.replay(rounds)
        assert np.isfinite(margins).all(), name
    romco.save(learner, folder / "learner.romco")
    again = romco.load(folder / "learner.romco")
    np.testing.assert_array_equal(again.predict(rounds[0]), learner.predict(rounds[0]))


def command_line(folder):
    """A file is learned and answered."""
    (folder / "events.csv").write_text(EVENTS)
    romco_ = [sys.executable, "-m", "romco"]
    told = ["--task", "user", "--label", "clicked", "--text", "words", "--model", "m.romco"]
    subprocess.run([*romco_, "learn", "events.csv", *told], cwd=folder, check=True)
    subprocess.run(
        [*romco_, "predict", "events.csv", "--model", "m.romco", "--out", "answers.jsonl"],
        cwd=folder,
        check=True,
    )
    assert len((folder / "answers.jsonl").read_text().splitlines()) == 40


def threads():
    """A free-threaded Python stays so: no kernel asks for the interpreter's lock."""
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        assert not sys._is_gil_enabled()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        learners(Path(folder))
        command_line(Path(folder))
    threads()
    print(f"romco {romco.__version__} works: {len(romco.LEARNERS)} learners, {romco.__file__}")
