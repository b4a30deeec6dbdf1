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
    with tempfile.TemporaryDirectory() as folder:
        done = _callgrind(valgrind, Path(folder))
        totals = [total(path) for path in dumps(Path(folder))]
    if done.returncode:
        return {"skipped": f"callgrind failed: {(done.stderr.splitlines() or [''])[-1]}"}
    order = json.loads(done.stdout.splitlines()[-1])  # [case, events] in the order they ran
    if len(order) != len(totals):
        return {"skipped": f"{len(order)} cases but {len(totals)} counts; has `replay` moved?"}
    known = stored().get(platform.machine(), {})
    return {
        case: {
            "per_event": total / events,
            "stored": known.get(case),
            "ratio": total / events / known[case] if case in known else None,
        }
        for (case, events), total in zip(order, totals, strict=True)
    }


def stored() -> dict[str, dict[str, float]]:
    """Counts on record, by processor family."""
    return json.loads(STORED.read_text()) if STORED.exists() else {}


def store(found: dict[str, Any]) -> None:
    """Put the counts on record for this processor family."""
    record = stored()
    record[platform.machine()] = {case: round(row["per_event"]) for case, row in found.items()}
    STORED.write_text(json.dumps(record, indent=2, sort_keys=True) + "\n")


def _callgrind(valgrind: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [
        valgrind,
        "--tool=callgrind",
        "--instr-atstart=no",  # imports would take minutes
        "--collect-atstart=no",
        f"--toggle-collect={REPLAY}",
        f"--callgrind-out-file={folder}/count",
        sys.executable,
        "-m",
        "benchmarks.instructions",
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


def main() -> None:
    """Run each case once under the eyes of callgrind; print the order."""
    order = []
    for case, (name, make) in cases().items():
        workload = make()
        parameters = workload.parameters if name.startswith("romco") else {}
        learner = romco.learner(name, workload.n_features, workload.n_tasks, **parameters)
        _ask("instrumentation", "on")
        margins = learner.replay(workload.segments[0])
        _ask("dump")
        _ask("instrumentation", "off")
        order.append([case, len(margins)])
    print(json.dumps(order))


if __name__ == "__main__":
    main()
