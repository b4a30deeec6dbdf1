"""A file of the user's own, for the commands that compare learners."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from romco.cli.lines import report
from romco.cli.options import check_source, wanted_target
from romco.compare import own
from romco.io.blocks import Block, Blocks
from romco.runs import Source
from romco.runs.source import settled

AT_ONCE = 10_000  # events read at a time


def own_stream(
    source: Source, positive: str | None, folder: Path, target: str | None = None
) -> int:
    """Read the file and keep it as a stream in ``folder``; gives what a learner of it answers.

    How each column is read is told, as by ``romco learn``.
    """
    path = Path(source.path)
    if not path.is_file():
        from romco.streams.datasets import DATASETS

        known = ", ".join(DATASETS)
        raise ValueError(f"no data set {source.path!r}; there are {known}; and no such file")
    check_source(source, labelled=True)
    source, looked = settled(source, None)
    if looked is not None:
        report(looked)
    with source.blocks() as blocks:
        stream = own.gather(path.name, _all(blocks), positive, wanted_target(target, source))
    own.keep(stream, folder)
    return stream.answers


def _all(blocks: Blocks) -> Iterator[Block]:
    while True:
        block, trouble = blocks.take(AT_ONCE)
        if trouble is not None:
            raise trouble
        if not len(block):
            return
        yield block
