"""Instructions per event, counted by callgrind: a regression shows even on a noisy machine.

Counts depend on the processor family and the compiler, so they are compared with
numbers stored on the same family in ``instructions.json``. What Python does around a replay is
counted too, mostly the checks of events: some 800,000, the same every time.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
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
# Told by the process itself when to count: kernels carry no symbols by which callgrind could know.
SIGNALS = """
#include <valgrind/callgrind.h>
void begin(void) { CALLGRIND_START_INSTRUMENTATION; CALLGRIND_ZERO_STATS; }
void end(void) { CALLGRIND_DUMP_STATS; CALLGRIND_STOP_INSTRUMENTATION; }
"""
# Loads libraries before the modules that need them, each for its own users only.
LOADING = """
import ctypes, runpy, sys
for library in sys.argv[2:]:
    ctypes.CDLL(library)
del sys.argv[2:]
runpy.run_module("benchmarks.instructions", run_name="__main__")
"""
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
        "romco-auto, 4 tasks": ("romco-auto", few),
        "romco-auto, 1000 tasks": ("romco-auto", many),
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
        signals = compiled(Path(folder))
        if signals is None:
            return {"skipped": "callgrind.h or a C compiler is missing"}
        done = _callgrind(valgrind, Path(folder), signals)
        totals = [total(path) for path in dumps(Path(folder))]
    order = ran(done.stdout)
    if order is None or len(order) != len(totals) or not all(totals):
        return {"skipped": f"callgrind failed: {problem(done, order, totals)}"}
    return compared(order, totals)  # whatever became of the process after that


def compiled(folder: Path) -> Path | None:
    """A library with `begin` and `end`, which tell callgrind to count; None where it cannot be."""
    source, library = folder / "signals.c", folder / "signals.so"
    source.write_text(SIGNALS)
    command = [os.environ.get("CC", "cc"), "-O1", "-shared", "-fPIC", "-o", library, source]
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except OSError:
        return None
    return library if done.returncode == 0 else None


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


def _callgrind(valgrind: str, folder: Path, signals: Path) -> subprocess.CompletedProcess[str]:
    command = [
        valgrind,
        "--tool=callgrind",
        "--instr-atstart=no",  # imports would take minutes
        f"--callgrind-out-file={folder}/count",
        sys.executable,
        "-c",
        LOADING,
        str(signals),
        *map(str, _without_sections(folder / "libs")),
    ]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    environment["PYTHONHASHSEED"] = "0"
    here = Path(__file__).resolve().parent.parent
    return subprocess.run(
        command, capture_output=True, text=True, cwd=here, env=environment, check=False
    )


def _without_sections(folder: Path) -> list[Path]:
    """Copies of the BLAS libraries that wheels carry, without their section headers.

    Valgrind 3.19 stops at the unwind information of these files; loaded first, a copy
    that has none to show takes the place of its original. Not by LD_PRELOAD, which all others see:
    NumPy's BLAS, of 64-bit integers, then answers calls within SciPy's, of 32 bits.
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
    return [copy for name, copy in copies.items() if "blas" in name]  # these load the others


def dumps(folder: Path) -> list[Path]:
    """One file per call of replay, in order; the last, unnumbered one is the empty rest."""
    numbered = [path for path in folder.glob("count.*") if path.suffix[1:].isdigit()]
    return sorted(numbered, key=lambda path: int(path.suffix[1:]))


def total(dump: Path) -> int:
    """Instructions in a dump, by its last line; 0 where there is none.

    The head has a ``summary`` too, but that is wrong where counting was begun and ended by request.
    """
    found = re.findall(r"^totals: (\d+)", dump.read_text(errors="replace"), re.MULTILINE)
    return int(found[-1]) if found else 0


def main(signals: str) -> None:
    """Run each case once under the eyes of callgrind; print the order."""
    library = ctypes.CDLL(signals)
    begin, end = library.begin, library.end
    order = []
    gc.disable()
    for case, (name, make) in cases().items():
        workload = make()
        parameters = workload.parameters if name in ("romco-nucl", "romco-logd") else {}
        learner = romco.learner(name, workload.n_features, workload.n_tasks, **parameters)
        begin()
        margins = learner.replay(workload.segments[0])
        end()
        order.append([case, len(margins)])
    print(json.dumps(order), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("signals", help="library with begin and end; callgrind runs this")
    main(parser.parse_args().signals)
