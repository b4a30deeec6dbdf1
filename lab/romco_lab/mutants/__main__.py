"""Mutation testing: ``python -m romco_lab.mutants [--share S] [--only TEXT] [--compiled]``.

Each change (see ``changes.py``) of a file that guards data is made in a copy of the package, and
the tests that guard the file run against it. A change that no test notices has survived: either a
test is missing, or the change makes no difference, and then ``equivalent.toml`` says why.
"""

import argparse
import random
import sys
import tempfile
import time
import tomllib
from collections import Counter
from functools import partial
from pathlib import Path

from romco_lab.mutants.changes import Change, changes
from romco_lab.mutants.guarded import COMPILED, FILES, Compiled
from romco_lab.mutants.runs import PACKAGE, ROOT, Copy, Outcome, Task, run, warm

LISTED = Path(__file__).with_name("equivalent.toml")


def main() -> int:
    """Run what the command line asks for; 1 if a change survived that is not listed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=0.1, help="of the changes, drawn by seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="changes whose name holds this text, all of it")
    parser.add_argument("--compiled", action="store_true", help="the changes of kernels only")
    parser.add_argument("--list", action="store_true", help="name the changes and run nothing")
    given = parser.parse_args()
    tasks = compiled_tasks() if given.compiled else python_tasks()
    known = equivalent()
    tasks = [task for task in tasks if task.name not in known and given.only in task.name]
    if given.list:
        print("\n".join(task.name for task in tasks))
        return 0
    if not given.only and not given.compiled:
        chosen = random.Random(given.seed).sample(tasks, round(given.share * len(tasks)))
        tasks = sorted(chosen, key=lambda task: task.tests)
    return tried(tasks, given.jobs, len(known))


def tried(tasks: list[Task], jobs: int, known: int) -> int:
    """Run them all and print; return 1 if one survived."""
    warm()
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as folder:
        copies = [Copy(Path(folder) / str(job)) for job in range(jobs)]
        limits = _limits({task.tests for task in tasks}, copies)
        for task in tasks:
            task.limit = limits[task.tests]
        begun = time.monotonic()
        for outcome in run(tasks, copies):
            outcomes.append(outcome)
            if not outcome.killed:
                print(f"survived  {outcome.task.name}", flush=True)
    print(table(outcomes))
    print(f"{known} changes are known to make no difference ({LISTED.name})")
    print(f"{time.monotonic() - begun:.0f} s")
    if all(outcome.killed for outcome in outcomes):
        return 0
    return 1


def _limits(kinds: set[tuple[str, ...]], copies: list[Copy]) -> dict[tuple[str, ...], float]:
    """Seconds for each set of tests: several times what it takes without a change."""
    tasks = [Task("no change", kind, lambda _: True, lambda _: None) for kind in sorted(kinds)]
    limits = {}
    for outcome in run(tasks, copies):
        if outcome.killed:
            told = f"without a change these fail ({outcome.status}): {outcome.task.tests}"
            sys.exit(f"{told}\n{outcome.output[-3000:]}")
        limits[outcome.task.tests] = 20.0 + 5.0 * outcome.seconds
    return limits


def python_tasks() -> list[Task]:
    """All changes of the files listed."""
    tasks = []
    for file, tests in FILES.items():
        source = (ROOT / PACKAGE / file).read_text(encoding="utf-8")
        there = tuple(test for test in tests if (ROOT / test).exists())
        for change in changes(source):
            tasks.append(
                Task(
                    f"{file} {change.name}",
                    there,
                    partial(_write, file, change),
                    lambda copy, file=file: copy.put_back(file),
                )
            )
    return tasks


def compiled_tasks() -> list[Task]:
    """The listed changes of kernels."""
    return [
        Task(
            f"{change.file} {_brief(change.old)} -> {_brief(change.new)}",
            change.tests,
            partial(_build, change),
            lambda copy, file=change.file: copy.put_back(file),
        )
        for change in COMPILED
    ]


def _write(file: str, change: Change, copy: Copy) -> bool:
    copy.change(file, change.source)
    return True


def _build(change: Compiled, copy: Copy) -> bool:
    source = (ROOT / PACKAGE / change.file).read_text(encoding="utf-8")
    if source.count(change.old) != 1:
        sys.exit(f"{change.file} holds {source.count(change.old)} times {change.old!r}")
    copy.change(change.file, source.replace(change.old, change.new))
    return copy.build()


def _brief(text: str) -> str:
    return " ".join(text.split())


def table(outcomes: list[Outcome]) -> str:
    """Killed and survived by file."""
    killed: Counter[str] = Counter()
    whole: Counter[str] = Counter()
    for outcome in outcomes:
        file = outcome.task.name.partition(" ")[0]
        whole[file] += 1
        killed[file] += outcome.killed
    rows = [f"{'file':28}{'changes':>8}{'killed':>8}{'survived':>10}"]
    for file in [*sorted(whole), None]:
        n, k = (whole.total(), killed.total()) if file is None else (whole[file], killed[file])
        rows.append(f"{file or 'all':28}{n:8}{k:8}{n - k:10}")
    return "\n".join(rows)


def equivalent() -> dict[str, str]:
    """Why each change that makes no difference makes none, by its name."""
    found = tomllib.loads(LISTED.read_text(encoding="utf-8"))
    return {f"{file} {name}": why for file, names in found.items() for name, why in names.items()}


if __name__ == "__main__":
    sys.exit(main())
