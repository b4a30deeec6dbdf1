"""A file of the user's own, for the commands that compare learners."""

from __future__ import annotations

from pathlib import Path

from romco.cli.lines import report
from romco.cli.options import check_source, wanted_target
from romco.compare.sources import gather, save_stream
from romco.runs import Source

EVENTS_AT_ONCE = 10_000  # read at a time


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
    source = source.resolve()
    assert source.schema is not None
    report(source.schema)
    with source.open() as reader:
        blocks = reader.blocks(EVENTS_AT_ONCE)
        stream = gather(path.name, blocks, positive, wanted_target(target, source))
    save_stream(stream, folder)
    return stream.answers
