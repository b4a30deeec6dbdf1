"""``python -m benchmarks``: measure, print, and write results; see ``--help``."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from threadpoolctl import threadpool_limits

from benchmarks import figure, instructions, report
from benchmarks.parts import PARTS
from benchmarks.tables import tables, target_table
from benchmarks.targets import targets

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "performance-tables.md"
TARGETS = HERE / "TARGETS.md"


def main(arguments: list[str] | None = None) -> None:
    """Run the chosen parts."""
    chosen = _parser().parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else 140)
    if not chosen.docs:
        results = measure(chosen.only, chosen.quick, chosen.out, console)
        if chosen.store_instructions and "skipped" not in results["parts"].get("h", {"skipped": 1}):
            instructions.store(results["parts"]["h"])
        return
    results = json.loads((chosen.out / "results.json").read_text())
    for page, text in ((PAGE, report.markdown(results)), (TARGETS, report.target_page(results))):
        page.write_text(text)
        console.print(f"wrote {page.relative_to(HERE.parent)}")


def measure(only: list[str], quick: bool, out: Path, console: Console) -> dict[str, Any]:
    """Each part's table appears when it is done; the JSON is written after each part."""
    results: dict[str, Any] = {"machine": report.machine(), "quick": quick, "parts": {}}
    with threadpool_limits(1):
        for part in only:
            with progress(console) as say:
                results["parts"][part] = PARTS[part](quick, say)
            report.show(tables({part: results["parts"][part]})[0], console)
            path = report.save(results, out)
    measured = [target for target in targets(results["parts"]) if target.met is not None]
    report.show(target_table(measured), console)
    for written in [path, *figure.draw(results["parts"], out)]:
        console.print(f"wrote {written}", soft_wrap=True, highlight=False)
    return results


@contextmanager
def progress(console: Console) -> Iterator[Callable[[str], None]]:
    """A line that says what is running: live on a terminal, now and then in a log."""
    begin, last = time.monotonic(), [0.0]
    with console.status("starting") as status:

        def say(message: str) -> None:
            now = time.monotonic()
            status.update(f"{message} [{now - begin:.0f} s]")
            if not console.is_terminal and now - last[0] > 10:
                last[0] = now
                print(f"{message} ({now - begin:.0f} s)", flush=True)

        yield say


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, about a minute")
    parser.add_argument("--only", type=_parts, default=list(PARTS), help="for example a,d")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="where results go")
    parser.add_argument("--docs", action="store_true", help="write the tables of the last run")
    parser.add_argument(
        "--store-instructions", action="store_true", help="put the counts of part h on record"
    )
    return parser


def _parts(text: str) -> list[str]:
    chosen = [part for part in text.replace(",", " ").split() if part]
    for part in chosen:
        if part not in PARTS:
            raise argparse.ArgumentTypeError(f"no part {part!r}; parts are {', '.join(PARTS)}")
    return chosen


if __name__ == "__main__":
    main()
