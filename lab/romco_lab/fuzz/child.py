"""One process that tries many inputs, within limits; started by ``python -m romco_lab.fuzz``.

The number of the input is in the file PROGRESS before it is tried, so that whoever started this
process knows which one ended it.
"""

import resource
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

from romco_lab.fuzz import folders, liars, memories, requests, strangers
from romco_lab.fuzz.acts import try_arrays, try_file, try_source
from romco_lab.fuzz.seeds import seeds

KINDS = {
    "files": try_file,
    "strangers": strangers.try_stranger,
    "liars": liars.try_lie,
    "arrays": try_arrays,
    "sources": try_source,
    "memories": memories.try_memory,
    "folders": folders.try_folder,
    "requests": requests.try_request,
}
SECONDS, LONGEST = 20, 300  # of work and of time for one input; then the alarm ends this process
MEMORY_BYTES = 2**32  # for all of it


def main(kind: str, first: int, last: int, seed: int, progress: Path, limited: bool) -> int:
    """Try inputs first to last; findings go to stderr, each behind a zero byte."""
    warnings.simplefilter("ignore")
    if limited:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    sound = seeds() if kind == "files" else []
    _warm(kind)
    counts: Counter[str] = Counter()
    found = 0
    with tempfile.TemporaryDirectory() as folder:
        for i in range(first, last):
            progress.write_text(str(i))
            _limit(SECONDS, LONGEST)
            try:
                rng = np.random.default_rng([seed, i])
                counts[KINDS[kind](rng, sound, Path(folder))] += 1
            except Exception:
                found += 1
                print(
                    f"\0{kind} {i}:\n{traceback.format_exc()[-1500:]}", file=sys.stderr, flush=True
                )
            _limit(0, 0)
    requests.TARGETS.stop()
    print("DONE", " ".join(f"{name}={n}" for name, n in sorted(counts.items())), flush=True)
    if found:
        return 1
    return 0


def _warm(kind: str) -> None:
    """Make what is made once, before any input's time runs."""
    if kind == "strangers":
        strangers.sound()
    elif kind == "liars":
        liars.sound()
    elif kind == "memories":
        memories.sound()
    elif kind == "folders":
        folders.sound()


def _limit(work: int, time: int) -> None:
    """Seconds of work, which do not pass while others have the machine; and of time, for a hang."""
    signal.setitimer(signal.ITIMER_PROF, work)
    signal.alarm(time)


if __name__ == "__main__":
    kind, first, last, seed, progress, limited = sys.argv[1:]
    sys.exit(main(kind, int(first), int(last), int(seed), Path(progress), limited == "True"))
