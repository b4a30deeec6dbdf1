"""Readers as tests want them: by column names instead of a schema."""

from romco.io.reader import Reader
from romco.io.schema import Schema
from tests.reference.events import reader_events


def schema_of(task=None, label=None, text=(), features=None, kinds=None, **roles):
    """How columns are read, said by parts; columns not named are free."""
    words = (text,) if isinstance(text, str) else tuple(text)
    listed = None if features is None else (*words, *features)
    columns = {**dict.fromkeys(words, "text"), **(kinds or {})}
    return Schema(columns, task=task, label=label, features=listed, **roles)


class EventReader(Reader):
    """A reader that is an iterable of events, too."""

    __iter__ = reader_events


def read_blocks(source, task=None, label=None, text=(), features=None, **options):
    """A reader of blocks."""
    parts = {part: options.pop(part) for part in ("kinds", "one_task", "weight") if part in options}
    return EventReader(source, schema_of(task, label, text, features, **parts), **options)


read_events = read_blocks
