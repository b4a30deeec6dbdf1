"""From barrier to barrier through files of which every shard reads its own part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

from romco.io.formats import BadFile
from romco.shards.contents import contents
from romco.shards.coordinators import Coordinator
from romco.shards.partitions import Files, Position
from romco.shards.shard import Report, Shard

START = Position()
NOTE = "files"  # where a model's notes tell how far its files were read


@final
@dataclass(frozen=True)
class Tally:
    """How far files were read, and what was counted on the way."""

    position: Position = START
    wrong: int = 0  # events that were predicted wrongly before
    skipped: int = 0  # bad rows
    ended: bool = False

    def after(self, reports: list[Report]) -> Tally:
        """When all shards have read on."""
        wrong = self.wrong + sum(one.wrong for one in reports)
        skipped = self.skipped + sum(one.skipped for one in reports)
        return Tally(reports[0].position, wrong, skipped, reports[0].ended)


def periods(leader: Coordinator, files: Files, tally: Tally) -> Iterator[Tally]:
    """Learn what comes after a position, up to a barrier each time."""
    leader.engine.each(Shard.open, [(files, k, tally.position) for k in range(leader.n)])
    while not tally.ended:
        left = leader.next - leader.place
        reports: list[Report] = leader.ask(Shard.read, [(left,)] * leader.n, left)
        _check_agree(reports)
        tally = tally.after(reports)
        file, row = tally.position.file, tally.position.row
        before = leader.notes.get(NOTE, {}).get("contents", [])
        leader.notes[NOTE] = {
            "position": [file, row],
            "paths": list(files.paths[: file + 1]),
            "contents": contents(files.paths[: file + 1], before),
            "wrong": tally.wrong,
            "skipped": tally.skipped,
        }
        leader.reopen = [(files, k, tally.position) for k in range(leader.n)]
        leader.passed(reports[0].rows, sum(one.learned for one in reports))
        yield tally


def _check_agree(reports: list[Report]) -> None:
    """All shards read the same rows, or the files are not the same to all of them."""
    if len({(one.rows, one.position, one.ended) for one in reports}) > 1:
        rows = ", ".join(f"{one.rows} rows to {one.position}" for one in reports)
        raise BadFile(
            f"shards do not see the same files ({rows}): put them where all machines see them, "
            "and do not write to them meanwhile"
        )
