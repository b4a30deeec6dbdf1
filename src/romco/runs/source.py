"""Where events come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from romco.io.blocks import Blocks, read_blocks
from romco.io.cells import ENCODERS
from romco.io.files import Events, Plan, plan, read_events
from romco.io.modelfile import load
from romco.model import Model
from romco.model.names import Id, canonical_name
from romco.model.target import positive_of
from romco.streams.survey import Survey, survey

T = TypeVar("T")
STDIN = "-"
CHUNK = 1000  # events read, then learned or answered, at a time
LOOK_AHEAD = 100_000  # events among which both labels are looked for


@dataclass(frozen=True)
class Source:
    """Where events come from, and which column plays which part."""

    path: str
    task: str | None = None
    label: str | None = None
    text: str | tuple[str, ...] | None = None
    features: tuple[str, ...] | None = None
    format: str | None = None
    skip_bad: bool = False
    labelled: bool = True  # whether a label must be there
    kinds: Mapping[str, str] | None = None  # how columns are read; see romco.streams.survey
    one_task: bool = False  # there is no column of the task
    counts: bool = False  # words are counted, not weighted, as models of before had it
    weight: str | None = None  # column that says how much an event counts; no feature

    def events(self, start: int = 0) -> Events:
        """The events from number ``start`` on."""
        return self._opened(read_events, self.path, start=start, skip_bad=self.skip_bad)

    def blocks(self, start: int = 0, stream: BinaryIO | None = None) -> Blocks:
        """The same in blocks, which is much faster; ``stream`` is read instead of the path."""
        source = self.path if stream is None else stream
        more = {"start": start, "skip_bad": self.skip_bad, "weight": self.weight}
        return self._opened(read_blocks, source, **more)

    def plan(self) -> Plan:
        """The source opened, and which columns are read in which way."""
        return self._opened(plan, self.path)

    def columns(self) -> dict[str, Any]:
        """Which column plays which part, for the model to keep."""
        listed = None if self.features is None else list(self.features)
        words = self.text if isinstance(self.text, str | None) else list(self.text)
        parts: dict[str, Any] = {"task": self.task, "label": self.label}
        parts |= {"text": words, "features": listed}
        if self.kinds is not None:
            parts["kinds"] = dict(self.kinds)
        elif self.text and not self.counts:
            parts["words"] = "weighted"
        if self.weight is not None:
            parts["weight"] = self.weight
        return {**parts, "one_task": True} if self.one_task else parts

    def _opened(self, reader: Callable[..., T], source: str | BinaryIO, **more: Any) -> T:
        """What a reader makes of the source, told which column plays which part."""
        return reader(
            source,
            self.task,
            self.label,
            self.text or (),
            self.features,
            kinds=self._kinds(),
            format=self.format,
            labelled=self.labelled,
            one_task=self.one_task,
            **more,
        )

    def _kinds(self) -> Mapping[str, str]:
        words = dict.fromkeys(_listed(self.text), "counts" if self.counts else "text")
        unused = {} if self.weight is None else {self.weight: "ignored"}
        return {**words, **(self.kinds or {}), **unused}


def remembered(model: Model, source: Source, labelled: bool = False) -> Source:
    """The source with the columns that the model was learned with, where none are given."""
    columns = model.session.get("columns", {})
    listed = source.features if source.features is not None else columns.get("features")
    words = source.text or columns.get("text")
    task = source.task or columns.get("task")
    return replace(
        source,
        task=task,
        label=source.label or columns.get("label"),
        labelled=labelled,
        text=tuple(words) if isinstance(words, list) else words,
        features=None if listed is None else tuple(listed),
        kinds={**columns.get("kinds", {}), **(source.kinds or {})},
        one_task=source.one_task or bool(columns.get("one_task")),
        counts=bool(columns.get("text")) and not {"words", "kinds"} & columns.keys(),
    )


def settled(source: Source, model: Model | None) -> tuple[Source, Survey | None]:
    """The source with the kind of each column: as the model learned it, else asked or guessed.

    Gives the look at the source that the guess comes from, where there was one.
    """
    asked = {**dict.fromkeys(_listed(source.text), "text"), **(source.kinds or {})}
    if source.weight is not None:
        asked[source.weight] = "ignored"
    learned = {} if model is None else model.session.get("columns", {})
    if model is not None and learned:
        known = remembered(model, replace(source, text=None, kinds=None))
        for column, kind in asked.items():
            had = known._kinds().get(column)
            if had != kind and not (had == "counts" and kind == "text"):
                raise ValueError(f"column {column!r} was learned as {had}, not as {kind}")
        kinds = known.kinds if "kinds" in learned else None
        source = replace(source, text=known.text, kinds=kinds, counts=known.counts)
        return _with(source, asked if kinds else {}), None
    found = survey(source.path, source.task, source.label, source.format, source.features, asked)
    unknown = [column for column in asked if found.rows and column not in found.there]
    if unknown:
        there = f"there are {_some(found.there)}"
        raise ValueError(f"{source.path}: no column {_some(unknown)}; {there}")
    return _with(replace(source, text=None, kinds=found.kinds), asked), found


def _with(source: Source, asked: Mapping[str, str]) -> Source:
    """The source with the columns that were asked for among its features, if those are listed."""
    if source.features is None:
        return source
    return replace(source, features=tuple(dict.fromkeys((*source.features, *asked))))


def mismatch(model: Model, source: Source) -> str | None:
    """What of a source's columns is not as the model learned it; ValueError if nothing is."""
    kinds = model.session.get("columns", {}).get("kinds", {})
    learned = [column for column, kind in kinds.items() if kind != "ignored"]
    if not learned:
        return None
    found = survey(source.path, source.task, source.label, source.format)
    there = frozenset(found.there)
    gone = [column for column in learned if column not in there]
    new = [column for column in found.columns if column not in kinds]
    if found.rows and len(gone) == len(learned):
        raise ValueError(
            f"{source.path} has none of the columns that were learned ({_some(learned)}), "
            f"only {_some(found.there)}: every answer would be the same"
        )
    told = [f"not there: {_some(gone)}"] if found.rows and gone else []
    told += [f"never learned, so not used: {_some(new)}"] if new else []
    where = f"{source.path}: columns are not as they were learned; "
    return where + "; ".join(told) if told else None


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 20:,} more" if len(names) > 20 else ""
    return ", ".join(map(repr, names[:20])) + more


def _listed(text: str | tuple[str, ...] | None) -> tuple[str, ...]:
    return (text,) if isinstance(text, str) else text or ()


def classes_of(source: Source, positive: str | None = None) -> tuple[str, str] | None:
    """The two labels of a file, the negative one first, found by looking ahead; None if unsure.

    A file that begins with many events of one label would else decide by chance, see
    :class:`romco.model.target.TwoClasses`. What cannot be read is left to whoever learns it.
    """
    if source.path == STDIN:  # cannot be read twice
        return None
    found: dict[Id, str] = {}
    try:
        with replace(source, features=(), text=None, kinds=None, skip_bad=True).events() as events:
            for event in islice(events, LOOK_AHEAD):
                found.setdefault(canonical_name(event.label), str(event.label))
                if len(found) == 2:
                    break
    except (ValueError, OSError):
        return None
    if len(found) < 2 or (positive is not None and canonical_name(positive) not in found):
        return None
    one, other = found.values()
    above = positive_of(one, other) if positive is None else found[canonical_name(positive)]
    return (other, one) if above == one else (one, other)


def load_model(path: Path) -> Model:
    """The model of a file; a bare learner, which knows no names, is refused."""
    found = load(path)
    if not isinstance(found, Model):
        raise ValueError(
            f"{path.name} holds a bare learner, which knows no names of tasks and features; "
            "save a romco.Model"
        )
    if not _are_columns(found.session.get("columns", {})):
        raise ValueError(
            f"what {path.name} remembers of columns cannot be used: learn into another model file"
        )
    return found


def _are_columns(columns: Any) -> bool:
    """Whether a model could remember that of columns: nothing in a file is trusted."""
    if not isinstance(columns, dict):
        return False
    words, listed = columns.get("text"), columns.get("features")
    kinds = columns.get("kinds", {})
    return (
        all(isinstance(columns.get(part), str | None) for part in ("task", "label", "weight"))
        and (isinstance(words, str | None) or _are_names(words))
        and (listed is None or _are_names(listed))
        and isinstance(kinds, dict)
        and all(isinstance(kind, str) and kind in ENCODERS for kind in kinds.values())
    )


def _are_names(names: Any) -> bool:
    return isinstance(names, list) and all(isinstance(name, str) for name in names)
