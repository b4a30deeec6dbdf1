"""Instructions per event, counted by callgrind: a regression shows even on a noisy machine.

Counts depend on the processor family and the compiler, so they are compared with
numbers stored on the same family in ``instructions.json``.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import romco
from benchmarks import workloads
from benchmarks.measure import Say
from benchmarks.workloads import Workload

STORED = Path(__file__).with_name("instructions.json")
REPLAY = "__pyx_pw_*Kernel*replay"  # the one door through which a stream enters compiled code
TOLERANCE = 1.05  # more instructions than that, relative to the stored count, is a regression


def cases() -> dict[str, tuple[str, Callable[[], Workload]]]:
    """Learner and tiny workload of each count."""

    def few() -> Workload:
        return workloads.spam(0.05)

    def rounds() -> Workload:
        return workloads.movies(0.02)

    def many() -> Workload:
        return workloads.large(n_features=2**14, warmup=0, events=300, segments=1)

    found = {
        "romco-nucl, 4 tasks": ("romco-nucl", few),
        "romco-nucl, 1000 tasks": ("romco-nucl", many),
        "romco-nucl, rounds of 30": ("romco-nucl", rounds),
        "romco-logd, 4 tasks": ("romco-logd", few),
    }
    plain = ("pa-unique", "ogd-unique", "arow-unique", "cw-col", "omtl", "omtlvon", "osmtl-e")
    found |= {f"{name}, 4 tasks": (name, few) for name in plain}
    return {case: pair for case, pair in found.items() if pair[0] in romco.LEARNERS}


def counts(say: Say) -> dict[str, Any]:
    """Instructions per event of every case, and the ratio to what is stored."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        return {"skipped": "valgrind is not installed"}
    say("instructions: callgrind, about half a minute")
    problems = []
    for ways in (ASKED, WATCHED):
        with tempfile.TemporaryDirectory() as folder:
            done = _callgrind(valgrind, Path(folder), ways)
            totals = [total(path) for path in dumps(Path(folder))]
        order = ran(done.stdout)
        if order is not None and len(order) == len(totals) and all(totals):
            return compared(order, totals)  # whatever became of the process after that
        problems.append(problem(done, order, totals))
        say(f"instructions: {problems[-1]}; once more without vgdb, some minutes")
    return {"skipped": "callgrind failed: " + "; then, without vgdb: ".join(problems)}


def ran(printed: str) -> list[tuple[str, int]] | None:
    """Cases and their numbers of events in the order they ran; None where that was not printed.

    >>> ran('a warning\\n[["some case", 20]]\\nanother')
    [('some case', 20)]
    """
    for line in reversed(printed.splitlines()):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, list) and found:
            return [(str(case), int(events)) for case, events in found]
    return None


def compared(order: list[tuple[str, int]], totals: list[int]) -> dict[str, Any]:
    """Counts per event, and their ratio to those on record."""
    known = stored().get(platform.machine(), {})
    return {
        case: {
            "per_event": total / events,
            "stored": known.get(case),
            "ratio": total / events / known[case] if case in known else None,
        }
        for (case, events), total in zip(order, totals, strict=True)
    }


def problem(
    done: subprocess.CompletedProcess[str], order: list[tuple[str, int]] | None, totals: list[int]
) -> str:
    """Why there are no counts: what the process said itself, not callgrind's own last words."""
    own = [line for line in done.stderr.splitlines() if line.strip() and line[:2] != "=="]
    words = own[-1] if own else "nothing said"
    if order is not None:
        return f"{len(order)} cases but {len(totals)} counts (exit {done.returncode}, {words})"
    return f"exit {done.returncode}, {words}"


def stored() -> dict[str, dict[str, float]]:
    """Counts on record, by processor family."""
    return json.loads(STORED.read_text()) if STORED.exists() else {}


def store(found: dict[str, Any]) -> None:
    """Put the counts on record for this processor family."""
    record = stored()
    record[platform.machine()] = {case: round(row["per_event"]) for case, row in found.items()}
    STORED.write_text(json.dumps(record, indent=2, sort_keys=True) + "\n")


# Asked by vgdb, callgrind wakes up for each case only, and imports cost seconds. Where vgdb gets
# no answer (a container without ptrace, another place for pipes), it watches from the start and
# writes a dump whenever a replay ends by itself.
ASKED = ("--instr-atstart=no",)
WATCHED = ("--instr-atstart=yes", f"--dump-after={REPLAY}", "--vgdb=no")


def _callgrind(
    valgrind: str, folder: Path, ways: tuple[str, ...]
) -> subprocess.CompletedProcess[str]:
    command = [
        valgrind,
        "--tool=callgrind",
        *ways,
        "--collect-atstart=no",
        f"--toggle-collect={REPLAY}",
        f"--callgrind-out-file={folder}/count",
        sys.executable,
        "-m",
        "benchmarks.instructions",
        *(["asking"] if ways is ASKED else []),
    ]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    environment["LD_PRELOAD"] = ":".join(str(path) for path in _without_sections(folder / "libs"))
    here = Path(__file__).resolve().parent.parent
    return subprocess.run(
        command, capture_output=True, text=True, cwd=here, env=environment, check=False
    )


def _without_sections(folder: Path) -> list[Path]:
    """Copies of the BLAS libraries that wheels carry, without their section headers.

    Valgrind 3.19 stops at the unwind information of these files; loaded first, a copy
    that has none to show takes the place of its original.
    """
    folder.mkdir()
    copies = {}
    for package in ("numpy", "scipy"):
        home = Path(str(metadata.distribution(package).locate_file(f"{package}.libs")))
        for library in sorted(home.glob("*.so*")):
            content = bytearray(library.read_bytes())
            content[0x28:0x30] = bytes(8)  # ELF64: where the section headers are,
            content[0x3C:0x40] = bytes(4)  # how many, and which one holds the names
            copies[library.name] = folder / library.name
            copies[library.name].write_bytes(content)
    return list(copies.values())


def dumps(folder: Path) -> list[Path]:
    """One file per call of replay, in order; the last, unnumbered one is the empty rest."""
    numbered = [path for path in folder.glob("count.*") if path.suffix[1:].isdigit()]
    return sorted(numbered, key=lambda path: int(path.suffix[1:]))


def total(dump: Path) -> int:
    found = re.search(r"^totals: (\d+)", dump.read_text(), re.MULTILINE)
    return int(found.group(1)) if found else 0


def _ask(*words: str) -> None:
    """Talk to the callgrind that runs this process; it listens only while we are busy."""
    bare = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    talk = subprocess.Popen(
        ["vgdb", f"--pid={os.getpid()}", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=bare,
    )
    while talk.poll() is None:
        pass
    if talk.returncode:
        raise RuntimeError(f"callgrind did not answer to {' '.join(words)!r}")


def main(asking: bool) -> None:
    """Run each case once under the eyes of callgrind; print the order."""
    order = []
    ask = _ask if asking else _silence
    for case, (name, make) in cases().items():
        workload = make()
        parameters = workload.parameters if name.startswith("romco") else {}
        learner = romco.learner(name, workload.n_features, workload.n_tasks, **parameters)
        ask("instrumentation", "on")
        margins = learner.replay(workload.segments[0])
        ask("dump")
        ask("instrumentation", "off")
        order.append([case, len(margins)])
    print(json.dumps(order), flush=True)


def _silence(*words: str) -> None:
    """Callgrind needs no word when it watches from the start."""


if __name__ == "__main__":
    main("asking" in sys.argv[1:])
