"""The files that guard data, the tests that guard each, and changes of compiled ones."""

from dataclasses import dataclass

MODEL = ("tests/model/test_model.py", "tests/io/test_modelfile.py", "tests/model/test_new_tasks.py")
RUN = ("tests/runs/test_faults.py", "tests/runs/test_run.py")
NAMES = ("tests/model/test_names.py", "tests/model/test_model.py")

# Tests in the order in which they run: those that find most, and are quick, first.
FILES: dict[str, tuple[str, ...]] = {
    "io/durable.py": ("tests/io/test_durable.py",),
    "io/modelfile.py": ("tests/io/test_validation.py", "tests/io/test_modelfile.py"),
    "parameters.py": ("tests/test_parameters.py", "tests/learners/test_states.py"),
    "penalties.py": ("tests/test_penalties.py",),
    "learners/registry.py": ("tests/learners/test_states.py", "tests/learners/test_registry.py"),
    "learners/retrained.py": (
        "tests/learners/test_kept_events.py",
        "tests/learners/test_retrained.py",
    ),
    "model/names.py": NAMES,
    "model/target.py": (*NAMES, "tests/model/test_targets.py"),
    "model/pending.py": ("tests/model/test_pending.py",),
    "model/lock.py": ("tests/model/test_threads.py", "tests/model/test_forks.py"),
    "model/engine.py": (*MODEL, "tests/model/test_targets.py", "tests/model/test_interrupts.py"),
    "model/model.py": (*MODEL, "tests/model/test_targets.py", "tests/model/test_pending.py"),
    "runs/learn.py": RUN,
    "runs/resume.py": RUN,
}


@dataclass(frozen=True)
class Compiled:
    """A change of a kernel: text that stands there once, and what comes in its place."""

    file: str
    old: str
    new: str
    tests: tuple[str, ...]


_SCALE = (
    "kernels/core/counts.pyx",
    ("tests/model/test_calibration.py", "tests/io/test_validation.py"),
)
_HISTORY = (
    "kernels/core/counts.pyx",
    ("tests/model/test_model.py", "tests/model/test_new_tasks.py"),
)
_STEP = (
    "kernels/core/counts.pyx",
    ("tests/model/test_model.py", "tests/model/test_interrupts.py"),
)
_TURNS = ("kernels/core/lock.pyx", ("tests/model/test_threads.py", "tests/model/test_forks.py"))

_IN_LINE = """self.line.acquire()
        try:
            self.turn.acquire()
            self.owner = PyThread_get_thread_ident()
        finally:
            self.line.release()"""

COMPILED = tuple(
    Compiled(file, old, new, tests)
    for (file, tests), old, new in (
        (_SCALE, "-FAR), FAR)", "-FAR), 1e300)"),
        (_SCALE, "-FAR), FAR)", "-1e300), FAR)"),
        (_SCALE, "max(1.0, kept * self.curvature +", "(kept * self.curvature +"),
        (_SCALE, "min(max(step, -LARGEST_STEP), LARGEST_STEP)", "min(step, LARGEST_STEP)"),
        (_SCALE, "min(max(step, -LARGEST_STEP), LARGEST_STEP)", "max(step, -LARGEST_STEP)"),
        (_SCALE, "min(max(self.log_a, -30.0), 30.0)", "max(self.log_a, -30.0)"),
        (_SCALE, "min(max(self.log_a, -30.0), 30.0)", "min(self.log_a, 30.0)"),
        (_SCALE, "-30.0 <= log_a <= 30.0 and", "-30.0 <= log_a and"),
        (_SCALE, "-30.0 <= log_a <= 30.0 and", "log_a <= 30.0 and"),
        (_SCALE, "1.0 <= curvature < 1e300", "curvature < 1e300"),
        (_SCALE, "1.0 <= curvature < 1e300", "1.0 <= curvature"),
        (_HISTORY, "self.n_started -= self.started[task]", "pass"),
        (
            _HISTORY,
            "self.seen[task], self.since[task], self.started[task] = 0, -1, False",
            "self.seen[task], self.started[task] = 0, False",
        ),
        (
            _HISTORY,
            "self.seen[task], self.since[task], self.started[task] = 0, -1, False",
            "self.since[task], self.started[task] = -1, False",
        ),
        (
            _HISTORY,
            "self.seen[task], self.since[task], self.started[task] = 0, -1, False",
            "self.seen[task], self.since[task] = 0, -1",
        ),
        (_STEP, "self.events += n\n", "pass\n"),
        (_TURNS, _IN_LINE, "self.turn.acquire()\n        self.owner = PyThread_get_thread_ident()"),
        (_TURNS, "        self.line = Lock()\n        if", "        if"),
        (_TURNS, "            self.turn = Lock()", "            pass"),
        (_TURNS, "        self.owner = 0\n", ""),
    )
)
