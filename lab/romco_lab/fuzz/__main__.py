"""Fuzzer that knows the format: ``python -m romco_lab.fuzz [--files N] [--arrays N] ...``.

Files of every learner and option are changed so that simple checks stay true, given right
checksums, loaded, used and saved; hostile rows go to the learners, broken sources to the command
line, mutated requests to the service. All of it happens in child processes with limits of time and
memory; one that dies is a finding, and the next goes on behind the input that ended it.
"""

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

CHUNK = 1000  # inputs of one child,
CHUNKS = {"requests": 100_000}  # but more requests, which have constant memory
# How many of each kind of input, unless told.
KINDS = {"files": 20_000, "strangers": 20_000, "liars": 20_000, "arrays": 20_000}
KINDS |= {"folders": 1000, "sources": 300, "memories": 300, "requests": 20_000}


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    for kind, number in KINDS.items():
        parser.add_argument(f"--{kind}", type=int, default=number)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--unlimited", action="store_true", help="no limit of memory (sanitizers)")
    given = parser.parse_args()
    findings: list[str] = []
    for kind in KINDS:
        counts, found = tried(kind, vars(given)[kind], given.seed, not given.unlimited)
        told = f"{kind}: {sum(counts.values()):,} tried, {dict(counts)}, {len(found)} found"
        print(told, flush=True)
        findings += found
    print("\n\n".join(findings) if findings else "nothing was found")
    if findings:
        return 1
    return 0


def tried(kind: str, n: int, seed: int = 0, limited: bool = True) -> tuple[Counter[str], list[str]]:
    """Outcomes of n inputs, counted, and what was found, with how to find it again."""
    counts: Counter[str] = Counter()
    findings: list[str] = []
    first = 0
    with tempfile.TemporaryDirectory() as folder:
        progress = Path(folder) / "progress"
        while first < n:
            last = min(n, first + CHUNKS.get(kind, CHUNK))
            progress.write_text(str(first))
            command = ["romco_lab.fuzz.child", kind, first, last, seed, progress, limited]
            done = subprocess.run(
                [sys.executable, "-m", *map(str, command)],
                capture_output=True,
                text=True,
                check=False,
            )
            for line in done.stdout.splitlines():
                if line.startswith("DONE"):
                    counts.update({k: int(v) for k, v in (p.split("=") for p in line.split()[1:])})
            if done.returncode in (0, 1) and "DONE" in done.stdout:
                findings += done.stderr.split("\0")[1:]
                first = last
            else:  # it died
                at = int(progress.read_text())
                findings.append(f"{kind} {at} ended with {done.returncode}:\n{done.stderr[-3000:]}")
                first = at + 1
    return counts, findings


if __name__ == "__main__":
    sys.exit(main())
