"""What learning in shards costs and brings: ``python -m benchmarks.scaling PART...``.

Parts are error, drift, learners; speed, ceiling, merges, memory, reading, actors, recovery. Each
stores its figures in docs/scaling/results.json as it goes; ``error=emails,made`` measures some
streams of it. ``tables`` puts what is stored into docs/scaling.md.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import romco
from benchmarks import scaling_errors, scaling_speed

RESULTS = Path("docs/scaling/results.json")
PAGE = Path("docs/scaling.md")
PARTS = {
    part.__name__: part
    for part in (
        scaling_errors.error,
        scaling_errors.drift,
        scaling_errors.learners,
        scaling_speed.speed,
        scaling_speed.ceiling,
        scaling_speed.merges,
        scaling_speed.memory,
        scaling_speed.reading,
        scaling_speed.actors,
        scaling_speed.recovery,
    )
}


def store(part, name, figures):
    """Keep one line of a part."""
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    load = Path("/proc/loadavg")
    told = kept.setdefault(part, {"figures": {}})
    told["figures"][name] = figures
    told["version"] = romco.__version__
    told["load"] = float(load.read_text().split()[0]) if load.exists() else None
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n")


def measure(part, wanted):
    """Measure a part, line by line."""
    for name, figures in PARTS[part](*wanted):
        print(part, name, figures, flush=True)
        store(part, name, figures)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        if argument == "tables":
            from benchmarks.scaling_tables import write

            write(json.loads(RESULTS.read_text()), PAGE)
        else:
            part, _, wanted = argument.partition("=")
            measure(part, wanted.split(",") if wanted else ())
